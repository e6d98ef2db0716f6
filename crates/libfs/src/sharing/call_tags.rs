//! Calls that a session executes for processes without a session (callers), each exactly once
//! ([`cuesta_format::call_tag`]).
//!
//! The thread that executes a call says whose call it is ([`tagged`]). The entry by which the call takes
//! effect carries the tag. So the log, the digest and recovery have both or neither. If a fence voids an
//! attempt, the next attempt carries the tag again.
//!
//! A call may log more than one entry. Only one of them must not be logged twice, and that entry carries the
//! tag:
//!
//! | call | its effect | beside it, and the same if done twice |
//! |---|---|---|
//! | `mkdir`, `mknod`, `symlink` | `Create` | |
//! | `open` | `Create`, or `Truncate` if it cuts a file that is there | as `write` |
//! | `link` | `Link` | |
//! | `unlink`, `rmdir`, `rename` | `Unlink`, `Rename` | `Release` of an inode that no process has open any more |
//! | `write` | `Write` | `SetAttributes`, `RemoveExtended`: what gives the file's owner's rights goes first |
//! | `truncate`, `fallocate` | `Truncate`, `Clear`, `Shift` | as `write` |
//! | `chmod`, `chown`, `utimensat` | `SetAttributes` | `RemoveExtended` |
//! | `setxattr`, `removexattr` | `SetExtended`, `SetAccessList`, `RemoveExtended` | |
//!
//! Changes of a file in mapped mode that bypass the log have no entry. Such a call is executed again.
//!
//! A process may be killed while its call waits here, for a lease or for room. Its parent learns that it has
//! ended, and relies on that: the next program must not meet a later change. So a call takes effect only
//! while its process exists. The check comes after all waits, under the locks that every reader of the change
//! takes ([`while_wanted`]).
//!
//! Sessions of programs execute no calls of others, and check one flag that says so.

use crate::sync::Arc;
use cuesta_format::CallTag;
use std::cell::{Cell, RefCell};

thread_local! {
    /// The tag of the call that this thread executes.
    static TAG: Cell<Option<CallTag>> = const { Cell::new(None) };
    /// The process that waits for the call.
    static PROCESS: RefCell<Option<Arc<dyn CallingProcess>>> = const { RefCell::new(None) };
}

/// A process without a session. This session executes its calls.
pub trait CallingProcess: Send + Sync {
    /// Whether the process has ended, or no longer knows of the calls that it asked for.
    fn is_gone(&self) -> bool;
}

/// What an entry means to the call that logs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryRole {
    /// The call takes effect by this entry.
    Effect,
    /// Logging it twice does the same as logging it once.
    Idempotent,
}

/// The tag of the call that this thread executes.
#[inline]
pub(super) fn tag_of_thread() -> Option<CallTag> {
    TAG.get()
}

/// Restores the thread's earlier tag.
struct RestoreTag(Option<CallTag>);

impl Drop for RestoreTag {
    fn drop(&mut self) {
        TAG.set(self.0);
    }
}

/// Executes a caller's call. The entry by which it takes effect carries `tag`, in a session that [executes
/// calls of others](crate::Client::execute_for_callers).
pub fn tagged<T>(tag: CallTag, call: impl FnOnce() -> T) -> T {
    let _restore = RestoreTag(TAG.replace(Some(tag)));
    call()
}

/// Forgets the thread's process.
struct ForgetProcess;

impl Drop for ForgetProcess {
    fn drop(&mut self) {
        PROCESS.set(None);
    }
}

/// Executes calls of a process. If the process is gone before a tagged call takes effect, the call fails with
/// [`crate::Error::Withdrawn`].
pub fn while_wanted<T>(process: &Arc<dyn CallingProcess>, calls: impl FnOnce() -> T) -> T {
    PROCESS.set(Some(Arc::clone(process)));
    let _forget = ForgetProcess;
    calls()
}

/// Whether the process of the call that this thread executes is gone.
#[cold]
pub(crate) fn is_withdrawn() -> bool {
    PROCESS.with_borrow(|process| process.as_ref().is_some_and(|process| process.is_gone()))
}
