//! What happened, as everybody wrote it down, by place.

use super::answer::Answer;
use super::calls::{self, Call, PLACES};
use super::check::{Violation, check};
use super::ledger::{Instant, Ledger};
use crate::doors::{Door, Doors};
use crate::operation::{Operation, PathText};
use std::io;

/// Steps of the search, for each call of a place.
const STEPS_A_CALL: u64 = 2_000;

/// A call that was made.
#[derive(Clone, Debug)]
pub struct Past {
    /// The process that made it.
    pub lane: usize,
    /// By which door.
    pub door: Door,
    /// What it was.
    pub operation: Operation,
    /// When it began.
    pub begun: Instant,
    /// When it returned, or when its process was seen dead.
    pub ended: Instant,
    /// `None`: its process was killed before it returned.
    pub answer: Option<Answer>,
    /// The answer for people.
    pub text: String,
}

impl Past {
    /// Wherever it is put in order: what failed, or only looks.
    pub(super) fn changes_nothing(&self) -> bool {
        self.answer.is_some_and(|answer| answer.errno != 0 || !self.operation.is_mutation())
    }

    /// What the kernel may have answered itself: it looks up two names one after the other, and moves nothing if they are of
    /// one file, as when another has just moved it. Then there is something of the second name.
    pub(super) fn may_have_moved_nothing(&self) -> Option<&PathText> {
        match &self.operation {
            Operation::Rename { to, .. } | Operation::RenameExchange { to, .. }
                if self.door == Door::Mount && self.answer.is_some_and(|answer| answer.errno == 0) =>
            {
                Some(to)
            }
            _ => None,
        }
    }
}

/// All that happened.
#[derive(Clone, Debug)]
pub struct History {
    places: Vec<Vec<Past>>,
}

/// What a history came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Calls that returned.
    pub calls: u64,
    /// Calls that were killed under way.
    pub killed: u64,
    /// Calls that began while the one before, in the same place, was not over.
    pub overlaps: u64,
}

/// Why there is no history.
#[derive(Debug, thiserror::Error)]
pub enum Incomplete {
    /// The ledger cannot be read.
    #[error("the ledger: {0}")]
    Ledger(#[from] io::Error),
    /// A process that nobody killed ended.
    #[error("process {lane} ended in the middle of {operation:?}")]
    Ended {
        /// Which one.
        lane: usize,
        /// In the middle of what.
        operation: Operation,
    },
}

/// The calls in one place contradict one another.
#[derive(Debug, thiserror::Error)]
#[error("place {place}: {violation}")]
pub struct Contradiction {
    /// Where.
    pub place: usize,
    /// How.
    pub violation: Violation,
}

impl History {
    /// Puts together what everybody wrote down whose calls follow from `seed` and `doors`: a lane each, with the time when its
    /// process was seen dead, if it was killed. The lane behind them is of who came last and looked at everything.
    pub fn collect(
        ledger: &Ledger,
        seed: u64,
        doors: Doors,
        ends: &[Option<Instant>],
    ) -> Result<History, Incomplete> {
        let mut places = vec![Vec::new(); PLACES];
        for lane in 0..=ends.len() {
            let noted = ledger.read(lane)?;
            let made: Vec<Call> = match ends.get(lane) {
                Some(_) => calls::calls(seed, lane, doors).take(noted.len()).collect(),
                None => calls::looks(),
            };
            for (Call { place, operation, .. }, noted) in made.into_iter().zip(noted) {
                let (ended, answer, text) = match (noted.returned, ends.get(lane).copied().flatten()) {
                    (Some((ended, answer, text)), _) => (ended, Some(answer), text),
                    (None, Some(dead)) => (dead, None, String::new()),
                    (None, None) => return Err(Incomplete::Ended { lane, operation }),
                };
                let door = doors.of(lane as u64);
                places[place].push(Past { lane, door, operation, begun: noted.begun, ended, answer, text });
            }
        }
        Ok(History { places })
    }

    /// Searches an order of the calls in each place.
    pub fn check(&self) -> Result<(), Contradiction> {
        for (place, past) in self.places.iter().enumerate() {
            check(&calls::initial(place), past, STEPS_A_CALL * past.len() as u64)
                .map_err(|violation| Contradiction { place, violation })?;
        }
        Ok(())
    }

    /// How much there is of it.
    #[must_use]
    pub fn counted(&self) -> Counted {
        let mut counted = Counted::default();
        for past in &self.places {
            let returned = past.iter().filter(|past| past.answer.is_some()).count() as u64;
            counted.calls += returned;
            counted.killed += past.len() as u64 - returned;
            let mut times: Vec<_> = past.iter().map(|past| (past.begun, past.ended)).collect();
            times.sort();
            counted.overlaps += times.windows(2).filter(|pair| pair[1].0 < pair[0].1).count() as u64;
        }
        counted
    }
}

impl std::ops::AddAssign for Counted {
    fn add_assign(&mut self, other: Counted) {
        self.calls += other.calls;
        self.killed += other.killed;
        self.overlaps += other.overlaps;
    }
}
