//! The first page of the metadata's file: how long the tree is, how far it and the journal were written, and of which opening of the store the file is.
//!
//! | offset | bytes | what |
//! |---|---|---|
//! | 0 | 8 | the magic; written last, so that a file without it is none yet |
//! | 8 | 8 | length of the tree |
//! | 16 | 8 | nothing at or behind it was ever written |
//! | 24 | 8 | how far the journal counts ([`crate::metadata::journal`]) |
//! | 32 | 8 | of the second copy: whether it is in step with the first |
//! | 64 | 48 | the stamp ([`cuesta_format::stamp`]) |
//! | 128 | 48 | the stamp again, written behind the first: a crash may tear one of them |

use super::checked_pages::tree_bytes;
use crate::metadata::MetadataError;
use cuesta_format::StoreId;
use cuesta_format::entry::crc32c;
use cuesta_format::stamp::{Misplaced, STAMP_BYTES, Stamp};
use cuesta_format::superblock::Opening;
use cuesta_media::{AccessError, SharedMemory};
use std::path::Path;

/// The header page, then the journal, then redb's bytes.
pub(crate) const HEADER_BYTES: u64 = 4096;
pub(crate) const TREE_OFFSET: u64 = HEADER_BYTES + JOURNAL_BYTES;
/// Bytes of the journal.
pub(crate) const JOURNAL_BYTES: u64 = (4 << 20) - HEADER_BYTES;
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"CUESTAM6");
pub(crate) const MAGIC_OFFSET: u64 = 0;
pub(crate) const LENGTH_OFFSET: u64 = 8;
pub(crate) const WRITTEN_OFFSET: u64 = 16;
pub(crate) const JOURNAL_OFFSET: u64 = 24;
pub(crate) const STEP_OFFSET: u64 = 32;
const STAMP_OFFSETS: [u64; 2] = [64, 128];

/// Longest file: what `media` reserves addresses for, less a margin for the header.
pub(crate) const LENGTH_MAX: u64 = 1 << 39;

/// Bits of a number of the header. The rest of its word is a checksum: a damaged length never makes the file grow
/// until the medium is full. Yet a number changes in one store.
const NUMBER_BITS: u32 = 40;
const _: () = assert!(2 * LENGTH_MAX <= 1 << NUMBER_BITS);

pub(crate) fn seal(number: u64) -> u64 {
    debug_assert!(number < 1 << NUMBER_BITS);
    let checksum = u64::from(crc32c(&number.to_le_bytes()) ^ u32::MAX);
    number | checksum << NUMBER_BITS
}

pub(crate) fn unseal(word: u64) -> Option<u64> {
    let number = word & ((1 << NUMBER_BITS) - 1);
    (seal(number) == word).then_some(number)
}

/// The store and the opening that a file must be of.
#[derive(Clone, Copy, Debug)]
pub struct Owner {
    /// The store.
    pub store: StoreId,
    /// What its superblock says.
    pub now: Opening,
}

/// A header that makes sense.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    pub(crate) length: u64,
    pub(crate) written: u64,
    pub(crate) journal: Option<u64>,
    /// Of the second copy: all of the first is in it.
    pub(crate) in_step: bool,
    pub(crate) stamp: Option<Stamp>,
}

fn word(memory: &SharedMemory, offset: u64) -> Result<u64, AccessError> {
    let mut bytes = [0; 8];
    memory.read(offset, &mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

/// What says of which opening a file is: the newer stamp, or the one before it where a crash tore that.
pub(crate) fn stamp_in(memory: &SharedMemory) -> Result<Option<Stamp>, AccessError> {
    for offset in STAMP_OFFSETS {
        let mut bytes = [0; STAMP_BYTES];
        memory.read(offset, &mut bytes)?;
        if let Some(stamp) = Stamp::decode(&bytes) {
            return Ok(Some(stamp));
        }
    }
    Ok(None)
}

/// Writes the stamp durably. At any moment, one of its two places holds a whole one.
pub(crate) fn write_stamp(memory: &SharedMemory, stamp: &Stamp) -> Result<(), AccessError> {
    for offset in STAMP_OFFSETS {
        memory.write_through(offset, &stamp.encode())?;
        memory.fence()?;
    }
    Ok(())
}

impl Header {
    /// Reads and checks the header of the file `path`.
    pub(crate) fn read(
        memory: &SharedMemory,
        path: &Path,
        owner: Option<&Owner>,
    ) -> Result<Header, MetadataError> {
        let foreign = || MetadataError::Foreign(path.to_path_buf());
        let unread = |error: AccessError| MetadataError::Damaged(error.to_string());
        if memory.len() < TREE_OFFSET || word(memory, MAGIC_OFFSET).map_err(|_| foreign())? != MAGIC {
            return Err(foreign());
        }
        let number = |offset| -> Result<u64, MetadataError> {
            unseal(word(memory, offset).map_err(unread)?)
                .ok_or_else(|| MetadataError::Damaged("a number of the header is damaged".into()))
        };
        let (length, written) = (number(LENGTH_OFFSET)?, number(WRITTEN_OFFSET)?);
        if length > LENGTH_MAX || written > tree_bytes(memory.len() - TREE_OFFSET) {
            return Err(MetadataError::Damaged(format!(
                "header: length {length}, written {written}, in a file of {}",
                memory.len()
            )));
        }
        let journal = unseal(word(memory, JOURNAL_OFFSET).map_err(unread)?);
        let in_step = unseal(word(memory, STEP_OFFSET).map_err(unread)?) == Some(Step::Equal as u64);
        let stamp = stamp_in(memory).map_err(unread)?;
        if let Some(Owner { store, now }) = owner {
            let judged = match stamp {
                Some(stamp) => stamp.judge(*store, 0, *now),
                // Nothing of a store that was never opened by this version has one.
                None if now.generation == 0 => Ok(()),
                None => Err(Misplaced::Unmarked),
            };
            judged.map_err(|why| MetadataError::Misplaced { path: path.to_path_buf(), why })?;
        }
        Ok(Header { length, written, journal, in_step, stamp })
    }
}

/// Whether the second copy is in step with the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// It may lack the last writes.
    Behind = 1,
    /// It was left in order.
    Equal = 2,
}
