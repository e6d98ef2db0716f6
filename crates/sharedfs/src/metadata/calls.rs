//! The last call of each caller that took effect ([`cuesta_format::call_tag`]): a table that older stores get with their first
//! call.
//!
//! A key is user, caller and slot, the numbers big-endian; a value is [`Layout`].

use super::guard::guarded;
use super::keys::Table;
use super::layered::EVERYTHING;
use super::redo::Redo;
use super::{MetadataError, Snapshot, Transaction};
use cuesta_format::{CallRecord, CallSlot, Caller, CallerId};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

const KEY_BYTES: usize = 22;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Layout {
    number: U64,
    value: U64,
    end: U64,
    process: U32,
}

/// What a transaction changes in the table, by key.
pub(super) type CallChanges = BTreeMap<Vec<u8>, Option<CallRecord>>;

fn key(slot: CallSlot) -> [u8; KEY_BYTES] {
    let mut key = [0; KEY_BYTES];
    key[..4].copy_from_slice(&slot.caller.user.to_be_bytes());
    key[4..20].copy_from_slice(&slot.caller.id.0);
    key[20..].copy_from_slice(&slot.slot.to_be_bytes());
    key
}

fn slot_of(key: &[u8]) -> Option<CallSlot> {
    let (user, rest) = key.split_first_chunk::<4>()?;
    let (id, rest) = rest.split_first_chunk::<16>()?;
    let caller = Caller { user: u32::from_be_bytes(*user), id: CallerId(*id) };
    Some(CallSlot { caller, slot: u16::from_be_bytes(rest.try_into().ok()?) })
}

fn encode(record: &CallRecord) -> Layout {
    let CallRecord { number, process, value, end } = *record;
    Layout { number: number.into(), value: value.into(), end: end.into(), process: process.into() }
}

fn decode(bytes: &[u8]) -> Option<CallRecord> {
    let Layout { number, value, end, process } = Layout::read_from_bytes(bytes).ok()?;
    Some(CallRecord { number: number.get(), process: process.get(), value: value.get(), end: end.get() })
}

fn damaged() -> MetadataError {
    MetadataError::Damaged("the record of a call is unreadable".into())
}

/// Adds the changes to those of the transaction.
pub(super) fn gather(changes: &CallChanges, redo: &mut Redo) {
    for (key, record) in changes {
        let value = record.as_ref().map(encode);
        redo.push(Table::Calls, key, value.as_ref().map(IntoBytes::as_bytes));
    }
}

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
                // One that cannot be read is nobody's, and for the checker.
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

impl Transaction {
    /// Notes the last call of a slot that took effect, or forgets it.
    pub fn put_call(&mut self, slot: CallSlot, record: Option<CallRecord>) {
        self.calls.insert(key(slot).to_vec(), record);
    }

    /// Removes a record that cannot be read; for the checker.
    pub fn remove_unreadable_call(&mut self, key: &[u8]) {
        self.calls.insert(key.to_vec(), None);
    }

    /// Forgets all that is kept of a caller's calls.
    pub fn remove_caller(&mut self, caller: Caller) -> Result<(), MetadataError> {
        for slot in self.base().call_slots(caller)? {
            self.put_call(slot, None);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::MetadataStore;
    use super::*;
    use crate::SharedFs;
    use crate::check::{Mode, Problem, Verdict, check};
    use cuesta_format::geometry::METADATA_FILE;
    use cuesta_format::superblock::Superblock;
    use cuesta_format::{Geometry, Medium, StoreId};

    #[test]
    fn golden_bytes_of_a_record_and_its_key() {
        let caller = Caller { user: 0x0102_0304, id: CallerId([5; 16]) };
        let slot = CallSlot { caller, slot: 0x0607 };
        let bytes = key(slot);
        assert_eq!(
            (&bytes[..4], &bytes[4..20], &bytes[20..]),
            (&[1, 2, 3, 4][..], &[5; 16][..], &[6, 7][..])
        );
        assert_eq!(slot_of(&bytes), Some(slot));
        assert_eq!(slot_of(&bytes[1..]), None);
        let record = CallRecord { number: 1, process: 4, value: 2, end: 3 };
        let encoded = encode(&record);
        let bytes = encoded.as_bytes();
        assert_eq!(
            bytes,
            [1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0]
        );
        assert_eq!((decode(bytes), decode(&bytes[1..])), (Some(record), None));
    }

    #[test]
    fn a_store_without_the_table_gets_it_with_its_first_record() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("meta");
        let store = MetadataStore::create(&path, Medium::Memory).unwrap();
        let without = guarded(|| {
            let tree = store.begin_tree()?;
            tree.delete_table(Table::Calls.definition())?;
            tree.commit()
        });
        without.unwrap();
        store.leave();
        drop(store);

        let store = MetadataStore::open(&path, Medium::Memory).unwrap();
        let slot = CallSlot { caller: Caller { user: 7, id: CallerId([1; 16]) }, slot: 0 };
        let record = CallRecord { number: 3, process: 4, value: 5, end: 6 };
        let before = store.read().unwrap();
        assert_eq!((before.call(slot).unwrap(), before.callers().unwrap().len()), (None, 0));
        assert_eq!(
            (before.call_slots(slot.caller).unwrap(), before.unreadable_calls().unwrap().len()),
            (vec![], 0)
        );
        drop(before);
        let mut transaction = store.begin().unwrap();
        transaction.remove_caller(slot.caller).unwrap();
        transaction.put_call(slot, Some(record));
        transaction.commit().unwrap();
        assert_eq!(store.read().unwrap().call(slot).unwrap(), Some(record), "in the journal");
        store.write_out().unwrap();
        store.leave();
        drop(store);
        let store = MetadataStore::open(&path, Medium::Memory).unwrap();
        assert_eq!(
            store.read().unwrap().callers().unwrap().into_iter().collect::<Vec<_>>(),
            [(slot.caller, 4)]
        );
        let mut transaction = store.begin().unwrap();
        transaction.remove_caller(slot.caller).unwrap();
        transaction.commit().unwrap();
        assert_eq!(store.read().unwrap().call(slot).unwrap(), None);
    }

    #[test]
    fn a_record_that_cannot_be_read_is_found_and_goes() {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let geometry = Geometry { nvm_bytes: 4 << 20, arena_bytes: 1 << 20, ..Geometry::default() };
        let superblock = Superblock { store: StoreId([9; 16]), medium: Medium::Memory, geometry };
        SharedFs::create(folder.path(), superblock).unwrap();
        let path = folder.path().join(METADATA_FILE);
        let store = MetadataStore::open(&path, Medium::Memory).unwrap();
        let mut transaction = store.begin().unwrap();
        let record = CallRecord { number: 3, process: 4, value: 5, end: 6 };
        transaction.calls.insert(b"nobody".to_vec(), Some(record));
        transaction.commit().unwrap();
        store.leave();
        drop(store);
        let found = |mode| {
            let findings = check(folder.path(), mode).unwrap().findings;
            findings.into_iter().map(|finding| (finding.problem, finding.verdict)).collect::<Vec<_>>()
        };
        let problem = || Problem::Call(b"nobody".to_vec());
        assert_eq!(found(Mode::Report), [(problem(), Verdict::Repairable)]);
        assert_eq!(found(Mode::Repair), [(problem(), Verdict::Repaired)]);
        assert_eq!(found(Mode::Report), []);
    }
}
