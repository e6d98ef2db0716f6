//! One process that makes its calls and writes them down, and those that come before and after all others.

use super::answer::{Answer, text};
use super::calls::{Call, PLACES, folder, from_above, openings, preparation};
use super::ledger::{CALLS_MAX, Instant, Ledger};
use crate::operations::operation::{Operation, Outcome};
use crate::programs::doors::Door;
use rustix::io::Errno;
use std::io;

/// What carries calls out.
pub type Calls<'a> = &'a mut dyn FnMut(&Operation) -> Result<Outcome, Errno>;

/// Makes the places.
pub fn prepare(make: Calls<'_>) -> Result<(), String> {
    for place in 0..PLACES {
        must(make, &Operation::Mkdir { path: folder(place), mode: 0o755 })?;
        for operation in preparation(place) {
            must(make, &from_above(place, &operation))?;
        }
    }
    Ok(())
}

/// Makes calls and writes them down, until everybody is to come to an end or there is no more room.
pub fn work(
    calls: impl Iterator<Item = Call>,
    ledger: &Ledger,
    (lane, door): (usize, Door),
    make: Calls<'_>,
) -> Result<(), String> {
    for place in 0..PLACES {
        for operation in openings(place, door) {
            must(make, &from_above(place, &operation))?;
        }
    }
    note(calls, ledger, lane, make).map_err(|error| format!("the ledger: {error}"))
}

fn note(calls: impl Iterator<Item = Call>, ledger: &Ledger, lane: usize, make: Calls<'_>) -> io::Result<()> {
    let mut notes = ledger.lane(lane);
    for (number, call) in calls.take(CALLS_MAX).enumerate() {
        if !call.pause.is_zero() {
            if ledger.is_over()? {
                break;
            }
            std::thread::sleep(call.pause);
        }
        let operation = from_above(call.place, &call.operation);
        notes.begin(number)?;
        let outcome = make(&operation);
        let ended = Instant::now();
        notes.end(number, ended, Answer::of(&outcome), &text(&outcome))?;
    }
    Ok(())
}

fn must(make: Calls<'_>, operation: &Operation) -> Result<(), String> {
    make(operation).map(drop).map_err(|errno| format!("{operation:?}: {errno}"))
}
