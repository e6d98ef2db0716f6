//! The content whose place saves the least time goes down: each use of a piece in the upper tier saves a wait for the lower one.
//!
//! Uses are counted with decay, so that a count tells how often the piece will be used soon. All counts decay alike. So they are kept as the
//! logarithm that they would have had at moment 0, and their order changes only with uses.

use crate::piece::{Moment, Piece, Side};
use crate::policy::{Choice, Limits, Policy, Standing};
use cuesta_format::InodeNumber;
use hashbrown::HashMap;
use std::collections::BTreeSet;

/// A count falls to 1/e in so long.
const DECAY_MS: f64 = 600_000.0;
/// A piece comes up if it stands so many times as high as the one that has to leave,
const UP_MARGIN: f64 = 1.5;
/// and was used so often.
const UP_LEAST: f64 = 1.5;
/// The logarithms are kept as so many parts of 1.
const SCALE: f64 = 65536.0;

const RULE: &str = "saves the least time (uses, decayed over 10 minutes)";
const RULE_UP: &str = "would save more time than what leaves (uses, decayed over 10 minutes)";

/// The logarithm of a decayed count, at moment 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Heat(i64);

impl Heat {
    fn of(uses: f64, at: Moment) -> Heat {
        Heat(((uses.ln() + at.0 as f64 / DECAY_MS) * SCALE) as i64)
    }

    fn uses(self, at: Moment) -> f64 {
        (self.0 as f64 / SCALE - at.0 as f64 / DECAY_MS).exp()
    }

    fn and(self, more: f64, at: Moment) -> Heat {
        Heat::of(self.uses(at) + more, at)
    }
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    heat: Heat,
    side: Side,
    written: Moment,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Benefit {
    limits: Limits,
    entries: HashMap<Piece, Entry>,
    by_file: BTreeSet<Piece>,
    upper: BTreeSet<(Heat, Piece)>,
    lower: BTreeSet<(Heat, Piece)>,
}

impl Benefit {
    pub(crate) fn new(limits: Limits) -> Benefit {
        Benefit {
            limits,
            entries: HashMap::new(),
            by_file: BTreeSet::new(),
            upper: BTreeSet::new(),
            lower: BTreeSet::new(),
        }
    }

    fn side(&mut self, side: Side) -> &mut BTreeSet<(Heat, Piece)> {
        match side {
            Side::Upper => &mut self.upper,
            Side::Lower => &mut self.lower,
        }
    }

    fn put(&mut self, piece: Piece, entry: Entry) {
        if let Some(before) = self.entries.insert(piece, entry) {
            self.side(before.side).remove(&(before.heat, piece));
        }
        self.by_file.insert(piece);
        self.side(entry.side).insert((entry.heat, piece));
        while self.entries.len() > self.limits.pieces_max {
            let Some(&(_, coldest)) = self.lower.first().or_else(|| self.upper.first()) else { break };
            self.forget(coldest);
        }
    }

    fn used(&mut self, piece: Piece, side: Side, times: u32, written: Option<Moment>, at: Moment) {
        let before = self.entries.get(&piece);
        let heat = match before {
            Some(entry) => entry.heat.and(f64::from(times), at),
            None => Heat::of(f64::from(times), at),
        };
        let written = written.or(before.map(|entry| entry.written)).unwrap_or_default();
        self.put(piece, Entry { heat, side, written });
    }
}

impl Policy for Benefit {
    fn found(&mut self, piece: Piece, side: Side, changed: Moment) {
        let is_known = self.entries.get(&piece).is_some_and(|entry| entry.side == side);
        if side == Side::Upper && !is_known && self.entries.len() < self.limits.pieces_max {
            self.put(piece, Entry { heat: Heat::of(1.0, changed), side, written: changed });
        }
    }

    fn written(&mut self, piece: Piece, side: Side, at: Moment) {
        self.used(piece, side, 1, Some(at), at);
    }

    fn read(&mut self, piece: Piece, side: Side, times: u32, at: Moment) {
        self.used(piece, side, times, None, at);
    }

    fn placed(&mut self, piece: Piece, side: Side, at: Moment) {
        let before = self.entries.get(&piece).copied();
        let entry = before.unwrap_or(Entry { heat: Heat::of(1.0, at), side, written: Moment::default() });
        self.put(piece, Entry { side, ..entry });
    }

    fn forget(&mut self, piece: Piece) {
        if let Some(entry) = self.entries.remove(&piece) {
            self.side(entry.side).remove(&(entry.heat, piece));
            self.by_file.remove(&piece);
        }
    }

    fn forget_from(&mut self, inode: InodeNumber, index: u64) {
        let gone = self.by_file.range(Piece::new(inode, index)..=Piece::new(inode, u64::MAX));
        let gone: Vec<Piece> = gone.copied().collect();
        gone.into_iter().for_each(|piece| self.forget(piece));
    }

    fn next_down(&mut self, at: Moment, is_urgent: bool) -> Option<Choice> {
        let cold_ms = if is_urgent { 0 } else { self.limits.cold_ms };
        let is_cold =
            |piece: &Piece| self.entries.get(piece).is_some_and(|entry| at.since(entry.written) >= cold_ms);
        let &(heat, piece) = self.upper.iter().find(|(_, piece)| is_cold(piece))?;
        // It keeps its heat below: if it is used again soon it comes back.
        self.upper.remove(&(heat, piece));
        Some(Choice { piece, score: heat.uses(at), rule: RULE })
    }

    fn next_up(&mut self, at: Moment, has_room: bool) -> Option<Choice> {
        let &(heat, piece) = self.lower.last()?;
        let leaves = self.upper.first().map_or(0.0, |(heat, _)| heat.uses(at));
        let needed = if has_room { UP_LEAST } else { UP_LEAST.max(leaves * UP_MARGIN) };
        if heat.uses(at) < needed {
            return None;
        }
        self.lower.remove(&(heat, piece));
        Some(Choice { piece, score: heat.uses(at), rule: RULE_UP })
    }

    fn standing(&self, piece: Piece, at: Moment) -> Option<Standing> {
        let entry = self.entries.get(&piece)?;
        Some(Standing { score: entry.heat.uses(at), rule: RULE })
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
        let heat = Heat::of(8.0, Moment(1000));
        assert!((heat.uses(Moment(1000)) - 8.0).abs() < 0.01);
        assert!((heat.uses(Moment(601_000)) - 8.0 / std::f64::consts::E).abs() < 0.01);
        let more = heat.and(2.0, Moment(601_000)).uses(Moment(601_000));
        assert!((more - 2.0 - 8.0 / std::f64::consts::E).abs() < 0.01);
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
        assert_eq!(policy.next_up(Moment(100), true), None, "one use is no reason");
        policy.read(piece(9), Side::Lower, 1, Moment(70));
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
