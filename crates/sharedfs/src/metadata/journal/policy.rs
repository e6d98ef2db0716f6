//! Policy: which transactions are committed in the journal.

use super::record::{JournalEnd, record_bytes};
use super::redo::Redo;
use crate::metadata::files::JOURNAL_BYTES;
use crate::metadata::tree::Overlay;

/// A transaction with more than this goes into the tree at once: there it costs no more for each change than here.
const RECORD_BYTES_MAX: u64 = 128 << 10;
/// Keys it may speak of: the tree takes so many in some milliseconds, and a session waits for it.
const KEYS_MAX: u64 = 4096;
/// Bytes that one of them may make the tree's file grow by when it goes there: a page of its own, and its part of
/// those above.
const KEY_GROWTH_BYTES: u64 = 8 << 10;
/// What any commit of the tree may.
const COMMIT_GROWTH_BYTES: u64 = 1 << 20;

/// Whether a transaction is committed in the journal. Whatever is there must find room in the tree's file, which can grow
/// by `slack_bytes`.
pub(in super::super) fn takes(place: JournalEnd, overlay: &Overlay, redo: &Redo, slack_bytes: u64) -> bool {
    let record = record_bytes(redo.bytes().len());
    let keys = overlay.keys() + redo.len();
    record <= RECORD_BYTES_MAX
        && place.end + record <= JOURNAL_BYTES
        && keys <= KEYS_MAX
        && growth_bytes(keys) <= slack_bytes
}

/// Bytes that changes of so many keys may make the tree's file grow by.
pub(in super::super) fn growth_bytes(keys: u64) -> u64 {
    if keys == 0 { 0 } else { COMMIT_GROWTH_BYTES + keys * KEY_GROWTH_BYTES }
}
