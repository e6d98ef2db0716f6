//! A lock that a fork breaks: in the child it is free, whoever of the parent's threads held it.
//!
//! Held while the daemon is asked, which a fork does not wait for (see `gate`). What it guards must be whole, or
//! belong to the parent's session, wherever its holder waits.

use std::sync::atomic::{AtomicU32, Ordering};

use rustix::thread::futex;

const FREE: u32 = 0;

/// Counts the forks that led to this process; what a lock held here says.
static GENERATION: AtomicU32 = AtomicU32::new(1);

/// The lock.
#[derive(Debug)]
pub struct GenerationLock(AtomicU32);

/// Gives the lock back when dropped.
#[derive(Debug)]
#[must_use]
pub struct Held<'a>(&'a AtomicU32);

/// This is the child of a fork.
pub fn after_fork() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

impl GenerationLock {
    /// A free one.
    pub const fn new() -> Self {
        Self(AtomicU32::new(FREE))
    }

    /// Waits for the lock.
    pub fn hold(&self) -> Held<'_> {
        let own = GENERATION.load(Ordering::Relaxed);
        loop {
            let held = self.0.load(Ordering::Relaxed);
            if held != own {
                if self.0.compare_exchange(held, own, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                    return Held(&self.0);
                }
            } else {
                let _ = futex::wait(&self.0, futex::Flags::PRIVATE, own, None);
            }
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.store(FREE, Ordering::Release);
        let _ = futex::wake(self.0, futex::Flags::PRIVATE, 1);
    }
}

#[cfg(test)]
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
