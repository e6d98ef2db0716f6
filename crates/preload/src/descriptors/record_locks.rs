//! Which inodes this process may have record locks on (`F_SETLK`).
//!
//! Such a lock is the process's, and goes when the process closes any descriptor of the file: the kernel sees to that, if
//! every descriptor of the inode is one of its lock file. So before the first lock on an inode all placeholders of it become
//! references, while that closes no process's locks, and each later open of it gives a reference at once
//! ([`crate::descriptors::references`]). When a descriptor of it is closed, and with that the locks, the inode is forgotten.

use crate::descriptors::Pin;
use crate::thread;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The inodes, each with how many calls are at its locks now.
static INODES: Mutex<BTreeMap<u64, usize>> = Mutex::new(BTreeMap::new());

/// How many there are.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// A call that sets a record lock: until it has, the inode is not forgotten.
#[derive(Debug)]
pub struct Setting(pub(super) u64);

pub(crate) fn inodes() -> MutexGuard<'static, BTreeMap<u64, usize>> {
    INODES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether the process may have record locks on the inode.
pub fn may_be_held(inode: u64) -> bool {
    COUNT.load(Ordering::Acquire) != 0 && inodes().contains_key(&inode)
}

pub(crate) fn note<'m>(
    inodes: &'m mut MutexGuard<'static, BTreeMap<u64, usize>>,
    inode: u64,
) -> &'m mut usize {
    if !inodes.contains_key(&inode) {
        COUNT.fetch_add(1, Ordering::Release);
    }
    inodes.entry(inode).or_default()
}

impl Drop for Setting {
    fn drop(&mut self) {
        if let Some(calls) = inodes().get_mut(&self.0) {
            *calls = calls.saturating_sub(1);
        }
    }
}

/// The program before exec may have left record locks on the inode of a descriptor that is inherited.
pub fn inherit(pin: &Pin) {
    if !pin.is_path() {
        note(&mut inodes(), pin.inode());
    }
}

/// A descriptor with this behind it is about to be closed, by a thread that is inside: locks that are set meanwhile on
/// other descriptors of the inode find it forgotten, and wait at the gate, or have kept it.
pub fn closing(pin: &Pin) {
    if COUNT.load(Ordering::Acquire) == 0 || pin.is_path() || thread::is_vforked() {
        return;
    }
    let mut inodes = inodes();
    if inodes.get(&pin.inode()) == Some(&0) {
        inodes.remove(&pin.inode());
        COUNT.fetch_sub(1, Ordering::Release);
    }
}

/// This is the child of a fork: the locks are its parent's.
pub fn after_fork() {
    inodes().clear();
    COUNT.store(0, Ordering::Release);
}
