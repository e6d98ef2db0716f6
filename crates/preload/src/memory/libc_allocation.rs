//! What stands in for libc's malloc, and for its close, in this library (see `build.rs`). The standard library uses it whatever the
//! global allocator is, and libc's own may be locked by the application: its thread that forks holds the locks
//! of every arena, and a handler may have interrupted malloc itself.

use std::ffi::{c_int, c_void};

use crate::memory;

unsafe extern "C" {
    fn mi_malloc(bytes: usize) -> *mut c_void;
    fn mi_calloc(count: usize, bytes: usize) -> *mut c_void;
    fn mi_realloc(pointer: *mut c_void, bytes: usize) -> *mut c_void;
    fn mi_posix_memalign(place: *mut *mut c_void, alignment: usize, bytes: usize) -> c_int;
    fn mi_free(pointer: *mut c_void);
    fn mi_is_in_heap_region(pointer: *const c_void) -> bool;
    fn __libc_free(pointer: *mut c_void);
}

/// What closes the standard library's descriptors: libc's is where a thread may be cancelled, with all that the client
/// holds.
///
/// # Safety
/// As close.
#[unsafe(no_mangle)]
unsafe extern "C" fn __wrap_close(fd: c_int) -> c_int {
    // SAFETY: the descriptor is the caller's to close.
    let answer = unsafe { crate::arch::syscall(libc::SYS_close as usize, [fd as usize, 0, 0, 0, 0, 0]) };
    answer.min(0).signum() as c_int
}

/// # Safety
/// As malloc.
#[unsafe(no_mangle)]
unsafe extern "C" fn __wrap_malloc(bytes: usize) -> *mut c_void {
    memory::use_heap();
    // SAFETY: the heap is in use.
    unsafe { mi_malloc(bytes) }
}

/// # Safety
/// As calloc.
#[unsafe(no_mangle)]
unsafe extern "C" fn __wrap_calloc(count: usize, bytes: usize) -> *mut c_void {
    memory::use_heap();
    // SAFETY: the heap is in use.
    unsafe { mi_calloc(count, bytes) }
}

/// # Safety
/// As realloc; `pointer` is null or from here.
#[unsafe(no_mangle)]
unsafe extern "C" fn __wrap_realloc(pointer: *mut c_void, bytes: usize) -> *mut c_void {
    memory::use_heap();
    // SAFETY: passed on.
    unsafe { mi_realloc(pointer, bytes) }
}

/// # Safety
/// As posix_memalign.
#[unsafe(no_mangle)]
unsafe extern "C" fn __wrap_posix_memalign(place: *mut *mut c_void, alignment: usize, bytes: usize) -> c_int {
    memory::use_heap();
    // SAFETY: passed on.
    unsafe { mi_posix_memalign(place, alignment, bytes) }
}

/// # Safety
/// As free; what libc gave away itself (`realpath`) goes back to it.
#[unsafe(no_mangle)]
unsafe extern "C" fn __wrap_free(pointer: *mut c_void) {
    // SAFETY: the pointer's owner gets it back.
    unsafe {
        if pointer.is_null() || mi_is_in_heap_region(pointer) {
            mi_free(pointer)
        } else {
            __libc_free(pointer)
        }
    }
}
