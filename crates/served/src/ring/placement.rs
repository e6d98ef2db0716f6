//! Where the daemon's thread of a lane runs: the policy.
//!
//! | place | when | what a call is |
//! |---|---|---|
//! | near: on the client's processor | the client asks now and then, always from there | a switch to the daemon's thread and one back |
//! | far: anywhere but on the client's processor | request follows upon answer | a cache line to another processor and one back: both ends look |
//! | anywhere | the client's threads take turns; or told that nothing was heard of the lane | whatever the kernel makes of it |
//!
//! Near is the rule for clients that sleep: between two processors a sleep and a wake-up cost several times as much (decision 13).
//! Far is for clients that need not sleep. It needs another processor that lets the daemon's thread come soon: where it does not, both ends
//! look in vain, and the thread comes back. After a short stay it takes longer until the next one.

use crate::ring::policy::QUICK;
use std::time::Duration;

/// A place for a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ThreadPlace {
    #[default]
    Anywhere,
    /// On this processor.
    Near(usize),
    /// On any other.
    Far(usize),
}

/// Quick requests before a first stay far from the client, counted as in [`Placement::served`].
const SCORE_TO_GO: u32 = 16;
/// The same after many stays that were short.
const SCORE_TO_GO_MAX: u32 = 1024;
/// The cost of a slow request, in points of the score.
const SLOW_COSTS: u32 = 4;
/// Score at the beginning of a stay, and the most of it.
const SCORE_TO_STAY: u32 = 12;
/// A stay with so many requests was worth the way.
const LONG_STAY: u32 = 128;
/// A stay begins with so many requests that are looked for longer: the client sleeps at first, on a processor that may sleep, too.
const FIRST_REQUESTS: u32 = 16;
const FIRST_LOOKS: Duration = Duration::from_micros(100);

/// The policy. It is fed what happens, and says where to go.
#[derive(Debug)]
pub(crate) struct Placement {
    place: ThreadPlace,
    last: Option<usize>,
    /// Grows by quick requests, and shrinks by slow ones.
    score: u32,
    score_to_go: u32,
    /// Requests of this stay far from the client.
    stay: u32,
}

impl Default for Placement {
    fn default() -> Self {
        Placement { place: ThreadPlace::Anywhere, last: None, score: 0, score_to_go: SCORE_TO_GO, stay: 0 }
    }
}

impl Placement {
    /// How long the thread looks for the next request before it sleeps.
    pub(crate) fn look(&self) -> Option<Duration> {
        let longest = if self.stay < FIRST_REQUESTS { FIRST_LOOKS } else { QUICK };
        matches!(self.place, ThreadPlace::Far(_)).then_some(longest)
    }

    /// A request was served that came quickly after the last one, or not. Its client waits on `processor`; `None`: where the
    /// thread may not run. Answers where to go, if anywhere.
    pub(crate) fn served(&mut self, processor: Option<usize>, is_quick: bool) -> Option<ThreadPlace> {
        let is_settled = self.last.is_none() || self.last == processor;
        self.last = processor;
        self.score = if is_quick { self.score + 1 } else { self.score.saturating_sub(SLOW_COSTS) };
        let place = match processor {
            None => ThreadPlace::Anywhere,
            Some(processor) if self.is_far() => ThreadPlace::Far(processor),
            Some(processor) if is_settled => ThreadPlace::Near(processor),
            Some(_) => ThreadPlace::Anywhere,
        };
        let is_moved = place != self.place;
        self.place = place;
        is_moved.then_some(place)
    }

    fn is_far(&mut self) -> bool {
        if matches!(self.place, ThreadPlace::Far(_)) {
            self.stay = self.stay.saturating_add(1);
            self.score = self.score.min(SCORE_TO_STAY);
            if self.score > 0 {
                return true;
            }
            let is_long = self.stay >= LONG_STAY;
            self.score_to_go =
                if is_long { SCORE_TO_GO } else { (2 * self.score_to_go).min(SCORE_TO_GO_MAX) };
            return false;
        }
        if self.score < self.score_to_go {
            return false;
        }
        (self.score, self.stay) = (SCORE_TO_STAY, 0);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ThreadPlace::{Anywhere, Far, Near};

    #[test]
    fn a_thread_is_near_a_client_that_asks_now_and_then_and_nowhere_between_two_that_take_turns() {
        let mut placement = Placement::default();
        let moves = [Some(3), Some(3), Some(1), Some(3), Some(1), Some(1), Some(1), None, Some(1)]
            .map(|from| placement.served(from, false));
        let expected = [
            Some(Near(3)),
            None,
            Some(Anywhere),
            None,
            None,
            Some(Near(1)),
            None,
            Some(Anywhere),
            Some(Near(1)),
        ];
        assert_eq!(moves, expected);
    }

    fn moves(placement: &mut Placement, requests: u32, is_quick: bool) -> Vec<(u32, ThreadPlace)> {
        let moves = (1..=requests).map(|request| (request, placement.served(Some(0), is_quick)));
        moves.filter_map(|(request, place)| Some((request, place?))).collect()
    }

    #[test]
    fn it_is_far_while_request_follows_upon_answer() {
        let mut placement = Placement::default();
        assert_eq!(moves(&mut placement, 1000, true), [(1, Near(0)), (SCORE_TO_GO, Far(0))]);
        assert_eq!(placement.look(), Some(QUICK));
        assert_eq!(placement.served(Some(1), true), Some(Far(1)), "the client has moved");
        assert_eq!(placement.served(Some(0), false), Some(Far(0)));
        assert_eq!(moves(&mut placement, 100, false), [(2, Near(0))]);
        assert_eq!(moves(&mut placement, 100, true), [(SCORE_TO_GO, Far(0))], "the stay was long");
    }

    #[test]
    fn after_short_stays_it_goes_less_often() {
        let mut placement = Placement::default();
        let mut last = 0;
        for _ in 0..8 {
            let went = moves(&mut placement, SCORE_TO_GO_MAX, true).last().unwrap().0;
            assert!(went > last || went == SCORE_TO_GO_MAX);
            last = went;
            // A stay that was long would begin anew.
            placement.stay = 0;
            moves(&mut placement, 8, false);
            assert_eq!(placement.look(), None);
        }
        assert_eq!(placement.score_to_go, SCORE_TO_GO_MAX);
    }
}
