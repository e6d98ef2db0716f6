//! The process's umask, without a system call.

use crate::{process, thread};
use std::sync::atomic::{AtomicU32, Ordering};

/// The umask, as last set; kept here because reading the kernel's means changing it.
static UMASK: AtomicU32 = AtomicU32::new(UMASK_UNKNOWN);
const UMASK_UNKNOWN: u32 = u32::MAX;
const UMASK_USUAL: u32 = 0o022;

/// The process's umask.
pub fn current() -> u32 {
    // A vfork child has its own, but shares this memory with its parent.
    if thread::is_vforked() {
        return kernels_umask();
    }
    match UMASK.load(Ordering::Relaxed) {
        UMASK_UNKNOWN => read_umask(),
        mask => mask,
    }
}

/// The program has set its umask.
pub fn changed(mask: u32) {
    UMASK.store(mask, Ordering::Relaxed);
}

/// The umask the process started with.
#[cold]
fn read_umask() -> u32 {
    let mask = kernels_umask();
    // A change that came meanwhile is newer.
    match UMASK.compare_exchange(UMASK_UNKNOWN, mask, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => mask,
        Err(newer) => newer,
    }
}

#[cold]
fn kernels_umask() -> u32 {
    let status = process::contents(c"/proc/self/status").unwrap_or_default();
    let line = status.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"Umask:"));
    let mask = line.and_then(|text| u32::from_str_radix(std::str::from_utf8(text).ok()?.trim(), 8).ok());
    mask.unwrap_or(UMASK_USUAL)
}
