//! The content whose place saves the least time goes down: each use of a piece in the upper tier saves a wait for the lower one.
//!
//! Uses are counted with decay, so that a count tells how often the piece will be used soon. A count decays with the uses of all pieces, not with
//! time: it falls to 1/e while each piece of the upper tier is used 20 times on average. So the memory is as long for a large tier that is used
//! seldom as for a small one that is used often. All counts decay alike. So they are kept as the logarithm that they would have had at the
//! beginning, and their order changes only with uses.
//!
//! Content that went down comes back when it is read, or when it has rested. Programs may have part of a piece above and the rest below; such a piece
//! may go down and come up.

use crate::piece::{Moment, Piece, Side};
use crate::policy::{Choice, Limits, Policy, Standing};
use cuesta_format::InodeNumber;
use hashbrown::HashMap;
use std::collections::{BTreeSet, VecDeque};

/// A count falls to 1/e while each piece of the upper tier is used so often.
const USES_REMEMBERED: f64 = 20.0;
/// With fewer pieces above, as with so many.
const PIECES_LEAST: usize = 64;
/// A piece that comes up stands so many times as high as the one that leaves,
const UP_MARGIN: f64 = 2.0;
/// and was used once.
const UP_LEAST: f64 = 0.9;
/// Content that was not read since it went down rests below for so long.
const REST_MS: u64 = 300_000;
/// The logarithms are kept as so many parts of 1.
const SCALE: f64 = 65536.0;

const RULE: &str = "saves the least time (uses, decayed)";
const RULE_UP: &str = "would save more time than what leaves (uses, decayed)";

/// The logarithm of a decayed count, as it would have been at the beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Heat(i64);

impl Heat {
    fn of(uses: f64, clock: f64) -> Heat {
        Heat(((uses.ln() + clock) * SCALE) as i64)
    }

    fn uses(self, clock: f64) -> f64 {
        (self.0 as f64 / SCALE - clock).exp()
    }

    fn and(self, more: f64, clock: f64) -> Heat {
        Heat::of(self.uses(clock) + more, clock)
    }
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    heat: Heat,
    /// Some of it lies in the upper tier.
    is_upper: bool,
    /// It waits in the list of warm pieces.
    is_warm: bool,
    /// Some of it lies below, and it may come up: it was read since it came there, or has rested there.
    is_wanted: bool,
    written: Moment,
    /// When it went down.
    down: Moment,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Benefit {
    limits: Limits,
    /// A count falls to 1/e while this rises by 1.
    clock: f64,
    entries: HashMap<Piece, Entry>,
    /// All of them, the coldest one first.
    all: BTreeSet<(Heat, Piece)>,
    by_file: BTreeSet<Piece>,
    /// Pieces of the upper tier that were written lately, the one that was written first at the head.
    warm: BTreeSet<(Moment, Piece)>,
    /// The others of the upper tier.
    upper: BTreeSet<(Heat, Piece)>,
    /// Pieces that may come up.
    wanted: BTreeSet<(Heat, Piece)>,
    /// Pieces that went down, the first one at the head.
    resting: VecDeque<(Moment, Piece)>,
}

impl Benefit {
    pub(crate) fn new(limits: Limits) -> Benefit {
        Benefit {
            limits,
            clock: 0.0,
            entries: HashMap::new(),
            all: BTreeSet::new(),
            by_file: BTreeSet::new(),
            warm: BTreeSet::new(),
            upper: BTreeSet::new(),
            wanted: BTreeSet::new(),
            resting: VecDeque::new(),
        }
    }

    fn put(&mut self, piece: Piece, entry: Entry) {
        self.forget(piece);
        self.entries.insert(piece, entry);
        self.all.insert((entry.heat, piece));
        self.by_file.insert(piece);
        if entry.is_warm {
            self.warm.insert((entry.written, piece));
        } else if entry.is_upper {
            self.upper.insert((entry.heat, piece));
        }
        if entry.is_wanted {
            self.wanted.insert((entry.heat, piece));
        }
        while self.entries.len() > self.limits.pieces_max
            && let Some(&(_, coldest)) = self.all.first()
        {
            self.forget(coldest);
        }
    }

    /// The entry of a piece; of an unknown one, as if it had been used so often.
    fn entry(&self, piece: Piece, uses: f64) -> Entry {
        let new = || Entry {
            heat: Heat::of(uses, self.clock),
            is_upper: false,
            is_warm: false,
            is_wanted: false,
            written: Moment::default(),
            down: Moment::default(),
        };
        self.entries.get(&piece).copied().unwrap_or_else(new)
    }

    /// The same behind so many uses.
    fn used(&mut self, piece: Piece, uses: f64) -> Entry {
        let pieces = (self.upper.len() + self.warm.len()).max(PIECES_LEAST);
        self.clock += uses / (USES_REMEMBERED * pieces as f64);
        match self.entries.get(&piece) {
            Some(entry) => Entry { heat: entry.heat.and(uses, self.clock), ..*entry },
            None => self.entry(piece, uses),
        }
    }

    /// Pieces that were not written for long enough are warm no more.
    fn cool(&mut self, at: Moment) {
        while let Some(&(written, piece)) = self.warm.first()
            && at.since(written) >= self.limits.cold_ms
        {
            self.warm.pop_first();
            if let Some(entry) = self.entries.get_mut(&piece) {
                entry.is_warm = false;
                self.upper.insert((entry.heat, piece));
            }
        }
        while let Some(&(down, piece)) = self.resting.front()
            && at.since(down) >= REST_MS
        {
            self.resting.pop_front();
            if let Some(entry) = self.entries.get_mut(&piece)
                && !entry.is_upper
                && entry.down == down
            {
                entry.is_wanted = true;
                self.wanted.insert((entry.heat, piece));
            }
        }
    }
}

impl Policy for Benefit {
    fn found(&mut self, piece: Piece, side: Side, changed: Moment) {
        let is_known = self.entries.get(&piece).is_some_and(|entry| entry.is_upper);
        if side == Side::Upper && !is_known && self.entries.len() < self.limits.pieces_max {
            // Half a use to one: of pieces of which nothing else is known, the one that was changed longest ago goes first.
            let days = changed.0 as f64 / 86_400_000.0;
            let entry = self.entry(piece, 0.5 + 0.5 * days / (1.0 + days));
            self.put(piece, Entry { is_upper: true, is_warm: true, written: changed, ..entry });
        }
    }

    fn written(&mut self, piece: Piece, side: Side, at: Moment) {
        let entry = self.used(piece, 1.0);
        match side {
            Side::Upper => self.put(piece, Entry { is_upper: true, is_warm: true, written: at, ..entry }),
            Side::Lower => self.put(piece, entry),
        }
    }

    fn read(&mut self, piece: Piece, side: Side, times: u32, _at: Moment) {
        let entry = self.used(piece, f64::from(times));
        match side {
            Side::Upper => self.put(piece, Entry { is_upper: true, ..entry }),
            Side::Lower => self.put(piece, Entry { is_wanted: true, ..entry }),
        }
    }

    fn placed(&mut self, piece: Piece, side: Side, at: Moment) {
        let entry = self.entry(piece, 1.0);
        let (is_upper, is_warm) = (side == Side::Upper, side == Side::Upper && entry.is_warm);
        let down = if is_upper { entry.down } else { at };
        self.put(piece, Entry { is_upper, is_warm, is_wanted: false, down, ..entry });
        if !is_upper {
            self.resting.push_back((at, piece));
        }
    }

    fn forget(&mut self, piece: Piece) {
        if let Some(entry) = self.entries.remove(&piece) {
            self.all.remove(&(entry.heat, piece));
            self.warm.remove(&(entry.written, piece));
            self.upper.remove(&(entry.heat, piece));
            self.wanted.remove(&(entry.heat, piece));
            self.by_file.remove(&piece);
        }
    }

    fn forget_from(&mut self, inode: InodeNumber, index: u64) {
        let gone = self.by_file.range(Piece::new(inode, index)..=Piece::new(inode, u64::MAX));
        let gone: Vec<Piece> = gone.copied().collect();
        gone.into_iter().for_each(|piece| self.forget(piece));
    }

    fn next_down(&mut self, at: Moment, is_urgent: bool) -> Option<Choice> {
        self.cool(at);
        let warmest = if is_urgent { self.warm.first().map(|&(_, piece)| piece) } else { None };
        let piece = self.upper.first().map(|&(_, piece)| piece).or(warmest)?;
        let entry = self.entries.get(&piece).copied()?;
        // It keeps its heat below: if it is used again soon it comes back.
        self.put(piece, Entry { is_upper: false, is_warm: false, is_wanted: false, ..entry });
        Some(Choice { piece, score: entry.heat.uses(self.clock), rule: RULE })
    }

    fn next_up(&mut self, at: Moment, has_room: bool) -> Option<Choice> {
        self.cool(at);
        let &(heat, piece) = self.wanted.last()?;
        let leaves = self.upper.first().map_or(0.0, |(heat, _)| heat.uses(self.clock));
        let needed = if has_room { UP_LEAST } else { UP_LEAST.max(leaves * UP_MARGIN) };
        if heat.uses(self.clock) < needed {
            return None;
        }
        let entry = self.entries.get(&piece).copied()?;
        self.put(piece, Entry { is_wanted: false, ..entry });
        Some(Choice { piece, score: heat.uses(self.clock), rule: RULE_UP })
    }

    fn standing(&self, piece: Piece, _at: Moment) -> Option<Standing> {
        let entry = self.entries.get(&piece)?;
        Some(Standing { score: entry.heat.uses(self.clock), rule: RULE })
    }

    fn known(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(index: u64) -> Piece {
        Piece::new(InodeNumber(1), index)
    }

    fn policy() -> Benefit {
        Benefit::new(Limits { pieces_max: 100, cold_ms: 10 })
    }

    #[test]
    fn a_count_decays() {
        let heat = Heat::of(8.0, 1.0);
        assert!((heat.uses(1.0) - 8.0).abs() < 0.01);
        assert!((heat.uses(2.0) - 8.0 / std::f64::consts::E).abs() < 0.01);
        let more = heat.and(2.0, 2.0).uses(2.0);
        assert!((more - 2.0 - 8.0 / std::f64::consts::E).abs() < 0.01);
    }

    #[test]
    fn counts_decay_with_the_uses_of_all_pieces_and_not_with_time() {
        let mut policy = policy();
        policy.written(piece(0), Side::Upper, Moment(0));
        let score = |policy: &Benefit| policy.standing(piece(0), Moment(u64::MAX)).unwrap().score;
        assert!((score(&policy) - 1.0).abs() < 0.01);
        for use_of_another in 0..USES_REMEMBERED as u64 * PIECES_LEAST as u64 {
            policy.read(piece(1), Side::Upper, 1, Moment(use_of_another));
        }
        assert!((score(&policy) - 1.0 / std::f64::consts::E).abs() < 0.01);
    }

    #[test]
    fn what_went_down_comes_back_when_it_is_read_or_has_rested() {
        let mut policy = policy();
        for index in 0..2 {
            policy.written(piece(index), Side::Upper, Moment(0));
            policy.read(piece(index), Side::Upper, 9, Moment(1));
        }
        for _ in 0..2 {
            let down = policy.next_down(Moment(20), false).unwrap();
            policy.placed(down.piece, Side::Lower, Moment(20));
        }
        assert_eq!(policy.next_up(Moment(30), true), None, "there is room, but it has just left");
        policy.read(piece(1), Side::Lower, 1, Moment(40));
        assert_eq!(policy.next_up(Moment(50), true).map(|choice| choice.piece), Some(piece(1)));
        policy.placed(piece(1), Side::Upper, Moment(50));
        assert_eq!(policy.next_up(Moment(19 + REST_MS), true), None);
        assert_eq!(policy.next_up(Moment(20 + REST_MS), true).map(|choice| choice.piece), Some(piece(0)));
    }

    #[test]
    fn a_piece_of_which_some_lies_below_comes_up_and_may_go_down() {
        let mut policy = policy();
        policy.written(piece(0), Side::Upper, Moment(0));
        policy.read(piece(0), Side::Lower, 3, Moment(1));
        assert_eq!(policy.next_up(Moment(2), true).map(|choice| choice.piece), Some(piece(0)));
        assert_eq!(policy.next_up(Moment(2), true), None);
        assert_eq!(policy.next_down(Moment(20), false).map(|choice| choice.piece), Some(piece(0)));
    }

    #[test]
    fn what_is_used_least_goes_down_and_what_is_used_more_comes_up() {
        let mut policy = policy();
        for index in 0..4 {
            policy.written(piece(index), Side::Upper, Moment(0));
        }
        policy.read(piece(0), Side::Upper, 5, Moment(50));
        assert_eq!(policy.next_up(Moment(100), false), None);
        policy.read(piece(9), Side::Lower, 1, Moment(60));
        assert_eq!(policy.next_up(Moment(100), false), None, "it is used no more than what would leave");
        policy.read(piece(9), Side::Lower, 2, Moment(70));
        assert_eq!(policy.next_up(Moment(100), false).map(|choice| choice.piece), Some(piece(9)));
        policy.placed(piece(9), Side::Upper, Moment(100));
        let down = policy.next_down(Moment(101), false).unwrap();
        policy.placed(down.piece, Side::Lower, Moment(101));
        assert!(![0, 9].contains(&down.piece.index));
        assert_eq!(policy.next_up(Moment(102), false), None, "what went down does not come back");
    }

    #[test]
    fn what_is_warm_stays_unless_it_is_urgent() {
        let mut policy = policy();
        policy.written(piece(0), Side::Upper, Moment(100));
        assert_eq!(policy.next_down(Moment(105), false), None);
        assert_eq!(policy.next_down(Moment(105), true).map(|choice| choice.piece), Some(piece(0)));
    }

    #[test]
    fn it_knows_no_more_than_it_may() {
        let mut policy = policy();
        for index in 0..500 {
            policy.written(piece(index), Side::Upper, Moment(index));
            policy.read(piece(index + 1000), Side::Lower, 1, Moment(index));
        }
        assert!(policy.known() <= 100, "{}", policy.known());
        policy.forget_from(InodeNumber(1), 0);
        assert_eq!(policy.known(), 0);
    }
}
