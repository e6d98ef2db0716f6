//! The journal in front of the tree: small transactions are committed by one record here, and written to the tree together
//! later on (decision 16).
//!
//! | where | what |
//! |---|---|
//! | a number of the file's header | which journal (its generation's low 20 bits), and how many units of it count |
//! | each record | u32 checksum of the rest, u32 bytes of the changes, u64 generation, the changes ([`super::redo`]), zeros up to a unit |
//!
//! A record counts once the number in the header says so, which is one store: what a crash leaves of one behind that is
//! nothing. The tree says which generation comes
//! behind it: by the commit that takes a journal's changes into the tree it becomes the next one, and all records that
//! are there count no more. The number says so, too, right behind that commit.
//!
//! | file | idea |
//! |---|---|
//! | `record` | the bytes |
//! | `policy` | what is committed here |
//! | this one | reading and writing them |

mod policy;
mod record;
#[cfg(test)]
pub(super) mod tests;

use super::MetadataError;
use super::backend::BackendFile;
use super::copies::Side;
use super::layered::Overlay;
use super::redo::{self, Redo};
use cuesta_media::AccessError;
use cuesta_media::planted::{self, Bug};
pub(super) use policy::{growth_bytes, takes};
pub(super) use record::{JournalGeneration, Place, is_newer};
use record::{Records, encode};

/// Begins the journal that comes behind a tree that was just committed.
pub(super) fn begin(file: &BackendFile, generation: JournalGeneration) -> Result<Place, MetadataError> {
    let place = Place { generation, end: 0 };
    file.note_journal(place.number()).map_err(|error| MetadataError::Damaged(error.to_string()))?;
    Ok(place)
}

/// Adds a record; once this returns, it survives. Answers how far the journal is written then.
pub(super) fn append(file: &BackendFile, place: Place, redo: &Redo) -> Result<Place, MetadataError> {
    let record = encode(place.generation, redo.bytes());
    let after = Place { end: place.end + record.len() as u64, ..place };
    debug_assert!(after.end <= BackendFile::JOURNAL_BYTES);
    let written = if planted::active(Bug::JournalCountsFirst) {
        file.note_journal(after.number()).and_then(|()| file.write_journal(place.end, &record))
    } else {
        file.write_journal(place.end, &record).and_then(|()| file.note_journal(after.number()))
    };
    written.map_err(|error| MetadataError::Damaged(error.to_string()))?;
    Ok(after)
}

/// What is wrong with a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JournalFlaw {
    /// The number of the header has the wrong checksum, or cannot be.
    #[error("how far it is written is not what was written")]
    Number,
    /// The tree is of another age: what it had when this journal was begun, or the journal it has had since, is gone.
    #[error("it comes behind a tree that is not there")]
    OtherTree,
    /// A record has the wrong checksum or makes no sense.
    #[error("record {number} (at byte {at} of {end}) is not what was written")]
    Record {
        /// Which one; the first is 1.
        number: u64,
        /// Where it begins.
        at: u64,
        /// Where the last record ends.
        end: u64,
    },
}

/// What a journal says.
pub(super) struct Replayed {
    pub(super) overlay: Overlay,
    /// How far that reaches; behind a flaw, of a journal at least as new as any record that is there.
    pub(super) place: Place,
    /// Commits it has.
    pub(super) commits: u64,
    /// What came behind them instead of a sound record.
    pub(super) flaw: Option<JournalFlaw>,
}

/// Reads what counts of the journal behind the tree that says `generation`, up to the first flaw.
pub(super) fn replay(file: &BackendFile, generation: JournalGeneration) -> Result<Replayed, MetadataError> {
    let empty =
        |place, flaw| Ok(Replayed { overlay: Overlay::default(), place, commits: 0, flaw: Some(flaw) });
    let unread = |error: AccessError| MetadataError::Damaged(error.to_string());
    let number = file.journal_number().map_err(unread)?;
    if let Some(number) = number
        && generation.0 > 0
    {
        let before = JournalGeneration(generation.0 - 1);
        if Place::from_number(number, before).generation == before {
            // A kill came between the commit that took it into the tree and the number.
            let place = begin(file, generation)?;
            return Ok(Replayed { overlay: Overlay::default(), place, commits: 0, flaw: None });
        }
    }
    // Where nothing says how far it counts, every record of it may, and nothing else looks like one.
    let said = number.map(|number| Place::from_number(number, generation));
    let said = said.filter(|said| said.end <= BackendFile::JOURNAL_BYTES);
    if let Some(said) = said.filter(|said| said.generation != generation) {
        return empty(Place { end: 0, ..said }, JournalFlaw::OtherTree);
    }
    let end = said.map_or(BackendFile::JOURNAL_BYTES, |said| said.end);
    let mut bytes = vec![0; end as usize];
    let is_read = file.read_journal(0, &mut bytes);
    if said.is_some() {
        choose(file, generation, &mut bytes, AfterCrash::Maybe);
    } else {
        is_read.map_err(unread)?;
    }
    let mut records = Records::new(generation, &bytes);
    let (mut overlay, mut commits, mut sound_end) = (Overlay::default(), 0, 0);
    while let Some(changes) = records.next() {
        if redo::changes(changes).any(|change| change.is_err()) {
            break;
        }
        overlay.apply(changes)?;
        (commits, sound_end) = (commits + 1, records.end);
    }
    let flaw = if said.is_none() {
        Some(JournalFlaw::Number)
    } else if records.at_end() && sound_end == end {
        None
    } else {
        Some(JournalFlaw::Record { number: commits + 1, at: sound_end, end })
    };
    Ok(Replayed { overlay, place: Place { generation, end: sound_end }, commits, flaw })
}

/// Whether all of it is what was written.
fn is_whole(generation: JournalGeneration, bytes: &[u8]) -> bool {
    let mut records = Records::new(generation, bytes);
    while records.next().is_some() {}
    records.at_end()
}

/// Whether a crash may have left the second copy behind, which is nothing to tell of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AfterCrash {
    Maybe,
    No,
}

/// Compares the two copies of what counts, `bytes` of the first, and mends one from the other. Takes what is whole.
fn choose(file: &BackendFile, generation: JournalGeneration, bytes: &mut [u8], crash: AfterCrash) {
    let mut second = vec![0; bytes.len()];
    if !file.copies().are_two() || (file.read_second_journal(0, &mut second) && second == bytes) {
        return;
    }
    if is_whole(generation, bytes) {
        file.mend_journal(Side::Second, bytes, crash == AfterCrash::No);
    } else if is_whole(generation, &second) {
        bytes.copy_from_slice(&second);
        file.mend_journal(Side::First, bytes, true);
    }
}

/// Compares the two copies of what counts, and mends one from the other.
pub(super) fn scrub(file: &BackendFile, place: Place) -> Result<(), AccessError> {
    let mut bytes = vec![0; place.end as usize];
    file.read_journal(0, &mut bytes)?;
    choose(file, place.generation, &mut bytes, AfterCrash::No);
    if !file.copies().headers_agree() {
        file.copies().mend_header()?;
    }
    Ok(())
}
