//! Callers' calls, as a transaction changes them.

use super::transaction::Transaction;
use crate::metadata::MetadataError;
use crate::metadata::codec::calls::key;
use cuesta_format::{CallRecord, CallSlot, Caller};

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
    use super::*;
    use crate::SharedFs;
    use crate::check::{Mode, Problem, Verdict, check};
    use crate::metadata::MetadataStore;
    use crate::metadata::codec::Table;
    use crate::metadata::codec::calls::{decode, encode, slot_of};
    use crate::metadata::tree::guarded;
    use cuesta_format::CallerId;
    use cuesta_format::geometry::METADATA_FILE;
    use cuesta_format::superblock::Superblock;
    use cuesta_format::{Geometry, Medium, StoreId};
    use zerocopy::IntoBytes as _;

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
