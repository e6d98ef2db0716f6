//! The calls of callers that a batch executed: the last one of each slot, whatever became of its effect.
//!
//! A file that is made and removed within a batch leaves nothing else. The record of the call that made it stays all the same: its
//! caller may ask for it again.

use super::lookup::Lookup;
use crate::Error;
use cuesta_format::{CallRecord, CallSlot, CallTag, Caller, Operation};
use std::collections::BTreeMap;

/// Records to put, and those to remove.
#[derive(Debug, Default)]
pub struct Calls(BTreeMap<CallSlot, Option<CallRecord>>);

impl Calls {
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// A call took effect by this operation.
    pub fn note(&mut self, tag: &CallTag, operation: &Operation<'_>) {
        self.0.insert(tag.slot, Some(tag.record(operation)));
    }

    /// A caller is gone. What only this batch knew of it is never stored.
    pub(super) fn forget(&mut self, store: &impl Lookup, caller: Caller) -> Result<(), Error> {
        self.0.retain(|slot, _| slot.caller != caller);
        self.0.extend(store.call_slots(caller)?.into_iter().map(|slot| (slot, None)));
        Ok(())
    }

    /// All of them.
    pub fn changes(&self) -> impl Iterator<Item = (CallSlot, Option<CallRecord>)> {
        self.0.iter().map(|(&slot, &record)| (slot, record))
    }
}
