//! Making, opening and checking a metadata store.

use super::error::MetadataError;
use super::journal;
use super::read_only::ReadOnly;
use super::shared::{Flawed, JOURNAL_COUNTER, Shared};
use crate::metadata::codec::{Counters, Table};
use crate::metadata::files::{BackendFile, Exist, Files, PAGE_BYTES};
use crate::metadata::journal::JournalLoss;
use crate::metadata::tree::{Snapshot, Tree, guarded};
use crate::metadata::writing::{Transaction, Watch};
use cuesta_format::stamp::Stamp;
use cuesta_media::Medium;
use cuesta_media::emulate::Emulated;
use parking_lot::Mutex;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

/// The layout of tables, keys and values this build reads and writes.
const FORMAT_VERSION: u64 = 7;

const FORMAT_COUNTER: &str = "format";

/// Pages of the tree kept in memory of our own, unless the configuration says how many. More than this bought
/// nothing in the measurement.
pub const CACHE_BYTES: u64 = 64 << 20;

/// The metadata store. One writer, any number of readers beside it.
pub struct MetadataStore {
    shared: Arc<Shared>,
    writer: Arc<Mutex<()>>,
    read_only: OnceLock<ReadOnly>,
}

impl MetadataStore {
    /// Makes an empty store; not even the root is in it.
    pub fn create(path: &Path, medium: Medium) -> Result<MetadataStore, MetadataError> {
        let files = Files::new(path, medium);
        if files.exist() != Exist::No {
            return Err(MetadataError::Exists(path.to_path_buf()));
        }
        let store = MetadataStore::attach(files, CACHE_BYTES)?;
        guarded(|| {
            let tree = store.begin_tree()?;
            for table in Table::ALL {
                tree.open_table(table.definition())?;
            }
            let mut counters = tree.open_table(Table::Counters.definition())?;
            let versions = [(FORMAT_COUNTER, FORMAT_VERSION), (JOURNAL_COUNTER, 0)];
            for (name, value) in versions.into_iter().chain(Counters::default().named()) {
                counters.insert(name.as_bytes(), &value.to_le_bytes()[..])?;
            }
            drop(counters);
            tree.commit()
        })?;
        Ok(store)
    }

    /// Opens a store as it was left, by a clean end or by a kill: as of the last commit.
    pub fn open(path: &Path, medium: Medium) -> Result<MetadataStore, MetadataError> {
        MetadataStore::open_caching(Files::new(path, medium), CACHE_BYTES)
    }

    /// As [`MetadataStore::open`], with up to `cache_bytes` of its pages kept in memory.
    pub fn open_caching(files: Files, cache_bytes: u64) -> Result<MetadataStore, MetadataError> {
        let (store, loss) = MetadataStore::open_with_journal(files, cache_bytes)?;
        if let Some(loss) = loss {
            return Err(MetadataError::Journal(loss.flaw));
        }
        store.check_whole()?;
        Ok(store)
    }

    pub(crate) fn check_whole(&self) -> Result<(), MetadataError> {
        let snapshot = self.read()?;
        snapshot.check_tables()?;
        snapshot.counters()?;
        Ok(())
    }

    /// Opens it with the journal's changes, as far as they are sound.
    pub(crate) fn open_with_journal(
        files: Files,
        cache_bytes: u64,
    ) -> Result<(MetadataStore, Option<JournalLoss>), MetadataError> {
        match files.exist() {
            Exist::No => return Err(MetadataError::Missing(files.path().to_path_buf())),
            Exist::Empty => return Err(MetadataError::Foreign(files.path().to_path_buf())),
            Exist::Yes => {}
        }
        let store = MetadataStore::attach(files, cache_bytes)?;
        // Behind a tree of another version there is no journal that could be read.
        let tree = guarded(|| store.shared.current.read().opened.read_tree())?;
        let found = Snapshot::new(tree, Arc::default()).counter(FORMAT_COUNTER)?.unwrap_or(0);
        if found != FORMAT_VERSION {
            return Err(MetadataError::Version { found, expected: FORMAT_VERSION });
        }
        let loss = guarded(|| store.shared.current.write().read_journal(Flawed::Take))?;
        Ok((store, loss))
    }

    fn attach(files: Files, cache_bytes: u64) -> Result<MetadataStore, MetadataError> {
        let shared = Arc::new(Shared::open(files, cache_bytes)?);
        Ok(MetadataStore { shared, writer: Arc::default(), read_only: OnceLock::new() })
    }

    /// Every transaction that begins from now on tells `watch` what it changed. There is one watcher: the
    /// first.
    pub fn watch(&self, watch: Arc<dyn Watch>) {
        let _ = self.shared.watch.set(watch);
    }

    /// Has it play another medium.
    pub fn emulate(&self, emulated: &Arc<Emulated>) {
        let _ = self.shared.emulated.set(Arc::clone(emulated));
        self.file().emulate(emulated);
    }

    /// Begins a transaction of the tree itself, past the journal: only for making a store.
    pub(crate) fn begin_tree(&self) -> Result<Tree, MetadataError> {
        self.shared.current.read().opened.begin_tree()
    }

    fn file(&self) -> Arc<BackendFile> {
        Arc::clone(&self.shared.current.read().opened.file)
    }

    /// A snapshot of the last commit.
    pub fn read(&self) -> Result<Snapshot, MetadataError> {
        self.shared.read()
    }

    /// Writes nothing any more; the first reason stays.
    pub fn refuse_writes(&self, why: ReadOnly) {
        let _ = self.read_only.set(why);
    }

    /// Whether it writes nothing any more.
    pub fn is_read_only(&self) -> bool {
        self.read_only().is_some()
    }

    /// Why it writes nothing any more.
    pub fn read_only(&self) -> Option<ReadOnly> {
        self.read_only.get().copied()
    }

    /// Closes the store for good, behind the transaction that there may be. It is the next daemon's from now
    /// on, whichever readers of this one are left. redb writes its last here, and not when the last reader lets
    /// go.
    pub fn leave(&self) {
        let _writing = self.writer.lock();
        let mut current = self.shared.current.write();
        // First: a reader that comes across the rest of it finds out why.
        self.shared.is_left.store(true, Ordering::Release);
        current.tree = None;
        // Only a transaction would hold it, too, and there is none.
        if let Some(opened) = Arc::get_mut(&mut current.opened) {
            opened.close();
        }
        current.opened.file.give_up();
    }

    /// Begins the one transaction that writes; waits while there is another.
    pub fn begin(&self) -> Result<Transaction, MetadataError> {
        // The order matters: only once no other writer is left does a snapshot show the last commit.
        let writing = self.writer.lock_arc();
        self.shared.check_kept()?;
        match self.read_only() {
            Some(ReadOnly::Damage) => {
                return Err(MetadataError::Damaged("it is only read until cuesta fsck has been run".into()));
            }
            Some(ReadOnly::Failure) => return Err(MetadataError::Failed),
            None if self.shared.in_doubt.load(Ordering::Relaxed) => return Err(MetadataError::Failed),
            None => {}
        }
        let snapshot = self.shared.read()?;
        match self.shared.flaw.get() {
            Some(&flaw) => Err(MetadataError::Journal(flaw)),
            None => Transaction::new(Arc::clone(&self.shared), writing, snapshot),
        }
    }

    /// Bytes the store can grow by without asking the medium for more, apart from what the journal's changes may take.
    pub fn slack_bytes(&self) -> u64 {
        let current = self.shared.current.read();
        current.opened.file.slack_bytes().saturating_sub(current.set_aside_bytes())
    }

    /// Asks the medium for room now, so that the store can grow by `bytes` without asking then. Where it has
    /// none, the room set aside for the journal's changes is used. The caller has no transaction.
    pub fn ensure_slack(&self, bytes: u64) -> Result<(), MetadataError> {
        if self.make_slack(bytes).is_ok() {
            return Ok(());
        }
        match self.write_out() {
            Err(error @ (MetadataError::Damaged(_) | MetadataError::Journal(_))) => {
                tracing::error!(%error, "the metadata store is damaged, and only read from now on");
                self.refuse_writes(ReadOnly::Damage);
                return Err(MetadataError::NoSpace);
            }
            written => written?,
        }
        self.make_slack(bytes)
    }

    /// The same, as far as the medium has room.
    pub fn make_slack(&self, bytes: u64) -> Result<(), MetadataError> {
        if self.slack_bytes() >= bytes {
            return Ok(());
        }
        let current = self.shared.current.read();
        let (file, set_aside) = (Arc::clone(&current.opened.file), current.set_aside_bytes());
        drop(current);
        let made = file.ensure_slack(bytes.saturating_add(set_aside));
        made.map_err(|error| if error.is_full() { MetadataError::NoSpace } else { error.into() })
    }

    /// Writes the journal's changes to the tree.
    pub fn write_out(&self) -> Result<(), MetadataError> {
        if self.shared.current.read().journal.end == 0 {
            return Ok(());
        }
        self.begin()?.write_out()
    }

    /// Whether it was left.
    pub fn is_left(&self) -> bool {
        self.shared.is_left.load(Ordering::Acquire)
    }

    /// The medium is found full behind so many more syncs.
    #[cfg(test)]
    pub(crate) fn fill_behind(&self, syncs: u64) {
        self.file().syncs_left.store(syncs, Ordering::Relaxed);
    }

    /// Bytes the store takes on its medium.
    pub fn allocated_bytes(&self) -> u64 {
        self.file().allocated_bytes()
    }

    /// Durably says of which opening of the store it is, even once it was left.
    pub fn stamp(&self, stamp: &Stamp) -> Result<(), MetadataError> {
        let stamped = self.file().copies().stamp(stamp);
        stamped.map_err(|error| MetadataError::Damaged(error.to_string()))
    }

    /// Flaws of one copy that were mended from the other, since the store was opened.
    pub fn flaws(&self) -> Vec<String> {
        self.file().copies().flaws()
    }

    /// How often one copy was mended from the other since it was opened.
    pub fn healed(&self) -> u64 {
        self.file().copies().healed()
    }

    /// Compares each page with its checksum in both copies, and mends one from the other. Answers how many neither has.
    pub fn scrub_copies(&self) -> Result<u64, MetadataError> {
        let _writing = self.writer.lock();
        self.shared.check_kept()?;
        let file = self.file();
        let mut lost = 0;
        for page in (0..file.written_bytes()).step_by(PAGE_BYTES as usize) {
            // The first may have been torn by a crash; redb has its own checksums there.
            lost += u64::from(!file.copies().scrub(page) && page > 0);
        }
        let place = self.shared.current.read().journal;
        journal::scrub(&file, place).map_err(|error| MetadataError::Damaged(error.to_string()))?;
        Ok(lost)
    }

    /// Reads every page and checks its checksum: true if all is well, false if something was repaired.
    pub fn check_pages(&mut self) -> Result<bool, MetadataError> {
        let mut current = self.shared.current.write();
        current.tree = None;
        let opened = Arc::get_mut(&mut current.opened).ok_or(MetadataError::Failed)?;
        let database = opened.database.as_mut().ok_or(MetadataError::Left)?;
        guarded(|| Ok(database.check_integrity()?))
    }
}
