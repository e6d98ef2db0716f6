//! Reads a journal up to its first flaw, and compares its two copies.

use super::flaw::JournalFlaw;
use super::record::{JournalEnd, JournalGeneration, Records};
use super::redo;
use super::writer::begin;
use crate::metadata::MetadataError;
use crate::metadata::files::{BackendFile, Side};
use crate::metadata::tree::Overlay;
use cuesta_media::AccessError;

/// The changes of a journal, as far as it is sound.
pub(crate) struct Replayed {
    pub(crate) overlay: Overlay,
    /// How far that reaches; behind a flaw, of a journal at least as new as any record that is there.
    pub(crate) place: JournalEnd,
    /// Commits it has.
    pub(crate) commits: u64,
    /// The flaw behind them.
    pub(crate) flaw: Option<JournalFlaw>,
}

/// Reads what counts of the journal behind the tree that says `generation`, up to the first flaw.
pub(crate) fn replay(file: &BackendFile, generation: JournalGeneration) -> Result<Replayed, MetadataError> {
    let empty =
        |place, flaw| Ok(Replayed { overlay: Overlay::default(), place, commits: 0, flaw: Some(flaw) });
    let unread = |error: AccessError| MetadataError::Damaged(error.to_string());
    let number = file.journal_number().map_err(unread)?;
    if let Some(number) = number
        && generation.0 > 0
    {
        let before = JournalGeneration(generation.0 - 1);
        if JournalEnd::from_number(number, before).generation == before {
            // A kill came between the commit that took it into the tree and the number.
            let place = begin(file, generation)?;
            return Ok(Replayed { overlay: Overlay::default(), place, commits: 0, flaw: None });
        }
    }
    // Where nothing says how far it counts, every record of it may, and nothing else looks like one.
    let said = number.map(|number| JournalEnd::from_number(number, generation));
    let said = said.filter(|said| said.end <= BackendFile::JOURNAL_BYTES);
    if let Some(said) = said.filter(|said| said.generation != generation) {
        return empty(JournalEnd { end: 0, ..said }, JournalFlaw::OtherTree);
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
    Ok(Replayed { overlay, place: JournalEnd { generation, end: sound_end }, commits, flaw })
}

/// Whether all of it is sound.
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

/// Compares the two copies of the part that counts, `bytes` of the first, and mends one from the other. Takes a whole one.
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
pub(crate) fn scrub(file: &BackendFile, place: JournalEnd) -> Result<(), AccessError> {
    let mut bytes = vec![0; place.end as usize];
    file.read_journal(0, &mut bytes)?;
    choose(file, place.generation, &mut bytes, AfterCrash::No);
    if !file.copies().headers_agree() {
        file.copies().mend_header()?;
    }
    Ok(())
}
