//! Callers that are connected, each by one connection or, while it comes back, by two.
//!
//! A caller that asks again on another connection waits until the first is done with the call: then the call was executed, or
//! was not. When its last connection hangs up, the records of its calls go.

use cuesta_format::{CALL_SLOTS, CallSlot, Caller};
use parking_lot::{Condvar, Mutex};
use std::collections::HashMap;
use std::sync::Arc;

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Callers(Mutex<HashMap<Caller, Arc<CallerState>>>);

/// The state of one caller.
#[derive(Debug, Default)]
struct CallerState {
    state: Mutex<State>,
    is_done: Condvar,
}

#[derive(Debug, Default)]
struct State {
    connections: u32,
    /// A bit for each slot of which a call is being executed.
    executing: u64,
    /// Something may be kept of its calls.
    has_records: bool,
}

const _: () = assert!(CALL_SLOTS as u32 <= u64::BITS);

/// One connection of a caller.
#[derive(Debug)]
pub(crate) struct Connected {
    callers: Arc<Callers>,
    pub(crate) caller: Caller,
    known: Arc<CallerState>,
}

/// A call that is being executed.
#[derive(Debug)]
pub(crate) struct Executing<'c> {
    known: &'c CallerState,
    bit: u64,
}

impl Callers {
    /// Adds a connection. `is_back`: a daemon before, or a connection, may have executed calls of its.
    pub(crate) fn connect(self: &Arc<Callers>, caller: Caller, is_back: bool) -> Connected {
        let mut all = self.0.lock();
        let known = Arc::clone(all.entry(caller).or_default());
        let mut state = known.state.lock();
        state.connections += 1;
        state.has_records |= is_back;
        drop(state);
        Connected { callers: Arc::clone(self), caller, known }
    }
}

impl Connected {
    /// Begins a call, once none of the slot is executed any more. `None`: there is no such slot.
    pub(crate) fn execute(&self, slot: CallSlot) -> Option<Executing<'_>> {
        if slot.slot >= CALL_SLOTS {
            return None;
        }
        let bit = 1 << slot.slot;
        let mut state = self.known.state.lock();
        while state.executing & bit != 0 {
            self.known.is_done.wait(&mut state);
        }
        state.executing |= bit;
        state.has_records = true;
        Some(Executing { known: &self.known, bit })
    }

    /// Takes the connection away. Says whether it was the last one of a caller of which something may be kept.
    pub(crate) fn leave(&self) -> bool {
        let mut all = self.callers.0.lock();
        let mut state = self.known.state.lock();
        state.connections -= 1;
        if state.connections > 0 {
            return false;
        }
        all.remove(&self.caller);
        state.has_records
    }
}

impl Drop for Executing<'_> {
    fn drop(&mut self) {
        self.known.state.lock().executing &= !self.bit;
        self.known.is_done.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuesta_format::CallerId;
    use std::sync::mpsc;

    fn caller() -> Caller {
        Caller { user: 7, id: CallerId([1; 16]) }
    }

    fn slot(slot: u16) -> CallSlot {
        CallSlot { caller: caller(), slot }
    }

    #[test]
    fn what_is_kept_goes_with_the_last_connection() {
        let callers = Arc::<Callers>::default();
        let (one, other) = (callers.connect(caller(), false), callers.connect(caller(), true));
        assert!(!one.leave(), "it has another");
        assert!(other.leave(), "of before something may be kept");
        let new = callers.connect(caller(), false);
        assert!(!new.leave(), "it called nothing");
        let new = callers.connect(caller(), false);
        drop(new.execute(slot(0)));
        assert!(new.leave());
        assert!(callers.0.lock().is_empty());
    }

    #[test]
    fn a_call_asked_again_waits_for_the_first() {
        let callers = Arc::<Callers>::default();
        let (one, other) = (callers.connect(caller(), false), callers.connect(caller(), false));
        assert!(one.execute(slot(CALL_SLOTS)).is_none());
        let first = one.execute(slot(63)).unwrap();
        drop(other.execute(slot(0)).unwrap());
        let (told, heard) = mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let again = other.execute(slot(63)).unwrap();
                told.send("again").unwrap();
                drop(again);
            });
            assert!(heard.try_recv().is_err());
            drop(first);
            assert_eq!(heard.recv(), Ok("again"));
        });
    }
}
