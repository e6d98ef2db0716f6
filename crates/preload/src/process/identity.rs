//! How the kernel shows this program: its name, and the file it was executed from.

use crate::call::filter;
use std::ffi::CStr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Where this program lies, if it was executed from a copy.
static PROGRAM: AtomicPtr<Vec<u8>> = AtomicPtr::new(std::ptr::null_mut());

/// The name the kernel shows of this program.
pub fn own_name() -> String {
    let mut name = [0u8; NAME_BYTES];
    let arguments = [libc::PR_GET_NAME as usize, name.as_mut_ptr() as usize, 0, 0, 0, 0];
    // SAFETY: writes a name of the kernel's length, which ends with a zero.
    unsafe { crate::arch::syscall(libc::SYS_prctl as usize, arguments) };
    let name = CStr::from_bytes_until_nul(&name).unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// Makes this program look as if the kernel had executed it itself: its name, and where it lies.
pub fn take_identity(command: &[u8], program: Option<Vec<u8>>) {
    let mut name = [0u8; NAME_BYTES];
    let length = command.len().min(NAME_BYTES - 1);
    name[..length].copy_from_slice(&command[..length]);
    let arguments = [libc::PR_SET_NAME as usize, name.as_ptr() as usize, 0, 0, 0, 0];
    // SAFETY: reads a name of the kernel's length.
    unsafe { crate::arch::syscall(libc::SYS_prctl as usize, arguments) };
    if let Some(program) = program {
        filter::ACTIVE.store(1, Ordering::Release);
        PROGRAM.store(Box::into_raw(Box::new(program)), Ordering::Release);
    }
}

/// Where this program lies, if it was executed from a copy.
pub fn program() -> Option<&'static [u8]> {
    // SAFETY: null, or what `take_identity` leaked.
    unsafe { PROGRAM.load(Ordering::Acquire).as_ref() }.map(Vec::as_slice)
}

/// The kernel's limit of a program's name, with the terminator.
const NAME_BYTES: usize = 16;
