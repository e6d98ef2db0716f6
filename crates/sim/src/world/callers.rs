//! Calls that a session executes for a caller ([`cuesta_format::call_tag`]).

use super::World;
use crate::operations::operation::{Operation, Outcome};
use cuesta_format::{CallSlot, CallTag, Caller, CallerId};
use cuesta_libfs::tagged;
use rustix::io::Errno;

/// The caller. Its process is one that the daemon cannot see, so that recovery keeps what is known of it.
const SLOT: CallSlot = CallSlot { caller: Caller { user: 1000, id: CallerId([9; 16]) }, slot: 0 };

impl World {
    /// As [`World::apply`], for the caller: the call with this number.
    pub fn apply_numbered(&mut self, number: u64, operation: &Operation) -> Result<Outcome, Errno> {
        self.client.execute_for_callers();
        tagged(CallTag { slot: SLOT, process: 0, number }, || self.apply(operation))
    }

    /// The number of the caller's last call that took effect.
    pub fn last_call(&self) -> Result<Option<u64>, String> {
        let record = self.client.last_call(SLOT).map_err(|error| format!("last call: {error}"))?;
        Ok(record.map(|record| record.number))
    }

    /// The caller is gone.
    pub fn forget_caller(&self) -> Result<(), String> {
        self.client.forget_caller(SLOT.caller).map_err(|error| format!("forget a caller: {error}"))
    }
}
