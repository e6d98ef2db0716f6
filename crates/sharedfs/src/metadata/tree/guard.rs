//! The one place through which redb is entered. It asserts some of the bytes it reads. A damaged page must be an
//! error of this store, and must end neither the thread that came across it nor the daemon.

use crate::metadata::MetadataError;
use redb::WriteTransaction;
use std::cell::Cell;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    /// A damaged page that this thread read.
    static DAMAGED: Cell<Option<u64>> = const { Cell::new(None) };
}

/// This thread was given zeros for a damaged page. All its work fails.
pub(crate) fn note_damage(page: u64) {
    tracing::error!(page, "a page of the metadata is damaged: its checksum is wrong");
    DAMAGED.set(Some(page));
}

/// Whether it was, since this thread entered redb.
pub(crate) fn is_damage_noted() -> bool {
    DAMAGED.get().is_some()
}

/// Does something with redb. Whatever it may have left half done is not looked at again: after
/// [`MetadataError::Damaged`] nothing is committed any more.
pub(crate) fn guarded<T>(enter: impl FnOnce() -> Result<T, MetadataError>) -> Result<T, MetadataError> {
    let entered = catch_unwind(AssertUnwindSafe(enter));
    if let Some(page) = DAMAGED.take() {
        return Err(MetadataError::Damaged(format!("the checksum of its page at {page} is wrong")));
    }
    entered.unwrap_or_else(|panic| {
        let what = panic
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(MetadataError::Damaged(what.unwrap_or_else(|| "its tree makes no sense".into())))
    })
}

/// A write transaction that is abandoned under guard, too.
pub(crate) struct Tree(Option<WriteTransaction>);

impl Tree {
    pub(crate) fn new(tree: WriteTransaction) -> Tree {
        Tree(Some(tree))
    }

    pub(crate) fn commit(mut self) -> Result<(), MetadataError> {
        match self.0.take() {
            Some(tree) => Ok(tree.commit()?),
            None => Ok(()),
        }
    }
}

impl Deref for Tree {
    type Target = WriteTransaction;

    fn deref(&self) -> &WriteTransaction {
        match &self.0 {
            Some(tree) => tree,
            None => unreachable!("it is taken by what consumes it alone"),
        }
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let tree = self.0.take();
        // An abandoned transaction leaves nothing, whether or not that could be tidied up.
        let _ = guarded(|| {
            drop(tree);
            Ok(())
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::MetadataStore;
    use crate::metadata::codec::Dirent;
    use cuesta_format::{FileKind, InodeNumber, InodeRecord, Timestamp};
    use cuesta_media::Medium;
    use std::fs::File;
    use std::os::unix::fs::FileExt;
    use std::path::Path;

    /// A third of them is more than the journal takes.
    const FILES: u64 = 12_000;

    fn fill(path: &Path) {
        let store = MetadataStore::create(path, Medium::Memory).unwrap();
        for round in 0..3 {
            let mut transaction = store.begin().unwrap();
            for number in (1..FILES).filter(|number| number % 3 == round) {
                let inode = InodeNumber(number);
                let record = InodeRecord::new(inode, 0o100_644, 0, 0, Timestamp(0));
                transaction.put_inode(&record).unwrap();
                let name = format!("{:x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
                transaction.put_dirent(InodeNumber::ROOT, name.as_bytes(), dirent(inode));
            }
            transaction.commit().unwrap();
        }
    }

    fn dirent(inode: InodeNumber) -> Dirent {
        Dirent { inode, kind: FileKind::File }
    }

    /// Reads everything and changes something everywhere.
    fn use_all(store: &MetadataStore) -> Result<(), MetadataError> {
        let snapshot = store.read()?;
        snapshot.visit_inodes(|_| ())?;
        snapshot.visit_entries(|_, _| ())?;
        let mut transaction = store.begin()?;
        for number in (1..FILES).step_by(7) {
            transaction.remove_inode(InodeNumber(number))?;
            let name = format!("{number:x}");
            transaction.put_dirent(InodeNumber::ROOT, name.as_bytes(), dirent(InodeNumber(number)));
        }
        transaction.commit()
    }

    #[test]
    fn damage_done_while_the_store_is_open_is_an_error_and_never_a_panic() {
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let (whole, path) = (folder.path().join("whole"), folder.path().join("meta"));
        fill(&whole);
        let bytes = std::fs::read(&whole).unwrap();
        let seed = 5;
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut noticed, mut panicked) = (0, 0);
        for round in 0..150 {
            std::fs::write(&path, &bytes).unwrap();
            let store = MetadataStore::open(&path, Medium::Memory).unwrap();
            let file = File::options().write(true).open(&path).unwrap();
            for _ in 0..3 + round % 8 {
                // Behind the journal, which is in memory, and redb's own header, which it does not read again.
                let at = random.u64((4 << 20) + 4096..bytes.len() as u64);
                let junk: Vec<u8> = (0..random.usize(1..64)).map(|_| random.u8(..)).collect();
                file.write_all_at(&junk, at).unwrap();
            }
            let quiet = std::panic::take_hook();
            std::panic::set_hook(Box::new(|_| ()));
            let used = catch_unwind(AssertUnwindSafe(|| {
                let used = use_all(&store);
                drop(store);
                used
            }));
            std::panic::set_hook(quiet);
            match used {
                Ok(Ok(())) => {}
                Ok(Err(_)) => noticed += 1,
                Err(_) => panicked += 1,
            }
        }
        assert_eq!(panicked, 0, "seed {seed}");
        assert!(noticed > 25, "seed {seed}: {noticed} of 150");
    }

    /// All that can be read: inodes, and names.
    fn all_of(path: &Path) -> Result<(Vec<InodeRecord>, Vec<Vec<u8>>), MetadataError> {
        let (mut inodes, mut names) = (Vec::new(), Vec::new());
        let store = MetadataStore::open(path, Medium::Memory)?;
        let snapshot = store.read()?;
        snapshot.visit_inodes(|stored| inodes.push(stored.record))?;
        snapshot.visit_entries(|_, entry| names.push(entry.name))?;
        Ok((inodes, names))
    }

    #[test]
    fn with_one_bit_flipped_nothing_is_read_that_was_not_written() {
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let (whole, path) = (folder.path().join("whole"), folder.path().join("meta"));
        fill(&whole);
        let bytes = std::fs::read(&whole).unwrap();
        let expected = all_of(&whole).unwrap();
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        // With the first, redb came across damage when the store was closed.
        let mut random = [11_980_358_937_196_222_495, seed].map(fastrand::Rng::with_seed);
        let (mut noticed, mut taken) = (0, Vec::new());
        let quiet = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| ()));
        for round in 0..600 {
            let random = &mut random[round / 300];
            // Behind the journal, the first page of checksums and redb's own header.
            let at = random.usize((4 << 20) + 2 * 4096..bytes.len());
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << random.u8(0..8);
            std::fs::write(&path, &damaged).unwrap();
            match all_of(&path) {
                Ok(found) if found == expected => {}
                Ok(_) => taken.push(at),
                Err(_) => noticed += 1,
            }
        }
        std::panic::set_hook(quiet);
        assert!(taken.is_empty(), "seed {seed}: of bytes {taken:?}");
        assert!(noticed > 25, "seed {seed}: {noticed} of 600");
    }
}
