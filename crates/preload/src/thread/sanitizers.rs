//! Programs built with a sanitizer.
//!
//! ThreadSanitizer sees what this library does by libc's functions that it stands in for (copies, fills), and nothing of the
//! atomics that order it: without a word it would report races here. So it is told to look away while the client runs, and no
//! longer: a handler of the program's that runs meanwhile is its own.

use core::arch::asm;

/// The address of a function that a sanitizer's runtime defines; zero where there is none.
macro_rules! weak {
    ($name:literal) => {{
        let address: usize;
        // SAFETY: loads what the dynamic linker put there: the address of a symbol that need not be defined.
        unsafe {
            asm!(
                concat!(".weak ", $name),
                concat!("mov {address}, qword ptr [rip + ", $name, "@GOTPCREL]"),
                address = out(reg) address,
                options(nomem, nostack, preserves_flags, pure),
            );
        }
        address
    }};
}

/// From now on ThreadSanitizer does not look at what this thread does.
#[inline(always)]
pub fn begin() {
    call(weak!("__tsan_ignore_thread_begin"));
}

/// From now on it does again.
#[inline(always)]
pub fn end() {
    call(weak!("__tsan_ignore_thread_end"));
}

/// Whether ThreadSanitizer is there.
pub fn is_watched() -> bool {
    weak!("__tsan_ignore_thread_begin") != 0
}

#[inline(always)]
fn call(address: usize) {
    if address != 0 {
        call_there(address);
    }
}

#[cold]
fn call_there(address: usize) {
    // SAFETY: the address of a function of the sanitizer's that takes and gives nothing.
    let function: extern "C" fn() = unsafe { std::mem::transmute(address) };
    function();
}
