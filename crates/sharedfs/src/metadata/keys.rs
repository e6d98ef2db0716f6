//! The tables, and how their keys are made.

use cuesta_format::InodeNumber;
use redb::TableDefinition;

/// A table of byte strings, ordered as bytes.
pub(super) type ByteTable = TableDefinition<'static, &'static [u8], &'static [u8]>;

/// A table of what belongs to those who are charged ([`cuesta_format::quota::Payer::key`]).
pub(super) type AmountsTable = TableDefinition<'static, (u8, u64), (u64, u64)>;

/// Chunk number (8 bytes, big-endian) → consecutive inode records; see `records`.
pub(super) const INODES: ByteTable = TableDefinition::new("inodes");
/// Parent (8 bytes, big-endian) ++ name → child and kind.
pub(super) const DIRENTS: ByteTable = TableDefinition::new("dirents");
/// (inode, first file block) → (address, blocks), of inodes with more extents than fit their record.
pub(super) const EXTENTS: TableDefinition<'static, (u64, u64), (u64, u32)> = TableDefinition::new("extents");
/// Inode → target of a symbolic link.
pub(super) const SYMLINKS: TableDefinition<'static, u64, &'static [u8]> = TableDefinition::new("symlinks");
/// Inode (8 bytes, big-endian) ++ name → value of an extended attribute.
pub(super) const EXTENDED: ByteTable = TableDefinition::new("extended attributes");
/// Arena → bitmap of its used blocks.
pub(super) const ARENAS: TableDefinition<'static, u32, &'static [u8]> = TableDefinition::new("arenas");
/// Session → how far it was digested.
pub(super) const SESSIONS: TableDefinition<'static, u64, &'static [u8]> = TableDefinition::new("sessions");
/// (inode without a name, session that holds it open).
pub(super) const ORPHANS: TableDefinition<'static, (u64, u64), ()> = TableDefinition::new("orphans");
/// Who is charged → (blocks, inodes) they own.
pub(super) const USAGE: AmountsTable = TableDefinition::new("usage");
/// Who is charged → (blocks, inodes) they may own at most; 0: no limit.
pub(super) const LIMITS: AmountsTable = TableDefinition::new("limits");
/// Named numbers: the format version and [`super::Counters`].
pub(super) const COUNTERS: TableDefinition<'static, &'static str, u64> = TableDefinition::new("counters");

/// Inodes that share a value. New files get consecutive numbers, so a batch of them costs a sixteenth of the puts;
/// sixteen records with an extent each still fit a page of the tree.
pub(super) const CHUNK_INODES: u64 = 16;

/// The chunk an inode lies in, and its place there.
pub(super) fn chunk_of(inode: InodeNumber) -> (u64, usize) {
    (inode.0 / CHUNK_INODES, (inode.0 % CHUNK_INODES) as usize)
}

/// The key of a chunk.
pub(super) fn chunk_key(chunk: u64) -> [u8; 8] {
    chunk.to_be_bytes()
}

/// The key of a directory entry or of an extended attribute; with an empty name, the place before the first.
pub(super) fn name_key(owner: InodeNumber, name: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(8 + name.len());
    key.extend_from_slice(&owner.0.to_be_bytes());
    key.extend_from_slice(name);
    key
}

/// Whose key that is.
pub(super) fn owner_in(key: &[u8]) -> Option<InodeNumber> {
    key.first_chunk().map(|owner| InodeNumber(u64::from_be_bytes(*owner)))
}

/// The name in such a key, if it is one of `owner`.
pub(super) fn name_in(owner: InodeNumber, key: &[u8]) -> Option<&[u8]> {
    key.strip_prefix(&owner.0.to_be_bytes()[..])
}
