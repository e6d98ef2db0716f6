//! Shifts: a range of a file is taken out of it, or room is made in it. Ranges are of whole blocks, so that nothing
//! has to be copied.

use super::pieces::Part;
use cuesta_format::{BLOCK_BYTES, Extent};

/// A range that is taken out of a file, or room made in it: everything behind it moves.
#[derive(Clone, Copy, Debug)]
pub struct Shift {
    /// Start of the range, in bytes.
    pub offset: u64,
    /// Its length in bytes.
    pub length: u64,
    /// Room is made.
    pub insert: bool,
}

/// Where the content from before a batch is, after the batch moved some of it.
#[derive(Clone, Debug)]
pub struct Shifted {
    /// Its extents, where they are now.
    pub extents: Vec<Extent>,
    /// The size it had, moved along.
    pub size: u64,
    /// Extents that were taken out.
    pub freed: Vec<Extent>,
}

/// Moves the extents, and the size of the content they hold.
pub fn extents(shifted: &mut Shifted, by: Shift) {
    let (from, blocks) = (by.offset / BLOCK_BYTES, by.length / BLOCK_BYTES);
    let mut moved = Vec::with_capacity(shifted.extents.len() + 1);
    for extent in &shifted.extents {
        moved.extend(part(extent, 0, from));
        if by.insert {
            moved.extend(part(extent, from, u64::MAX).map(|extent| at(extent, extent.file_block + blocks)));
        } else {
            shifted.freed.extend(part(extent, from, from + blocks));
            let behind = part(extent, from + blocks, u64::MAX);
            moved.extend(behind.map(|extent| at(extent, extent.file_block - blocks)));
        }
    }
    shifted.extents = moved;
    if shifted.size > by.offset {
        shifted.size = match by.insert {
            true => shifted.size + by.length,
            false => (shifted.size - by.length.min(shifted.size)).max(by.offset),
        };
    }
}

/// A piece after the shift: the part before the range, and the part behind.
pub fn piece(piece: &Part, by: Shift) -> impl Iterator<Item = Part> {
    let cut_from = |start: u64, end: u64| {
        let (start, end) = (piece.start.max(start), piece.end.min(end));
        (start < end).then(|| piece.cut(start, end))
    };
    let end = by.offset + by.length;
    let behind = cut_from(if by.insert { by.offset } else { end }, u64::MAX).map(|part| {
        // A cut has no end.
        let moved = |place: u64| match by.insert {
            _ if place == u64::MAX => place,
            true => place + by.length,
            false => place - by.length,
        };
        Part { start: moved(part.start), end: moved(part.end), content: part.content }
    });
    cut_from(0, by.offset).into_iter().chain(behind)
}

fn at(extent: Extent, file_block: u64) -> Extent {
    Extent { file_block, ..extent }
}

/// The part of an extent that lies in blocks `start` to `end`.
fn part(extent: &Extent, start: u64, end: u64) -> Option<Extent> {
    let (start, end) = (extent.file_block.max(start), extent.end_block().min(end));
    (start < end).then(|| Extent {
        file_block: start,
        blocks: (end - start) as u32,
        address: extent.address_of(start),
    })
}

#[cfg(test)]
mod tests {
    use super::super::pieces::Content;
    use super::*;
    use cuesta_format::BlockAddress;

    fn extent(file_block: u64, blocks: u32, address: u64) -> Extent {
        Extent { file_block, blocks, address: BlockAddress(address * BLOCK_BYTES) }
    }

    fn shift(offset: u64, length: u64, insert: bool) -> Shift {
        Shift { offset: offset * BLOCK_BYTES, length: length * BLOCK_BYTES, insert }
    }

    #[test]
    fn room_splits_an_extent_and_taking_it_out_joins_places_again() {
        let size = 10 * BLOCK_BYTES - 5;
        let mut shifted = Shifted { extents: vec![extent(0, 10, 100)], size, freed: Vec::new() };
        extents(&mut shifted, shift(4, 3, true));
        assert_eq!(shifted.extents, [extent(0, 4, 100), extent(7, 6, 104)]);
        assert_eq!(shifted.size, size + 3 * BLOCK_BYTES);
        extents(&mut shifted, shift(3, 5, false));
        assert_eq!(shifted.extents, [extent(0, 3, 100), extent(3, 5, 105)]);
        assert_eq!(shifted.freed, [extent(3, 1, 103), extent(7, 1, 104)]);
        assert_eq!(shifted.size, 8 * BLOCK_BYTES - 5);
    }

    #[test]
    fn a_piece_moves_cut_in_two() {
        let block = BLOCK_BYTES;
        let log = |start, end, at| Part { start, end, content: Content::Log(at) };
        let moved = |part: Part, by| piece(&part, by).collect::<Vec<_>>();
        let whole = log(10, 3 * block, 7);
        let at = 7 + block as u32 - 10;
        assert_eq!(moved(whole, shift(1, 1, true)), [log(10, block, 7), log(2 * block, 4 * block, at)]);
        assert_eq!(
            moved(whole, shift(1, 1, false)),
            [log(10, block, 7), log(block, 2 * block, at + block as u32)]
        );
        assert_eq!(moved(whole, shift(0, 4, false)), []);
        let gone = Part { start: 2 * block, end: u64::MAX, content: Content::Gone };
        assert_eq!(moved(gone, shift(1, 2, false)), [Part { start: block, ..gone }]);
    }
}
