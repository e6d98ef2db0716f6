//! The committed blocks of a file that a batch may write where they lie; [`super::overwrites`] says why it may.

use super::overwrites::Overwrite;
use super::placements::Placements;
use crate::Error;
use crate::metadata::{ExtentList, Snapshot};
use crate::namespace::{Content, Node, Part};
use cuesta_format::wire::Placed;
use cuesta_format::{BLOCK_BYTES, BlockAddress, Extent, InodeNumber};
use std::ops::Range;

/// The blocks of a file that may be overwritten.
#[derive(Debug, Default)]
pub struct Standing {
    inode: InodeNumber,
    /// In file order.
    extents: Vec<Extent>,
    /// The file's size before the batch, in bytes.
    size: u64,
}

impl Standing {
    /// Of `node`, as far as the batch stores something in `spans`.
    pub fn of(node: &Node, before: &Snapshot, spans: &[Range<u64>]) -> Result<Standing, Error> {
        let Some(record) = node.before.filter(|_| !node.is_cut && node.shifted.is_none()) else {
            return Ok(Standing::default());
        };
        let extents = match &node.extents {
            ExtentList::Inline(extents) => extents.clone(),
            ExtentList::Table => before.extents_of_all(record.inode, spans)?,
        };
        Ok(Standing { inode: record.inode, extents, size: record.size })
    }

    /// The runs of `span`, in order: those that may be overwritten, with their address, and those that may not.
    pub fn runs(&self, span: Range<u64>) -> impl Iterator<Item = (Range<u64>, Option<BlockAddress>)> {
        // Blocks behind the end hold nothing of the file.
        let end_block = span.end.min(self.size.div_ceil(BLOCK_BYTES));
        let mut at = span.start;
        let first = self.extents.partition_point(|extent| extent.end_block() <= at);
        let is_before_end = move |extent: &&Extent| extent.file_block.max(span.start) < end_block;
        let mut extents = self.extents[first..].iter().take_while(is_before_end).peekable();
        std::iter::from_fn(move || {
            if at >= span.end {
                return None;
            }
            let start = at;
            let (end, address) = match extents.next_if(|extent| extent.file_block <= start) {
                Some(extent) => (extent.end_block().min(end_block), Some(extent.address_of(start))),
                None => (extents.peek().map_or(span.end, |next| next.file_block), None),
            };
            at = end;
            Some((start..end, address))
        })
    }

    /// Plans to store what `parts` have for `blocks`, which lie at `address`.
    pub fn overwrite(
        &self,
        blocks: &Range<u64>,
        address: BlockAddress,
        parts: &[Part],
        out: &mut Placements,
    ) {
        let inode = self.inode;
        let (from, to) = (blocks.start * BLOCK_BYTES, blocks.end * BLOCK_BYTES);
        let first = parts.partition_point(|part| part.end <= from);
        for part in parts[first..].iter().take_while(|part| part.start < to) {
            let Content::Log(place) = part.content else { continue };
            let (start, end) = (part.start.max(from), part.end.min(to));
            out.overwrites.stores.push(Overwrite {
                inode,
                place: place + (start - part.start) as u32,
                bytes: (end - start) as u32,
                block: start / BLOCK_BYTES,
                to: address.plus(start - from),
            });
            out.bytes_copied += end - start;
        }
        out.overwrites.runs += 1;
        self.tell(blocks, address, out);
    }

    /// Leaves `blocks`, which lie at `address`, as they are: the medium does not take them, nor give what is there.
    pub fn leave(&self, blocks: &Range<u64>, address: BlockAddress, out: &mut Placements) {
        let lost = (0..blocks.end - blocks.start).map(|block| address.plus(block * BLOCK_BYTES));
        out.damaged.extend(lost.map(|address| (self.inode, address)));
        self.tell(blocks, address, out);
    }

    fn tell(&self, blocks: &Range<u64>, address: BlockAddress, out: &mut Placements) {
        let (inode, to) = (self.inode, blocks.end * BLOCK_BYTES);
        // The session is told that it may let go of what it logged; and of the block in which the file ended, whose
        // rest it could not know.
        let told = if to > self.size { blocks.end - 1..blocks.end } else { blocks.start..blocks.start };
        let address = address.plus((told.start - blocks.start) * BLOCK_BYTES);
        let extent = Extent { file_block: told.start, blocks: (told.end - told.start) as u32, address };
        let is_known = out.placed.last().is_some_and(|last| last.inode == inode);
        if extent.blocks > 0 || !is_known {
            out.placed.push(Placed { inode, extent });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_blocks_the_file_had_and_gaps() {
        let extent =
            |file_block, blocks, at| Extent { file_block, blocks, address: BlockAddress(at * BLOCK_BYTES) };
        let standing = Standing {
            inode: InodeNumber(7),
            extents: vec![extent(2, 3, 100), extent(5, 2, 200), extent(9, 4, 300)],
            size: 10 * BLOCK_BYTES + 1,
        };
        let runs = |span| -> Vec<_> {
            let plain = |(blocks, address): (Range<u64>, Option<BlockAddress>)| {
                (blocks.start, blocks.end, address.map(|address| address.0 / BLOCK_BYTES))
            };
            standing.runs(span).map(plain).collect()
        };
        assert_eq!(runs(0..1), [(0, 1, None)]);
        assert_eq!(runs(3..4), [(3, 4, Some(101))]);
        let all = [
            (0, 2, None),
            (2, 5, Some(100)),
            (5, 7, Some(200)),
            (7, 9, None),
            (9, 11, Some(300)),
            (11, 20, None),
        ];
        assert_eq!(runs(0..20), all);
        assert_eq!(runs(11..13), [(11, 13, None)], "behind the end, whatever lies there");
    }
}
