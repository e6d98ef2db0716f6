//! Policy: which files move down first, and which do not.
//!
//! As in Ziggurat (§5) the file that was changed longest ago goes first, and none that was changed in the last `cold_seconds`. A change of the
//! file's attributes counts: programs that unpack archives set the time of a change of content to one long past.

use cuesta_format::{FileKind, InodeRecord, Timestamp};

/// When a file was last warm; `None`: it does not move.
pub(super) fn warm_at(record: &InodeRecord, now: Timestamp) -> Option<Timestamp> {
    let moves = record.kind() == FileKind::File && record.blocks > 0 && !record.mapped;
    // A time that is yet to come says nothing.
    moves.then(|| [record.modified, record.changed].into_iter().filter(|&at| at <= now).max().unwrap_or(now))
}

/// Files that were warm behind this time do not move yet.
pub(super) fn cold_before(now: Timestamp, cold_seconds: u32) -> Timestamp {
    Timestamp::new(now.seconds() - i64::from(cold_seconds), now.nanoseconds())
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuesta_format::InodeNumber;

    #[test]
    fn a_file_was_warm_when_it_was_changed_last() {
        let at = |seconds| Timestamp::new(seconds, 0);
        let file = InodeRecord { blocks: 1, ..InodeRecord::new(InodeNumber(7), 0o100644, 0, 0, at(100)) };
        assert_eq!(warm_at(&file, at(200)), Some(at(100)));
        let unpacked = InodeRecord { modified: at(3), ..file };
        assert_eq!(warm_at(&unpacked, at(200)), Some(at(100)));
        let set_ahead = InodeRecord { modified: at(900), ..file };
        assert_eq!(warm_at(&set_ahead, at(200)), Some(at(100)));
        for stays in [
            InodeRecord { mapped: true, ..file },
            InodeRecord { blocks: 0, ..file },
            InodeRecord { mode: 0o040755, ..file },
        ] {
            assert_eq!(warm_at(&stays, at(200)), None);
        }
        assert!(cold_before(at(200), 30) == at(170));
    }
}
