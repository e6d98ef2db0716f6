//! The content that was used only once goes down first. Source: Yang et al., "FIFO queues are all you need for cache eviction" (SOSP 2023),
//! whose algorithm S3-FIFO this is, with two changes for tiers: a read of the lower tier moves nothing the first time, and
//! writes tell whether content is new.
//!
//! | queue | its pieces |
//! |---|---|
//! | warm | pieces that were written in the last seconds, used again or not |
//! | small | pieces that were written once; a tenth of the upper tier |
//! | main | pieces that were used again |
//! | ghost | pieces that went down, or were read below once: the next use brings them to main |

use crate::piece::{Moment, Piece, Side};
use crate::policy::{Choice, Limits, Policy, Standing};
use cuesta_format::InodeNumber;
use hashbrown::HashMap;
use std::collections::{BTreeSet, VecDeque};

/// The small queue's share of the upper tier is one in so many.
const SMALL_SHARE: usize = 10;
/// Uses are counted so far.
const USES_MAX: u8 = 3;

const RULE_ONCE: &str = "used once (uses since)";
const RULE_MAIN: &str = "not used since its last turn (uses since)";
const RULE_AGAIN: &str = "read again (uses since)";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Queue {
    /// It was written lately.
    Warm,
    Small,
    Main,
    Ghost,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    queue: Queue,
    uses: u8,
    /// Some of it lies below, and is to come up.
    is_wanted: bool,
    /// Of several places in queues the one with this number counts.
    ticket: u64,
    /// When it was written last, if it is warm.
    written: Moment,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Frequency {
    limits: Limits,
    entries: HashMap<Piece, Entry>,
    /// The pieces of each file that are known.
    by_file: BTreeSet<Piece>,
    warm: VecDeque<(Piece, u64)>,
    small: VecDeque<(Piece, u64)>,
    main: VecDeque<(Piece, u64)>,
    ghost: VecDeque<(Piece, u64)>,
    /// Pieces that are to come up. Those count whose entry says so.
    wanted: VecDeque<Piece>,
    small_len: usize,
    main_len: usize,
    ghost_len: usize,
    next_ticket: u64,
}

impl Entry {
    fn is_upper(&self) -> bool {
        matches!(self.queue, Queue::Warm | Queue::Small | Queue::Main)
    }
}

impl Frequency {
    pub(crate) fn new(limits: Limits) -> Frequency {
        Frequency {
            limits,
            entries: HashMap::new(),
            by_file: BTreeSet::new(),
            warm: VecDeque::new(),
            small: VecDeque::new(),
            main: VecDeque::new(),
            ghost: VecDeque::new(),
            wanted: VecDeque::new(),
            small_len: 0,
            main_len: 0,
            ghost_len: 0,
            next_ticket: 0,
        }
    }

    fn queue(&mut self, queue: Queue) -> &mut VecDeque<(Piece, u64)> {
        match queue {
            Queue::Warm => &mut self.warm,
            Queue::Small => &mut self.small,
            Queue::Main => &mut self.main,
            Queue::Ghost => &mut self.ghost,
        }
    }

    fn count(&mut self, queue: Queue, by: isize) {
        let count = match queue {
            Queue::Small => &mut self.small_len,
            Queue::Main => &mut self.main_len,
            Queue::Ghost => &mut self.ghost_len,
            Queue::Warm => return,
        };
        *count = count.saturating_add_signed(by);
    }

    fn enter(&mut self, piece: Piece, queue: Queue, uses: u8, written: Moment) {
        let is_wanted = self.leave(piece).is_some_and(|before| before.is_wanted);
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.entries.insert(piece, Entry { queue, uses, is_wanted, ticket, written });
        self.by_file.insert(piece);
        self.count(queue, 1);
        self.queue(queue).push_back((piece, ticket));
        self.drop_stale(queue);
        self.keep_within_limits();
    }

    fn leave(&mut self, piece: Piece) -> Option<Entry> {
        let entry = self.entries.remove(&piece)?;
        self.by_file.remove(&piece);
        self.count(entry.queue, -1);
        Some(entry)
    }

    /// A queue keeps no more places of pieces that left than places of pieces that are there.
    fn drop_stale(&mut self, queue: Queue) {
        let known = self.entries.len();
        if self.queue(queue).len() > 2 * known + 16 {
            let mut places = std::mem::take(self.queue(queue));
            places.retain(|(piece, ticket)| {
                self.entries.get(piece).is_some_and(|entry| entry.ticket == *ticket)
            });
            *self.queue(queue) = places;
        }
    }

    /// Takes the first piece of a queue out of it.
    fn pop(&mut self, queue: Queue) -> Option<(Piece, Entry)> {
        loop {
            let (piece, ticket) = self.queue(queue).pop_front()?;
            if self.entries.get(&piece).is_some_and(|entry| entry.ticket == ticket) {
                return self.leave(piece).map(|entry| (piece, entry));
            }
        }
    }

    fn keep_within_limits(&mut self) {
        // As many ghosts as pieces in the main queue, as in the paper.
        while self.ghost_len > self.main_len.max(self.small_len).max(64)
            || self.ghost_len > 0 && self.entries.len() > self.limits.pieces_max
        {
            if self.pop(Queue::Ghost).is_none() {
                break;
            }
        }
        while self.entries.len() > self.limits.pieces_max {
            let queues = [Queue::Small, Queue::Main, Queue::Warm];
            let gone = queues.into_iter().find_map(|queue| self.pop(queue));
            if gone.is_none() {
                break;
            }
        }
    }

    /// Pieces that were not written for long enough are warm no more.
    fn cool(&mut self, at: Moment) {
        while let Some(&(piece, ticket)) = self.warm.front() {
            let entry = self.entries.get(&piece).filter(|entry| entry.ticket == ticket).copied();
            match entry {
                None => drop(self.warm.pop_front()),
                Some(entry) if at.since(entry.written) >= self.limits.cold_ms => {
                    self.warm.pop_front();
                    self.enter(piece, Queue::Small, entry.uses, entry.written);
                }
                Some(_) => break,
            }
        }
    }
}

impl Policy for Frequency {
    fn found(&mut self, piece: Piece, side: Side, changed: Moment) {
        let is_upper_and_unknown =
            side == Side::Upper && self.entries.get(&piece).is_none_or(|entry| !entry.is_upper());
        if is_upper_and_unknown && self.entries.len() < self.limits.pieces_max {
            self.enter(piece, Queue::Warm, 0, changed);
        }
    }

    fn written(&mut self, piece: Piece, side: Side, at: Moment) {
        match side {
            Side::Upper => {
                let before = self.entries.get(&piece).filter(|entry| entry.is_upper());
                let uses = before.map_or(0, |entry| (entry.uses + 1).min(USES_MAX));
                self.enter(piece, Queue::Warm, uses, at);
            }
            Side::Lower => self.forget(piece),
        }
    }

    fn read(&mut self, piece: Piece, side: Side, times: u32, at: Moment) {
        let more = |uses: u8| (u32::from(uses) + times).min(u32::from(USES_MAX)) as u8;
        match (side, self.entries.get_mut(&piece)) {
            (Side::Upper, Some(entry)) if entry.is_upper() => entry.uses = more(entry.uses),
            (Side::Upper, Some(_)) => self.enter(piece, Queue::Main, 0, at),
            (Side::Upper, None) => self.enter(piece, Queue::Small, 0, at),
            (Side::Lower, Some(entry)) => {
                entry.uses = more(entry.uses);
                let is_due = entry.is_upper() || entry.uses > 0;
                if is_due && !std::mem::replace(&mut entry.is_wanted, is_due) {
                    self.wanted.push_back(piece);
                }
            }
            (Side::Lower, None) => self.enter(piece, Queue::Ghost, 0, at),
        }
    }

    fn placed(&mut self, piece: Piece, side: Side, at: Moment) {
        self.leave(piece);
        match side {
            Side::Upper => self.enter(piece, Queue::Main, 0, at),
            Side::Lower => self.enter(piece, Queue::Ghost, 0, at),
        }
    }

    fn forget(&mut self, piece: Piece) {
        self.leave(piece);
    }

    fn forget_from(&mut self, inode: InodeNumber, index: u64) {
        let gone = self.by_file.range(Piece::new(inode, index)..=Piece::new(inode, u64::MAX));
        let gone: Vec<Piece> = gone.copied().collect();
        gone.into_iter().for_each(|piece| self.forget(piece));
    }

    fn next_down(&mut self, at: Moment, is_urgent: bool) -> Option<Choice> {
        self.cool(at);
        // Each turn takes a use from a piece, or brings it to the other queue.
        let turns_max = (self.small_len + self.main_len) * (usize::from(USES_MAX) + 2);
        for _ in 0..turns_max {
            let is_small_full = self.small_len * SMALL_SHARE > self.small_len + self.main_len;
            let queue = if is_small_full || self.main_len == 0 { Queue::Small } else { Queue::Main };
            let (piece, entry) = self.pop(queue)?;
            match (queue, entry.uses) {
                (Queue::Small, uses) if uses > 1 => {
                    self.enter(piece, Queue::Main, 0, entry.written);
                }
                (Queue::Main, uses) if uses > 0 => self.enter(piece, Queue::Main, uses - 1, entry.written),
                _ => {
                    let rule = if queue == Queue::Small { RULE_ONCE } else { RULE_MAIN };
                    return Some(Choice { piece, score: f64::from(entry.uses), rule });
                }
            }
        }
        let (piece, entry) = if is_urgent { self.pop(Queue::Warm) } else { None }?;
        Some(Choice { piece, score: f64::from(entry.uses), rule: RULE_ONCE })
    }

    fn next_up(&mut self, _at: Moment, _has_room: bool) -> Option<Choice> {
        while let Some(piece) = self.wanted.pop_front() {
            if let Some(entry) = self.entries.get_mut(&piece)
                && std::mem::take(&mut entry.is_wanted)
            {
                return Some(Choice { piece, score: f64::from(entry.uses), rule: RULE_AGAIN });
            }
        }
        None
    }

    fn standing(&self, piece: Piece, _at: Moment) -> Option<Standing> {
        let entry = self.entries.get(&piece)?;
        let rule = match entry.queue {
            _ if entry.is_wanted => RULE_AGAIN,
            Queue::Warm | Queue::Small | Queue::Ghost => RULE_ONCE,
            Queue::Main => RULE_MAIN,
        };
        Some(Standing { score: f64::from(entry.uses), rule })
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

    fn policy() -> Frequency {
        Frequency::new(Limits { pieces_max: 100, cold_ms: 10 })
    }

    #[test]
    fn what_was_used_once_goes_before_what_was_used_again() {
        let mut policy = policy();
        for index in 0..20 {
            policy.written(piece(index), Side::Upper, Moment(0));
        }
        for index in 0..10 {
            policy.read(piece(index), Side::Upper, 2, Moment(1));
        }
        let downs: Vec<u64> =
            (0..9).map(|_| policy.next_down(Moment(100), false).unwrap().piece.index).collect();
        assert_eq!(downs, (10..19).collect::<Vec<_>>());
    }

    #[test]
    fn a_scan_of_cold_content_brings_nothing_up_and_a_second_read_does() {
        let mut policy = policy();
        for index in 0..50 {
            policy.read(piece(index), Side::Lower, 1, Moment(index));
        }
        assert_eq!(policy.next_up(Moment(60), true), None);
        policy.read(piece(49), Side::Lower, 1, Moment(61));
        assert_eq!(policy.next_up(Moment(62), true).map(|choice| choice.piece), Some(piece(49)));
    }

    #[test]
    fn what_is_warm_stays_unless_it_is_urgent() {
        let mut policy = policy();
        policy.written(piece(0), Side::Upper, Moment(100));
        assert_eq!(policy.next_down(Moment(105), false), None);
        assert_eq!(policy.next_down(Moment(105), true).map(|choice| choice.piece), Some(piece(0)));
        assert_eq!(policy.known(), 0);
    }

    #[test]
    fn reads_keep_nothing_warm() {
        let mut policy = policy();
        policy.written(piece(0), Side::Upper, Moment(0));
        policy.written(piece(1), Side::Upper, Moment(0));
        policy.read(piece(0), Side::Upper, 1, Moment(99));
        policy.written(piece(1), Side::Upper, Moment(99));
        assert_eq!(policy.next_down(Moment(100), false).map(|choice| choice.piece), Some(piece(0)));
        assert_eq!(policy.next_down(Moment(100), false), None);
    }

    #[test]
    fn a_piece_of_which_some_lies_below_comes_up_and_may_go_down() {
        let mut policy = policy();
        policy.written(piece(0), Side::Upper, Moment(0));
        policy.read(piece(0), Side::Lower, 1, Moment(1));
        assert_eq!(policy.next_up(Moment(2), true).map(|choice| choice.piece), Some(piece(0)));
        assert_eq!(policy.next_up(Moment(2), true), None);
        assert_eq!(policy.next_down(Moment(20), false).map(|choice| choice.piece), Some(piece(0)));
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
