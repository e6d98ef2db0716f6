//! F_GETLK by the mount names the process whose lock is in the way, also where that has the file by its parent's descriptor.

use crate::common::{Mounted, can_mount};
use std::fs::File;
use std::io::Read as _;
use std::os::fd::AsRawFd as _;

const BYTES: i64 = 10;

fn lock(kind: i32, start: i64) -> libc::flock {
    libc::flock { l_type: kind as i16, l_whence: 0, l_start: start, l_len: BYTES, l_pid: 0 }
}

/// A process that has locked its part of the file by an inherited descriptor, until it is killed.
struct Holder(libc::pid_t);

impl Holder {
    fn of(file: &File, start: i64) -> Holder {
        let (mut ready, told) = std::io::pipe().unwrap();
        let wanted = lock(libc::F_WRLCK, start);
        // SAFETY: the child makes system calls on what was there before, and nothing else, until it is killed.
        let child = unsafe {
            let child = libc::fork();
            if child == 0 {
                if libc::fcntl(file.as_raw_fd(), libc::F_SETLK, &raw const wanted) == 0 {
                    libc::write(told.as_raw_fd(), c"x".as_ptr().cast(), 1);
                }
                loop {
                    libc::pause();
                }
            }
            child
        };
        drop(told);
        let holder = Holder(child);
        ready.read_exact(&mut [0]).unwrap();
        holder
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // SAFETY: the child is this one's, and not waited for yet.
        unsafe {
            libc::kill(self.0, libc::SIGKILL);
            libc::waitpid(self.0, std::ptr::null_mut(), 0);
        }
    }
}

#[test]
fn the_holder_of_a_lock_is_named() {
    if !can_mount() {
        return;
    }
    let mounted = Mounted::new();
    let file = File::create_new(mounted.path("file")).unwrap();
    let holders: Vec<Holder> = (0..6).map(|number| Holder::of(&file, 2 * BYTES * number)).collect();
    for (number, holder) in holders.iter().enumerate() {
        let start = 2 * BYTES * number as i64;
        let mut found = lock(libc::F_WRLCK, start + 3);
        found.l_len = 1;
        // SAFETY: the kernel reads and writes the one structure, which outlives the call.
        assert_eq!(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETLK, &raw mut found) }, 0);
        assert_eq!((found.l_pid, found.l_start, found.l_len), (holder.0, start, BYTES), "the one of {start}");
    }
}
