//! The body of a staged write: where whole blocks of it lie, and the bytes before and behind them.
//!
//! | bytes | what |
//! |---|---|
//! | 0..4 | bytes of the head, which comes before the first block |
//! | 4..8 | bytes of the tail, which comes behind the last block |
//! | 8..10 | runs |
//! | 10..12 | 1: each block has a checksum; 0: none has |
//! | 12..16 | blocks |
//! | 16 each | runs: address of the first block, count of blocks, zero |
//! | 4 each | CRC32C of the blocks, in file order |
//! | | head, tail |
//!
//! Addresses are of this store. An entry that is replayed elsewhere needs its blocks placed there first.

use crate::{BLOCK_BYTES, BlockAddress, WRITE_BYTES_MAX};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Layout {
    head_bytes: U32,
    tail_bytes: U32,
    runs: U16,
    has_sums: U16,
    blocks: U32,
}

const LAYOUT_BYTES: usize = size_of::<Layout>();
const _: () = assert!(LAYOUT_BYTES == 16);

#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RunLayout {
    address: U64,
    blocks: U32,
    zero: U32,
}

const _: () = assert!(size_of::<RunLayout>() == 16);

/// Most blocks of one write.
const BLOCKS_MAX: u64 = WRITE_BYTES_MAX as u64 / BLOCK_BYTES;

/// Neighbouring blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRun {
    /// The first block.
    pub address: BlockAddress,
    /// How many there are.
    pub blocks: u32,
}

/// The content of a staged write, as its entry says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StagedWrite<'a> {
    body: &'a [u8],
    runs: &'a [RunLayout],
    sums: Option<&'a [U32]>,
    head: &'a [u8],
    tail: &'a [u8],
    blocks: u32,
}

impl<'a> StagedWrite<'a> {
    /// Writes the body of an entry into `out`, replacing its content. `sums` are those of the blocks, in order.
    pub fn encode(runs: &[BlockRun], sums: Option<&[u32]>, head: &[u8], tail: &[u8], out: &mut Vec<u8>) {
        let layout = Layout {
            head_bytes: (head.len() as u32).into(),
            tail_bytes: (tail.len() as u32).into(),
            runs: (runs.len() as u16).into(),
            has_sums: u16::from(sums.is_some()).into(),
            blocks: runs.iter().map(|run| run.blocks).sum::<u32>().into(),
        };
        out.clear();
        out.extend_from_slice(layout.as_bytes());
        for run in runs {
            let run = RunLayout { address: run.address.0.into(), blocks: run.blocks.into(), zero: U32::ZERO };
            out.extend_from_slice(run.as_bytes());
        }
        for sum in sums.unwrap_or_default() {
            out.extend_from_slice(&sum.to_le_bytes());
        }
        out.extend_from_slice(head);
        out.extend_from_slice(tail);
    }

    /// Reads the body of an entry that stores at `offset`. `None`: it is none.
    #[must_use]
    pub fn decode(offset: u64, body: &'a [u8]) -> Option<StagedWrite<'a>> {
        let (layout, rest) = Layout::ref_from_prefix(body).ok()?;
        let blocks = layout.blocks.get();
        let (runs, rest) =
            <[RunLayout]>::ref_from_prefix_with_elems(rest, usize::from(layout.runs.get())).ok()?;
        let (sums, rest) = match layout.has_sums.get() {
            0 => (None, rest),
            1 if u64::from(blocks) <= BLOCKS_MAX => {
                let (sums, rest) = <[U32]>::ref_from_prefix_with_elems(rest, blocks as usize).ok()?;
                (Some(sums), rest)
            }
            _ => return None,
        };
        let (head, tail) = rest.split_at_checked(layout.head_bytes.get() as usize)?;
        let counted: u64 = runs.iter().map(|run| u64::from(run.blocks.get())).sum();
        let is_whole = |run: &RunLayout| {
            run.blocks.get() > 0
                && run.address.get().is_multiple_of(BLOCK_BYTES)
                && run.address.get() <= u64::MAX - BLOCKS_MAX * BLOCK_BYTES
        };
        let starts_whole = offset.checked_add(head.len() as u64)?.is_multiple_of(BLOCK_BYTES);
        let fits = tail.len() == layout.tail_bytes.get() as usize
            && tail.len() < BLOCK_BYTES as usize
            && head.len() < BLOCK_BYTES as usize;
        (fits && starts_whole && (1..=BLOCKS_MAX).contains(&counted) && counted == u64::from(blocks))
            .then_some(())?;
        runs.iter().all(is_whole).then_some(StagedWrite { body, runs, sums, head, tail, blocks })
    }

    /// The body it was read from.
    #[must_use]
    pub fn body(&self) -> &'a [u8] {
        self.body
    }

    /// Bytes before the first block, less than one.
    #[must_use]
    pub fn head(&self) -> &'a [u8] {
        self.head
    }

    /// Bytes behind the last block, less than one.
    #[must_use]
    pub fn tail(&self) -> &'a [u8] {
        self.tail
    }

    /// The blocks, in file order.
    pub fn runs(&self) -> impl Iterator<Item = BlockRun> + use<'a> {
        let run =
            |run: &RunLayout| BlockRun { address: BlockAddress(run.address.get()), blocks: run.blocks.get() };
        self.runs.iter().map(run)
    }

    /// How many blocks there are.
    #[must_use]
    pub fn blocks(&self) -> u32 {
        self.blocks
    }

    /// The checksum of each block, in file order, where the entry has them.
    #[must_use]
    pub fn sums(&self) -> Option<impl Iterator<Item = u32> + use<'a>> {
        self.sums.map(|sums| sums.iter().map(|sum| sum.get()))
    }

    /// The bytes of these checksums.
    #[must_use]
    pub fn sum_bytes(&self) -> Option<&'a [u8]> {
        self.sums.map(IntoBytes::as_bytes)
    }

    /// Bytes that are stored.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        (self.head.len() + self.tail.len()) as u64 + u64::from(self.blocks) * BLOCK_BYTES
    }
}

/// Bytes of a body with so many runs, checksums, and bytes of head and tail.
#[must_use]
pub const fn staged_body_bytes(runs: usize, sums: usize, edges: usize) -> usize {
    LAYOUT_BYTES + runs * size_of::<RunLayout>() + sums * size_of::<U32>() + edges
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUNS: [BlockRun; 2] = [
        BlockRun { address: BlockAddress(40 * BLOCK_BYTES), blocks: 2 },
        BlockRun { address: BlockAddress(90 * BLOCK_BYTES), blocks: 1 },
    ];

    fn body(sums: Option<&[u32]>) -> Vec<u8> {
        let mut body = Vec::new();
        StagedWrite::encode(&RUNS, sums, b"head", b"the tail", &mut body);
        body
    }

    #[test]
    fn what_is_encoded_is_read() {
        for sums in [None, Some(&[7, 8, 9][..])] {
            let body = body(sums);
            assert_eq!(body.len(), staged_body_bytes(2, sums.map_or(0, <[u32]>::len), 12));
            let staged = StagedWrite::decode(BLOCK_BYTES - 4, &body).unwrap();
            assert_eq!(staged.runs().collect::<Vec<_>>(), RUNS);
            assert_eq!(staged.sums().map(|sums| sums.collect::<Vec<_>>()), sums.map(<[u32]>::to_vec));
            assert_eq!((staged.head(), staged.tail()), (&b"head"[..], &b"the tail"[..]));
            assert_eq!((staged.blocks(), staged.bytes()), (3, 3 * BLOCK_BYTES + 12));
        }
    }

    #[test]
    fn a_body_that_says_two_things_is_none() {
        let good = body(Some(&[7, 8, 9]));
        let changed = |at: usize, byte: u8| {
            let mut body = good.clone();
            body[at] = byte;
            StagedWrite::decode(BLOCK_BYTES - 4, &body).map(drop)
        };
        assert!(changed(0, 4).is_some());
        assert!(changed(0, 5).is_none(), "the head is not all that lies before a block");
        assert!(changed(4, 9).is_none(), "the tail is shorter");
        assert!(changed(8, 1).is_none(), "fewer runs");
        assert!(changed(10, 0).is_none() && changed(10, 2).is_none(), "checksums or none");
        assert!(changed(12, 2).is_none(), "runs with more blocks");
        assert!(changed(16, 1).is_none(), "an address inside a block");
        assert!(changed(24, 0).is_none(), "an empty run");
        assert!(
            StagedWrite::decode(BLOCK_BYTES, &good).is_none(),
            "its blocks would not be blocks of the file"
        );
        assert!(StagedWrite::decode(u64::MAX - 3, &good).is_none());
    }
}
