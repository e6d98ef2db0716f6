//! The one place atomics, locks and barriers come from, so that a model checker can stand in for them.

pub(crate) use std::sync::TryLockError;

#[cfg(feature = "model")]
pub(crate) use cuesta_model::{
    AtomicPtr, AtomicU32, Futex, Mutex, MutexGuard, Ordering, Racy, fence, mistake, yield_now,
    yield_now as spin_loop,
};
#[cfg(not(feature = "model"))]
pub(crate) use machine::{Futex, Racy, mistake, yield_now};
#[cfg(not(feature = "model"))]
pub(crate) use std::hint::spin_loop;
#[cfg(not(feature = "model"))]
pub(crate) use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicPtr, AtomicU32, Ordering, fence},
};

/// Declares a function that is `const` except in a model: the atomics of a model cannot be made at compile time.
macro_rules! constant {
    ($(#[$attribute:meta])* pub const fn $($function:tt)*) => {
        #[cfg(not(feature = "model"))]
        $(#[$attribute])*
        pub const fn $($function)*
        #[cfg(feature = "model")]
        $(#[$attribute])*
        pub fn $($function)*
    };
}
pub(crate) use constant;

/// The barrier of the many threads that pass often: orders this thread's accesses for the thread that makes the other barrier.
#[cfg(not(feature = "model"))]
#[inline(always)]
pub(crate) fn light_barrier() {
    std::sync::atomic::compiler_fence(Ordering::SeqCst);
}

/// The barrier of the single thread that comes seldom: the kernel puts one into every running thread of the process.
#[cfg(not(feature = "model"))]
pub(crate) fn heavy_barrier() {
    use rustix::thread::{MembarrierCommand, membarrier};
    if membarrier(MembarrierCommand::PrivateExpedited).is_err() {
        let _ = membarrier(MembarrierCommand::RegisterPrivateExpedited);
        let _ = membarrier(MembarrierCommand::PrivateExpedited);
    }
}

#[cfg(feature = "model")]
#[track_caller]
pub(crate) fn light_barrier() {
    fence(Ordering::SeqCst);
}

#[cfg(feature = "model")]
#[track_caller]
pub(crate) fn heavy_barrier() {
    fence(Ordering::SeqCst);
}

#[cfg(not(feature = "model"))]
mod machine {
    use std::cell::UnsafeCell;
    use std::sync::atomic::{AtomicU32, Ordering};

    use rustix::thread::futex;

    /// A place. Its users promise that no thread writes it while another reads or writes it.
    #[derive(Debug)]
    pub(crate) struct Racy<T>(UnsafeCell<T>);

    // SAFETY: as promised by the users, each of which unsafe code of this crate.
    unsafe impl<T: Send> Send for Racy<T> {}
    // SAFETY: as above.
    unsafe impl<T: Send + Sync> Sync for Racy<T> {}

    impl<T> Racy<T> {
        pub(crate) const fn new(value: T) -> Self {
            Self(UnsafeCell::new(value))
        }

        #[inline(always)]
        pub(crate) fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
            read(self.0.get())
        }

        #[inline(always)]
        pub(crate) fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
            write(self.0.get())
        }
    }

    /// A word that threads of this process sleep on.
    #[derive(Debug)]
    pub(crate) struct Futex(AtomicU32);

    impl Futex {
        pub(crate) const fn new(value: u32) -> Self {
            Self(AtomicU32::new(value))
        }

        #[inline(always)]
        pub(crate) fn load(&self, order: Ordering) -> u32 {
            self.0.load(order)
        }

        pub(crate) fn store(&self, value: u32, order: Ordering) {
            self.0.store(value, order);
        }

        pub(crate) fn compare_exchange(
            &self,
            current: u32,
            new: u32,
            success: Ordering,
            failure: Ordering,
        ) -> Result<u32, u32> {
            self.0.compare_exchange(current, new, success, failure)
        }

        /// Sleeps until woken, by a signal too, unless the word is no longer `expected`.
        pub(crate) fn wait(&self, expected: u32) {
            let _ = futex::wait(&self.0, futex::Flags::PRIVATE, expected, None);
        }

        pub(crate) fn wake_one(&self) {
            let _ = futex::wake(&self.0, futex::Flags::PRIVATE, 1);
        }

        pub(crate) fn wake_all(&self) {
            let _ = futex::wake(&self.0, futex::Flags::PRIVATE, i32::MAX as u32);
        }
    }

    /// Offers the processor to others.
    pub(crate) fn yield_now() {
        rustix::thread::sched_yield();
    }

    /// Whether the model leaves out the check called so, to show that it is needed.
    #[inline(always)]
    pub(crate) const fn mistake(_name: &str) -> bool {
        false
    }
}
