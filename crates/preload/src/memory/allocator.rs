//! Memory of our own: a handler of the application that interrupts its malloc cannot deadlock us.
//!
//! Memory comes from a small static area at first, and from a heap once that is used up: most programs never attach to the
//! store, of those that do most end soon, and starting a heap costs as much as attaching does. Memory that the constructor takes
//! from the area stays. A piece that later calls take is given back when the pieces behind it are free, and all at once
//! when the last piece is.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::UnsafeCell;
use std::ffi::{c_int, c_long, c_void};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use mimalloc::MiMalloc;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use rustix::thread::futex;

use crate::arch;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

const AREA_BYTES: usize = 256 * 1024;
/// Of the area, as declared below.
const AREA_ALIGNMENT: usize = 64;

#[repr(align(64))]
struct Area(UnsafeCell<[u8; AREA_BYTES]>);

// SAFETY: `State` gives out no byte twice at a time.
unsafe impl Sync for Area {}

static AREA: Area = Area(UnsafeCell::new([0; AREA_BYTES]));
static STATE: AtomicU64 = AtomicU64::new(0);
static LASTING: AtomicUsize = AtomicUsize::new(0);
static HEAP: AtomicU32 = AtomicU32::new(UNUSED);

/// The heap has not been started; is being started by some thread; is in use.
const UNUSED: u32 = 0;
const STARTING: u32 = 1;
const USED: u32 = 2;

/// The used part of the area: bytes from its start, and pieces not freed yet.
#[derive(Clone, Copy)]
struct State {
    end: u32,
    pieces: u32,
}

impl State {
    fn unpack(word: u64) -> Self {
        Self { end: word as u32, pieces: (word >> 32) as u32 }
    }

    fn pack(self) -> u64 {
        u64::from(self.end) | u64::from(self.pieces) << 32
    }

    /// With one more piece, which ends at `end`.
    fn with(self, layout: Layout) -> Option<(Self, usize)> {
        if layout.align() > AREA_ALIGNMENT {
            return None;
        }
        let start = (self.end as usize).next_multiple_of(layout.align());
        let end = start.checked_add(layout.size()).filter(|end| *end <= AREA_BYTES)?;
        Some((Self { end: end as u32, pieces: self.pieces + 1 }, start))
    }

    /// Without the piece of `bytes` at `start`; the last gives back everything behind `lasting`.
    fn without(self, start: usize, bytes: usize, lasting: usize) -> Self {
        match self.pieces {
            0 | 1 => Self { end: lasting as u32, pieces: 0 },
            pieces if start + bytes == self.end as usize => Self { end: start as u32, pieces: pieces - 1 },
            pieces => Self { pieces: pieces - 1, ..self },
        }
    }

    /// With `new` bytes in the piece of `old` at `start`, if nothing lies behind it.
    fn resized(self, start: usize, old: usize, new: usize) -> Option<Self> {
        let end = start.checked_add(new).filter(|end| *end <= AREA_BYTES)?;
        (start + old == self.end as usize).then_some(Self { end: end as u32, ..self })
    }
}

/// Keeps all that was given out so far. Call at the constructor's end.
pub fn keep_given_memory() {
    let state = State::unpack(STATE.load(Ordering::Relaxed));
    LASTING.store(state.end as usize, Ordering::Relaxed);
    STATE.store(State { pieces: 0, ..state }.pack(), Ordering::Relaxed);
}

unsafe extern "C" {
    /// mimalloc's constructor, which the library is linked without (see `build.rs`).
    fn _mi_auto_process_init();
    /// The heap of the thread that ran it, by its first field, which names that thread.
    static theap_main: MainHeap;
    /// A thread's heap before its first allocation.
    static _mi_theap_empty: MainHeap;
    fn _mi_theap_default_set(heap: *const MainHeap);
    /// Set when it has started: to refuse huge pages before would refuse them to the whole process.
    fn mi_thread_done();
    fn mi_option_set(option: c_int, value: c_long);
    /// Gives it memory to allocate from; false if it could not be used.
    fn mi_manage_os_memory(
        start: *mut c_void,
        bytes: usize,
        is_committed: bool,
        is_pinned: bool,
        is_zero: bool,
        numa_node: c_int,
    ) -> bool;
}

/// mimalloc's options (`mi_option_t`), by their place in its list: after how many milliseconds memory that is free goes
/// back to the system; whether to ask for huge pages.
const PURGE_DELAY: c_int = 15;
const ALLOW_HUGE_PAGES: c_int = 43;
/// A log's overlay needs its memory again after the next digest; a page that went costs a fault.
const PURGE_DELAY_MS: c_long = 1000;

/// Addresses for the heap to begin with.
const FIRST_ARENA_BYTES: usize = 32 << 20;

/// The part of mimalloc's `mi_theap_t` that concerns us.
#[repr(C)]
struct MainHeap {
    thread: *mut usize,
}

/// A thread mimalloc will not meet: thread ids are addresses.
const NOBODY: usize = !0xff;

/// Starts mimalloc. It takes the thread that does this for one that outlives all others, and would use
/// its heap after free for a thread that gets the same address: so that heap is given no thread.
///
/// This knows mimalloc 3's insides: where the main heap names its thread, and that a thread with the
/// empty heap gets one of its own at its first allocation. A version laid out differently is noticed
/// here, before anything is taken from it.
///
/// # Safety
/// Called once, before anything is taken from the heap.
unsafe fn start_heap() {
    // SAFETY: the constructor may run at any time before the first allocation. The main heap's first
    // field points to a structure whose first field is the thread's id; nothing was allocated in it yet.
    unsafe {
        _mi_auto_process_init();
        let thread = theap_main.thread;
        if thread.is_null() || thread.read_volatile() != arch::thread_pointer() {
            crate::process::report(format_args!("this build's heap is not laid out as this library expects"));
            arch::abort();
        }
        thread.write_volatile(NOBODY);
        mi_option_set(PURGE_DELAY, PURGE_DELAY_MS);
        mi_option_set(ALLOW_HUGE_PAGES, 0);
        _mi_theap_default_set(&raw const _mi_theap_empty);
    }
    give_first_arena();
}

/// Reserves the heap's first memory. Where that fails the heap does it for itself.
fn give_first_arena() {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: new memory, which is given to the heap as a whole; advice changes no content.
    unsafe {
        let Ok(start) = mmap_anonymous(std::ptr::null_mut(), FIRST_ARENA_BYTES, protection, flags) else {
            return;
        };
        if !mi_manage_os_memory(start, FIRST_ARENA_BYTES, true, false, true, -1) {
            let _ = munmap(start, FIRST_ARENA_BYTES);
        }
    }
}

/// Gives back what the heap keeps for the calling thread, which ends: the heap does so by itself, but not while
/// ThreadSanitizer looks away.
pub fn end_thread() {
    if HEAP.load(Ordering::Acquire) == USED {
        // SAFETY: a later allocation of the thread begins anew.
        unsafe { mi_thread_done() };
    }
}

/// From now on memory comes from the heap: this process needs more than the area.
#[cold]
pub fn use_heap() {
    if HEAP.compare_exchange(UNUSED, STARTING, Ordering::Acquire, Ordering::Acquire).is_ok() {
        // SAFETY: this is the one time, and everything before came from the area.
        unsafe { start_heap() };
        HEAP.store(USED, Ordering::Release);
        let _ = futex::wake(&HEAP, futex::Flags::PRIVATE, i32::MAX as u32);
    }
    // A program's threads come here all at once, more of them than there are processors.
    while HEAP.load(Ordering::Acquire) != USED {
        let _ = futex::wait(&HEAP, futex::Flags::PRIVATE, STARTING, None);
    }
}

/// The allocator of this library.
#[derive(Debug)]
pub struct Allocator;

fn offset_in_area(pointer: *mut u8) -> Option<usize> {
    let offset = (pointer as usize).wrapping_sub(AREA.0.get() as usize);
    (offset < AREA_BYTES).then_some(offset)
}

#[inline]
fn give(layout: Layout) -> Option<*mut u8> {
    if HEAP.load(Ordering::Acquire) == USED { None } else { give_from_area(layout) }
}

#[cold]
fn give_from_area(layout: Layout) -> Option<*mut u8> {
    let with = |word| State::unpack(word).with(layout).map(|(state, _)| state.pack());
    match STATE.fetch_update(Ordering::Acquire, Ordering::Relaxed, with) {
        Ok(before) => {
            let (_, start) = State::unpack(before).with(layout)?;
            // SAFETY: inside the area, as `with` has checked.
            Some(unsafe { AREA.0.get().cast::<u8>().add(start) })
        }
        Err(_) => {
            use_heap();
            None
        }
    }
}

#[cold]
fn take_back(offset: usize, bytes: usize) {
    let lasting = LASTING.load(Ordering::Relaxed);
    if offset >= lasting {
        let without = |word| Some(State::unpack(word).without(offset, bytes, lasting).pack());
        let _ = STATE.fetch_update(Ordering::Release, Ordering::Relaxed, without);
    }
}

/// Makes a piece of the area longer or shorter where it is, if it is the last one.
#[cold]
fn resize(offset: usize, old: usize, new: usize) -> bool {
    let resized = |word| State::unpack(word).resized(offset, old, new).map(State::pack);
    offset >= LASTING.load(Ordering::Relaxed)
        && STATE.fetch_update(Ordering::AcqRel, Ordering::Relaxed, resized).is_ok()
}

// SAFETY: a byte of the area belongs to one piece at a time, aligned; everything else is mimalloc's.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: passed on.
        give(layout).unwrap_or_else(|| unsafe { MiMalloc.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the piece has the layout's size; or passed on.
        unsafe {
            match give(layout) {
                Some(piece) => {
                    piece.write_bytes(0, layout.size());
                    piece
                }
                None => MiMalloc.alloc_zeroed(layout),
            }
        }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        match offset_in_area(pointer) {
            Some(offset) => take_back(offset, layout.size()),
            // SAFETY: passed on.
            None => unsafe { MiMalloc.dealloc(pointer, layout) },
        }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        let Some(offset) = offset_in_area(pointer) else {
            // SAFETY: passed on.
            return unsafe { MiMalloc.realloc(pointer, layout, bytes) };
        };
        if resize(offset, layout.size(), bytes) {
            return pointer;
        }
        // SAFETY: the new layout is valid by the caller's word; old and new do not overlap.
        unsafe {
            let new = self.alloc(Layout::from_size_align_unchecked(bytes, layout.align()));
            if !new.is_null() {
                core::ptr::copy_nonoverlapping(pointer, new, layout.size().min(bytes));
                self.dealloc(pointer, layout);
            }
            new
        }
    }
}

#[cfg(test)]
mod tests {
    use std::alloc::Layout;

    use super::{AREA_BYTES, State};

    #[test]
    fn pieces_do_not_overlap_and_the_last_one_gives_everything_back() {
        let lasting = 100;
        let empty = State { end: 100, pieces: 0 };
        let (one, first) = empty.with(Layout::from_size_align(10, 64).expect("layout")).expect("room");
        let (two, second) = one.with(Layout::from_size_align(10, 1).expect("layout")).expect("room");
        assert_eq!((first, second), (128, 138));
        let one_left = State::unpack(two.without(first, 10, lasting).pack());
        assert_eq!((one_left.end, one_left.pieces), (148, 1));
        let none_left = one_left.without(second, 10, lasting);
        assert_eq!((none_left.end, none_left.pieces), (100, 0));
    }

    #[test]
    fn the_piece_at_the_end_is_given_back_and_resized() {
        let state = State { end: 148, pieces: 3 };
        let without = state.without(138, 10, 100);
        assert_eq!((without.end, without.pieces), (138, 2));
        assert_eq!(state.resized(138, 10, 40).map(|state| state.end), Some(178));
        assert_eq!(state.resized(138, 10, 4).map(|state| state.end), Some(142));
        assert!(state.resized(128, 10, 40).is_none(), "something lies behind it");
        assert!(state.resized(138, 10, AREA_BYTES).is_none(), "too long");
    }

    #[test]
    fn a_piece_that_does_not_fit_is_refused() {
        let layout = Layout::from_size_align(AREA_BYTES, 1).expect("layout");
        assert!(State { end: 0, pieces: 0 }.with(layout).is_some());
        assert!(State { end: 1, pieces: 0 }.with(layout).is_none());
    }
}
