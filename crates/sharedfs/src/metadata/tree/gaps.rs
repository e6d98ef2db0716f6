//! Free names and inode numbers: new ones are looked for where there are none.
//!
//! Those of a digest follow each other. So one look finds the next that is there, and all before it are new. Where
//! new names lie between old ones, as hashes do, each is looked for by itself.

use super::guard::guarded;
use super::layered::{TreeAt, next_in_tree};
use super::snapshot::Snapshot;
use crate::metadata::MetadataError;
use crate::metadata::codec::{CHUNK_INODES, Table, chunk_of, number_in, number_key};
use cuesta_format::InodeNumber;
use redb::AccessGuard;
use std::ops::{Bound, Range};

/// Names between two that are in the tree.
#[derive(Default)]
struct GapInTree {
    /// The key behind the gap that was found last, if there was a look; behind `Some(None)` the tree ends.
    end: Option<Option<AccessGuard<'static, &'static [u8]>>>,
    keys: u32,
    looks: u32,
}

impl GapInTree {
    /// To find the next key takes as long as to find two: it must serve more.
    const KEYS_PAYING: u32 = 3;
    /// So many times it is tried in any case.
    const LOOKS_LEAST: u32 = 4;

    /// Whether the name with this key is there, which lies behind those asked for before.
    fn finds(&mut self, tree: &TreeAt, key: &[u8]) -> Result<bool, MetadataError> {
        self.keys += 1;
        let ends_behind =
            |end: &Option<AccessGuard<'_, &[u8]>>| end.as_ref().is_none_or(|end| key < end.value());
        if self.end.as_ref().is_some_and(ends_behind) {
            return Ok(false);
        }
        if self.looks >= GapInTree::LOOKS_LEAST && self.looks * GapInTree::KEYS_PAYING > self.keys {
            let Some(names) = tree.table(Table::Dirents)? else { return Ok(false) };
            return Ok(names.get(key)?.is_some());
        }
        self.looks += 1;
        let end = next_in_tree(tree, Table::Dirents, key)?;
        let is_there = end.as_ref().is_some_and(|end| end.value() == key);
        self.end = Some(end);
        Ok(is_there)
    }
}

impl Snapshot {
    /// An error if a name with one of these keys, which are in order, is there, in what was committed since the tree was
    /// written, or in the `tree_too`.
    pub(crate) fn find_none_of<'a>(
        &self,
        keys: impl Iterator<Item = &'a [u8]>,
        tree_too: bool,
    ) -> Result<(), MetadataError> {
        let mut gap = GapInTree::default();
        for key in keys {
            let is_there = match self.overlay().get(Table::Dirents, key) {
                Some(value) => value.is_some(),
                None => tree_too && gap.finds(self.tree(), key)?,
            };
            if is_there {
                return Err(MetadataError::NameTaken);
            }
        }
        Ok(())
    }

    /// Numbers from `inode`'s on that no inode has, if neither it nor its neighbours exist: up to the next one that may.
    pub fn numbers_free_from(&self, inode: InodeNumber) -> Result<Option<Range<u64>>, MetadataError> {
        guarded(|| {
            let (chunk, _) = chunk_of(inode);
            let behind = (Bound::Included(&number_key(chunk)[..]), Bound::Unbounded);
            let next = self.range(Table::Inodes, behind)?.next().transpose()?;
            let next = next.map(|(key, _)| number_in(&key)).transpose()?.unwrap_or(u64::MAX);
            Ok((next > chunk).then(|| inode.0..next.saturating_mul(CHUNK_INODES)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::MetadataStore;
    use crate::metadata::codec::Dirent;
    use crate::metadata::tests::{folder_in_memory, put_much};
    use crate::metadata::writing::Transaction;
    use cuesta_format::{FileKind, InodeRecord, Timestamp};
    use cuesta_media::Medium;
    use std::collections::BTreeSet;

    const PARENT: InodeNumber = InodeNumber(7);

    fn dirent(inode: u64) -> Dirent {
        Dirent { inode: InodeNumber(inode), kind: FileKind::File }
    }

    fn name(number: u64) -> String {
        format!("{number:06}")
    }

    /// A store with some names in its tree and some in its journal, and those.
    fn store(folder: &std::path::Path, random: &mut fastrand::Rng) -> (MetadataStore, BTreeSet<u64>) {
        let store = MetadataStore::create(&folder.join("meta"), Medium::Memory).unwrap();
        let mut there = BTreeSet::new();
        for in_tree in [true, false] {
            let mut transaction = store.begin().unwrap();
            for _ in 0..100 {
                let number = random.u64(..1000);
                there.insert(number);
                transaction.put_dirent(PARENT, name(number).as_bytes(), dirent(number));
            }
            if !in_tree {
                let gone: Vec<u64> = there.iter().copied().filter(|number| number % 3 == 0).collect();
                for number in gone {
                    there.remove(&number);
                    transaction.remove_dirent(PARENT, name(number).as_bytes());
                }
            }
            transaction.commit().unwrap();
            if in_tree {
                store.write_out().unwrap();
            }
        }
        (store, there)
    }

    #[test]
    fn a_name_that_is_there_is_found_among_many_new_ones_wherever_it_is() {
        let seed = 17;
        let mut random = fastrand::Rng::with_seed(seed);
        let folder = folder_in_memory();
        let (store, mut there) = store(folder.path(), &mut random);
        let (mut taken, mut free) = (0, 0);
        for round in 0..300 {
            // Runs of names, and single ones.
            let mut wanted = BTreeSet::new();
            for _ in 0..random.u64(1..4) {
                let first = random.u64(..1000);
                let length = if round % 2 == 0 { random.u64(1..20) } else { 1 };
                wanted.extend(
                    (first..first + length)
                        .filter(|number| !there.contains(number) || round % 3 == 0 && random.u8(..8) == 0),
                );
            }
            let mut transaction = store.begin().unwrap();
            for &number in &wanted {
                transaction.put_new_dirent(PARENT, name(number).as_bytes(), dirent(number));
            }
            let is_taken = wanted.iter().any(|number| there.contains(number));
            let committed = transaction.commit();
            assert_eq!(
                matches!(committed, Err(MetadataError::NameTaken)),
                is_taken,
                "seed {seed}, round {round}: {committed:?}, {wanted:?}"
            );
            (taken, free) = if is_taken { (taken + 1, free) } else { (taken, free + 1) };
            // The inode goes again, so that there always are gaps.
            if !is_taken {
                there.extend(&wanted);
                let mut transaction = store.begin().unwrap();
                for &number in wanted.iter().filter(|number| *number % 2 == 0) {
                    there.remove(&number);
                    transaction.remove_dirent(PARENT, name(number).as_bytes());
                }
                transaction.commit().unwrap();
            }
            if round % 16 == 0 {
                store.write_out().unwrap();
            }
        }
        assert!(taken > 20 && free > 100, "seed {seed}: {taken} taken, {free} free");
    }

    #[test]
    fn numbers_that_are_free_have_no_inode() {
        let seed = 5;
        let mut random = fastrand::Rng::with_seed(seed);
        let folder = folder_in_memory();
        let store = MetadataStore::create(&folder.path().join("meta"), Medium::Memory).unwrap();
        let mut there = BTreeSet::new();
        for round in 0..4 {
            let mut transaction = store.begin().unwrap();
            for _ in 0..20 {
                let number = random.u64(1..4000);
                there.insert(number);
                let record = InodeRecord::new(InodeNumber(number), 0o100_644, 0, 0, Timestamp(0));
                transaction.put_inode(&record).unwrap();
            }
            transaction.commit().unwrap();
            if round % 2 == 0 {
                store.write_out().unwrap();
            }
            let snapshot = store.read().unwrap();
            let mut found = 0;
            for number in 1..4100 {
                let Some(free) = snapshot.numbers_free_from(InodeNumber(number)).unwrap() else { continue };
                assert_eq!(free.start, number, "seed {seed}");
                assert_eq!(there.range(free.clone()).next(), None, "seed {seed}: {free:?}");
                assert!(
                    free.end == u64::MAX || there.range(free.end..free.end + CHUNK_INODES).next().is_some()
                );
                found += 1;
            }
            assert!(found > 1000, "seed {seed}: {found}");
        }
    }

    #[test]
    fn a_name_that_must_be_new_is_found_wherever_it_is() {
        let folder = folder_in_memory();
        let store = MetadataStore::create(&folder.path().join("meta"), Medium::Memory).unwrap();
        store.ensure_slack(16 << 20).unwrap();
        let dirent = Dirent { inode: InodeNumber(9), kind: FileKind::File };
        let commit = |much: bool, change: &dyn Fn(&mut Transaction)| {
            let mut transaction = store.begin().unwrap();
            change(&mut transaction);
            if much {
                put_much(&mut transaction);
            }
            transaction.commit()
        };
        for (number, (put_much, new_much)) in
            [(false, false), (false, true), (true, false), (true, true)].into_iter().enumerate()
        {
            let name = format!("{number}");
            let put_new =
                |it: &mut Transaction| it.put_new_dirent(InodeNumber::ROOT, name.as_bytes(), dirent);
            commit(put_much, &put_new).unwrap();
            let used = store.read().unwrap().counters().unwrap();
            assert!(matches!(commit(new_much, &put_new), Err(MetadataError::NameTaken)), "{number}");
            assert_eq!(store.read().unwrap().counters().unwrap(), used);
            // Removed, it is as new, whether or not the tree still has it.
            commit(false, &|it| it.remove_dirent(InodeNumber::ROOT, name.as_bytes())).unwrap();
            commit(new_much, &put_new).unwrap();
        }
        assert_eq!(store.read().unwrap().list(InodeNumber::ROOT, b"", 10).unwrap().len(), 4);
    }
}
