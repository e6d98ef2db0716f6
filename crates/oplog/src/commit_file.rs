//! Where in its commit file a part of the log goes: the arithmetic of it.
//!
//! On medium `block`, the entries that a program waits for are written past the kernel's pages to a file as long as a segment, into which
//! the log's bytes go round: position `p` at `p` modulo its length. The log itself stays in pages that the kernel writes when
//! it likes; recovery takes from the one what the other has not (an entry says itself whether it is whole).
//!
//! So the commit file may not run over bytes of which it holds the only copy on the disk. It has room for its own length from the *settled* position on, below which the log
//! is digested or written by its pages. A writer that needs more has the pages written.

use cuesta_format::{Geometry, LogPosition};
use cuesta_media::{DIRECT_BYTES, Piece};

/// The part of a commit file that is written at once; a longer wait may as well be for the log's own pages.
const AT_ONCE_PART: u64 = 2;

/// Where a position lies in a commit file.
#[must_use]
pub fn commit_file_offset(geometry: &Geometry, position: LogPosition) -> u64 {
    position.0 % geometry.segment_bytes
}

/// The pieces that take the log's bytes between two positions, in whole blocks; none, where they do not fit behind what is
/// `settled`.
pub(crate) fn pieces(
    geometry: &Geometry,
    from: LogPosition,
    to: LogPosition,
    settled: LogPosition,
) -> Option<([Piece; 2], usize)> {
    let start = from.0 - from.0 % DIRECT_BYTES;
    let end = to.0.next_multiple_of(DIRECT_BYTES);
    let bytes = end - start;
    if bytes > geometry.segment_bytes / AT_ONCE_PART || end > settled.0 + geometry.segment_bytes {
        return None;
    }
    let piece = |position: u64, bytes| {
        let position = LogPosition(position);
        Piece { from: geometry.ring_offset(position), bytes, to: commit_file_offset(geometry, position) }
    };
    let whole = piece(start, bytes);
    let ahead = geometry.segment_bytes - whole.to;
    if bytes <= ahead {
        return Some(([whole, whole], 1));
    }
    Some(([Piece { bytes: ahead, ..whole }, piece(start + ahead, bytes - ahead)], 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GEOMETRY: Geometry = Geometry {
        arena_bytes: 64 << 10,
        segment_bytes: 64 << 10,
        ring_slots: 4,
        nvm_bytes: 64 << 20,
        checks_content: false,
    };

    fn of(from: u64, to: u64, settled: u64) -> Option<Vec<(u64, u64, u64)>> {
        let (pieces, count) = pieces(&GEOMETRY, LogPosition(from), LogPosition(to), LogPosition(settled))?;
        Some(pieces[..count].iter().map(|piece| (piece.from, piece.bytes, piece.to)).collect())
    }

    #[test]
    fn whole_blocks_are_written_and_go_round() {
        assert_eq!(of(64, 4096, 0), Some(vec![(0, 4096, 0)]));
        assert_eq!(of(64, 4160, 0), Some(vec![(0, 8192, 0)]));
        let lap = 64 << 10;
        assert_eq!(of(lap - 64, lap, lap - 64), Some(vec![(lap - 4096, 4096, lap - 4096)]));
        assert_eq!(
            of(lap - 64, lap + 64, lap - 64),
            Some(vec![(lap - 4096, 4096, lap - 4096), (lap, 4096, 0)])
        );
        let ring = 4 * lap;
        assert_eq!(of(ring + 128, ring + 192, ring), Some(vec![(0, 4096, 0)]));
    }

    #[test]
    fn what_only_the_commit_file_holds_is_not_written_over() {
        let lap = 64 << 10;
        assert_eq!(of(lap - 4096, lap, 0), Some(vec![(lap - 4096, 4096, lap - 4096)]));
        assert_eq!(of(lap, lap + 64, 0), None);
        assert_eq!(of(lap, lap + 64, 4032), None, "its block holds what is behind that, too");
        assert_eq!(of(lap, lap + 64, 4096), Some(vec![(lap, 4096, 0)]));
        assert_eq!(of(0, lap / 2 + 64, 0), None);
    }
}
