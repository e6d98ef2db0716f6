//! Calls that a session executes for processes without one (callers), each exactly once ([`cuesta_format::call_tag`]).
//!
//! The thread that executes a call says whose it is ([`tagged`]). The entry by which the call takes effect then carries the tag, so
//! that log, digest and recovery have both or neither. An attempt that a fence voids is made again, with the tag.
//!
//! A call may log more than one entry. Only one of them must not be logged twice, and that one carries the tag:
//!
//! | call | its effect | beside it, and the same if done twice |
//! |---|---|---|
//! | `mkdir`, `mknod`, `symlink` | `Create` | |
//! | `open` | `Create`, or `Truncate` if it cuts a file that is there | as `write` |
//! | `link` | `Link` | |
//! | `unlink`, `rmdir`, `rename` | `Unlink`, `Rename` | `Release` of what nobody has open any more |
//! | `write` | `Write` | `SetAttributes`, `RemoveExtended`: what gives the file's owner's rights goes first |
//! | `truncate`, `fallocate` | `Truncate`, `Clear`, `Shift` | as `write` |
//! | `chmod`, `chown`, `utimensat` | `SetAttributes` | `RemoveExtended` |
//! | `setxattr`, `removexattr` | `SetExtended`, `SetAccessList`, `RemoveExtended` | |
//!
//! What a call changes of a file in mapped mode past the log has no entry: such a call is done again.
//!
//! A process may be killed while its call waits here, for a lease or for room. Its parent learns that it has ended, and relies on it: the next
//! program must not meet a change that comes later. So a call takes effect only while its process is there, which is
//! looked up behind all waits, under the locks that every reader of the change takes ([`while_wanted`]).
//!
//! Sessions of programs execute nobody's calls, and look at one flag that says so.

use crate::sync::Arc;
use cuesta_format::CallTag;
use std::cell::{Cell, RefCell};

thread_local! {
    /// Whose call this thread executes.
    static TAG: Cell<Option<CallTag>> = const { Cell::new(None) };
    /// The process that waits for it.
    static PROCESS: RefCell<Option<Arc<dyn CallingProcess>>> = const { RefCell::new(None) };
}

/// A process without a session, whose calls are executed here.
pub trait CallingProcess: Send + Sync {
    /// Whether it has ended, or at least knows no more of the calls that it asked for.
    fn is_gone(&self) -> bool;
}

/// What an entry is to the call that logs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryRole {
    /// By it the call takes effect.
    Effect,
    /// Logging it twice is logging it once.
    Idempotent,
}

/// The tag of the call that this thread executes.
#[inline]
pub(super) fn tag_of_thread() -> Option<CallTag> {
    TAG.get()
}

/// Sets the thread's tag back.
struct RestoreTag(Option<CallTag>);

impl Drop for RestoreTag {
    fn drop(&mut self) {
        TAG.set(self.0);
    }
}

/// Executes a caller's call: the entry by which it takes effect carries `tag`, in a session that was told that it
/// [executes calls of others](Client::execute_for_callers).
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

/// Executes calls of a process: a tagged one that has not taken effect when the process is gone fails with [`Error::Withdrawn`].
pub fn while_wanted<T>(process: &Arc<dyn CallingProcess>, calls: impl FnOnce() -> T) -> T {
    PROCESS.set(Some(Arc::clone(process)));
    let _forget = ForgetProcess;
    calls()
}

/// Whether the process is gone whose call this thread executes.
#[cold]
pub(crate) fn is_withdrawn() -> bool {
    PROCESS.with_borrow(|process| process.as_ref().is_some_and(|process| process.is_gone()))
}
