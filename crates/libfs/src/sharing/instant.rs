//! Calls of several processes that one session executes: each takes effect at one instant (docs/semantics.md,
//! Guarantees).
//!
//! Leases separate the sessions of programs: if another session changes a directory meanwhile, the call is
//! tried again. Threads of one session that execute calls for different processes share their leases. One
//! thread may remove a name from the path of another between two steps. Then `stat` would show a file by a
//! name that it no longer has. `link` would make a name in a directory that has moved away.
//!
//! So such a session counts changes that remove names or change permissions. A call that follows a path notes
//! the count before its first step. If the count has changed when the call has read its whole answer, it is
//! tried again. A call that appends an entry compares the counts and appends in one step. New names are not
//! counted: a step that missed one answers for the instant before it was made.
//!
//! Threads of one program get no such promise. Among them a path is followed as on Linux.

use crate::client::client::Client;
use crate::client::halt::Halt;
use crate::sync::{MutexGuard, Ordering};
use cuesta_format::Operation;
use std::cell::Cell;

thread_local! {
    /// The count when this thread's attempt began to follow a path.
    static SEEN: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Whether paths may lead elsewhere after the operation, or may no longer be followed.
fn changes_paths(operation: &Operation<'_>) -> bool {
    match operation {
        Operation::Unlink { .. } | Operation::Rename { .. } | Operation::SetAccessList { .. } => true,
        Operation::SetAttributes { attributes, .. } => {
            attributes.mode.is_some() || attributes.uid.is_some() || attributes.gid.is_some()
        }
        _ => false,
    }
}

impl Client {
    fn counts_names(&self) -> bool {
        self.has_callers.load(Ordering::Relaxed)
    }

    /// An attempt begins.
    #[inline]
    pub(crate) fn begin_instant(&self) {
        if self.counts_names() {
            SEEN.set(None);
        }
    }

    /// The attempt follows a path.
    #[inline]
    pub(crate) fn note_path(&self) {
        if self.counts_names() && SEEN.get().is_none() {
            SEEN.set(Some(self.name_changes.count.load(Ordering::Acquire)));
        }
    }

    /// Whether the paths that the attempt followed still lead there.
    #[inline]
    pub(crate) fn is_one_instant(&self) -> bool {
        !self.counts_names()
            || SEEN.get().is_none_or(|seen| seen == self.name_changes.count.load(Ordering::Acquire))
    }

    /// Compares the counts. The guard keeps other such entries out until it is dropped. Call with the inodes'
    /// locks held.
    #[inline]
    pub(crate) fn at_one_instant(
        &self,
        operation: &Operation<'_>,
    ) -> Result<Option<MutexGuard<'_, ()>>, Halt> {
        if !self.counts_names() {
            return Ok(None);
        }
        let changes_paths = changes_paths(operation);
        if SEEN.get().is_none() && !changes_paths {
            return Ok(None);
        }
        let appending = self.name_changes.appending.lock();
        if !self.is_one_instant() {
            return Err(Halt::Again);
        }
        if changes_paths {
            self.name_changes.count.fetch_add(1, Ordering::AcqRel);
        }
        Ok(Some(appending))
    }
}
