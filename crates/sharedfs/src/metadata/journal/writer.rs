//! A journal begins behind a tree, and gets records.

use super::record::{JournalEnd, JournalGeneration, encode};
use super::redo::Redo;
use crate::metadata::MetadataError;
use crate::metadata::files::BackendFile;
use cuesta_media::planted::{self, Bug};

/// Begins the journal that comes behind a tree that was just committed.
pub(crate) fn begin(file: &BackendFile, generation: JournalGeneration) -> Result<JournalEnd, MetadataError> {
    let place = JournalEnd { generation, end: 0 };
    file.note_journal(place.number()).map_err(|error| MetadataError::Damaged(error.to_string()))?;
    Ok(place)
}

/// Adds a record; once this returns, it survives. Answers how far the journal is written then.
pub(crate) fn append(
    file: &BackendFile,
    place: JournalEnd,
    redo: &Redo,
) -> Result<JournalEnd, MetadataError> {
    let record = encode(place.generation, redo.bytes());
    let after = JournalEnd { end: place.end + record.len() as u64, ..place };
    debug_assert!(after.end <= BackendFile::JOURNAL_BYTES);
    let written = if planted::active(Bug::JournalCountsFirst) {
        file.note_journal(after.number()).and_then(|()| file.write_journal(place.end, &record))
    } else {
        file.write_journal(place.end, &record).and_then(|()| file.note_journal(after.number()))
    };
    written.map_err(|error| MetadataError::Damaged(error.to_string()))?;
    Ok(after)
}
