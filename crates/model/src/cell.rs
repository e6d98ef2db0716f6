//! Memory that is no atomic: two accesses at once, one of them a write, fail the model.

use loom::cell::UnsafeCell;

/// A place whose users promise that nobody writes it while another reads or writes it. The model holds them to it.
#[derive(Debug)]
pub struct Racy<T>(UnsafeCell<T>);

// SAFETY: who breaks the promise is stopped by the model before the access is made.
unsafe impl<T: Send> Send for Racy<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for Racy<T> {}

impl<T> Racy<T> {
    /// One that holds `value`.
    pub fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    /// Reads it.
    #[track_caller]
    pub fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        self.0.with(read)
    }

    /// Writes it.
    #[track_caller]
    pub fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        self.0.with_mut(write)
    }
}
