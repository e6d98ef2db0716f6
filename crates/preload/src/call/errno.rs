//! The calling thread's errno. The code that serves a call uses the program's libc, which changes it; a call that succeeds must not.

/// Reads it.
#[inline(always)]
pub fn get() -> i32 {
    // SAFETY: it is this thread's own, for as long as the thread lives.
    unsafe { *libc::__errno_location() }
}

/// Sets it.
#[inline(always)]
pub fn set(errno: i32) {
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}
