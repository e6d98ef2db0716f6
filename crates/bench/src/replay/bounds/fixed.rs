//! The best placement that does not change: the pieces that are read most lie above, as many as fit. And how it would change if it were chosen
//! anew each minute.

use crate::replay::simulation::uses::{PieceId, Use, Uses, What};
use std::collections::{HashMap, HashSet};

const MINUTE_US: u64 = 60_000_000;

/// The reads that a fixed placement of the whole trace misses.
pub fn misses(uses: &Uses, capacity: u64, counted_from_us: u64) -> u64 {
    let counts = counts(uses.uses.iter().filter(|next| next.at_us >= counted_from_us));
    let all: u64 = counts.values().sum();
    let best: u64 = most_read(&counts, capacity).into_iter().map(|(reads, _)| reads).sum();
    all - best
}

/// The bytes that would move, up or down, from the best placement of each minute to that of the next.
pub fn bytes_moved_each_minute(uses: &Uses, capacity: u64) -> u64 {
    let minute = |next: &Use| next.at_us / MINUTE_US;
    let mut pieces = 0;
    let mut before: Option<HashSet<PieceId>> = None;
    for minute in uses.uses.chunk_by(|one, next| minute(one) == minute(next)) {
        let best = most_read(&counts(minute.iter()), capacity);
        let best: HashSet<PieceId> = best.into_iter().map(|(_, piece)| piece).collect();
        // In a minute without reads nothing needs to move.
        if best.is_empty() {
            continue;
        }
        if let Some(before) = before {
            pieces += best.symmetric_difference(&before).count() as u64;
        }
        before = Some(best);
    }
    pieces * uses.piece_bytes
}

/// Reads of each piece.
fn counts<'a>(uses: impl Iterator<Item = &'a Use>) -> HashMap<PieceId, u64> {
    let mut counts = HashMap::new();
    for next in uses.filter(|next| next.what == What::Read) {
        *counts.entry(next.piece).or_default() += 1;
    }
    counts
}

fn most_read(counts: &HashMap<PieceId, u64>, capacity: u64) -> Vec<(u64, PieceId)> {
    let mut best: Vec<(u64, PieceId)> = counts.iter().map(|(&piece, &reads)| (reads, piece)).collect();
    best.sort_unstable_by(|one, other| other.cmp(one));
    best.truncate(usize::try_from(capacity).unwrap_or(usize::MAX));
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads of pieces, each in a minute.
    fn uses(reads: &[(u64, PieceId)]) -> Uses {
        let uses = reads.iter().map(|&(minute, piece)| Use {
            at_us: minute * MINUTE_US + 5,
            blocks: 1,
            piece,
            bytes: 1,
            what: What::Read,
            begins: true,
        });
        Uses { uses: uses.collect(), piece_bytes: 10, ..Uses::default() }
    }

    #[test]
    fn the_pieces_that_are_read_most_lie_above() {
        let uses = uses(&[(0, 1), (0, 1), (0, 1), (0, 2), (0, 2), (0, 3)]);
        assert_eq!([0, 1, 2, 3].map(|capacity| misses(&uses, capacity, 0)), [6, 3, 1, 0]);
        assert_eq!(misses(&uses, 1, 6), 0, "nothing is counted");
    }

    #[test]
    fn each_minute_has_a_best_placement_of_its_own() {
        let uses = uses(&[(0, 1), (0, 1), (0, 2), (1, 1), (4, 2), (4, 2), (4, 1)]);
        assert_eq!(bytes_moved_each_minute(&uses, 1), 20);
        assert_eq!(bytes_moved_each_minute(&uses, 2), 10 + 10);
    }
}
