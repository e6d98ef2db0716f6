//! Requests of our own, that mean nothing: so that there is something to answer.
//!
//! A request that found all rings of its processor busy waits until one of them is answered, even when new ones have come
//! ([`crate::ring`]). So somebody who is on the processor asks the mount for its totals (`ustat`: by the number of its device,
//! without having anything open there, which would keep the mount from going).

use crate::device::Device;
use crate::processors;
use rustix::fd::{AsFd as _, AsRawFd as _};
use std::ffi::c_void;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::Builder;

/// What `struct ustat` has, with room to spare.
const ANSWER_WORDS: usize = 16;
const STACK_BYTES: usize = 64 << 10;
/// No process has this number.
const TAKEN: u32 = u32::MAX;

/// Those at once whose requests are known as such; others are served as anybody's.
const KNOWN_MAX: usize = 64;

/// Asks a mount.
#[derive(Clone, Debug)]
pub struct Wakes {
    number: u32,
    /// The processes that do so.
    processes: Arc<[AtomicU32; KNOWN_MAX]>,
}

impl Wakes {
    /// For the mount of a device, if the kernel tells its number (Linux 6.16).
    pub fn of(device: &Device) -> Option<Wakes> {
        let descriptor = device.as_fd().as_raw_fd();
        let about = std::fs::read_to_string(format!("/proc/self/fdinfo/{descriptor}")).ok()?;
        let processes = Arc::new([const { AtomicU32::new(0) }; KNOWN_MAX]);
        number_in(&about).map(|number| Wakes { number, processes })
    }

    /// Whether a request for totals is one of these: what it is answered does not matter, and nobody waits for the answer.
    pub fn is_one(&self, process: u32) -> bool {
        self.processes.iter().any(|known| known.load(Ordering::SeqCst) == process)
    }

    /// Asks by the rings of a processor, in a thread that nobody waits for.
    pub fn wake(&self, processor: u16) {
        let wakes = self.clone();
        let asks = Builder::new().name("fuse-wake".into()).spawn(move || {
            processors::stay_on(processor);
            if let Err(error) = wakes.ask() {
                tracing::debug!(%error, "the mount is not asked for its totals");
            }
        });
        if let Err(error) = asks {
            tracing::warn!(%error, "requests may wait for the answer of another");
        }
    }

    /// Asks from a process of its own, with memory of its own: nobody answers when this one is killed, and a thread of it, or who
    /// shares its memory, would have the rings stay, and with them the mount.
    fn ask(&self) -> io::Result<()> {
        let mut stack = vec![0_u128; STACK_BYTES / size_of::<u128>()];
        let mut number = libc::c_ulong::from(self.number);
        let take =
            |place: &&AtomicU32| place.compare_exchange(0, TAKEN, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        let unknown = AtomicU32::new(TAKEN);
        let known = self.processes.iter().find(take).unwrap_or(&unknown);
        // SAFETY: the other process has a copy of this stack. It makes three system calls, with what it is given. Its number is
        // written to a place that outlives it.
        let process = unsafe {
            let top = stack.as_mut_ptr_range().end.cast();
            let flags = libc::CLONE_PARENT_SETTID;
            let process = libc::clone(asks, top, flags, (&raw mut number).cast(), known.as_ptr());
            if process > 0 {
                libc::waitpid(process, std::ptr::null_mut(), libc::__WALL);
            }
            process
        };
        let error = io::Error::last_os_error();
        known.store(0, Ordering::SeqCst);
        if process > 0 { Ok(()) } else { Err(error) }
    }
}

extern "C" fn asks(number: *mut c_void) -> libc::c_int {
    let mut answer = [0_u64; ANSWER_WORDS];
    // SAFETY: the number is the one that was given. This process's descriptors are closed, none of which it uses; the kernel writes a structure that is smaller than the answer.
    unsafe {
        let number = *number.cast::<libc::c_ulong>();
        libc::syscall(libc::SYS_close_range, 0, libc::c_uint::MAX, 0);
        libc::syscall(libc::SYS_ustat, number, answer.as_mut_ptr());
        libc::syscall(libc::SYS_exit, 0);
    }
    0
}

fn number_in(about: &str) -> Option<u32> {
    let minor: u32 =
        about.lines().find_map(|line| line.strip_prefix("fuse_connection:"))?.trim().parse().ok()?;
    // As system calls have it, and a mount has no major one.
    Some(minor & 0xff | (minor & !0xff) << 12)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_mount_is_read() {
        assert_eq!(number_in("pos:\t0\nflags:\t02\nmnt_id:\t21\nfuse_connection:\t51\n"), Some(51));
        assert_eq!(number_in("fuse_connection:\t300\n"), Some(0x10_002c));
        assert_eq!(number_in("pos:\t0\n"), None);
    }
}
