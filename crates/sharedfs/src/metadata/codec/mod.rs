//! Keys and values of the metadata store's tables.
//!
//! | file | idea |
//! |---|---|
//! | `keys` | the tables and their keys |
//! | `records` | values, and inodes in chunks |
//! | `extents` | lists of extents, changed without their places |
//! | `calls` | the table of callers' calls |
//! | `windows` | the table of blocks that sessions may write and name |
//!
//! Nothing here reads or writes a file.

pub(super) mod calls;
mod extents;
mod keys;
mod records;
pub(super) mod windows;

pub use extents::ExtentWrite;
pub(super) use extents::{close_together, differences, splice};
pub(super) use keys::{
    CHUNK_INODES, Table, chunk_of, name_in, name_key, name_key_into, number_in, number_key, owner_and_name,
    pair_in, pair_key, payer_in, payer_key, written_in_key,
};
pub(super) use records::{
    Chunk, INLINE_EXTENTS_MAX, allowance, amounts, counter, encode_allowance, encode_amounts,
    encode_extent_place, extent_place, walk,
};
pub use records::{Counters, Dirent, ExtentList, RawInode, SessionRecord, StoredInode};
