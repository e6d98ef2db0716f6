//! The content that was written longest ago goes down (Ziggurat, §5.1 and §5.2).
//!
//! The file with the earliest average time of its writes goes first. If it was not written for a while it goes down whole, else only the
//! pieces that are older than its average. Content that is read comes up where there is room.

use crate::piece::{Moment, Piece, Side};
use crate::policy::{Choice, Limits, Policy, Standing};
use cuesta_format::InodeNumber;
use hashbrown::HashMap;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

const RULE_FILE: &str = "its file was written longest ago (seconds, negative)";
const RULE_PIECE: &str = "older than the average of its file (seconds, negative)";
const RULE_READ: &str = "read while the fast tier has room (seconds, negative)";
/// So many pieces that were read wait for room.
const READ_MAX: usize = 1 << 12;

/// The pieces of a file in the upper tier.
#[derive(Debug, Default)]
struct File {
    /// When each was written last.
    pieces: BTreeMap<u64, Moment>,
    /// The same, the oldest one first.
    by_age: BTreeSet<(Moment, u64)>,
    /// The sum of these.
    sum: u128,
    /// The latest of all that were.
    written: Moment,
}

impl File {
    fn average(&self) -> Moment {
        Moment(self.sum.checked_div(self.pieces.len() as u128).unwrap_or(0) as u64)
    }

    fn insert(&mut self, index: u64, at: Moment) {
        self.remove(index);
        self.pieces.insert(index, at);
        self.by_age.insert((at, index));
        self.sum += u128::from(at.0);
        self.written = self.written.max(at);
    }

    fn remove(&mut self, index: u64) {
        if let Some(before) = self.pieces.remove(&index) {
            self.by_age.remove(&(before, index));
            self.sum -= u128::from(before.0);
        }
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Ziggurat {
    limits: Limits,
    files: HashMap<InodeNumber, File>,
    /// The files by their average.
    cold: BTreeSet<(Moment, InodeNumber)>,
    /// Pieces of the lower tier that were read lately, the last one first.
    read: VecDeque<Piece>,
    known: usize,
}

impl Ziggurat {
    pub(crate) fn new(limits: Limits) -> Ziggurat {
        Ziggurat { limits, files: HashMap::new(), cold: BTreeSet::new(), read: VecDeque::new(), known: 0 }
    }

    fn change(&mut self, inode: InodeNumber, change: impl FnOnce(&mut File)) {
        let file = self.files.entry(inode).or_default();
        self.cold.remove(&(file.average(), inode));
        let before = file.pieces.len();
        change(file);
        self.known = self.known + file.pieces.len() - before;
        if file.pieces.is_empty() {
            self.files.remove(&inode);
        } else {
            self.cold.insert((file.average(), inode));
        }
    }

    fn insert(&mut self, piece: Piece, at: Moment) {
        self.change(piece.inode, |file| file.insert(piece.index, at));
        if self.known > self.limits.pieces_max
            && let Some(&(_, coldest)) = self.cold.first()
        {
            self.forget_from(coldest, 0);
        }
    }

    fn remove(&mut self, piece: Piece) {
        if self.files.contains_key(&piece.inode) {
            self.change(piece.inode, |file| file.remove(piece.index));
        }
    }
}

impl Policy for Ziggurat {
    fn found(&mut self, piece: Piece, side: Side, changed: Moment) {
        let is_known =
            self.files.get(&piece.inode).is_some_and(|file| file.pieces.contains_key(&piece.index));
        if side == Side::Upper && !is_known && self.known < self.limits.pieces_max {
            self.insert(piece, changed);
        }
    }

    fn written(&mut self, piece: Piece, side: Side, at: Moment) {
        match side {
            Side::Upper => self.insert(piece, at),
            Side::Lower => self.remove(piece),
        }
    }

    fn read(&mut self, piece: Piece, side: Side, _times: u32, _at: Moment) {
        if side == Side::Lower && !self.read.contains(&piece) {
            self.read.push_front(piece);
            self.read.truncate(READ_MAX);
        }
    }

    fn placed(&mut self, piece: Piece, side: Side, at: Moment) {
        if side == Side::Upper {
            self.insert(piece, at);
        }
    }

    fn forget(&mut self, piece: Piece) {
        self.remove(piece);
    }

    fn forget_from(&mut self, inode: InodeNumber, index: u64) {
        if self.files.contains_key(&inode) {
            self.change(inode, |file| {
                let gone: Vec<u64> = file.pieces.range(index..).map(|(&index, _)| index).collect();
                gone.into_iter().for_each(|index| file.remove(index));
            });
        }
    }

    fn next_down(&mut self, at: Moment, is_urgent: bool) -> Option<Choice> {
        let is_cold = |written: Moment| at.since(written) >= self.limits.cold_ms;
        let chosen = self.cold.iter().find_map(|&(average, inode)| {
            let file = self.files.get(&inode)?;
            let &(written, index) = file.by_age.first()?;
            let rule = if is_cold(file.written) { RULE_FILE } else { RULE_PIECE };
            let moves = is_cold(file.written) || is_urgent || written < average && is_cold(written);
            moves.then(|| Choice { piece: Piece::new(inode, index), score: age(written, at), rule })
        })?;
        self.remove(chosen.piece);
        Some(chosen)
    }

    fn next_up(&mut self, at: Moment, has_room: bool) -> Option<Choice> {
        let piece = if has_room { self.read.pop_front() } else { None }?;
        Some(Choice { piece, score: age(at, at), rule: RULE_READ })
    }

    fn standing(&self, piece: Piece, at: Moment) -> Option<Standing> {
        let file = self.files.get(&piece.inode)?;
        let written = *file.pieces.get(&piece.index)?;
        let is_cold = at.since(file.written) >= self.limits.cold_ms;
        Some(Standing { score: age(written, at), rule: if is_cold { RULE_FILE } else { RULE_PIECE } })
    }

    fn known(&self) -> usize {
        self.known
    }
}

fn age(written: Moment, at: Moment) -> f64 {
    -(at.since(written) as f64 / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(inode: u64, index: u64) -> Piece {
        Piece::new(InodeNumber(inode), index)
    }

    fn policy() -> Ziggurat {
        Ziggurat::new(Limits { pieces_max: 100, cold_ms: 30_000 })
    }

    fn downs(policy: &mut Ziggurat, at: u64, is_urgent: bool) -> Vec<(u64, u64)> {
        std::iter::from_fn(|| policy.next_down(Moment(at), is_urgent))
            .map(|choice| (choice.piece.inode.0, choice.piece.index))
            .collect()
    }

    #[test]
    fn the_file_that_was_written_longest_ago_goes_down_whole() {
        let mut policy = policy();
        for (inode, at) in [(2, 2000), (1, 1000), (3, 50_000)] {
            policy.written(piece(inode, 0), Side::Upper, Moment(at));
            policy.written(piece(inode, 1), Side::Upper, Moment(at));
        }
        assert_eq!(downs(&mut policy, 60_000, false), [(1, 0), (1, 1), (2, 0), (2, 1)]);
        assert_eq!(policy.known(), 2, "the third file is warm");
    }

    #[test]
    fn the_older_pieces_of_a_file_that_is_written_go_down() {
        let mut policy = policy();
        for index in 0..4 {
            policy.written(piece(1, index), Side::Upper, Moment(0));
        }
        policy.written(piece(1, 2), Side::Upper, Moment(59_000));
        assert_eq!(downs(&mut policy, 60_000, false), [(1, 0), (1, 1), (1, 3)]);
        assert_eq!(downs(&mut policy, 60_000, true), [(1, 2)], "it is urgent");
    }

    #[test]
    fn content_that_is_read_comes_up_if_there_is_room() {
        let mut policy = policy();
        policy.read(piece(1, 7), Side::Lower, 1, Moment(5));
        assert_eq!(policy.next_up(Moment(6), false), None);
        assert_eq!(policy.next_up(Moment(6), true).map(|choice| choice.piece), Some(piece(1, 7)));
        assert_eq!(policy.next_up(Moment(6), true), None);
    }

    #[test]
    fn it_knows_no_more_than_it_may() {
        let mut policy = policy();
        for inode in 0..500 {
            policy.written(piece(inode, 0), Side::Upper, Moment(inode));
        }
        assert_eq!(policy.known(), 100);
        assert!(policy.standing(piece(499, 0), Moment(500)).is_some(), "the coldest ones are forgotten");
        policy.forget_from(InodeNumber(499), 0);
        assert!(policy.standing(piece(499, 0), Moment(500)).is_none());
    }
}
