//! Calls of several processes that one session executes: each takes effect at one instant (DESIGN §3, contract 3).
//!
//! Sessions of programs are told apart by leases: a call whose directory another session changes meanwhile is made again. Calls that threads of
//! one session execute for different processes have the same leases. One thread's path may lose its names to another between two steps:
//! then `stat` would show a file by a name that it has no more, and `link` would make a name in a directory that was moved away.
//!
//! So such a session counts what takes names away or changes who may use them. A call that follows a path notes the count before its first
//! step. If the count is another one when the call has read all that it answers, it is made again. A call that appends an entry
//! compares the counts and appends in one step. A new name is not counted: a step that missed it answers for the instant before it was made.
//!
//! Threads of one program are told nothing of that: among them a path is followed as Linux does it.

use crate::client::client::Client;
use crate::client::halt::Halt;
use crate::sync::{MutexGuard, Ordering};
use cuesta_format::Operation;
use std::cell::Cell;

thread_local! {
    /// The count when the present attempt of this thread began to follow a path.
    static SEEN: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Whether paths may lead elsewhere behind it, or not as far.
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

    /// Whether the paths that the attempt followed lead where they did.
    #[inline]
    pub(crate) fn is_one_instant(&self) -> bool {
        !self.counts_names()
            || SEEN.get().is_none_or(|seen| seen == self.name_changes.count.load(Ordering::Acquire))
    }

    /// Compares the counts, and keeps other entries of this kind out until the guard is dropped. Call with the inodes' locks held.
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
