//! Reading and changing the context a signal handler returns to.

use libc::{REG_RIP, REG_RSP, c_void, ucontext_t};

/// The address the interrupted code was at.
///
/// # Safety
/// `context` is the third argument of a running signal handler.
pub unsafe fn instruction_pointer(context: *mut c_void) -> usize {
    // SAFETY: the kernel passes a valid ucontext_t, by the caller's word.
    unsafe { (*context.cast::<ucontext_t>()).uc_mcontext.gregs[REG_RIP as usize] as usize }
}

/// The stack the interrupted code was on.
///
/// # Safety
/// As [`instruction_pointer`].
pub unsafe fn stack_pointer(context: *mut c_void) -> usize {
    // SAFETY: as above.
    unsafe { (*context.cast::<ucontext_t>()).uc_mcontext.gregs[REG_RSP as usize] as usize }
}

/// Makes the handler return to `address`.
///
/// # Safety
/// As [`instruction_pointer`], and the code at `address` must expect to be entered with the
/// interrupted registers.
pub unsafe fn set_instruction_pointer(context: *mut c_void, address: usize) {
    // SAFETY: as above.
    unsafe {
        (*context.cast::<ucontext_t>()).uc_mcontext.gregs[REG_RIP as usize] = address as i64;
    }
}

/// The signal mask (the kernel's 64 bits) in force once the handler has returned.
///
/// # Safety
/// As [`instruction_pointer`].
pub unsafe fn signal_mask(context: *mut c_void) -> u64 {
    // SAFETY: as above; the kernel's mask is the first word of libc's larger sigset_t.
    unsafe { (&raw const (*context.cast::<ucontext_t>()).uc_sigmask).cast::<u64>().read() }
}

/// Sets the signal mask that is in force once the handler has returned.
///
/// # Safety
/// As [`instruction_pointer`].
pub unsafe fn set_signal_mask(context: *mut c_void, mask: u64) {
    // SAFETY: as above.
    unsafe { (&raw mut (*context.cast::<ucontext_t>()).uc_sigmask).cast::<u64>().write(mask) }
}
