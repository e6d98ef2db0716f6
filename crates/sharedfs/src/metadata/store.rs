//! Making, opening and checking a metadata store.

use super::backend::{Backend, BackendFile};
use super::keys::{ARENAS, COUNTERS, DIRENTS, EXTENTS, INODES, ORPHANS, SESSIONS, SYMLINKS};
use super::transaction::write_counters;
use super::{Counters, MetadataError, Snapshot, Transaction};
use cuesta_media::{MediaError, Medium};
use redb::{Database, ReadableDatabase, WriteTransaction};
use rustix::io::Errno;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

/// The layout of tables, keys and values this build reads and writes.
const FORMAT_VERSION: u64 = 1;
const FORMAT_COUNTER: &str = "format";

/// Pages of the tree kept in memory of our own. More than this bought nothing in the measurement.
const CACHE_BYTES: usize = 64 << 20;

/// The metadata store. One writer, any number of readers beside it.
pub struct MetadataStore {
    database: Database,
    file: Arc<BackendFile>,
}

impl MetadataStore {
    /// Makes an empty store; not even the root is in it.
    pub fn create(path: &Path, medium: Medium) -> Result<MetadataStore, MetadataError> {
        if path.exists() {
            return Err(MetadataError::Exists(path.to_path_buf()));
        }
        let store = MetadataStore::attach(path, medium)?;
        let tree = store.begin_tree()?;
        tree.open_table(INODES)?;
        tree.open_table(DIRENTS)?;
        tree.open_table(EXTENTS)?;
        tree.open_table(SYMLINKS)?;
        tree.open_table(ARENAS)?;
        tree.open_table(SESSIONS)?;
        tree.open_table(ORPHANS)?;
        tree.open_table(COUNTERS)?.insert(FORMAT_COUNTER, FORMAT_VERSION)?;
        write_counters(&tree, &Counters::default())?;
        tree.commit()?;
        Ok(store)
    }

    /// Opens a store as it was left, by a clean end or by a kill: as of the last commit.
    pub fn open(path: &Path, medium: Medium) -> Result<MetadataStore, MetadataError> {
        if !path.exists() {
            return Err(MetadataError::Missing(path.to_path_buf()));
        }
        if path.metadata().is_ok_and(|metadata| metadata.len() == 0) {
            return Err(MetadataError::Foreign(path.to_path_buf()));
        }
        let store = MetadataStore::attach(path, medium)?;
        let reading = store.database.begin_read()?;
        let found = reading.open_table(COUNTERS)?.get(FORMAT_COUNTER)?.map_or(0, |version| version.value());
        if found != FORMAT_VERSION {
            return Err(MetadataError::Version { found, expected: FORMAT_VERSION });
        }
        // Every table is there, and so are the counters.
        Snapshot::new(&reading)?.counters()?;
        Ok(store)
    }

    fn attach(path: &Path, medium: Medium) -> Result<MetadataStore, MetadataError> {
        let file = Arc::new(BackendFile::open(path, medium)?);
        let backend = Backend(Arc::clone(&file));
        let database =
            guarded(|| Ok(Database::builder().set_cache_size(CACHE_BYTES).create_with_backend(backend)?))?;
        Ok(MetadataStore { database, file })
    }

    /// What is committed now.
    pub fn read(&self) -> Result<Snapshot, MetadataError> {
        Snapshot::new(&self.database.begin_read()?)
    }

    /// Begins the one transaction that writes; waits while there is another.
    pub fn begin(&self) -> Result<Transaction, MetadataError> {
        // The order matters: only once no other writer is left does a snapshot show the last commit.
        let tree = self.begin_tree()?;
        Transaction::new(tree, Arc::clone(&self.file), self.read()?)
    }

    fn begin_tree(&self) -> Result<WriteTransaction, MetadataError> {
        let mut tree = self.database.begin_write()?;
        // Opening after a kill takes a millisecond, not a walk of the whole tree.
        tree.set_quick_repair(true);
        Ok(tree)
    }

    /// Bytes the store can grow by without asking the medium for more.
    pub fn slack_bytes(&self) -> u64 {
        self.file.slack_bytes()
    }

    /// Asks the medium for room now, so that the store can grow by `bytes` without asking then.
    pub fn ensure_slack(&self, bytes: u64) -> Result<(), MetadataError> {
        if self.slack_bytes() >= bytes {
            return Ok(());
        }
        self.file.ensure_slack(bytes).map_err(|error| match &error {
            MediaError::System { errno: Errno::NOSPC, .. } => MetadataError::NoSpace,
            _ => error.into(),
        })
    }

    /// Bytes the store takes on its medium.
    pub fn allocated_bytes(&self) -> u64 {
        self.file.allocated_bytes()
    }

    /// Reads every page and checks its checksum: true if all is well, false if something was repaired.
    pub fn check_pages(&mut self) -> Result<bool, MetadataError> {
        guarded(|| Ok(self.database.check_integrity()?))
    }
}

/// redb asserts some of what it reads when it opens or checks a file; a damaged one must be an error.
fn guarded<T>(open: impl FnOnce() -> Result<T, MetadataError>) -> Result<T, MetadataError> {
    catch_unwind(AssertUnwindSafe(open)).unwrap_or_else(|panic| {
        let what = panic
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(MetadataError::Damaged(what.unwrap_or_else(|| "its tree makes no sense".into())))
    })
}
