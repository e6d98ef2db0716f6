//! The system call instruction itself, for the calls this library makes on behalf of the application.
//! libc's wrappers are what we intercept, so they cannot be used to reach the kernel.

use core::arch::asm;

/// Makes system call `number`; the answer is the kernel's own, a negative errno for an error.
///
/// # Safety
/// The caller vouches for whatever the call does to this process's memory and descriptors.
#[inline]
pub unsafe fn syscall(number: usize, arguments: [usize; 6]) -> isize {
    let answer: isize;
    // SAFETY: the kernel preserves everything but rax, rcx and r11, which are declared clobbered; the
    // effect of the call itself is vouched for by the caller.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => answer,
            in("rdi") arguments[0],
            in("rsi") arguments[1],
            in("rdx") arguments[2],
            in("r10") arguments[3],
            in("r8") arguments[4],
            in("r9") arguments[5],
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    answer
}

/// Ends the process at once, without handlers or buffers.
pub fn abort() -> ! {
    // SAFETY: `ud2` raises SIGILL; nothing is executed after it.
    unsafe { asm!("ud2", options(noreturn)) }
}
