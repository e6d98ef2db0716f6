//! Being the store's user for a moment.
//!
//! A process may have taken another user's ids for a while, and can take its own again: it keeps its session, which judges each
//! call by the ids the thread has. But what the session needs of the kernel (the daemon's socket, lock files, files in mapped
//! mode) is open to the store's user alone. So a thread takes that user's ids again while it fetches such a thing; to the
//! program's other threads, and to all it does itself, nothing changes.

use crate::arch;
use crate::users::socket_folder;

/// `capset`'s version 3, for the calling thread.
const CAPABILITIES: [u32; 2] = [0x2008_0522, 0];
const UNCHANGED: u32 = u32::MAX;

/// While it lives the calling thread is the store's user, or root.
#[derive(Debug)]
pub struct StoreUser {
    effective: u32,
    file_system: u32,
    capabilities: [u32; 6],
    is_dumpable: isize,
    death_signal: i32,
}

impl StoreUser {
    /// Becomes it, if this thread is not but can.
    pub fn become_again() -> Option<StoreUser> {
        let [real, effective, saved] = ids();
        let others = [real, saved].into_iter().filter(|user| *user != effective);
        if effective == 0 || others.clone().next().is_none() || !socket_folder::is_anothers() {
            return None;
        }
        let mut before = StoreUser {
            effective,
            file_system: system(libc::SYS_setfsuid, [UNCHANGED as usize, 0, 0]) as u32,
            capabilities: [0; 6],
            is_dumpable: system(libc::SYS_prctl, [libc::PR_GET_DUMPABLE as usize, 0, 0]),
            death_signal: 0,
        };
        let header = CAPABILITIES;
        system(libc::SYS_capget, [header.as_ptr() as usize, before.capabilities.as_mut_ptr() as usize, 0]);
        system(libc::SYS_prctl, [libc::PR_GET_PDEATHSIG as usize, &raw mut before.death_signal as usize, 0]);
        // Root reaches every store.
        let mut candidates: Vec<u32> = others.collect();
        candidates.sort_unstable();
        for user in candidates {
            if set_effective(user) == 0 && !socket_folder::is_anothers() {
                return Some(before);
            }
        }
        before.restore();
        None
    }

    fn restore(&self) {
        set_effective(self.effective);
        system(libc::SYS_setfsuid, [self.file_system as usize, 0, 0]);
        let header = CAPABILITIES;
        system(libc::SYS_capset, [header.as_ptr() as usize, self.capabilities.as_ptr() as usize, 0]);
        // Another effective user takes both away.
        if self.is_dumpable == 1 {
            system(libc::SYS_prctl, [libc::PR_SET_DUMPABLE as usize, 1, 0]);
        }
        if self.death_signal != 0 {
            system(libc::SYS_prctl, [libc::PR_SET_PDEATHSIG as usize, self.death_signal as usize, 0]);
        }
    }
}

impl Drop for StoreUser {
    fn drop(&mut self) {
        self.restore();
    }
}

/// Real, effective and saved.
fn ids() -> [u32; 3] {
    let mut ids = [0u32; 3];
    let [real, effective, saved] = [0, 1, 2].map(|index| &raw mut ids[index] as usize);
    system(libc::SYS_getresuid, [real, effective, saved]);
    ids
}

/// Of this thread alone, as libc would not do it.
fn set_effective(user: u32) -> isize {
    system(libc::SYS_setresuid, [UNCHANGED as usize, user as usize, UNCHANGED as usize])
}

fn system(number: i64, [first, second, third]: [usize; 3]) -> isize {
    // SAFETY: asks for or sets ids and attributes of this thread; what pointers lead to is of the size the kernel writes.
    unsafe { arch::syscall(number as usize, [first, second, third, 0, 0, 0]) }
}
