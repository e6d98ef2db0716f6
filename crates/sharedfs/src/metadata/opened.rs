//! The tree as redb has it open, and the file it lies in.

use super::MetadataError;
use super::backend::{Backend, BackendFile};
use super::guard::{Tree, guarded};
use super::layered::TreeAt;
use cuesta_media::Medium;
use redb::{Database, ReadableDatabase};
use std::path::Path;
use std::sync::Arc;

/// redb on its file.
pub(super) struct Opened {
    /// None once the store was left.
    pub(super) database: Option<Database>,
    pub(super) file: Arc<BackendFile>,
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.close();
    }
}

impl Opened {
    pub(super) fn new(path: &Path, medium: Medium, cache_bytes: u64) -> Result<Opened, MetadataError> {
        let file = Arc::new(BackendFile::open(path, medium)?);
        let backend = Backend(Arc::clone(&file));
        let cache_bytes = usize::try_from(cache_bytes).unwrap_or(usize::MAX);
        let database =
            guarded(|| Ok(Database::builder().set_cache_size(cache_bytes).create_with_backend(backend)?))?;
        Ok(Opened { database: Some(database), file })
    }

    /// redb writes its last: what it knows of free pages, which are found anew where that cannot be done.
    pub(super) fn close(&mut self) {
        let database = self.database.take();
        let _ = guarded(|| {
            drop(database);
            Ok(())
        });
    }

    fn database(&self) -> Result<&Database, MetadataError> {
        self.database.as_ref().ok_or(MetadataError::Left)
    }

    pub(super) fn read_tree(&self) -> Result<Arc<TreeAt>, MetadataError> {
        Ok(Arc::new(TreeAt::new(self.database()?.begin_read()?)))
    }

    pub(super) fn begin_tree(&self) -> Result<Tree, MetadataError> {
        let mut tree = self.database()?.begin_write()?;
        // Opening after a kill takes a millisecond, not a walk of the whole tree.
        tree.set_quick_repair(true);
        Ok(Tree::new(tree))
    }
}
