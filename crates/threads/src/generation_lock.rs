//! A lock that a fork breaks: in the child it is free, whichever of the parent's threads held it.
//!
//! Threads hold it while they ask the daemon, and a fork does not wait for that (see [`crate::Gate`]). The guarded value must be whole, or
//! belong to the parent's session, wherever its holder waits.

use std::sync::atomic::AtomicU32;

use crate::sync::{Futex, Ordering, constant, mistake};

const FREE: u32 = 0;

/// Counts the forks that led to this process. A lock that is held here has this number. No two threads see it change.
static GENERATION: AtomicU32 = AtomicU32::new(1);

/// The lock.
#[derive(Debug)]
pub struct GenerationLock(Futex);

/// Gives the lock back when dropped.
#[derive(Debug)]
#[must_use]
pub struct GenerationGuard<'a>(&'a Futex);

/// This is the child of a fork.
pub fn after_fork() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

impl GenerationLock {
    constant! {
        /// A free one.
        #[allow(clippy::new_without_default, reason = "made where a constant is needed")]
        pub const fn new() -> Self {
            Self(Futex::new(FREE))
        }
    }

    /// Waits for the lock.
    pub fn hold(&self) -> GenerationGuard<'_> {
        let own = GENERATION.load(Ordering::Relaxed);
        loop {
            let held = self.0.load(Ordering::Relaxed);
            if held != own {
                if self.0.compare_exchange(held, own, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                    return GenerationGuard(&self.0);
                }
            } else {
                self.0.wait(own);
            }
        }
    }
}

impl Drop for GenerationGuard<'_> {
    fn drop(&mut self) {
        self.0.store(FREE, Ordering::Release);
        if !mistake("waking who waits for a lock") {
            self.0.wake_one();
        }
    }
}

#[cfg(all(test, not(feature = "model")))]
mod tests {
    use super::{GenerationLock, after_fork};

    #[test]
    fn what_was_held_before_a_fork_is_free_behind_it() {
        let lock = GenerationLock::new();
        std::mem::forget(lock.hold());
        after_fork();
        drop(lock.hold());
        drop(lock.hold());
    }
}
