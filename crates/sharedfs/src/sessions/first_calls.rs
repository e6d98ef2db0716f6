//! First calls: those that the daemon performs for processes of the store's own user and of root that have no session yet.
//!
//! A process is known by a *ticket* from its first such call until it attaches or hangs up. The tickets exist for `cuesta status`
//! and `cuesta trace`; no decision rests on them.

use parking_lot::Mutex;
use std::collections::HashMap;

#[derive(Debug)]
struct Caller {
    process: u32,
    calls: u64,
    has_session: bool,
}

/// The processes without a session, and the totals since the daemon started.
#[derive(Debug, Default)]
pub struct FirstCalls {
    callers: Mutex<Callers>,
}

#[derive(Debug, Default)]
struct Callers {
    next_ticket: u64,
    by_ticket: HashMap<u64, Caller>,
    totals: FirstCallTotals,
}

/// Totals since the daemon started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FirstCallTotals {
    /// Calls of processes that had no session.
    pub calls: u64,
    /// Processes among the callers that ended without ever attaching one.
    pub never_attached: u64,
}

impl FirstCalls {
    /// A process without a session is about to call.
    pub fn begin(&self, process: u32) -> u64 {
        let mut callers = self.callers.lock();
        let ticket = callers.next_ticket;
        callers.next_ticket += 1;
        callers.by_ticket.insert(ticket, Caller { process, calls: 0, has_session: false });
        ticket
    }

    /// Counts a call. It is none of the first ones if the process attached meanwhile: then the answer is `false`.
    pub fn note_call(&self, ticket: u64) -> bool {
        let mut callers = self.callers.lock();
        let Some(caller) = callers.by_ticket.get_mut(&ticket).filter(|caller| !caller.has_session) else {
            return false;
        };
        caller.calls += 1;
        callers.totals.calls += 1;
        true
    }

    /// The process attached a session.
    pub fn attached(&self, process: u32) {
        let mut callers = self.callers.lock();
        let its = callers.by_ticket.values_mut().filter(|caller| caller.process == process);
        its.for_each(|caller| caller.has_session = true);
    }

    /// The process hung up. If it never attached: which it was, and how many calls it made.
    pub fn end(&self, ticket: u64) -> Option<(u32, u64)> {
        let mut callers = self.callers.lock();
        let caller = callers.by_ticket.remove(&ticket).filter(|caller| !caller.has_session)?;
        callers.totals.never_attached += 1;
        Some((caller.process, caller.calls))
    }

    /// The totals.
    #[must_use]
    pub fn totals(&self) -> FirstCallTotals {
        self.callers.lock().totals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_count_until_the_process_attaches_and_a_process_that_never_does_counts_at_its_end() {
        let first = FirstCalls::default();
        let (mover, writer) = (first.begin(7), first.begin(8));
        assert!(first.note_call(mover) && first.note_call(writer) && first.note_call(mover));
        first.attached(8);
        assert!(!first.note_call(writer));
        assert_eq!((first.end(writer), first.end(mover)), (None, Some((7, 2))));
        assert_eq!(first.totals(), FirstCallTotals { calls: 3, never_attached: 1 });
    }

    /// `exec` closes the connection of the program before, and the next program may call before the daemon sees that.
    #[test]
    fn the_end_of_one_program_is_not_that_of_the_next_one_in_the_same_process() {
        let first = FirstCalls::default();
        let before = first.begin(7);
        let after = first.begin(7);
        assert!(first.note_call(before) && first.end(before).is_some());
        assert!(first.note_call(after));
    }
}
