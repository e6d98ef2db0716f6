//! The journal in front of the tree: small transactions are committed by one record here, and written to the tree together
//! later on (decision 16).
//!
//! | where | what |
//! |---|---|
//! | a number of the file's header | which journal (its generation's low 20 bits), and how many units of it count |
//! | each record | u32 checksum of the rest, u32 bytes of the changes, u64 generation, the changes ([`redo`]), zeros up to a unit |
//!
//! A record counts once the number in the header says so, which is one store. The tree says which generation comes
//! behind it: by the commit that takes a journal's changes into the tree it becomes the next one, and all records that
//! are there count no more. The number says so, too, right behind that commit.

use super::MetadataError;
use super::backend::BackendFile;
use super::layered::Overlay;
use super::redo::{self, Redo};
use cuesta_format::entry::crc32c;
use cuesta_media::AccessError;
use cuesta_media::planted::{self, Bug};

const UNIT_BYTES: u64 = 16;
const HEADER_BYTES: usize = 16;
/// Bits of either half of the number in the header.
const HALF_BITS: u32 = 20;
const HALF: u64 = (1 << HALF_BITS) - 1;
const _: () = assert!(BackendFile::JOURNAL_BYTES / UNIT_BYTES <= HALF);

/// A transaction with more than this goes into the tree at once: there it costs no more for each change than here.
const RECORD_BYTES_MAX: u64 = 128 << 10;
/// Keys it may speak of: so many the tree takes in some milliseconds, which somebody waits for.
const KEYS_MAX: u64 = 4096;
/// What one of them may make the tree's file grow by when it goes there: a page of its own, and its part of those above.
const KEY_GROWTH_BYTES: u64 = 8 << 10;
/// What any commit of the tree may.
const COMMIT_GROWTH_BYTES: u64 = 1 << 20;

/// How far it is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    /// Which journal it is.
    pub(super) generation: u64,
    /// Bytes of it that count.
    pub(super) end: u64,
}

/// Policy: whether a transaction is committed here. Whatever is here must find room in the tree's file, which can grow by
/// `slack_bytes`.
pub(super) fn takes(place: Place, overlay: &Overlay, redo: &Redo, slack_bytes: u64) -> bool {
    let record = record_bytes(redo);
    let keys = overlay.keys() + redo.len();
    record <= RECORD_BYTES_MAX
        && place.end + record <= BackendFile::JOURNAL_BYTES
        && keys <= KEYS_MAX
        && growth_bytes(keys) <= slack_bytes
}

/// What changes of so many keys may make the tree's file grow by.
pub(super) fn growth_bytes(keys: u64) -> u64 {
    if keys == 0 { 0 } else { COMMIT_GROWTH_BYTES + keys * KEY_GROWTH_BYTES }
}

fn number(place: Place) -> u64 {
    ((place.generation & HALF) << HALF_BITS) | (place.end / UNIT_BYTES)
}

/// Begins the journal that comes behind a tree that was just committed.
pub(super) fn begin(file: &BackendFile, generation: u64) -> Result<Place, MetadataError> {
    let place = Place { generation, end: 0 };
    file.note_journal(number(place)).map_err(|error| MetadataError::Damaged(error.to_string()))?;
    Ok(place)
}

fn record_bytes(redo: &Redo) -> u64 {
    ((HEADER_BYTES + redo.bytes().len()) as u64).next_multiple_of(UNIT_BYTES)
}

/// Adds a record; once this returns, it survives. Answers how far the journal is written then.
pub(super) fn append(file: &BackendFile, place: Place, redo: &Redo) -> Result<Place, MetadataError> {
    let changes = redo.bytes();
    let mut record = Vec::with_capacity(record_bytes(redo) as usize);
    record.extend_from_slice(&[0; 4]);
    record.extend_from_slice(&(changes.len() as u32).to_le_bytes());
    record.extend_from_slice(&place.generation.to_le_bytes());
    record.extend_from_slice(changes);
    record.resize(record.capacity(), 0);
    let checksum = crc32c(&record[4..]).to_le_bytes();
    record[..4].copy_from_slice(&checksum);
    let after = Place { end: place.end + record.len() as u64, ..place };
    debug_assert!(after.end <= BackendFile::JOURNAL_BYTES);
    let written = if planted::active(Bug::JournalCountsFirst) {
        file.note_journal(number(after)).and_then(|()| file.write_journal(place.end, &record))
    } else {
        file.write_journal(place.end, &record).and_then(|()| file.note_journal(number(after)))
    };
    written.map_err(|error| MetadataError::Damaged(error.to_string()))?;
    Ok(after)
}

/// What counts of the journal of this generation.
pub(super) fn replay(file: &BackendFile, generation: u64) -> Result<(Overlay, Place), MetadataError> {
    let damaged = |what: &str| MetadataError::Damaged(format!("its journal: {what}"));
    let unread = |error: AccessError| MetadataError::Damaged(error.to_string());
    let mut overlay = Overlay::default();
    let number = file.journal_number()?;
    let (of, end) = (number >> HALF_BITS, (number & HALF) * UNIT_BYTES);
    if of == generation.wrapping_sub(1) & HALF {
        // A kill came between the commit that took it into the tree and the number.
        return Ok((overlay, begin(file, generation)?));
    }
    if of != generation & HALF {
        return Err(damaged("it is of another tree"));
    }
    if end > BackendFile::JOURNAL_BYTES {
        return Err(damaged("it ends behind its end"));
    }
    let mut bytes = vec![0; end as usize];
    file.read_journal(0, &mut bytes).map_err(unread)?;
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        let (header, behind) =
            rest.split_first_chunk::<HEADER_BYTES>().ok_or_else(|| damaged("it is cut off"))?;
        let length = u32::from_le_bytes([header[4], header[5], header[6], header[7]]) as usize;
        let record_bytes = (HEADER_BYTES + length).next_multiple_of(UNIT_BYTES as usize);
        let (record, next) =
            rest.split_at_checked(record_bytes).ok_or_else(|| damaged("a record is cut off"))?;
        if crc32c(&record[4..]).to_le_bytes() != header[..4] || header[8..] != generation.to_le_bytes() {
            return Err(damaged("a record is not what was written"));
        }
        overlay.apply(redo::changes(&behind[..length]))?;
        rest = next;
    }
    Ok((overlay, Place { generation, end }))
}
