//! A SIGSEGV/SIGBUS handler for programs that have none of their own: the daemon, tests, the simulator.
//!
//! The preload door installs its own, which asks [`crate::copying::user_copy::recover`] in the same way and keeps the
//! application's handlers behind it.

use crate::copying::user_copy::recover;
use std::mem::MaybeUninit;
use std::sync::OnceLock;

/// The `si_code` by which the kernel says that a page is lost which this process has mapped and did not touch. It has taken the
/// page away: a thread that touches it gets a fault of its own.
pub const BUS_MCEERR_AO: libc::c_int = 5;

struct Previous {
    segv: libc::sigaction,
    bus: libc::sigaction,
}

static PREVIOUS: OnceLock<Previous> = OnceLock::new();

/// Makes copies to and from bad memory return a fault instead of ending the process. Other faults go to the
/// handler there was before. Calling it again changes nothing.
pub fn install_fault_handler() {
    PREVIOUS.get_or_init(|| Previous { segv: install(libc::SIGSEGV), bus: install(libc::SIGBUS) });
}

fn install(signal: libc::c_int) -> libc::sigaction {
    // SAFETY: both structures are plain data for which zero is valid; the handler has the signature
    // SA_SIGINFO asks for and does only what is allowed in a signal handler.
    unsafe {
        let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
        let mut previous: libc::sigaction = MaybeUninit::zeroed().assume_init();
        action.sa_sigaction = on_fault as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
        libc::sigaction(signal, &action, &mut previous);
        previous
    }
}

extern "C" fn on_fault(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid context, which is this thread's alone while the handler runs.
    let instruction_pointer = unsafe { instruction_pointer(context.cast()) };
    if let Some(target) = recover(*instruction_pointer as usize) {
        *instruction_pointer = target as _;
        return;
    }
    // SAFETY: the kernel passes valid information.
    if signal == libc::SIGBUS && unsafe { (*info).si_code } == BUS_MCEERR_AO {
        return;
    }
    // SAFETY: `sigaction` with a previous action is allowed in a handler, and `previous` holds what the
    // kernel gave us. A handler that was installed has the signature its flags say.
    unsafe {
        let previous = PREVIOUS.get().map(|both| match signal {
            libc::SIGBUS => &both.bus,
            _ => &both.segv,
        });
        match previous {
            Some(previous) if previous.sa_sigaction > libc::SIG_IGN => {
                if previous.sa_flags & libc::SA_SIGINFO != 0 {
                    let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
                        std::mem::transmute(previous.sa_sigaction);
                    handler(signal, info, context);
                } else {
                    let handler: extern "C" fn(libc::c_int) = std::mem::transmute(previous.sa_sigaction);
                    handler(signal);
                }
            }
            // The instruction runs again and the default action ends the process, with the right core.
            _ => {
                let default: libc::sigaction = MaybeUninit::zeroed().assume_init();
                libc::sigaction(signal, &default, std::ptr::null_mut());
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
unsafe fn instruction_pointer<'a>(context: *mut libc::ucontext_t) -> &'a mut i64 {
    // SAFETY: the caller passes the context of a running handler.
    unsafe { &mut (*context).uc_mcontext.gregs[libc::REG_RIP as usize] }
}

#[cfg(target_arch = "aarch64")]
unsafe fn instruction_pointer<'a>(context: *mut libc::ucontext_t) -> &'a mut u64 {
    // SAFETY: the caller passes the context of a running handler.
    unsafe { &mut (*context).uc_mcontext.pc }
}
