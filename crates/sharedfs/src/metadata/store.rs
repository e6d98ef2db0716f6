//! Making, opening and checking a metadata store.

use super::backend::{Backend, BackendFile};
use super::guard::{Tree, guarded};
use super::keys::{
    ARENAS, COUNTERS, DIRENTS, EXTENDED, EXTENTS, INODES, LIMITS, ORPHANS, SESSIONS, SYMLINKS, USAGE,
};
use super::transaction::write_counters;
use super::{Counters, MetadataError, Snapshot, Transaction, Watch};
use cuesta_media::Medium;
use parking_lot::RwLock;
use redb::{Database, ReadableDatabase};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// The layout of tables, keys and values this build reads and writes.
const FORMAT_VERSION: u64 = 4;
const FORMAT_COUNTER: &str = "format";

/// Pages of the tree kept in memory of our own, unless somebody says how many. More than this bought nothing in the
/// measurement.
pub const CACHE_BYTES: u64 = 64 << 20;

/// The metadata store. One writer, any number of readers beside it.
pub struct MetadataStore {
    path: PathBuf,
    medium: Medium,
    cache_bytes: u64,
    opened: RwLock<Arc<Opened>>,
    is_read_only: AtomicBool,
    watch: OnceLock<Arc<dyn Watch>>,
}

/// redb on its file.
struct Opened {
    database: Database,
    file: Arc<BackendFile>,
}

impl MetadataStore {
    /// Makes an empty store; not even the root is in it.
    pub fn create(path: &Path, medium: Medium) -> Result<MetadataStore, MetadataError> {
        if path.exists() {
            return Err(MetadataError::Exists(path.to_path_buf()));
        }
        let store = MetadataStore::attach(path, medium, CACHE_BYTES)?;
        guarded(|| {
            let tree = store.opened()?.begin_tree()?;
            tree.open_table(INODES)?;
            tree.open_table(DIRENTS)?;
            tree.open_table(EXTENTS)?;
            tree.open_table(SYMLINKS)?;
            tree.open_table(EXTENDED)?;
            tree.open_table(ARENAS)?;
            tree.open_table(SESSIONS)?;
            tree.open_table(ORPHANS)?;
            tree.open_table(USAGE)?;
            tree.open_table(LIMITS)?;
            tree.open_table(COUNTERS)?.insert(FORMAT_COUNTER, FORMAT_VERSION)?;
            write_counters(&tree, &Counters::default())?;
            tree.commit()
        })?;
        Ok(store)
    }

    /// Opens a store as it was left, by a clean end or by a kill: as of the last commit.
    pub fn open(path: &Path, medium: Medium) -> Result<MetadataStore, MetadataError> {
        MetadataStore::open_caching(path, medium, CACHE_BYTES)
    }

    /// As [`MetadataStore::open`], with up to `cache_bytes` of its pages kept in memory.
    pub fn open_caching(
        path: &Path,
        medium: Medium,
        cache_bytes: u64,
    ) -> Result<MetadataStore, MetadataError> {
        if !path.exists() {
            return Err(MetadataError::Missing(path.to_path_buf()));
        }
        if path.metadata().is_ok_and(|metadata| metadata.len() == 0) {
            return Err(MetadataError::Foreign(path.to_path_buf()));
        }
        let store = MetadataStore::attach(path, medium, cache_bytes)?;
        let found = guarded(|| {
            let reading = store.opened()?.database.begin_read()?;
            Ok(reading.open_table(COUNTERS)?.get(FORMAT_COUNTER)?.map_or(0, |version| version.value()))
        })?;
        if found != FORMAT_VERSION {
            return Err(MetadataError::Version { found, expected: FORMAT_VERSION });
        }
        let snapshot = store.read()?;
        snapshot.check_tables()?;
        snapshot.counters()?;
        Ok(store)
    }

    fn attach(path: &Path, medium: Medium, cache_bytes: u64) -> Result<MetadataStore, MetadataError> {
        let opened = RwLock::new(Arc::new(Opened::new(path, medium, cache_bytes)?));
        let (is_read_only, watch) = (AtomicBool::new(false), OnceLock::new());
        Ok(MetadataStore { path: path.to_owned(), medium, cache_bytes, opened, is_read_only, watch })
    }

    /// Every transaction that begins from now on tells `watch` what it changed. There is one who watches: the first.
    pub fn watch(&self, watch: Arc<dyn Watch>) {
        let _ = self.watch.set(watch);
    }

    /// What is open now. After a transaction that found the medium full, which redb does not go on from, that is the
    /// store opened anew: as it was before that transaction.
    fn opened(&self) -> Result<Arc<Opened>, MetadataError> {
        let opened = Arc::clone(&self.opened.read());
        if !opened.file.ran_full() {
            return Ok(opened);
        }
        drop(opened);
        let mut opened = self.opened.write();
        if opened.file.ran_full() {
            opened.file.give_up();
            *opened = Arc::new(Opened::new(&self.path, self.medium, self.cache_bytes)?);
        }
        Ok(Arc::clone(&opened))
    }

    fn file(&self) -> Arc<BackendFile> {
        Arc::clone(&self.opened.read().file)
    }

    /// What is committed now.
    pub fn read(&self) -> Result<Snapshot, MetadataError> {
        guarded(|| Ok(Snapshot::new(self.opened()?.database.begin_read()?)))
    }

    /// Writes nothing any more: a transaction met damage, and nobody knows what is left of it in memory. What was
    /// committed can be read, but for what is damaged.
    pub fn refuse_writes(&self) {
        self.is_read_only.store(true, Ordering::Relaxed);
    }

    /// Whether it writes nothing any more.
    pub fn is_read_only(&self) -> bool {
        self.is_read_only.load(Ordering::Relaxed)
    }

    /// Begins the one transaction that writes; waits while there is another.
    pub fn begin(&self) -> Result<Transaction, MetadataError> {
        if self.is_read_only() {
            return Err(MetadataError::Damaged("it is only read until cuesta fsck has been run".into()));
        }
        guarded(|| {
            let opened = self.opened()?;
            // The order matters: only once no other writer is left does a snapshot show the last commit.
            let tree = opened.begin_tree()?;
            let base = Snapshot::new(opened.database.begin_read()?);
            Transaction::new(tree, Arc::clone(&opened.file), base, self.watch.get().cloned())
        })
    }

    /// Bytes the store can grow by without asking the medium for more.
    pub fn slack_bytes(&self) -> u64 {
        self.file().slack_bytes()
    }

    /// Asks the medium for room now, so that the store can grow by `bytes` without asking then.
    pub fn ensure_slack(&self, bytes: u64) -> Result<(), MetadataError> {
        if self.slack_bytes() >= bytes {
            return Ok(());
        }
        let ensured = self.file().ensure_slack(bytes);
        ensured.map_err(|error| if error.is_full() { MetadataError::NoSpace } else { error.into() })
    }

    /// Bytes the store takes on its medium.
    pub fn allocated_bytes(&self) -> u64 {
        self.file().allocated_bytes()
    }

    /// Reads every page and checks its checksum: true if all is well, false if something was repaired.
    pub fn check_pages(&mut self) -> Result<bool, MetadataError> {
        let Some(opened) = Arc::get_mut(self.opened.get_mut()) else { return Err(MetadataError::Failed) };
        guarded(|| Ok(opened.database.check_integrity()?))
    }
}

impl Opened {
    fn new(path: &Path, medium: Medium, cache_bytes: u64) -> Result<Opened, MetadataError> {
        let file = Arc::new(BackendFile::open(path, medium)?);
        let backend = Backend(Arc::clone(&file));
        let cache_bytes = usize::try_from(cache_bytes).unwrap_or(usize::MAX);
        let database =
            guarded(|| Ok(Database::builder().set_cache_size(cache_bytes).create_with_backend(backend)?))?;
        Ok(Opened { database, file })
    }

    fn begin_tree(&self) -> Result<Tree, MetadataError> {
        let mut tree = self.database.begin_write()?;
        // Opening after a kill takes a millisecond, not a walk of the whole tree.
        tree.set_quick_repair(true);
        Ok(Tree::new(tree))
    }
}
