//! The stack on which threads make their client stacks. One thread at a time has it.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU32, Ordering};

pub(crate) const FIRST_STACK_BYTES: usize = 64 * 1024;

/// Memory of a stack.
#[repr(align(64))]
pub(super) struct Stack(#[allow(dead_code)] UnsafeCell<[u8; FIRST_STACK_BYTES]>);

// SAFETY: only the entry code uses it, in the thread that has FIRST_STACK_TAKEN.
unsafe impl Sync for Stack {}

/// Where threads make their client stacks.
pub(super) static FIRST_STACK: Stack = Stack(UnsafeCell::new([0; FIRST_STACK_BYTES]));

pub(super) static FIRST_STACK_TAKEN: AtomicU32 = AtomicU32::new(0);

/// This is the child of a fork: no other thread of it makes a stack.
pub fn after_fork() {
    FIRST_STACK_TAKEN.store(0, Ordering::Release);
}
