//! Signals around a client that lives in the application's threads.
//!
//! Every handler the application registers is wrapped. While its thread is inside the client, a signal
//! waits: the wrapper queues it again to the thread, blocks everything in the interrupted context, and
//! `thread::leave` restores the mask, upon which the kernel delivers what has arrived with the
//! siginfo, stack and mask the application asked for. Faults are never deferred: one at a read of the
//! application's memory continues at its fix-up, any other is the application's own, or its death.
//!
//! What libc sends to cancel a thread would unwind its stack, on which the client is. Its handler is run so that it only
//! notes the wish: the thread ends at its next cancellation point, which may be the call it is in, if that comes to wait.
//!
//! SIGSEGV and SIGBUS stay ours in the kernel whatever the application sets; the table knows what it
//! set. A default action is carried out by restoring it and letting the signal happen again, so that
//! exit status, core dump and si_code are what they would have been.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use libc::{
    SA_ONSTACK, SA_RESETHAND, SA_SIGINFO, SIG_DFL, SIG_IGN, SIG_SETMASK, SIGBUS, SIGFPE, SIGILL, SIGSEGV,
    SIGSYS, SIGTRAP, c_int, c_void, siginfo_t,
};

use crate::memory::user_memory::Plain;
use crate::{arch, thread};
use cuesta_media::BUS_MCEERR_AO;

const SIGNALS: usize = 65;
/// What libc uses to cancel threads: the first of the signals it keeps for itself.
const CANCEL: c_int = 32;
const SET_BYTES: usize = 8;
const SA_RESTORER: u64 = 0x0400_0000;
const SA_RESTART: u64 = libc::SA_RESTART as u64;
const FAULTS: [c_int; 6] = [SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS];
/// Signals whose kernel handler is always ours.
const KEPT: [c_int; 2] = [SIGSEGV, SIGBUS];

/// The kernel's `struct sigaction`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Action {
    handler: usize,
    flags: u64,
    restorer: usize,
    mask: u64,
}

// SAFETY: integers without padding.
unsafe impl Plain for Action {}

/// The application's setting for one signal.
struct Slot {
    handler: AtomicUsize,
    flags: AtomicU64,
    restorer: AtomicUsize,
    mask: AtomicU64,
}

impl Slot {
    const fn new() -> Self {
        Self {
            handler: AtomicUsize::new(SIG_DFL),
            flags: AtomicU64::new(0),
            restorer: AtomicUsize::new(0),
            mask: AtomicU64::new(0),
        }
    }

    fn load(&self) -> Action {
        Action {
            handler: self.handler.load(Ordering::Acquire),
            flags: self.flags.load(Ordering::Relaxed),
            restorer: self.restorer.load(Ordering::Relaxed),
            mask: self.mask.load(Ordering::Relaxed),
        }
    }

    fn store(&self, action: &Action) {
        self.flags.store(action.flags, Ordering::Relaxed);
        self.restorer.store(action.restorer, Ordering::Relaxed);
        self.mask.store(action.mask, Ordering::Relaxed);
        self.handler.store(action.handler, Ordering::Release);
    }
}

static SLOTS: [Slot; SIGNALS] = [const { Slot::new() }; SIGNALS];
/// Held while table and kernel are changed together; only by threads inside the client, so that no
/// handler can find its own thread holding it.
static CHANGING: AtomicBool = AtomicBool::new(false);

/// Takes over SIGSEGV and SIGBUS. Call once, before the first site is patched.
pub fn prepare() {
    for signal in KEPT {
        let mut before = Action::default();
        let ours = Action {
            handler: entry_address(),
            flags: SA_SIGINFO as u64 | SA_ONSTACK as u64 | SA_RESTORER,
            restorer: arch::restorer(),
            mask: 0,
        };
        if kernel_action(signal, Some(&ours), Some(&mut before)) == 0 {
            SLOTS[signal as usize].store(&before);
        }
    }
}

/// Forgets locks another thread of the parent may have held.
pub fn after_fork() {
    CHANGING.store(false, Ordering::Release);
}

/// `rt_sigaction` as the application sees it.
///
/// `new` and `old` are copies of the application's structures; the caller has checked the set size.
pub fn change_action(signal: c_int, new: Option<&Action>, old: Option<&mut Action>) -> isize {
    let Some(slot) = usize::try_from(signal).ok().and_then(|index| SLOTS.get(index)) else {
        return kernel_action(signal, new, old);
    };
    if thread::is_vforked() {
        return change_in_vfork_child(signal, slot, new, old);
    }
    while CHANGING.swap(true, Ordering::Acquire) {
        std::hint::spin_loop();
    }
    let before = slot.load();
    let kept = KEPT.contains(&signal);
    let mut answer = 0;
    let mut kernel_before = Action::default();
    if let Some(new) = new {
        let wrapped = match new.handler {
            SIG_DFL | SIG_IGN if !kept => *new,
            SIG_DFL | SIG_IGN => Action {
                handler: entry_address(),
                flags: SA_SIGINFO as u64 | SA_ONSTACK as u64 | SA_RESTORER,
                restorer: arch::restorer(),
                mask: 0,
            },
            _ => Action {
                handler: entry_address(),
                flags: (new.flags | SA_SIGINFO as u64) & !(SA_RESETHAND as u32 as u64),
                ..*new
            },
        };
        // The table goes first: the wrapper must find the handler it is registered for.
        slot.store(new);
        answer = kernel_action(signal, Some(&wrapped), Some(&mut kernel_before));
        if answer != 0 {
            slot.store(&before);
        }
    } else {
        answer = kernel_action(signal, None, Some(&mut kernel_before)).min(answer);
    }
    CHANGING.store(false, Ordering::Release);
    if answer == 0
        && let Some(old) = old
    {
        *old = if kernel_before.handler == entry_address() { before } else { kernel_before };
    }
    answer
}

/// The child has the kernel's dispositions for itself, but shares the table with its parent.
fn change_in_vfork_child(
    signal: c_int,
    slot: &Slot,
    new: Option<&Action>,
    old: Option<&mut Action>,
) -> isize {
    let mut before = Action::default();
    let answer = kernel_action(signal, new, Some(&mut before));
    if answer == 0
        && let Some(old) = old
    {
        *old = if before.handler == entry_address() { slot.load() } else { before };
    }
    answer
}

static NOT_FORBIDDEN: u32 = 0;

/// Lets through what arrived while the thread was inside.
#[cold]
pub fn deliver_pending() {
    let state = arch::thread_state();
    // SAFETY: the calling thread's own state; the mask is the application's, so handlers may run from
    // here on, and the state is not touched again.
    unsafe {
        let mask = (*state).pending_mask;
        (*state).pending = 0;
        // A handler that ends its thread unwinds the stack. It gets no further than the function below, which has no
        // unwind tables. The frames of the client are cleaned up already.
        let arguments = [SIG_SETMASK as usize, (&raw const mask) as usize, 0, SET_BYTES, 0, 0];
        arch::waiting_call(libc::SYS_rt_sigprocmask as usize, &arguments, &NOT_FORBIDDEN);
    }
}

/// libc's PTHREAD_CANCEL_DEFERRED.
const DEFERRED: c_int = 0;
/// libc's PTHREAD_CANCEL_ASYNCHRONOUS.
const ASYNCHRONOUS: c_int = 1;

unsafe extern "C" {
    fn pthread_setcanceltype(kind: c_int, before: *mut c_int) -> c_int;
}

/// Ends the thread, which was cancelled and is about to wait in a call during which libc would have it end at once. Comes
/// back if it does not let itself be cancelled. To be called where a handler may end the thread, too.
#[cold]
pub fn end_cancelled() {
    let none: *mut c_void = core::ptr::null_mut();
    // SAFETY: libc's function takes the kind and a place for the one before, as the first two of a handler's arguments. What
    // called this is not unwound.
    unsafe {
        let set: unsafe extern "C" fn(c_int, *mut c_int) -> c_int = pthread_setcanceltype;
        let set: arch::Handler = core::mem::transmute(set);
        arch::call_handler(set, ASYNCHRONOUS, none.cast(), none);
    }
}

fn entry_address() -> usize {
    signal_entry as *const () as usize
}

extern "C" fn signal_entry(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes valid pointers to a SA_SIGINFO handler.
    let (code, address) = unsafe { ((*info).si_code, arch::instruction_pointer(context)) };
    if signal == SIGBUS && code == BUS_MCEERR_AO {
        // No fault of an instruction's: a page is lost, which may be one of the store's. A thread that touches it is told.
        let has_handler = SLOTS[signal as usize].load().handler > SIG_IGN;
        if has_handler && !thread::is_inside() {
            deliver(signal, info, context, false);
        }
        return;
    }
    let is_fault = code > 0 && FAULTS.contains(&signal);
    if is_fault {
        if let Some(fixup) =
            arch::filter_fault(address).or_else(|| crate::memory::user_memory::fixup(address))
        {
            // SAFETY: the fix-up belongs to the faulting instruction and expects its registers.
            unsafe { arch::set_instruction_pointer(context, fixup) };
            return;
        }
    // SAFETY: the context is this handler's.
    } else if is_cancellation(signal, info) && unsafe { thread::is_within_client(context) } {
        let mut before = DEFERRED;
        // SAFETY: changes this thread's own state, without acting on it.
        unsafe { pthread_setcanceltype(DEFERRED, &raw mut before) };
        thread::end_wait(before == ASYNCHRONOUS);
    } else if thread::is_inside() {
        defer(signal, info, context);
        return;
    }
    deliver(signal, info, context, is_fault);
}

fn is_cancellation(signal: c_int, info: *mut siginfo_t) -> bool {
    // SAFETY: the kernel's own.
    signal == CANCEL && unsafe { (*info).si_code } == libc::SI_TKILL
}

fn defer(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let everything = FAULTS.iter().fold(u64::MAX, |mask, fault| mask & !(1 << (fault - 1)));
    let state = arch::thread_state();
    // SAFETY: this thread's own state; with everything blocked the queued signal stays queued until
    // `deliver_pending`. If another signal's wrapper was interrupted at its start by this one, it runs
    // after us and stores the older mask, which is the right one.
    unsafe {
        set_mask(&everything);
        requeue(signal, info);
        (*state).pending_mask = arch::signal_mask(context);
        (*state).pending_interrupts = u32::from(SLOTS[signal as usize].load().flags & SA_RESTART == 0);
        (*state).pending = 1;
        arch::set_signal_mask(context, everything);
    }
}

fn deliver(signal: c_int, info: *mut siginfo_t, context: *mut c_void, is_fault: bool) {
    let slot = &SLOTS[signal as usize];
    let action = slot.load();
    match action.handler {
        SIG_IGN if !is_fault => {}
        SIG_DFL | SIG_IGN => {
            kernel_action(signal, Some(&Action::default()), None);
            // A fault happens again by itself.
            if !is_fault {
                requeue(signal, info);
            }
        }
        handler => {
            if action.flags & (SA_RESETHAND as u32 as u64) != 0 {
                slot.store(&Action::default());
                if !KEPT.contains(&signal) {
                    kernel_action(signal, Some(&Action::default()), None);
                }
            }
            // SAFETY: the application registered this function for this signal; a handler without
            // SA_SIGINFO ignores the further arguments (they are in registers).
            unsafe {
                let handler: arch::Handler = core::mem::transmute(handler);
                let call_restarts = thread::call_restarts();
                if thread::is_on_client_stack(context) {
                    arch::call_handler(handler, signal, info, context);
                } else {
                    handler(signal, info, context);
                }
                let handler_restarts = is_fault || action.flags & SA_RESTART != 0;
                if thread::handled(handler_restarts, call_restarts || is_fault)
                    && let Some(end) = arch::end_of_wait(arch::instruction_pointer(context))
                {
                    arch::set_instruction_pointer(context, end);
                }
            }
        }
    }
}

/// Sends the calling thread a signal; it arrives when the thread leaves the client.
pub fn raise(signal: c_int) {
    let me = rustix::process::getpid().as_raw_nonzero().get() as usize;
    let thread = rustix::thread::gettid().as_raw_nonzero().get() as usize;
    // SAFETY: touches no memory; a handler of the application's waits until this thread is outside.
    unsafe { arch::syscall(libc::SYS_tgkill as usize, [me, thread, signal as usize, 0, 0, 0]) };
}

fn requeue(signal: c_int, info: *mut siginfo_t) {
    // SAFETY: sends this thread a signal it has just received; `info` is the kernel's own.
    unsafe {
        let process = arch::syscall(libc::SYS_getpid as usize, [0; 6]) as usize;
        let thread = arch::syscall(libc::SYS_gettid as usize, [0; 6]) as usize;
        let arguments = [process, thread, signal as usize, info as usize, 0, 0];
        arch::syscall(libc::SYS_rt_tgsigqueueinfo as usize, arguments);
    }
}

/// # Safety
/// Signals let through run the application's handlers at once.
unsafe fn set_mask(mask: &u64) {
    let arguments = [SIG_SETMASK as usize, core::ptr::from_ref(mask) as usize, 0, SET_BYTES, 0, 0];
    // SAFETY: reads one mask; the effect is vouched for by the caller.
    unsafe { arch::syscall(libc::SYS_rt_sigprocmask as usize, arguments) };
}

fn kernel_action(signal: c_int, new: Option<&Action>, old: Option<&mut Action>) -> isize {
    let new = new.map_or(0, |new| core::ptr::from_ref(new) as usize);
    let old = old.map_or(0, |old| core::ptr::from_mut(old) as usize);
    // SAFETY: both pointers are null or to structures of the kernel's layout.
    unsafe { arch::syscall(libc::SYS_rt_sigaction as usize, [signal as usize, new, old, SET_BYTES, 0, 0]) }
}
