//! What happened, as everybody wrote it down, by place.

use super::calls::{self, Call, PLACES};
use super::check::{Violation, check};
use super::ledger::{Instant, Ledger};
use super::past::Past;
use crate::operations::operation::Operation;
use crate::programs::doors::Doors;
use std::io;

/// Steps of the search, for each call of a place.
const STEPS_A_CALL: u64 = 2_000;

/// All that happened.
#[derive(Clone, Debug)]
pub struct History {
    places: Vec<Vec<Past>>,
}

/// The counts of a history.
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
    /// A process ended that was not killed.
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
    /// process was seen dead, if it was killed. The lane behind them is of the process that came last and looked at everything.
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
