//! What each descriptor is: the application's, one of the store, or this library's own.

use crate::call::filter::{DESCRIPTORS, own_class};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Class of a descriptor with an entry in the table.
pub(crate) const CLASS_OURS: u8 = 1;

/// The same, of a file that was opened, and not with `O_PATH`.
pub(crate) const CLASS_OPEN: u8 = 8;

/// Class of a descriptor this library uses for itself.
const CLASS_HIDDEN: u8 = 2;

/// The same, and the child of a fork has it as well.
const CLASS_KEPT: u8 = 4;

/// Whether a call on `fd` must be looked at.
#[inline(always)]
pub fn is_of_interest(fd: i32) -> bool {
    DESCRIPTORS.get(fd as u32 as usize).is_some_and(|class| class.load(Ordering::Relaxed) != 0)
}

/// Whether `fd` is surely ours, and was not opened with `O_PATH`; of those that a vfork child has it is not told.
#[inline(always)]
pub fn is_open(fd: i32) -> bool {
    DESCRIPTORS.get(fd as u32 as usize).is_some_and(|class| class.load(Ordering::Acquire) == CLASS_OPEN)
}

/// Whether `fd` is one of this library's own.
#[inline]
pub fn is_hidden(fd: i32) -> bool {
    DESCRIPTORS
        .get(fd as u32 as usize)
        .is_some_and(|class| matches!(class.load(Ordering::Relaxed), CLASS_HIDDEN | CLASS_KEPT))
}

/// Whether it is one that the child of a fork goes on with.
pub fn is_kept(fd: i32) -> bool {
    DESCRIPTORS.get(fd as u32 as usize).is_some_and(|class| class.load(Ordering::Relaxed) == CLASS_KEPT)
}

/// One past the highest descriptor that was ever this library's own.
static HIGHEST_HIDDEN: AtomicUsize = AtomicUsize::new(0);

/// This library's own descriptors.
pub fn hidden() -> impl Iterator<Item = i32> {
    (0..HIGHEST_HIDDEN.load(Ordering::Relaxed) as i32).filter(|fd| is_hidden(*fd))
}

/// Declares `fd` this library's own, in the children of forks as well.
pub fn keep_hidden(fd: i32) {
    hide(fd, true);
    if let Some(class) = DESCRIPTORS.get(fd as u32 as usize) {
        class.store(CLASS_KEPT, Ordering::Relaxed);
    }
}

/// Declares `fd` this library's own, or no longer.
#[inline]
pub fn hide(fd: i32, hidden: bool) {
    HIGHEST_HIDDEN.fetch_max(fd as u32 as usize + 1, Ordering::Relaxed);
    if let Some(class) = DESCRIPTORS.get(fd as u32 as usize) {
        class.store(if hidden { CLASS_HIDDEN } else { own_class() }, Ordering::Relaxed);
    }
}

/// This descriptor is the application's own from now on.
#[inline]
pub(crate) fn declassify(fd: usize) {
    for class in [CLASS_OURS, CLASS_OPEN] {
        let _ = DESCRIPTORS[fd].compare_exchange(class, own_class(), Ordering::AcqRel, Ordering::Relaxed);
    }
}
