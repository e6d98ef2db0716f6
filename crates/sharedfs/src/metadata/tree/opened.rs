//! The tree as redb has it open, and the file it lies in.

use super::guard::{Tree, guarded};
use super::layered::TreeAt;
use crate::metadata::MetadataError;
use crate::metadata::files::{Backend, BackendFile, Files};
use redb::{Database, ReadableDatabase};
use std::sync::Arc;

/// redb on its file.
pub(crate) struct Opened {
    /// None once the store was left.
    pub(crate) database: Option<Database>,
    pub(crate) file: Arc<BackendFile>,
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.close();
    }
}

impl Opened {
    pub(crate) fn new(files: &Files, cache_bytes: u64) -> Result<Opened, MetadataError> {
        let file = Arc::new(BackendFile::open(files)?);
        let backend = Backend(Arc::clone(&file));
        let cache_bytes = usize::try_from(cache_bytes).unwrap_or(usize::MAX);
        let database =
            guarded(|| Ok(Database::builder().set_cache_size(cache_bytes).create_with_backend(backend)?))?;
        Ok(Opened { database: Some(database), file })
    }

    /// redb writes its last: the free pages it knows, which are found anew where that cannot be done.
    pub(crate) fn close(&mut self) {
        let Some(database) = self.database.take() else { return };
        let closed = guarded(|| {
            drop(database);
            Ok(())
        });
        if closed.is_ok()
            && let Err(error) = self.file.copies().close()
        {
            tracing::warn!(%error, "the second copy of the metadata is behind: the next start brings it in step");
        }
    }

    fn database(&self) -> Result<&Database, MetadataError> {
        self.database.as_ref().ok_or(MetadataError::Left)
    }

    pub(crate) fn read_tree(&self) -> Result<Arc<TreeAt>, MetadataError> {
        Ok(Arc::new(TreeAt::new(self.database()?.begin_read()?)))
    }

    pub(crate) fn begin_tree(&self) -> Result<Tree, MetadataError> {
        let mut tree = self.database()?.begin_write()?;
        // Opening after a kill takes a millisecond, not a walk of the whole tree.
        tree.set_quick_repair(true);
        Ok(Tree::new(tree))
    }
}
