//! Waiting: the kernel's futex, and offering the processor to others.

use loom::sync::{Condvar, Mutex};

use crate::{AtomicU32, Ordering};

/// Lets another thread go first: a loop that waits must say so, or the model would turn it for ever.
pub fn yield_now() {
    loom::thread::yield_now();
}

/// A word that threads sleep on. As in the kernel, looking at the word and falling asleep are one step to whoever wakes.
#[derive(Debug)]
pub struct Futex {
    word: AtomicU32,
    queue: Mutex<()>,
    sleepers: Condvar,
}

#[allow(clippy::unwrap_used, reason = "a poisoned lock of a model is a failed model")]
impl Futex {
    /// One whose word is `value`.
    pub fn new(value: u32) -> Self {
        Self { word: AtomicU32::new(value), queue: Mutex::new(()), sleepers: Condvar::new() }
    }

    /// Its word.
    #[track_caller]
    pub fn load(&self, order: Ordering) -> u32 {
        self.word.load(order)
    }

    /// Changes its word.
    #[track_caller]
    pub fn store(&self, value: u32, order: Ordering) {
        self.word.store(value, order);
    }

    /// Changes its word, and answers what it was.
    #[track_caller]
    pub fn swap(&self, value: u32, order: Ordering) -> u32 {
        self.word.swap(value, order)
    }

    /// Changes its word if it is `current`.
    #[track_caller]
    pub fn compare_exchange(
        &self,
        current: u32,
        new: u32,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u32, u32> {
        self.word.compare_exchange(current, new, success, failure)
    }

    /// The first step of a lock, which is no subject of the model.
    pub(crate) fn exchange_exactly(&self, current: u32, new: u32) -> bool {
        self.word.exchange_exactly(current, new)
    }

    /// The last step of a lock.
    pub(crate) fn store_exactly(&self, value: u32) {
        self.word.store_exactly(value);
    }

    /// Sleeps until woken, unless the word is no longer `expected`.
    pub fn wait(&self, expected: u32) {
        let queue = self.queue.lock().unwrap();
        if self.word.load(Ordering::Relaxed) == expected {
            drop(self.sleepers.wait(queue).unwrap());
        }
    }

    /// Wakes one who sleeps.
    pub fn wake_one(&self) {
        let _queue = self.queue.lock().unwrap();
        self.sleepers.notify_one();
    }

    /// Wakes all who sleep.
    pub fn wake_all(&self) {
        let _queue = self.queue.lock().unwrap();
        self.sleepers.notify_all();
    }
}
