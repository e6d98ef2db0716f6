//! Counted references to values in memory that is only ever reused for such values: so a pointer to a place may be followed
//! by a thread that does not know whether its value is still there, to ask.

use std::mem::MaybeUninit;
use std::ops::Deref;
use std::ptr::NonNull;

use crate::sync::{AtomicU32, Mutex, Ordering, Racy, constant, fence};

/// Places for values; a used place is kept for the next value.
#[derive(Debug)]
pub struct Pool<T: 'static> {
    free: Mutex<Vec<Free<T>>>,
}

/// Room for one value, never given back to the allocator.
pub(crate) struct Slot<T: 'static> {
    /// References; without one there is no value, and the place is free or about to be.
    count: AtomicU32,
    home: &'static Pool<T>,
    value: Racy<MaybeUninit<T>>,
    /// That the place was made: a thread that reads a pointer to it must have seen that first.
    made: Racy<()>,
}

#[derive(Debug)]
struct Free<T: 'static>(NonNull<Slot<T>>);

// SAFETY: no other thread refers to a free slot.
unsafe impl<T: Send> Send for Free<T> {}

/// A counted reference to a value.
#[derive(Debug)]
pub struct Pin<T: 'static>(NonNull<Slot<T>>);

// SAFETY: the count is atomic; the value is shared between threads, and dropped by any of them.
unsafe impl<T: Send + Sync> Send for Pin<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for Pin<T> {}

/// The place a pointer leads to.
#[inline(always)]
fn at<T>(slot: &NonNull<Slot<T>>) -> &Slot<T> {
    // SAFETY: slots are never freed.
    let slot = unsafe { slot.as_ref() };
    slot.made.with(|_| ());
    slot
}

impl<T> std::fmt::Debug for Slot<T> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Slot").field("count", &self.count).finish_non_exhaustive()
    }
}

impl<T> Pool<T> {
    constant! {
        /// An empty pool.
        #[allow(clippy::new_without_default, reason = "made where a constant is needed")]
        pub const fn new() -> Self {
            Self { free: Mutex::new(Vec::new()) }
        }
    }

    /// The first reference to a new value.
    pub fn pin(&'static self, value: T) -> Pin<T> {
        let free = self.free.lock().ok().and_then(|mut free| free.pop());
        let slot = match free {
            Some(Free(slot)) => slot,
            None => NonNull::from(Box::leak(Box::new(Slot {
                count: AtomicU32::new(0),
                home: self,
                value: Racy::new(MaybeUninit::uninit()),
                made: Racy::new(()),
            }))),
        };
        let place = at(&slot);
        // SAFETY: no thread touches a slot with a count of zero, as pinning refuses it.
        place.value.with_mut(|room| unsafe { (*room).write(value) });
        place.count.store(1, Ordering::Release);
        Pin(slot)
    }
}

impl<T> Pin<T> {
    /// Whether both refer to the same value.
    pub fn is_same(&self, other: &Pin<T>) -> bool {
        self.0 == other.0
    }

    /// One more reference to whatever value is in `slot`, if there is one. It need not be the value that was there when the
    /// pointer was read.
    #[inline]
    pub(crate) fn try_to(slot: NonNull<Slot<T>>) -> Option<Pin<T>> {
        let counter = &at(&slot).count;
        let mut count = counter.load(Ordering::Relaxed);
        while count != 0 {
            match counter.compare_exchange_weak(count, count + 1, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Some(Pin(slot)),
                Err(now) => count = now,
            }
        }
        None
    }

    /// Gives the reference to the caller, which keeps the pointer.
    pub(crate) fn into_slot(self) -> NonNull<Slot<T>> {
        let slot = self.0;
        std::mem::forget(self);
        slot
    }

    /// # Safety
    /// The pointer is of `into_slot`, and taken back once.
    pub(crate) unsafe fn from_slot(slot: NonNull<Slot<T>>) -> Pin<T> {
        Pin(slot)
    }
}

impl<T> Clone for Pin<T> {
    fn clone(&self) -> Self {
        // This reference keeps it above zero.
        at(&self.0).count.fetch_add(1, Ordering::Relaxed);
        Self(self.0)
    }
}

impl<T> Deref for Pin<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: with a count above zero the value is there, and only shared.
        at(&self.0).value.with(|value| unsafe { (*value).assume_init_ref() })
    }
}

impl<T> Drop for Pin<T> {
    fn drop(&mut self) {
        let slot = at(&self.0);
        if slot.count.fetch_sub(1, Ordering::Release) == 1 {
            fence(Ordering::Acquire);
            // SAFETY: the thread that brings the count to zero is alone with the value, which was there until now.
            slot.value.with_mut(|value| unsafe { (*value).assume_init_drop() });
            if let Ok(mut free) = slot.home.free.lock() {
                free.push(Free(self.0));
            }
        }
    }
}
