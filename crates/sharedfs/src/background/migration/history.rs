//! The last moves of files with their reasons for `cuesta explain`, and the sums of each tier for `cuesta tier stats`.
//!
//! The daemon keeps it in memory, a bounded number of moves for the whole store. Moves of neighbouring parts of a file for one reason
//! count as one move. Only threads that move content, and digests once a batch, come here.

use cuesta_format::wire::{FileMove, MoveCause, TierMoves};
use cuesta_format::{InodeNumber, TierNumber, Timestamp};
use cuesta_media::clock;
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};

/// Moves that are kept: about a megabyte.
const MOVES_MAX: usize = 8192;
/// Moves of one file that are told.
const MOVES_TOLD: usize = 16;

/// Why content moves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reason {
    pub(crate) cause: MoveCause,
    /// The rule of the policy that chose the content, for people; empty: there is none.
    pub(crate) rule: &'static str,
    /// How that policy rated it.
    pub(crate) score: Option<f64>,
}

impl Reason {
    /// A user asked for it.
    pub(crate) const fn of(cause: MoveCause) -> Reason {
        Reason { cause, rule: "", score: None }
    }

    /// A policy chose the content.
    pub(crate) const fn chosen(cause: MoveCause, rule: &'static str, score: f64) -> Reason {
        Reason { cause, rule, score: Some(score) }
    }
}

#[derive(Clone, Copy, Debug)]
struct Move {
    inode: InodeNumber,
    from: TierNumber,
    to: TierNumber,
    blocks: u64,
    at: Timestamp,
    reason: Reason,
}

/// The moves of a store.
#[derive(Debug, Default)]
pub(crate) struct History {
    moves: Mutex<VecDeque<Move>>,
    sums: Mutex<BTreeMap<(TierNumber, MoveCause), TierMoves>>,
}

impl History {
    /// Blocks of a file moved, or were copied, from a tier to another.
    pub(super) fn note_move(
        &self,
        inode: InodeNumber,
        from: TierNumber,
        to: TierNumber,
        blocks: u64,
        reason: Reason,
        is_copy: bool,
    ) {
        let cause = reason.cause;
        let mut sums = self.sums.lock();
        let sum = |tier| (tier, cause);
        sums.entry(sum(to)).or_insert_with(|| TierMoves::new(cause)).blocks_in += blocks;
        // A copy leaves its home where it is.
        if !is_copy {
            sums.entry(sum(from)).or_insert_with(|| TierMoves::new(cause)).blocks_out += blocks;
        }
        drop(sums);
        let at = clock::now();
        let mut moves = self.moves.lock();
        if let Some(last) = moves.back_mut()
            && (last.inode, last.from, last.to, last.reason.cause) == (inode, from, to, cause)
        {
            (last.blocks, last.at) = (last.blocks + blocks, at);
            return;
        }
        if moves.len() == MOVES_MAX {
            moves.pop_front();
        }
        moves.push_back(Move { inode, from, to, blocks, at, reason });
    }

    /// A digest placed new content in a tier.
    pub(crate) fn note_placed(&self, tier: TierNumber, blocks: u64) {
        let cause = MoveCause::Digest;
        let mut sums = self.sums.lock();
        sums.entry((tier, cause)).or_insert_with(|| TierMoves::new(cause)).blocks_in += blocks;
    }

    /// The last moves of a file, the latest first.
    pub(super) fn of_file(&self, inode: InodeNumber) -> Vec<FileMove> {
        let moves = self.moves.lock();
        let of_file = moves.iter().rev().filter(|moved| moved.inode == inode).take(MOVES_TOLD);
        let told = of_file.map(|moved| FileMove {
            from: moved.from,
            to: moved.to,
            blocks: moved.blocks,
            at: moved.at,
            cause: moved.reason.cause,
            rule: moved.reason.rule.to_owned(),
            score: moved.reason.score.map(|score| format!("{score:.3}")),
        });
        told.collect()
    }

    /// The blocks that came to a tier and left it since the daemon started.
    pub(super) fn of_tier(&self, tier: TierNumber) -> Vec<TierMoves> {
        let sums = self.sums.lock();
        sums.iter().filter(|((of, _), _)| *of == tier).map(|(_, moves)| *moves).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOW: TierNumber = TierNumber(1);

    #[test]
    fn neighbouring_moves_count_as_one_and_the_oldest_are_forgotten() {
        let history = History::default();
        let moved = |inode, from, to, cause| {
            history.note_move(InodeNumber(inode), from, to, 4, Reason::of(cause), false);
        };
        moved(7, TierNumber::FAST, SLOW, MoveCause::Cold);
        moved(7, TierNumber::FAST, SLOW, MoveCause::Cold);
        moved(7, SLOW, TierNumber::FAST, MoveCause::ByHand);
        let told = history.of_file(InodeNumber(7));
        assert_eq!(told.iter().map(|moved| (moved.to.0, moved.blocks)).collect::<Vec<_>>(), [(0, 4), (1, 8)]);
        for inode in 0..MOVES_MAX as u64 {
            moved(100 + inode, TierNumber::FAST, SLOW, MoveCause::Cold);
        }
        assert!(history.of_file(InodeNumber(7)).is_empty());
        assert_eq!(history.moves.lock().len(), MOVES_MAX);
    }

    #[test]
    fn a_copy_that_comes_up_does_not_leave_its_home() {
        let history = History::default();
        history.note_move(
            InodeNumber(7),
            SLOW,
            TierNumber::FAST,
            4,
            Reason::chosen(MoveCause::Hot, "", 1.0),
            true,
        );
        history.note_placed(SLOW, 9);
        let sums =
            |tier| history.of_tier(tier).into_iter().map(|sum| (sum.cause, sum.blocks_in, sum.blocks_out));
        assert_eq!(sums(TierNumber::FAST).collect::<Vec<_>>(), [(MoveCause::Hot, 4, 0)]);
        assert_eq!(sums(SLOW).collect::<Vec<_>>(), [(MoveCause::Digest, 9, 0)]);
    }
}
