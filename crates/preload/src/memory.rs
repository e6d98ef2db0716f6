//! Memory of our own: a handler of the application that interrupts its malloc cannot deadlock us.
//!
//! What the constructor needs comes from a small static area, given out once and never taken back: most
//! programs never touch the store, and should not pay for a heap.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use mimalloc::MiMalloc;

const AREA_BYTES: usize = 128 * 1024;

#[repr(align(4096))]
struct Area(UnsafeCell<[u8; AREA_BYTES]>);

// SAFETY: each byte is given out once.
unsafe impl Sync for Area {}

static AREA: Area = Area(UnsafeCell::new([0; AREA_BYTES]));
static GIVEN: AtomicUsize = AtomicUsize::new(0);
static STARTING: AtomicBool = AtomicBool::new(false);

/// Says whether the constructor runs.
pub fn set_starting(starting: bool) {
    STARTING.store(starting, Ordering::Relaxed);
}

/// The allocator of this library.
#[derive(Debug)]
pub struct Allocator;

fn is_in_area(pointer: *mut u8) -> bool {
    (pointer as usize).wrapping_sub(AREA.0.get() as usize) < AREA_BYTES
}

fn give(layout: Layout) -> Option<*mut u8> {
    if !STARTING.load(Ordering::Relaxed) || layout.align() > 4096 {
        return None;
    }
    let given = GIVEN.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |given| {
        let end = given.next_multiple_of(layout.align()) + layout.size();
        (end <= AREA_BYTES).then_some(end)
    });
    let start = given.ok()?.next_multiple_of(layout.align());
    // SAFETY: inside the area, by the check above.
    Some(unsafe { AREA.0.get().cast::<u8>().add(start) })
}

// SAFETY: bytes of the area are given out once, aligned, and zero; everything else is mimalloc's.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: passed on.
        give(layout).unwrap_or_else(|| unsafe { MiMalloc.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: passed on.
        give(layout).unwrap_or_else(|| unsafe { MiMalloc.alloc_zeroed(layout) })
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        if !is_in_area(pointer) {
            // SAFETY: passed on.
            unsafe { MiMalloc.dealloc(pointer, layout) }
        }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        if !is_in_area(pointer) {
            // SAFETY: passed on.
            return unsafe { MiMalloc.realloc(pointer, layout, bytes) };
        }
        // SAFETY: the new layout is valid by the caller's word; old and new do not overlap.
        unsafe {
            let new = self.alloc(Layout::from_size_align_unchecked(bytes, layout.align()));
            if !new.is_null() {
                core::ptr::copy_nonoverlapping(pointer, new, layout.size().min(bytes));
            }
            new
        }
    }
}
