//! Of which kind a record lock is that a thread waits for: of its process (`F_SETLKW`), or of its open file description
//! (`F_OFD_SETLKW`). The request does not tell; the kernel tells with which arguments the thread came in.
//!
//! It tells that of a thread that sleeps, to processes that may trace it. One that made its request a moment ago may be about to sleep, so it
//! is looked at again. The look may wait for others, so no thread takes one with anything locked.

use std::io::ErrorKind;
use std::sync::Once;
use std::time::{Duration, Instant};

/// A thread that does not sleep after this is not looked at any more,
const LOOKS_END: Duration = Duration::from_secs(1);
/// and until then this often.
const LOOK_AGAIN: Duration = Duration::from_micros(100);

/// The owner of a lock, by its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::door) enum Kind {
    Process,
    /// Of an open file description, or it is not told.
    Other,
}

/// The kind of lock that a thread waits for, which is in the call. It stays there until it is answered; `is_over` says that this is to be soon.
pub(in crate::door) fn kind_of_wait(thread: u32, mut is_over: impl FnMut() -> bool) -> Kind {
    let began = Instant::now();
    loop {
        match std::fs::read_to_string(format!("/proc/{thread}/syscall")) {
            Ok(call) => {
                if let Some(kind) = kind_of_call(&call) {
                    return kind;
                }
            }
            Err(error) => {
                warn_once(&error);
                return Kind::Other;
            }
        }
        if is_over() || began.elapsed() > LOOKS_END {
            return Kind::Other;
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// `None`: the thread is not asleep in a call.
fn kind_of_call(call: &str) -> Option<Kind> {
    // Number and arguments: 72 0x3 0x7 0x7ffd5a3c7d90 …; or `running`, or -1 and where it is.
    let mut words = call.split_ascii_whitespace();
    words.next()?.parse::<u32>().ok()?;
    let command = words.nth(1).and_then(|word| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok())?;
    Some(if command as i32 == libc::F_OFD_SETLKW { Kind::Other } else { Kind::Process })
}

/// Whether a thread sleeps in a call of the `chown` family; `None`: it is not told.
pub(in crate::door) fn is_in_chown(thread: u32) -> Option<bool> {
    /// By those of 32-bit programs, too: no other call of these numbers changes attributes.
    const CALLS: [i64; 11] = [
        libc::SYS_chown,
        libc::SYS_fchown,
        libc::SYS_lchown,
        libc::SYS_fchownat,
        16,
        95,
        182,
        198,
        207,
        212,
        298,
    ];
    let began = Instant::now();
    while began.elapsed() < LOOKS_END {
        let call = std::fs::read_to_string(format!("/proc/{thread}/syscall")).ok()?;
        if let Some(number) = call.split_ascii_whitespace().next().and_then(|word| word.parse().ok()) {
            return Some(CALLS.contains(&number));
        }
        std::thread::sleep(LOOK_AGAIN);
    }
    None
}

fn warn_once(error: &std::io::Error) {
    static WARNED: Once = Once::new();
    if error.kind() == ErrorKind::PermissionDenied {
        WARNED.call_once(|| {
            tracing::warn!(%error, "circles of waits for record locks are not found: this process may not look at who waits");
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::AsRawFd as _;
    use std::fs::File;
    use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

    fn lock(file: &File, command: i32, kind: i32) -> i32 {
        let wanted = libc::flock { l_type: kind as i16, l_whence: 0, l_start: 0, l_len: 1, l_pid: 0 };
        // SAFETY: the descriptor is open; the kernel reads the one structure, which outlives the call.
        unsafe { libc::fcntl(file.as_raw_fd(), command, &raw const wanted) }
    }

    /// The kind that is found for a thread that waits with the command, and begins to wait only after the first look.
    fn found_of(command: i32) -> Kind {
        let holder = tempfile::NamedTempFile::new().unwrap();
        let waiter = File::options().write(true).open(holder.path()).unwrap();
        assert_eq!(lock(holder.as_file(), libc::F_OFD_SETLK, libc::F_WRLCK), 0);
        let (thread, was_looked_at) = (AtomicI32::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // SAFETY: asks for a number.
                thread.store(unsafe { libc::gettid() }, Ordering::Relaxed);
                while !was_looked_at.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
                assert_eq!(lock(&waiter, command, libc::F_WRLCK), 0);
            });
            while thread.load(Ordering::Relaxed) == 0 {
                std::thread::yield_now();
            }
            let kind = kind_of_wait(thread.load(Ordering::Relaxed) as u32, || {
                was_looked_at.store(true, Ordering::Relaxed);
                false
            });
            was_looked_at.store(true, Ordering::Relaxed);
            assert_eq!(lock(holder.as_file(), libc::F_OFD_SETLK, libc::F_UNLCK), 0);
            kind
        })
    }

    #[test]
    fn a_thread_that_does_not_sleep_yet_is_looked_at_again() {
        assert_eq!(found_of(libc::F_SETLKW), Kind::Process);
        assert_eq!(found_of(libc::F_OFD_SETLKW), Kind::Other);
    }

    #[test]
    fn a_thread_that_is_gone_is_not_waited_for() {
        assert_eq!(kind_of_wait(0, || panic!("it is looked at once")), Kind::Other);
    }
}
