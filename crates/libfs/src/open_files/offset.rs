//! An open file's offset. One call at a time moves it. A reader does not wait for that call: in the child of
//! a fork it may never end, because its thread does not exist there.

use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering};
use std::ops::{Deref, DerefMut};

/// Where the next read or write of an open file starts.
#[derive(Debug, Default)]
pub(crate) struct Offset {
    at: AtomicU64,
    moving: Mutex<()>,
}

/// A locked offset. The new value becomes visible when the guard is dropped.
pub(crate) struct OffsetGuard<'o> {
    value: u64,
    at: &'o AtomicU64,
    _moving: MutexGuard<'o, ()>,
}

impl Offset {
    /// The offset, or what it was before the call that is moving it.
    #[inline]
    pub(crate) fn get(&self) -> u64 {
        self.at.load(Ordering::Relaxed)
    }

    /// Waits until no other call moves the offset.
    #[inline]
    pub(crate) fn lock(&self) -> OffsetGuard<'_> {
        let moving = self.moving.lock();
        OffsetGuard { value: self.get(), at: &self.at, _moving: moving }
    }
}

impl Deref for OffsetGuard<'_> {
    type Target = u64;

    #[inline]
    fn deref(&self) -> &u64 {
        &self.value
    }
}

impl DerefMut for OffsetGuard<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut u64 {
        &mut self.value
    }
}

impl Drop for OffsetGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.at.store(self.value, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_that_is_being_moved_can_be_read() {
        let offset = Offset::default();
        *offset.lock() = 7;
        let mut held = offset.lock();
        *held = 9;
        assert_eq!(offset.get(), 7);
        drop(held);
        assert_eq!(offset.get(), 9);
    }
}
