//! Stores into a mapped file of medium `block` that the disk may lack.
//!
//! Mechanism: the span of addresses that were stored to is noted, and `msync` has the kernel write what of it is dirty and
//! the disk its cache. A waiter finds its own stores in that call, or in an earlier call of another thread: so one lock
//! is held over the call, and another one, for a moment only, over the span.
//!
//! The kernel tells of a write that failed once, and takes the page for written from then on: after one failure nothing
//! can be said of this mapping any more, and all further calls fail.

use rustix::io::Errno;
use rustix::mm::MsyncFlags;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The account of one mapping.
#[derive(Debug, Default)]
pub(crate) struct Unsynced {
    /// Addresses; empty: nothing was stored.
    span: Mutex<Range<usize>>,
    /// Held while the kernel writes; how it failed, if it did.
    failure: Mutex<Option<Errno>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Unsynced {
    /// Something was stored there.
    pub(crate) fn note(&self, start: *const u8, len: usize) {
        if len == 0 {
            return;
        }
        let (start, end) = (start as usize, start as usize + len);
        let mut span = lock(&self.span);
        *span = if span.is_empty() { start..end } else { span.start.min(start)..span.end.max(end) };
    }

    /// Has everything that was noted written; says what it was.
    pub(crate) fn sync(&self) -> Result<Range<usize>, Errno> {
        let mut failure = lock(&self.failure);
        if let Some(errno) = *failure {
            return Err(errno);
        }
        let span = std::mem::take(&mut *lock(&self.span));
        // SAFETY: the span lies in the mapping that this value belongs to, which lives.
        unsafe { sync(span.clone()) }.inspect_err(|errno| *failure = Some(*errno))?;
        Ok(span)
    }
}

/// Has the kernel write the files mapped at these addresses, as far as they changed there, and waits until the disk has it.
///
/// # Safety
/// The addresses are mapped, from one page to another.
pub(crate) unsafe fn sync(span: Range<usize>) -> Result<(), Errno> {
    if span.is_empty() {
        return Ok(());
    }
    let start = span.start - span.start % rustix::param::page_size();
    let base = start as *mut std::ffi::c_void;
    loop {
        // SAFETY: the caller's promise; no byte of it changes.
        match unsafe { rustix::mm::msync(base, span.end - start, MsyncFlags::SYNC) } {
            Err(Errno::INTR) => {}
            done => return done,
        }
    }
}
