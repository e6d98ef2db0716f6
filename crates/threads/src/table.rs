//! Which value is behind a number, where the kernel gives out the numbers: its descriptors.
//!
//! Look-up takes no lock. A thread pins what it finds, then checks that the table still says the same: by then the value
//! may be gone, and another in its place. Changes of one number take turns, because each is two steps, one here and one in
//! the kernel, and both must come in the same order for all threads. A bit of the entry says that a thread has the turn.

use std::ptr::{self, NonNull};

use crate::pool::{Pin, Slot};
use crate::sync::{AtomicPtr, Ordering, mistake, spin_loop, yield_now};

const TURN: usize = 1;

/// The table: numbers below `N`.
#[derive(Debug)]
pub struct Table<T: 'static, const N: usize> {
    entries: [AtomicPtr<Slot<T>>; N],
}

/// A thread's turn to change what is behind a number. Nothing is changed if it is dropped.
#[derive(Debug)]
#[must_use]
pub struct EntryChange<'t, T: 'static> {
    entry: &'t AtomicPtr<Slot<T>>,
    /// The value behind it, with the table's reference.
    before: *mut Slot<T>,
}

fn with_turn<T>(slot: *mut Slot<T>) -> *mut Slot<T> {
    slot.map_addr(|address| address | TURN)
}

#[inline(always)]
fn without_turn<T>(entry: *mut Slot<T>) -> *mut Slot<T> {
    entry.map_addr(|address| address & !TURN)
}

impl<T, const N: usize> Table<T, N> {
    /// A table without values.
    #[cfg(not(feature = "model"))]
    #[allow(clippy::new_without_default, reason = "made where a constant is needed")]
    pub const fn new() -> Self {
        Self { entries: [const { AtomicPtr::new(ptr::null_mut()) }; N] }
    }

    /// A table without values.
    #[cfg(feature = "model")]
    #[allow(clippy::new_without_default, reason = "as above")]
    pub fn new() -> Self {
        Self { entries: std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())) }
    }

    /// The value behind `number`.
    #[inline]
    pub fn pin(&self, number: usize) -> Option<Pin<T>> {
        let entry = self.entries.get(number)?;
        loop {
            let slot = NonNull::new(without_turn(entry.load(Ordering::Acquire)))?;
            if let Some(pin) = Pin::try_to(slot)
                && (without_turn(entry.load(Ordering::Relaxed)) == slot.as_ptr()
                    || mistake("looking again once it is pinned"))
            {
                return Some(pin);
            }
            spin_loop();
        }
    }

    /// Waits for the turn to change what is behind `number`, unless the table has no such number.
    pub fn turn(&self, number: usize) -> Option<EntryChange<'_, T>> {
        let entry = self.entries.get(number)?;
        loop {
            let before = entry.load(Ordering::Relaxed);
            let is_free = before == without_turn(before) || mistake("waiting for one's turn");
            let turn = with_turn(before);
            if is_free && entry.compare_exchange(before, turn, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                return Some(EntryChange { entry, before: without_turn(before) });
            }
            yield_now();
        }
    }

    /// This is the child of a fork: no thread has a turn, at any number below `end`.
    pub fn end_turns(&self, end: usize) {
        for entry in self.entries.iter().take(end) {
            let now = entry.load(Ordering::Relaxed);
            if now != without_turn(now) {
                entry.store(without_turn(now), Ordering::Relaxed);
            }
        }
    }
}

impl<T> EntryChange<'_, T> {
    /// Whether there is a value.
    pub fn is_taken(&self) -> bool {
        !self.before.is_null()
    }

    /// Puts `value` behind the number, which has a new meaning in the kernel; answers the value before.
    pub fn finish(self, value: Option<Pin<T>>) -> Option<Pin<T>> {
        let value = value.map_or(ptr::null_mut(), |pin| pin.into_slot().as_ptr());
        self.entry.store(value, Ordering::Release);
        let before = NonNull::new(self.before);
        std::mem::forget(self);
        // SAFETY: the table's reference; its entry is another now.
        before.map(|slot| unsafe { Pin::from_slot(slot) })
    }

    /// Takes the value away, then has `release` give the number back, which another thread may have the next moment.
    pub fn close<R>(self, release: impl FnOnce() -> R) -> (R, Option<Pin<T>>) {
        if !mistake("taking a value away before its number is free") {
            self.entry.store(with_turn(ptr::null_mut()), Ordering::Relaxed);
        }
        let answer = release();
        (answer, self.finish(None))
    }
}

impl<T> Drop for EntryChange<'_, T> {
    fn drop(&mut self) {
        self.entry.store(self.before, Ordering::Release);
    }
}
