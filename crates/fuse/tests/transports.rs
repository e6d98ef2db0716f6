//! What must hold however the kernel's requests come, by the device or by rings: that those that wait hold up no others, are
//! ended by who asked, and that nothing is left waiting when the mount goes.

mod common;

use common::{Mounted, by_each_transport};
use rustix::mount::UnmountFlags;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};
use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

/// More than a mount has threads to begin with.
const WAITING: usize = 40;
/// Longer than anything here takes that ends at all.
const PATIENCE: Duration = Duration::from_secs(120);

fn lock(file: &File, kind: i32, command: i32) -> std::io::Result<()> {
    // SAFETY: zeros are a lock of the whole file.
    let mut range: libc::flock = unsafe { std::mem::zeroed() };
    range.l_type = kind as i16;
    // SAFETY: the descriptor is open, and the structure outlives the call.
    match unsafe { libc::fcntl(file.as_raw_fd(), command, &raw mut range) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

fn open(mounted: &Mounted, name: &str) -> File {
    File::options().read(true).write(true).create(true).truncate(false).open(mounted.path(name)).unwrap()
}

/// The calling thread makes its requests on the first processor, where it may.
fn stay_on_the_first_processor() {
    let mut first = CpuSet::new();
    first.set(0);
    let _ = sched_setaffinity(None::<Pid>, &first);
}

/// Runs `act` in a thread that is given up on when it hangs: it would take the test with it.
fn ends<T: Send + 'static>(what: &str, act: impl FnOnce() -> T + Send + 'static) -> T {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || tell.send(act()));
    told.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{what} does not end"))
}

/// Until `mounted` was asked so much since `before`.
fn wait_for_requests(mounted: &Mounted, before: u64, count: u64) {
    while mounted.requests() < before + count {
        std::thread::yield_now();
    }
}

#[test]
fn requests_that_wait_hold_up_no_others() {
    for mounted in by_each_transport() {
        let held = open(&mounted, "file");
        lock(&held, libc::F_WRLCK, libc::F_OFD_SETLK).unwrap();
        let files: Vec<File> = (0..WAITING).map(|_| open(&mounted, "file")).collect();
        let before = mounted.requests();
        let waits: Vec<_> = files
            .into_iter()
            .map(|file| {
                std::thread::spawn(move || {
                    stay_on_the_first_processor();
                    lock(&file, libc::F_WRLCK, libc::F_OFD_SETLKW).unwrap();
                    lock(&file, libc::F_UNLCK, libc::F_OFD_SETLK).unwrap();
                })
            })
            .collect();
        wait_for_requests(&mounted, before, WAITING as u64);
        let path = mounted.path("other");
        ends("a call beside waits", move || {
            stay_on_the_first_processor();
            std::fs::write(&path, "content").unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), b"content");
            lock(&held, libc::F_UNLCK, libc::F_OFD_SETLK).unwrap();
        });
        ends("a wait for a lock that is free", || waits.into_iter().for_each(|wait| wait.join().unwrap()));
    }
}

/// All come at once, and what ends the waits is among them, nobody knows where.
#[test]
fn requests_that_find_nobody_are_not_forgotten() {
    for mounted in by_each_transport() {
        for _ in 0..20 {
            let held = open(&mounted, "file");
            lock(&held, libc::F_WRLCK, libc::F_OFD_SETLK).unwrap();
            let files: Vec<File> = (0..WAITING).map(|_| open(&mounted, "file")).collect();
            ends("a lot of waits", move || {
                stay_on_the_first_processor();
                std::thread::scope(|scope| {
                    for file in files {
                        scope.spawn(move || {
                            lock(&file, libc::F_RDLCK, libc::F_OFD_SETLKW).unwrap();
                            lock(&file, libc::F_UNLCK, libc::F_OFD_SETLK).unwrap();
                        });
                    }
                    scope.spawn(move || lock(&held, libc::F_UNLCK, libc::F_OFD_SETLK).unwrap());
                });
            });
        }
    }
}

#[test]
fn a_wait_ends_with_a_signal_and_with_its_process() {
    extern "C" fn nothing(_: libc::c_int) {}
    // SAFETY: the action is zero but for a handler that does nothing; nobody else here has a use for the signal.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as *const () as usize;
        libc::sigaction(libc::SIGUSR2, &raw const action, std::ptr::null_mut());
    }
    for mounted in by_each_transport() {
        let held = open(&mounted, "file");
        held.lock().unwrap();
        lock(&held, libc::F_WRLCK, libc::F_OFD_SETLK).unwrap();

        let (file, (tell, told)) = (open(&mounted, "file"), mpsc::channel());
        let before = mounted.requests();
        let waits = std::thread::spawn(move || {
            // SAFETY: asks for a number.
            tell.send(unsafe { libc::pthread_self() }).unwrap();
            lock(&file, libc::F_WRLCK, libc::F_OFD_SETLKW)
        });
        let thread = told.recv().unwrap();
        wait_for_requests(&mounted, before, 1);
        // SAFETY: the thread waits, and has not been joined.
        assert_eq!(unsafe { libc::pthread_kill(thread, libc::SIGUSR2) }, 0);
        let ended = ends("a wait with a signal", || waits.join().unwrap());
        assert_eq!(ended.unwrap_err().raw_os_error(), Some(libc::EINTR));

        let (file, before) = (open(&mounted, "file"), mounted.requests());
        let mut child = Command::new("flock").args(["-x", "0"]).stdin(file).spawn().unwrap();
        wait_for_requests(&mounted, before, 1);
        child.kill().unwrap();
        let ended = ends("a wait of a process that was killed", move || child.wait().unwrap());
        assert_eq!(ended.signal(), Some(libc::SIGKILL));
        held.unlock().unwrap();
        open(&mounted, "file").try_lock().unwrap();
    }
}

/// Programs that are at it when the mount goes get errors, or what they asked for.
fn goes_under_load(flags: UnmountFlags) {
    for mounted in by_each_transport() {
        let held = open(&mounted, "file");
        held.lock().unwrap();
        let at = mounted.at().to_owned();
        let files: Vec<File> = (0..4).map(|_| open(&mounted, "file")).collect();
        ends("a mount that goes", move || {
            let (goes, calls) = (AtomicBool::new(false), AtomicUsize::new(0));
            std::thread::scope(|scope| {
                for (number, file) in files.into_iter().enumerate() {
                    scope.spawn(move || file.lock());
                    let (at, goes, calls) = (&at, &goes, &calls);
                    scope.spawn(move || {
                        let path = at.join(format!("file-{number}"));
                        // Without the mount it is a file of the directory below.
                        while !goes.load(Ordering::SeqCst) {
                            let _ =
                                std::fs::write(&path, vec![7; 100_000]).and_then(|()| std::fs::read(&path));
                            calls.fetch_add(1, Ordering::SeqCst);
                        }
                    });
                }
                while calls.load(Ordering::SeqCst) < 100 {
                    std::thread::yield_now();
                }
                rustix::mount::unmount(&at, flags).unwrap();
                goes.store(true, Ordering::SeqCst);
                // What is open keeps a mount alive that was only taken from the tree.
                drop(held);
            });
        });
    }
}

#[test]
fn a_mount_that_is_taken_away_under_load_leaves_nobody_waiting() {
    goes_under_load(UnmountFlags::DETACH);
}

#[test]
fn a_mount_that_is_aborted_under_load_leaves_nobody_waiting() {
    goes_under_load(UnmountFlags::FORCE | UnmountFlags::DETACH);
}

#[test]
fn content_comes_through_whole_in_whatever_pieces() {
    const LENGTH: usize = 3 << 20;
    for mounted in by_each_transport() {
        let mut random = numbers(7);
        let content: Vec<u8> = (0..LENGTH).map(|_| random() as u8).collect();
        let file = open(&mounted, "file");
        for size in [1, 100, 4096, 5000, 131_072, 1 << 20, LENGTH] {
            let (mut at, end) = (0, LENGTH.min(size * 50));
            while at < end {
                let piece = &content[at..(at + size).min(end)];
                file.write_all_at(piece, at as u64).unwrap();
                at += piece.len();
            }
            let mut read = vec![0; end];
            for (number, piece) in read.chunks_mut(size).enumerate() {
                file.read_exact_at(piece, (number * size) as u64).unwrap();
            }
            assert!(read == content[..end], "pieces of {size} bytes");
        }
        file.sync_all().unwrap();
        drop(file);
        let name = "n".repeat(255);
        std::fs::rename(mounted.path("file"), mounted.path(&name)).unwrap();
        std::os::unix::fs::symlink("t".repeat(4000), mounted.path("link")).unwrap();
        assert_eq!(std::fs::read_link(mounted.path("link")).unwrap().as_os_str().len(), 4000);
        let value = vec![5; 60_000];
        let path = mounted.path(&name);
        rustix::fs::setxattr(&path, "user.value", &value, rustix::fs::XattrFlags::empty()).unwrap();
        let mut found = vec![0; 65_536];
        let length = rustix::fs::getxattr(&path, "user.value", &mut found).unwrap();
        assert!(found[..length] == value);
        for number in 0..2000 {
            std::fs::write(mounted.path(&format!("one-of-many-{number}")), "").unwrap();
        }
        assert_eq!(std::fs::read_dir(mounted.at()).unwrap().count(), 2002);
        assert!(std::fs::read(&path).unwrap() == content);
    }
}

/// Numbers that repeat after a long time only.
fn numbers(mut state: u64) -> impl FnMut() -> u64 {
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    }
}
