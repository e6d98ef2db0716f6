//! Callers' calls, as a snapshot has them.

use super::guard::guarded;
use super::layered::EVERYTHING;
use super::snapshot::Snapshot;
use crate::metadata::MetadataError;
use crate::metadata::codec::Table;
use crate::metadata::codec::calls::{damaged, decode, key, slot_of};
use cuesta_format::{CallRecord, CallSlot, Caller};
use std::collections::BTreeSet;
use std::ops::Bound;

impl Snapshot {
    /// The last call of a slot that took effect.
    pub fn call(&self, slot: CallSlot) -> Result<Option<CallRecord>, MetadataError> {
        guarded(|| {
            let found = self.get(Table::Calls, &key(slot))?;
            found.map(|bytes| decode(&bytes).ok_or_else(damaged)).transpose()
        })
    }

    /// The slots of which a caller has records.
    pub fn call_slots(&self, caller: Caller) -> Result<Vec<CallSlot>, MetadataError> {
        guarded(|| {
            let ends = [0, u16::MAX].map(|slot| key(CallSlot { caller, slot }));
            let bounds = (Bound::Included(&ends[0][..]), Bound::Included(&ends[1][..]));
            let slots = self.range(Table::Calls, bounds)?;
            slots.map(|pair| slot_of(&pair?.0).ok_or_else(damaged)).collect()
        })
    }

    /// All callers of which something is kept, with their processes.
    pub fn callers(&self) -> Result<BTreeSet<(Caller, u32)>, MetadataError> {
        guarded(|| {
            let mut callers = BTreeSet::new();
            for pair in self.range(Table::Calls, EVERYTHING)? {
                let (key, value) = pair?;
                // One that cannot be read belongs to no caller, and is the checker's to find.
                if let Some((slot, record)) = slot_of(&key).zip(decode(&value)) {
                    callers.insert((slot.caller, record.process));
                }
            }
            Ok(callers)
        })
    }

    /// The keys of records that cannot be read: for the checker.
    pub fn unreadable_calls(&self) -> Result<Vec<Vec<u8>>, MetadataError> {
        guarded(|| {
            let mut unreadable = Vec::new();
            for pair in self.range(Table::Calls, EVERYTHING)? {
                let (key, value) = pair?;
                if slot_of(&key).zip(decode(&value)).is_none() {
                    unreadable.push(key.to_vec());
                }
            }
            Ok(unreadable)
        })
    }
}
