//! A lock made of one of the words here. loom's own may block where it is only tried, and its steps are not counted.

use loom::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::{LockResult, TryLockError, TryLockResult};

use crate::Futex;

const FREE: u32 = 0;
const HELD: u32 = 1;

/// Stands in for `std`'s `Mutex`.
#[derive(Debug)]
pub struct Mutex<T> {
    state: Futex,
    data: UnsafeCell<T>,
}

// SAFETY: as for a mutex: the lock lets one thread at a time reach the data.
unsafe impl<T: Send> Sync for Mutex<T> {}

/// The lock while it is held.
#[derive(Debug)]
pub struct MutexGuard<'a, T>(&'a Mutex<T>);

impl<T> Mutex<T> {
    /// A free lock.
    pub fn new(data: T) -> Self {
        Self { state: Futex::new(FREE), data: UnsafeCell::new(data) }
    }

    /// Waits for the lock.
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        loop {
            match self.try_lock() {
                Ok(guard) => return Ok(guard),
                Err(_) => self.state.wait(HELD),
            }
        }
    }

    /// Takes the lock if it is free.
    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        match self.state.exchange_exactly(FREE, HELD) {
            true => Ok(MutexGuard(self)),
            false => Err(TryLockError::WouldBlock),
        }
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: under the lock.
        self.0.data.with(|data| unsafe { &*data })
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: under the lock.
        self.0.data.with_mut(|data| unsafe { &mut *data })
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        self.0.state.store_exactly(FREE);
        self.0.state.wake_all();
    }
}
