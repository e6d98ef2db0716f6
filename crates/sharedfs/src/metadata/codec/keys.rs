//! The tables, and how their keys are made. All are byte strings that sort as their numbers and names do.

use crate::metadata::MetadataError;
use cuesta_format::{ArenaId, InodeNumber};
use redb::TableDefinition;

/// A table, in the order in which they are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Table {
    /// Chunk number → consecutive inode records; see `records`.
    Inodes,
    /// Parent ++ name → child and kind.
    Dirents,
    /// Inode ++ name → value of an extended attribute.
    Extended,
    /// Inode ++ first file block → address and blocks, of inodes with more extents than fit their record.
    Extents,
    /// Inode → target of a symbolic link.
    Symlinks,
    /// Arena → bitmap of its used blocks.
    Arenas,
    /// Session → how far it was digested.
    Sessions,
    /// Inode without a name ++ session that holds it open → nothing.
    Orphans,
    /// Payer → the amounts it owns.
    Usage,
    /// Payer → its limits; 0: no limit.
    Limits,
    /// Arena → bitmap of its blocks that the medium does not take.
    Bad,
    /// Name → number: the format version, [`super::records::Counters`], and which journal comes behind the tree.
    Counters,
    /// Caller ++ slot → its last call that took effect. Stores of before format 9.2 get it with their first call.
    Calls,
    /// Session ++ address of a window's first block → the blocks it may still name. Stores of before format 9.4 get it
    /// with their first window.
    Windows,
}

impl Table {
    /// All of them, each at the place of its number.
    pub(crate) const ALL: [Table; 14] = [
        Table::Inodes,
        Table::Dirents,
        Table::Extended,
        Table::Extents,
        Table::Symlinks,
        Table::Arenas,
        Table::Sessions,
        Table::Orphans,
        Table::Usage,
        Table::Limits,
        Table::Bad,
        Table::Counters,
        Table::Calls,
        Table::Windows,
    ];

    /// The table with this number.
    pub(crate) fn from_byte(byte: u8) -> Option<Table> {
        Table::ALL.get(usize::from(byte)).copied()
    }

    /// What redb calls it.
    pub(crate) fn definition(self) -> TableDefinition<'static, &'static [u8], &'static [u8]> {
        TableDefinition::new(self.name())
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Table::Inodes => "inodes",
            Table::Dirents => "dirents",
            Table::Extended => "extended attributes",
            Table::Extents => "extents",
            Table::Symlinks => "symlinks",
            Table::Arenas => "arenas",
            Table::Sessions => "sessions",
            Table::Orphans => "orphans",
            Table::Usage => "usage",
            Table::Limits => "limits",
            Table::Bad => "bad blocks",
            Table::Counters => "counters",
            Table::Calls => "calls",
            Table::Windows => "windows",
        }
    }
}

/// Inodes that share a value. New files get consecutive numbers, so a batch of them costs a sixteenth of the puts;
/// sixteen records with an extent each still fit a page of the tree.
pub(crate) const CHUNK_INODES: u64 = 16;

/// The chunk an inode lies in, and its place there.
pub(crate) fn chunk_of(inode: InodeNumber) -> (u64, usize) {
    (inode.0 / CHUNK_INODES, (inode.0 % CHUNK_INODES) as usize)
}

/// The key of a thing with a number: a chunk, an inode's link, an arena, a session.
pub(crate) fn number_key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

/// The number in such a key.
pub(crate) fn number_in(key: &[u8]) -> Result<u64, MetadataError> {
    let bytes = key.try_into().map_err(|_| MetadataError::Damaged("a key is no number".into()))?;
    Ok(u64::from_be_bytes(bytes))
}

/// The key of what belongs to two numbers: an extent, an inode kept for a session.
pub(crate) fn pair_key(first: u64, second: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&first.to_be_bytes());
    key[8..].copy_from_slice(&second.to_be_bytes());
    key
}

/// The numbers in such a key.
pub(crate) fn pair_in(key: &[u8]) -> Result<(u64, u64), MetadataError> {
    let (first, second) = key.split_at_checked(8).unwrap_or((key, &[]));
    Ok((number_in(first)?, number_in(second)?))
}

/// The key of a payer ([`cuesta_format::quota::Payer::key`]).
pub(crate) fn payer_key((kind, number): (u8, u64)) -> [u8; 9] {
    let mut key = [kind; 9];
    key[1..].copy_from_slice(&number.to_be_bytes());
    key
}

/// The payer of a key.
pub(crate) fn payer_in(key: &[u8]) -> Result<(u8, u64), MetadataError> {
    let (kind, number) = key.split_first().ok_or_else(|| MetadataError::Damaged("a key is empty".into()))?;
    Ok((*kind, number_in(number)?))
}

/// The key of a directory entry or of an extended attribute; with an empty name, the place before the first.
pub(crate) fn name_key(owner: InodeNumber, name: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(8 + name.len());
    name_key_into(owner, name, &mut key);
    key
}

/// The same, appended to `key`.
pub(crate) fn name_key_into(owner: InodeNumber, name: &[u8], key: &mut Vec<u8>) {
    key.extend_from_slice(&owner.0.to_be_bytes());
    key.extend_from_slice(name);
}

/// The owner of a key, and the name.
pub(crate) fn owner_and_name(key: &[u8]) -> Option<(InodeNumber, &[u8])> {
    key.split_first_chunk().map(|(owner, name)| (InodeNumber(u64::from_be_bytes(*owner)), name))
}

/// The name in such a key, if it is one of `owner`.
pub(crate) fn name_in(owner: InodeNumber, key: &[u8]) -> Option<&[u8]> {
    key.strip_prefix(&owner.0.to_be_bytes()[..])
}

/// The counter that says in which opening of the store an arena was last written.
pub(crate) fn written_in_key(arena: ArenaId) -> String {
    format!("arena-{:010}", arena.0)
}
