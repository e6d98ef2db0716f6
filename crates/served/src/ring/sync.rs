//! The one place from which the ring's words have their atomics, so that a model checker can stand in for them.

pub(crate) use std::sync::atomic::Ordering;

use std::sync::atomic::AtomicU32;

/// A word that two threads agree by, and may sleep on.
pub(crate) trait Word {
    fn load(&self, order: Ordering) -> u32;
    fn swap(&self, value: u32, order: Ordering) -> u32;
    fn exchange(&self, current: u32, new: u32, order: Ordering) -> Result<u32, u32>;
}

impl Word for AtomicU32 {
    #[inline(always)]
    fn load(&self, order: Ordering) -> u32 {
        AtomicU32::load(self, order)
    }

    #[inline(always)]
    fn swap(&self, value: u32, order: Ordering) -> u32 {
        AtomicU32::swap(self, value, order)
    }

    #[inline(always)]
    fn exchange(&self, current: u32, new: u32, order: Ordering) -> Result<u32, u32> {
        AtomicU32::compare_exchange(self, current, new, order, Ordering::Relaxed)
    }
}

#[cfg(feature = "model")]
impl Word for cuesta_model::Futex {
    #[track_caller]
    fn load(&self, order: Ordering) -> u32 {
        cuesta_model::Futex::load(self, order)
    }

    #[track_caller]
    fn swap(&self, value: u32, order: Ordering) -> u32 {
        cuesta_model::Futex::swap(self, value, order)
    }

    #[track_caller]
    fn exchange(&self, current: u32, new: u32, order: Ordering) -> Result<u32, u32> {
        self.compare_exchange(current, new, order, Ordering::Relaxed)
    }
}

#[cfg(feature = "model")]
pub(crate) use cuesta_model::mistake;

/// Whether the model leaves out the check called so, to show that it is needed.
#[cfg(not(feature = "model"))]
#[inline(always)]
pub(crate) const fn mistake(_name: &str) -> bool {
    false
}
