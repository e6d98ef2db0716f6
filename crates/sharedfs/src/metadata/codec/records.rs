//! The values, and how they are coded. Little-endian, fixed width but for counts; nothing read is trusted.
//!
//! | table | value |
//! |---|---|
//! | inodes | u16 bitmap of the records present, then each: u8 extents inside, u8 flags, [`InodeLayout`], extents |
//! | dirents | child u64, kind u8 |
//! | extents | address u64, blocks u32 |
//! | symlinks | the target |
//! | extended attributes | the value |
//! | arenas, bad blocks | a bit for each block |
//! | sessions | postcard of [`SessionRecord`] |
//! | orphans | nothing |
//! | usage | blocks u64, inodes u64 |
//! | limits | hard blocks, inodes, soft blocks, inodes, seconds of grace: u64; since when blocks, inodes are over: i64, lowest: not |
//! | counters | u64 |
//! | calls | see [`super::calls`] |

use super::keys::CHUNK_INODES;
use crate::metadata::MetadataError;
use cuesta_format::inode_layout::{ExtentLayout, InodeLayout};
use cuesta_format::quota::{Allowance, Amounts, Limits, OverSince};
use cuesta_format::{
    BlockAddress, Extent, FileKind, InodeNumber, InodeRecord, LogGeneration, LogPosition, Timestamp,
};
use serde::{Deserialize, Serialize};
use zerocopy::little_endian::{U16, U64};
use zerocopy::{FromBytes, IntoBytes};

/// Extents an inode record holds before they move to a table of their own.
pub(crate) const INLINE_EXTENTS_MAX: usize = 4;

const FLAG_EXTENTS_IN_TABLE: u8 = 1;

/// Where an inode's extents are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExtentList {
    /// Here, all of them, in order.
    Inline(Vec<Extent>),
    /// In the table; ask for a range.
    Table,
}

/// An inode as the store holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredInode {
    /// What `stat` tells.
    pub record: InodeRecord,
    /// Where its content lies.
    pub extents: ExtentList,
}

/// The inode a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dirent {
    /// The inode.
    pub inode: InodeNumber,
    /// Its kind, for `readdir`.
    pub kind: FileKind,
}

/// What recovery must know of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionRecord {
    /// Everything in its log before this position is in the shared area.
    pub digested: LogPosition,
    /// The generation its entries are salted with from `digested` on.
    pub log_generation: LogGeneration,
    /// Blocks granted to it, in all.
    pub credit_limit: u64,
    /// Blocks debited by the entries that were digested, in all.
    pub credit_digested: u64,
}

/// The store's numbers. `inodes` and `used_blocks` are kept by the store itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counters {
    /// The next inode number to grant.
    pub next_inode: InodeNumber,
    /// The next session id to give.
    pub next_session: u64,
    /// Inodes there are.
    pub inodes: u64,
    /// Blocks that belong to inodes.
    pub used_blocks: u64,
}

impl Default for Counters {
    fn default() -> Counters {
        Counters {
            next_inode: InodeNumber(InodeNumber::ROOT.0 + 1),
            next_session: 1,
            inodes: 0,
            used_blocks: 0,
        }
    }
}

impl Counters {
    /// Each with its key, in the order of these.
    pub(crate) fn named(&self) -> [(&'static str, u64); 4] {
        [
            ("inodes", self.inodes),
            ("next_inode", self.next_inode.0),
            ("next_session", self.next_session),
            ("used_blocks", self.used_blocks),
        ]
    }
}

/// Consecutive inodes, as one value of the tree holds them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chunk {
    pub(crate) inodes: [Option<StoredInode>; CHUNK_INODES as usize],
}

impl Chunk {
    pub(crate) fn is_empty(&self) -> bool {
        self.inodes.iter().all(Option::is_none)
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.clear();
        let present = self
            .inodes
            .iter()
            .enumerate()
            .fold(0u16, |bits, (slot, inode)| bits | (u16::from(inode.is_some()) << slot));
        out.extend_from_slice(&present.to_le_bytes());
        for inode in self.inodes.iter().flatten() {
            let (extents, flags) = match &inode.extents {
                ExtentList::Inline(extents) => (&extents[..], 0),
                ExtentList::Table => (&[][..], FLAG_EXTENTS_IN_TABLE),
            };
            debug_assert!(extents.len() <= INLINE_EXTENTS_MAX);
            out.extend_from_slice(&[extents.len() as u8, flags]);
            out.extend_from_slice(InodeLayout::from(&inode.record).as_bytes());
            for extent in extents {
                out.extend_from_slice(ExtentLayout::from(extent).as_bytes());
            }
        }
    }

    pub(crate) fn decode(chunk: u64, bytes: &[u8]) -> Result<Chunk, MetadataError> {
        let mut decoded = Chunk::default();
        walk(chunk, bytes, |slot, inode| {
            decoded.inodes[slot] = Some(inode.decode());
            true
        })?;
        Ok(decoded)
    }

    /// Decodes one inode of a chunk.
    pub(crate) fn decode_one(
        chunk: u64,
        bytes: &[u8],
        wanted: usize,
    ) -> Result<Option<StoredInode>, MetadataError> {
        let mut found = None;
        walk(chunk, bytes, |slot, inode| {
            if slot == wanted {
                found = Some(inode.decode());
            }
            slot < wanted
        })?;
        Ok(found)
    }
}

/// One record, checked but not copied yet.
pub struct RawInode<'a> {
    /// Its number.
    pub number: InodeNumber,
    /// Its extents are in the table.
    pub in_table: bool,
    /// The rest.
    pub layout: &'a InodeLayout,
    /// Its extents, if they are here.
    pub extents: &'a [ExtentLayout],
}

impl RawInode<'_> {
    /// Its kind.
    pub fn kind(&self) -> Option<FileKind> {
        FileKind::from_mode(self.layout.mode())
    }

    fn decode(&self) -> StoredInode {
        let record = self.layout.record(self.number);
        let extents = if self.in_table {
            ExtentList::Table
        } else {
            ExtentList::Inline(self.extents.iter().map(Extent::from).collect())
        };
        StoredInode { record, extents }
    }
}

/// Hands each record of a chunk to `visit` until it answers false.
pub(crate) fn walk(
    chunk: u64,
    bytes: &[u8],
    mut visit: impl FnMut(usize, RawInode<'_>) -> bool,
) -> Result<(), MetadataError> {
    let damaged = |what: &str| MetadataError::Damaged(format!("inode chunk {chunk}: {what}"));
    let (present, mut rest) = U16::read_from_prefix(bytes).map_err(|_| damaged("too short"))?;
    for slot in (0..CHUNK_INODES as usize).filter(|slot| present.get() & (1 << slot) != 0) {
        let [count, flags, tail @ ..] = rest else { return Err(damaged("cut off")) };
        let (layout, tail) = InodeLayout::ref_from_prefix(tail).map_err(|_| damaged("cut off"))?;
        let (extents, tail) = <[ExtentLayout]>::ref_from_prefix_with_elems(tail, usize::from(*count))
            .map_err(|_| damaged("cut off"))?;
        if usize::from(*count) > INLINE_EXTENTS_MAX || *flags & !FLAG_EXTENTS_IN_TABLE != 0 {
            return Err(damaged("unknown flags"));
        }
        let mut end = 0;
        for extent in extents {
            let Extent { file_block: first, blocks, .. } = Extent::from(extent);
            let next = first.checked_add(u64::from(blocks));
            match next {
                Some(next) if first >= end && next > first => end = next,
                _ => return Err(damaged("extents overlap")),
            }
        }
        let number = chunk.checked_mul(CHUNK_INODES).ok_or_else(|| damaged("no inodes have such numbers"))?
            + slot as u64;
        let raw = RawInode {
            number: InodeNumber(number),
            in_table: *flags & FLAG_EXTENTS_IN_TABLE != 0,
            layout,
            extents,
        };
        if !visit(slot, raw) {
            return Ok(());
        }
        rest = tail;
    }
    if rest.is_empty() { Ok(()) } else { Err(damaged("bytes left over")) }
}

/// Where an extent lies, as its table holds it.
pub(crate) fn encode_extent_place(address: BlockAddress, blocks: u32) -> [u8; 12] {
    let mut bytes = [0; 12];
    bytes[..8].copy_from_slice(&address.0.to_le_bytes());
    bytes[8..].copy_from_slice(&blocks.to_le_bytes());
    bytes
}

/// The same, read.
pub(crate) fn extent_place(bytes: &[u8]) -> Result<(BlockAddress, u32), MetadataError> {
    let damaged = || MetadataError::Damaged("an extent's value is unreadable".into());
    let (address, blocks) = U64::read_from_prefix(bytes).map_err(|_| damaged())?;
    let blocks = blocks.try_into().map_err(|_| damaged())?;
    Ok((BlockAddress(address.get()), u32::from_le_bytes(blocks)))
}

/// What stands for a soft limit that is not exceeded.
const NOT_OVER: Timestamp = Timestamp(i64::MIN);

/// A payer's limits, as the table holds them.
pub(crate) fn encode_allowance(allowance: &Allowance) -> [u8; 56] {
    let Allowance { limits: Limits { hard, soft, grace_seconds }, over_since } = *allowance;
    let since = |since: Option<Timestamp>| since.unwrap_or(NOT_OVER).0.cast_unsigned();
    let numbers = [
        hard.blocks,
        hard.inodes,
        soft.blocks,
        soft.inodes,
        grace_seconds,
        since(over_since.blocks),
        since(over_since.inodes),
    ];
    let mut bytes = [0; 56];
    for (to, number) in bytes.chunks_exact_mut(8).zip(numbers) {
        to.copy_from_slice(&number.to_le_bytes());
    }
    bytes
}

/// The same, read.
pub(crate) fn allowance(bytes: &[u8]) -> Result<Allowance, MetadataError> {
    let damaged = || MetadataError::Damaged("the limits of a payer are unreadable".into());
    let numbers = <[U64; 7]>::read_from_bytes(bytes).map_err(|_| damaged())?;
    let [hard_blocks, hard_inodes, soft_blocks, soft_inodes, grace_seconds, blocks, inodes] =
        numbers.map(U64::get);
    let amounts = |blocks, inodes| Amounts { blocks, inodes };
    let since = |since: u64| Some(Timestamp(since.cast_signed())).filter(|&since| since != NOT_OVER);
    Ok(Allowance {
        limits: Limits {
            hard: amounts(hard_blocks, hard_inodes),
            soft: amounts(soft_blocks, soft_inodes),
            grace_seconds,
        },
        over_since: OverSince { blocks: since(blocks), inodes: since(inodes) },
    })
}

/// A payer's amounts, as the table holds them.
pub(crate) fn encode_amounts(amounts: Amounts) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&amounts.blocks.to_le_bytes());
    bytes[8..].copy_from_slice(&amounts.inodes.to_le_bytes());
    bytes
}

/// The same, read.
pub(crate) fn amounts(bytes: &[u8]) -> Result<Amounts, MetadataError> {
    let damaged = || MetadataError::Damaged("the amounts of a payer are unreadable".into());
    let [blocks, inodes] = <[U64; 2]>::read_from_bytes(bytes).map_err(|_| damaged())?;
    Ok(Amounts { blocks: blocks.get(), inodes: inodes.get() })
}

/// One of the store's numbers.
pub(crate) fn counter(bytes: &[u8]) -> Result<u64, MetadataError> {
    let damaged = |_| MetadataError::Damaged("a counter is unreadable".into());
    Ok(u64::from_le_bytes(bytes.try_into().map_err(damaged)?))
}

impl Dirent {
    pub(crate) fn encode(self) -> [u8; 9] {
        let mut bytes = [self.kind as u8; 9];
        bytes[..8].copy_from_slice(&self.inode.0.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Dirent, MetadataError> {
        let damaged = || MetadataError::Damaged("a directory entry's value is unreadable".into());
        let (inode, kind) = U64::read_from_prefix(bytes).map_err(|_| damaged())?;
        let [kind] = kind else { return Err(damaged()) };
        let kind = FileKind::from_byte(*kind).ok_or_else(damaged)?;
        Ok(Dirent { inode: InodeNumber(inode.get()), kind })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuesta_format::{InodeRecord, Timestamp};

    fn chunk() -> Chunk {
        let mut chunk = Chunk::default();
        for (slot, extents) in [(0, 0), (3, 1), (15, 4)] {
            let number = InodeNumber(5 * CHUNK_INODES + slot as u64);
            let record = InodeRecord::new(number, 0o100_644, 7, 8, Timestamp(-9));
            let extents = (0..extents)
                .map(|at| Extent { file_block: at * 10, blocks: 3, address: BlockAddress(at << 20) })
                .collect();
            chunk.inodes[slot] = Some(StoredInode { record, extents: ExtentList::Inline(extents) });
        }
        chunk
    }

    #[test]
    fn golden_bytes_of_a_chunk() {
        let mut bytes = Vec::new();
        chunk().encode(&mut bytes);
        assert_eq!(bytes.len(), 2 + 3 * 98 + 5 * 20);
        assert_eq!(bytes[..10], [0b1001, 0x80, 0, 0, 0xa4, 0x81, 0, 0, 7, 0]);
        let decoded = Chunk::decode(5, &bytes).unwrap();
        assert_eq!(decoded.inodes, chunk().inodes);
        assert_eq!(Chunk::decode_one(5, &bytes, 3).unwrap(), chunk().inodes[3]);
        assert_eq!(Chunk::decode_one(5, &bytes, 4).unwrap(), None);
    }

    #[test]
    fn damaged_chunks_are_errors() {
        let mut bytes = Vec::new();
        chunk().encode(&mut bytes);
        for len in 0..bytes.len() {
            assert!(Chunk::decode(5, &bytes[..len]).is_err(), "{len} bytes");
        }
        for place in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[place] ^= 0xff;
            // Many a flip only changes a number; none may panic.
            let _ = Chunk::decode(5, &flipped);
        }
        assert!(Chunk::decode(u64::MAX, &bytes).is_err());
    }
}
