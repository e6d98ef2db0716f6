//! The credentials of a thread's calls.
//!
//! The kernel keeps ids, groups and capabilities with each thread; libc changes those of all threads together,
//! a raw call changes only its own. So each thread asks the kernel for what it has, once, and again when any
//! thread has changed anything: libc's other threads have changed before the call that began it returns.
//! A vfork child has ids of its own on its parent's state: its credentials are kept among its changes.

use crate::users::confinement;
use crate::users::thread_credentials::{CHANGES, ThreadCredentials};
use crate::{arch, thread};
use cuesta_libfs::{Capabilities, Credentials};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Version 3 of `capset`'s structures: two words of each set.
const CAPABILITY_VERSION: u32 = 0x2008_0522;

/// Groups read without asking how many there are.
const GROUPS_USUAL: usize = 64;

/// The credentials of this thread's calls.
pub fn effective() -> Arc<Credentials> {
    known(|known| Arc::clone(&known.effective))
}

/// As [`effective`], with the real ids: what `access` answers for.
pub fn real() -> Arc<Credentials> {
    known(|known| Arc::clone(&known.real))
}

fn known<T>(take: impl FnOnce(&ThreadCredentials) -> T) -> T {
    let changes = CHANGES.load(Ordering::Acquire);
    if thread::is_vforked() {
        // SAFETY: the reference ends before anything else here refers to it.
        let delta = unsafe { thread::delta() }.get_or_insert_default();
        return match &mut delta.credentials {
            Some(known) if known.changes == changes && !delta.has_children => take(known),
            asked => take(asked.insert(ask())),
        };
    }
    // SAFETY: this thread's own state; the reference ends before anything else here refers to it.
    let kept = unsafe { &mut (*arch::thread_state()).credentials };
    match kept {
        Some(known) if known.changes == changes => take(known),
        kept => take(kept.insert(Box::new(ask()))),
    }
}

#[cold]
fn ask() -> ThreadCredentials {
    // Counted first: after a change meanwhile the thread asks again.
    let changes = CHANGES.load(Ordering::Acquire);
    let uid = current(libc::SYS_setfsuid);
    let gid = current(libc::SYS_setfsgid);
    let sets = capability_sets();
    let [effective, permitted] = sets.map(Capabilities::from_bits);
    let real_uid = rustix::process::getuid().as_raw();
    let real_gid = rustix::process::getgid().as_raw();
    let (users, confinement) = ([uid, rustix::process::geteuid().as_raw()], confinement::current());
    // The credentials that the kernel tells SharedFS of a connection, or more: SharedFS is told which are missing.
    let of_user = Credentials::of_user(uid, gid, Vec::new());
    let is_plain = users == [real_uid; 2]
        && [gid, rustix::process::getegid().as_raw()] == [real_gid; 2]
        && effective.within(of_user.capabilities) == effective
        && confinement.is_none();
    let effective =
        Arc::new(Credentials { uid, gid, groups: groups(), capabilities: effective, confinement, is_plain });
    let capabilities = if real_uid == 0 { permitted } else { Capabilities::NONE };
    let real = if (real_uid, real_gid, capabilities) == (uid, gid, effective.capabilities) {
        Arc::clone(&effective)
    } else {
        Arc::new(Credentials { uid: real_uid, gid: real_gid, capabilities, ..Credentials::clone(&effective) })
    };
    ThreadCredentials { changes, effective, real }
}

/// The answer of a call that answers the id it replaces, if it replaces nothing.
fn current(number: i64) -> u32 {
    const INVALID: usize = u32::MAX as usize;
    // SAFETY: an invalid id changes nothing.
    unsafe { arch::syscall(number as usize, [INVALID, 0, 0, 0, 0, 0]) as u32 }
}

/// The effective and the permitted set.
fn capability_sets() -> [u64; 2] {
    let header = [CAPABILITY_VERSION, 0];
    // Effective, permitted and inheritable, the lower words of each first.
    let mut words = [[0u32; 3]; 2];
    let arguments = [header.as_ptr() as usize, words.as_mut_ptr() as usize, 0, 0, 0, 0];
    // SAFETY: both structures have the layout of this version.
    unsafe { arch::syscall(libc::SYS_capget as usize, arguments) };
    [0, 1].map(|set| u64::from(words[1][set]) << 32 | u64::from(words[0][set]))
}

fn groups() -> Vec<u32> {
    let mut groups = vec![0u32; GROUPS_USUAL];
    loop {
        let arguments = [groups.len(), groups.as_mut_ptr() as usize, 0, 0, 0, 0];
        // SAFETY: the kernel writes at most as many as there is room for.
        let count = unsafe { arch::syscall(libc::SYS_getgroups as usize, arguments) };
        if let Ok(count) = usize::try_from(count) {
            groups.truncate(count);
            groups.shrink_to_fit();
            return groups;
        }
        // SAFETY: without room it answers how many there are.
        let count = unsafe { arch::syscall(libc::SYS_getgroups as usize, [0; 6]) };
        groups.resize(usize::try_from(count).unwrap_or(0).max(groups.len() * 2), 0);
    }
}
