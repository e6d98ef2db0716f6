//! Where a thread's state lies: in the static TLS block. `entry` gives that its layout.

use core::arch::asm;

use crate::thread::ThreadState;

/// Offset of this library's thread state from the thread pointer; the same in every thread.
pub(super) fn thread_offset() -> usize {
    let offset: usize;
    // SAFETY: reads a constant of the dynamic linker's from the global offset table.
    unsafe {
        asm!("mov {}, qword ptr [rip + cuesta_thread@GOTTPOFF]", out(reg) offset, options(pure, readonly, nostack));
    }
    offset
}

/// What tells the calling thread from all others alive: the address of its control block.
pub fn thread_pointer() -> usize {
    let address: usize;
    // SAFETY: the first word of the thread control block is its own address (x86-64 TLS ABI).
    unsafe {
        asm!("mov {}, qword ptr fs:[0]", out(reg) address, options(pure, readonly, nostack));
    }
    address
}

/// The calling thread's state.
#[inline(always)]
pub fn thread_state() -> *mut ThreadState {
    let address: *mut ThreadState;
    // SAFETY: the first word of the thread control block is its own address (x86-64 TLS ABI).
    unsafe {
        asm!(
            "mov {0}, qword ptr [rip + cuesta_thread@GOTTPOFF]",
            "add {0}, qword ptr fs:[0]",
            out(reg) address,
            options(pure, readonly, nostack),
        );
    }
    address
}
