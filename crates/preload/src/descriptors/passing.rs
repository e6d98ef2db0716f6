//! Open files of the store that travel to other processes in messages.
//!
//! The descriptor that travels keeps a file for every process that has it (see `references`). It is marked with one more number: by
//! that SharedFS keeps the description that a receiver needs, as long as a process has the descriptor, or it is on its way. A receiver
//! finds the numbers among the locks of the descriptor, which only a process with lock files of the store can forge, and
//! has its own session open the file. A process of another user has lock files of what it may open, and can set any number
//! on them: so a descriptor stands for one that writes only if it is open for writing itself, as those of readers never are. It shares the offset and the flags with all who have it ([`crate::descriptors::cells`]), and the
//! locks. Where nothing is known of it any more it is made a descriptor that answers nothing but EBADF. Without this library,
//! or a session of the same store, it is a descriptor of a lock file: reading finds its end, and writing at its offset fails.

use crate::call::Failure;
use crate::descriptors::description::Description;
use crate::descriptors::kernel::borrow;
use crate::descriptors::passed_cell::cell_of;
use crate::descriptors::{self, Pin, cells, references};
use crate::process::inheritance::table;
use crate::store::Client;
use crate::thread::gate;
use crate::{arch, process};
use cuesta_format::InodeNumber;
use cuesta_format::control::PASSED_MARKS;
use cuesta_libfs::Error;
use cuesta_media::lock_files::{self, Mark};
use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, FdFlags};
use std::ffi::CString;
use std::os::fd::AsRawFd as _;

/// Makes `fd`, and all that refer to the same description, a descriptor that can travel. A file that a vfork child has opened is its
/// own; its parent's descriptors are references since before there was a child.
pub fn prepare(fd: i32, pin: &Pin) -> Result<(), Failure> {
    let client = process::client()?;
    if client.is_served() {
        return Err(Failure::Errno(libc::EOPNOTSUPP));
    }
    if pin.passed() != 0 && !references::is_placeholder(fd) {
        return Ok(());
    }
    gate::alone(|| {
        let alike: Vec<i32> = descriptors::all()
            .into_iter()
            .filter(|(_, other)| other.is_same(pin))
            .map(|(fd, _)| fd)
            .collect();
        references::keep_one(pin, &alike);
        if !alike.contains(&fd) {
            return Err(Failure::Errno(libc::EBADF));
        }
        if references::is_placeholder(fd) {
            return Err(Failure::Errno(libc::EMFILE));
        }
        let marked = marks(fd);
        let number = match (pin.passed(), marked.first()) {
            (0, Some(theirs)) => *theirs,
            (0, None) => client.number_to_pass()?,
            (ours, _) => ours,
        };
        mark(fd, &marked, number)?;
        let kept = pin.pass(number, |description| match marked.first() {
            // A process it was forked from, or to, has sent it.
            Some(theirs) => cell_of(*theirs).ok_or(Failure::Errno(libc::EIO)),
            None => {
                let text = table::line(description).into_bytes();
                let kept =
                    client.pass(number, InodeNumber(description.inode), text).map_err(
                        |error| match error {
                            Error::NoSpace => Failure::Errno(libc::ETOOMANYREFS),
                            error => error.into(),
                        },
                    )?;
                cells::passed(kept.cells, kept.cell).ok_or(Failure::Errno(libc::ENOMEM))
            }
        })?;
        mark(fd, &marked, kept)
    })
}

/// Makes a descriptor that was just received one of ours, if it is one of the store's. Says whether it should be and is not.
pub fn receive(fd: i32) -> Result<(), Failure> {
    let numbers = marks(fd);
    if numbers.is_empty() {
        return Ok(());
    }
    let client = process::client()?;
    if !is_beside_store(client, fd) {
        return Ok(());
    }
    let known = descriptors::all().into_iter().find(|(_, pin)| numbers.contains(&pin.passed()));
    let pin = match known {
        Some((_, pin)) => pin,
        None => {
            let found = numbers.iter().find_map(|number| describe(client, *number));
            descriptors::describe(found.ok_or(Failure::Errno(libc::EOPNOTSUPP))?)
        }
    };
    let inode = InodeNumber(pin.inode());
    if pin.writes() && !is_for_writing(fd) {
        return Err(Failure::Errno(libc::EOPNOTSUPP));
    }
    if client.references(|folder| lock_files::is_of(folder, inode, borrow(fd))) == Some(true) {
        descriptors::install(fd, pin);
    }
    Ok(())
}

/// Makes a descriptor that cannot be received one that nothing can be done with, if it is of a lock file of the store.
pub fn make_useless(fd: i32) {
    let path = |fd: i32| rustix::fs::readlink(format!("/proc/thread-self/fd/{fd}"), Vec::new());
    let is_lock_file = process::client().is_ok_and(|client| {
        let folder = client.references(|folder| path(folder.as_raw_fd())).unwrap_or(Err(Errno::BADF));
        let file = path(fd);
        folder.is_ok_and(|folder| file.is_ok_and(|file| file.to_bytes().starts_with(folder.to_bytes())))
    });
    let nothing = rustix::fs::open("/dev/null", OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
    let Some(nothing) = nothing.ok().filter(|_| is_lock_file) else { return };
    let flags = rustix::io::fcntl_getfd(borrow(fd)).unwrap_or(FdFlags::empty());
    let close_on_exec = if flags.contains(FdFlags::CLOEXEC) { libc::O_CLOEXEC } else { 0 };
    let arguments = [nothing.as_raw_fd() as usize, fd as usize, close_on_exec as usize, 0, 0, 0];
    // SAFETY: the descriptor just received, which the application has not seen.
    unsafe { arch::syscall(libc::SYS_dup3 as usize, arguments) };
}

fn describe(client: &Client, number: u64) -> Option<Description> {
    let found = client.passed(number).ok()?;
    let text = String::from_utf8(found.description).ok()?;
    let from = table::parse(&mut text.split(' '))?;
    Some(Description::received(&from, number, cells::passed(found.cells, found.cell)?))
}

/// Whether a descriptor is open for writing.
fn is_for_writing(fd: i32) -> bool {
    rustix::fs::fcntl_getfl(borrow(fd)).is_ok_and(|flags| flags.contains(OFlags::RDWR))
}

/// Whether a descriptor is of the file system that this store's lock files are on.
fn is_beside_store(client: &Client, fd: i32) -> bool {
    let theirs = rustix::fs::fstat(borrow(fd));
    let ours = client.references(|folder| rustix::fs::fstat(folder)).and_then(Result::ok);
    theirs.is_ok_and(|theirs| ours.is_some_and(|ours| ours.st_dev == theirs.st_dev))
}

fn mark(fd: i32, marked: &[u64], number: u64) -> Result<(), Failure> {
    if !marked.contains(&number) {
        lock_files::mark(borrow(fd), Mark::Passed(number))?;
    }
    Ok(())
}

/// The numbers a descriptor is marked with, as the kernel lists its locks.
fn marks(fd: i32) -> Vec<u64> {
    let path = format!("/proc/thread-self/fdinfo/{}", borrow(fd).as_raw_fd());
    let Ok(path) = CString::new(path) else { return Vec::new() };
    let listed = process::contents(&path).unwrap_or_default();
    // lock:	1: OFDLCK ADVISORY READ -1 00:19:3 17 17
    let locks = listed.split(|byte| *byte == b'\n').filter(|line| line.starts_with(b"lock:"));
    let number = |line: &[u8]| {
        let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).rev();
        let start = std::str::from_utf8(words.nth(1)?).ok()?.parse::<u64>().ok()?;
        start.checked_sub(PASSED_MARKS)
    };
    locks.filter_map(number).collect()
}
