//! The stacks the client runs on, one for each thread that makes calls of ours.
//!
//! A program that starts threads starts many, and making, touching and unmapping a stack costs as much as tens of calls:
//! so some of those that threads leave behind are kept for the next. Taking and leaving one needs no lock and no
//! allocator, as a thread's first call may come from a signal handler.

use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

/// Room for the client; only touched pages cost memory.
const STACK_BYTES: usize = 256 * 1024;
const GUARD_BYTES: usize = 4096;
const REGION_BYTES: usize = GUARD_BYTES + STACK_BYTES;
/// So many are kept.
const KEPT_MAX: usize = 16;

/// Where the unused stacks begin, or zeros.
static KEPT: [AtomicUsize; KEPT_MAX] = [const { AtomicUsize::new(0) }; KEPT_MAX];

/// A stack, with a page below it that may not be touched. The lowest address names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stack(usize);

impl Stack {
    /// One that a thread left behind, or a new one. `None`: there is no memory for it.
    pub fn take() -> Option<Stack> {
        let kept = KEPT.iter().map(|place| place.swap(0, Ordering::Acquire)).find(|&kept| kept != 0);
        kept.map(Stack).or_else(Stack::make)
    }

    fn make() -> Option<Stack> {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a fresh anonymous mapping of our own; the guard page is its lowest.
        unsafe {
            let region = mmap_anonymous(
                core::ptr::null_mut(),
                REGION_BYTES,
                ProtFlags::READ | ProtFlags::WRITE,
                flags,
            );
            let region = region.ok()?;
            if mprotect(region, GUARD_BYTES, MprotectFlags::empty()).is_err() {
                let _ = munmap(region, REGION_BYTES);
                return None;
            }
            Some(Stack(region as usize))
        }
    }

    /// The stack that was named so.
    ///
    /// # Safety
    /// [`Stack::name`] of one that was taken and not left since.
    pub unsafe fn named(name: usize) -> Stack {
        Stack(name)
    }

    /// A number that is not zero.
    pub fn name(self) -> usize {
        self.0
    }

    /// The lowest address that may be used.
    pub fn bottom(self) -> usize {
        self.0 + GUARD_BYTES
    }

    /// The address behind the highest.
    pub fn top(self) -> usize {
        self.0 + REGION_BYTES
    }

    /// Leaves it for the next thread.
    ///
    /// # Safety
    /// No thread runs on it, or holds anything that lies there.
    pub unsafe fn leave(self) {
        let free = |place: &&AtomicUsize| {
            place.compare_exchange(0, self.0, Ordering::Release, Ordering::Relaxed).is_ok()
        };
        if KEPT.iter().find(free).is_none() {
            // SAFETY: it is ours, and the caller says that no thread uses it.
            let _ = unsafe { munmap(self.0 as *mut _, REGION_BYTES) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One test, as what is kept is the whole process's.
    #[test]
    fn stacks_are_kept_for_the_next_thread_up_to_a_number_and_never_shared() {
        let mut taken: Vec<Stack> = (0..2 * KEPT_MAX).map(|_| Stack::take().unwrap()).collect();
        for (number, stack) in taken.iter().enumerate() {
            // SAFETY: a word of a stack that this test alone has.
            unsafe { *(stack.bottom() as *mut usize) = number };
        }
        for (number, stack) in taken.iter().enumerate() {
            // SAFETY: as above.
            assert_eq!(unsafe { *(stack.bottom() as *const usize) }, number);
        }
        taken.sort_unstable_by_key(|stack| stack.name());
        let kept: Vec<Stack> = taken.split_off(KEPT_MAX);
        // SAFETY: nothing of them is used any more.
        kept.iter().for_each(|stack| unsafe { stack.leave() });
        let mut again: Vec<Stack> = (0..KEPT_MAX).map(|_| Stack::take().unwrap()).collect();
        again.sort_unstable_by_key(|stack| stack.name());
        assert_eq!(again, kept, "the same ones");
        // SAFETY: as above; the second half finds no room and is unmapped.
        again.into_iter().chain(taken).for_each(|stack| unsafe { stack.leave() });
        assert!(KEPT.iter().all(|place| place.load(Ordering::Relaxed) != 0));
    }
}
