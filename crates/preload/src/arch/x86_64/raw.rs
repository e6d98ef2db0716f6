//! The system call instruction itself, for the calls this library makes on behalf of the application.
//! libc's wrappers are what we intercept, so they cannot be used to reach the kernel.

use core::arch::{asm, global_asm};

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

// A system call that a flag forbids: a signal handler that comes between the look at the flag and the call
// returns to `cuesta_wait_interrupted` instead (see `end_of_wait`).
global_asm!(
    ".pushsection .text.cuesta_waiting_call, \"ax\", @progbits",
    ".globl cuesta_waiting_call",
    ".hidden cuesta_waiting_call",
    ".type cuesta_waiting_call, @function",
    ".globl cuesta_wait_begin",
    ".hidden cuesta_wait_begin",
    ".globl cuesta_wait_call",
    ".hidden cuesta_wait_call",
    ".globl cuesta_wait_interrupted",
    ".hidden cuesta_wait_interrupted",
    "cuesta_waiting_call:",
    "  mov rax, rdi",
    "  mov r11, rdx",
    "  mov rdi, [rsi]",
    "  mov rdx, [rsi + 16]",
    "  mov r10, [rsi + 24]",
    "  mov r8, [rsi + 32]",
    "  mov r9, [rsi + 40]",
    "  mov rsi, [rsi + 8]",
    "cuesta_wait_begin:",
    "  cmp dword ptr [r11], 0",
    "  jne cuesta_wait_interrupted",
    "cuesta_wait_call:",
    "  syscall",
    "  ret",
    "cuesta_wait_interrupted:",
    "  mov rax, {interrupted}",
    "  ret",
    ".size cuesta_waiting_call, . - cuesta_waiting_call",
    ".popsection",
    interrupted = const -libc::EINTR,
);

// Has no unwind tables: a stack is unwound up to here, and no further.
global_asm!(
    ".pushsection .text.cuesta_call_handler, \"ax\", @progbits",
    ".globl cuesta_call_handler",
    ".hidden cuesta_call_handler",
    ".type cuesta_call_handler, @function",
    "cuesta_call_handler:",
    "  sub rsp, 8",
    "  call rcx",
    "  add rsp, 8",
    "  ret",
    ".size cuesta_call_handler, . - cuesta_call_handler",
    ".popsection",
);

/// A signal handler, as the kernel calls it.
pub type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);

unsafe extern "C" {
    fn cuesta_call_handler(
        signal: libc::c_int,
        info: *mut libc::siginfo_t,
        context: *mut libc::c_void,
        handler: Handler,
    );
    fn cuesta_waiting_call(number: usize, arguments: *const usize, forbidden: *const u32) -> isize;
    fn cuesta_wait_begin();
    fn cuesta_wait_call();
    fn cuesta_wait_interrupted();
}

/// Makes system call `number` unless `forbidden` is set: then the answer is EINTR.
///
/// # Safety
/// As [`syscall`]; `forbidden` is valid for the whole call.
pub unsafe fn waiting_call(number: usize, arguments: &[usize; 6], forbidden: *const u32) -> isize {
    // SAFETY: six arguments are read; the rest is vouched for by the caller. The function changes only
    // registers its calling convention lets it change.
    unsafe { cuesta_waiting_call(number, arguments.as_ptr(), forbidden) }
}

/// Calls a handler that interrupted this library's own code: if it ends its thread, that code is not unwound.
///
/// # Safety
/// The arguments are those the kernel passed to the handler this one stands behind.
pub unsafe fn call_handler(
    handler: Handler,
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    // SAFETY: an ordinary call of the handler; the rest is vouched for by the caller.
    unsafe { cuesta_call_handler(signal, info, context, handler) }
}

/// Whether the code at `address` is that of [`waiting_call`], beyond which no stack is unwound.
pub fn is_waiting_call(address: usize) -> bool {
    let code = cuesta_waiting_call as *const () as usize..cuesta_wait_interrupted as *const () as usize;
    code.contains(&address)
}

/// Where to go on if a handler interrupted the code at `address` and the call that is about to be made there
/// must not be.
pub fn end_of_wait(address: usize) -> Option<usize> {
    let about_to = cuesta_wait_begin as *const () as usize..=cuesta_wait_call as *const () as usize;
    about_to.contains(&address).then_some(cuesta_wait_interrupted as *const () as usize)
}
