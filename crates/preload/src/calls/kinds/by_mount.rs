//! Files that the kernel serves itself where the store is mounted at the place it appears: named pipes, sockets and devices, and
//! programs the library cannot be loaded into. These it executes by the mount, and what they inherit of the store is there
//! as well.
//!
//! Before the exec each descriptor of ours that survives it is replaced by one that the kernel has of the same file, and
//! the kernel's working directory is where the program's is. Offsets that other processes share stay shared: the mount goes on
//! where they are. A process that has locks keeps them by a copy of the descriptor they are on, for as long as the program runs. All
//! that is taken back if the exec fails.

use crate::call::{self, Answer, Failure};
use crate::calls::kinds::aside::Aside;
use crate::calls::kinds::entered::{Entered, Replaced};
use crate::calls::paths::store_path::StorePath;
use crate::descriptors::description::Shared;
use crate::descriptors::kernel::{self, borrow};
use crate::descriptors::{self, Pin, cells, references, working_directory};
use crate::process::inheritance::table;
use crate::thread::{self, gate};
use crate::{arch, process};
use cuesta_format::InodeNumber;
use cuesta_format::control::USER_LOCK_LAST;
use cuesta_format::mount_calls::{self, SHARE_OFFSET, ShareOffset};
use rustix::fd::BorrowedFd;
use rustix::fs::{FileType, Mode, OFlags, SeekFrom};
use rustix::io::{Errno, FdFlags};
use std::ffi::CString;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};

/// Flags that an open at the mount is to have as the descriptor's own has.
const KEPT_FLAGS: i32 = libc::O_ACCMODE
    | libc::O_APPEND
    | libc::O_NONBLOCK
    | libc::O_DSYNC
    | libc::O_SYNC
    | libc::O_NOATIME
    | libc::O_PATH;

/// Flags of an open that are dealt with where its path is.
pub const DECIDED: i32 = libc::O_CREAT | libc::O_EXCL | libc::O_TRUNC | libc::O_NOFOLLOW;

/// Why a program cannot have what it would inherit.
#[derive(Debug)]
pub struct Obstacle(String);

impl Obstacle {
    /// In words.
    pub fn why(&self) -> &str {
        &self.0
    }
}

/// Whether the store is mounted where it appears, for the kernel as it sees that now.
pub fn is_mounted() -> bool {
    let Ok(configuration) = process::configuration() else { return false };
    let Some(device) = configuration.mounted else { return false };
    let found = rustix::fs::stat(&configuration.prefix[..]);
    found.is_ok_and(|found| found.st_dev == device && found.st_ino == InodeNumber::ROOT.0)
}

/// Puts into the kernel's hands what the next program is to have, until the answer is dropped.
pub fn enter() -> Result<Entered, Obstacle> {
    let mut entered = Entered::default();
    references::keep_for_exec(table::survives_exec);
    if thread::is_vforked() {
        entered.take_over()?;
    } else {
        gate::alone(|| entered.take_over())?;
    }
    Ok(entered)
}

/// Where the kernel finds the inode by this absolute path of the store: as the file that a symbolic link there leads to,
/// or as the link.
fn find(path: &[u8], inode: u64) -> Option<OwnedFd> {
    [OFlags::empty(), OFlags::NOFOLLOW].into_iter().find_map(|follow| {
        let found = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC | follow, Mode::empty()).ok()?;
        let stat = rustix::fs::fstat(&found).ok()?;
        let is_there = process::configuration().is_ok_and(|store| store.mounted == Some(stat.st_dev));
        (stat.st_ino == inode && is_there).then_some(found)
    })
}

/// The path of a program of the store for the kernel.
pub fn program(path: &[u8], inode: InodeNumber) -> Option<CString> {
    find(path, inode.0)?;
    CString::new(path).ok()
}

impl Entered {
    fn take_over(&mut self) -> Result<(), Obstacle> {
        let prefix = process::configuration().map(|found| found.prefix.clone()).unwrap_or_default();
        let groups = descriptors::grouped(table::survives_exec);
        // Such a lock goes when any descriptor of its file does. (Those of a vfork child's parent are not the child's.)
        if let Some(fd) =
            groups.iter().filter_map(|(_, fds)| fds.first()).find(|fd| has_locks(**fd, Locks::OfProcess))
        {
            let what = "a file of the store with record locks, which it would lose (give it a pipe instead)";
            return Err(Obstacle(format!("it inherits descriptor {fd}, {what}")));
        }
        for (pin, fds) in groups {
            self.replace(&pin, &fds).map_err(|why| {
                let fds: Vec<String> = fds.iter().map(i32::to_string).collect();
                Obstacle(format!("it inherits descriptor {}, a file of the store {why}", fds.join(", ")))
            })?;
        }
        if let Some((pin, name)) = working_directory::current() {
            let path = [&prefix[..], &name].concat();
            let entered = find(&path, pin.inode()).ok_or(Errno::NOENT).and_then(|directory| {
                let flags = OFlags::PATH | OFlags::CLOEXEC;
                let before = rustix::fs::open(".", flags, Mode::empty())?;
                rustix::process::fchdir(&directory)?;
                Ok(before)
            });
            let moved = |errno| {
                let path = String::from_utf8_lossy(&path);
                Obstacle(format!("its working directory {path} cannot be entered by the mount ({errno})"))
            };
            self.directory = Some(entered.map_err(moved)?);
        }
        Ok(())
    }

    fn replace(&mut self, pin: &Pin, fds: &[i32]) -> Result<(), String> {
        let Some(&first) = fds.first() else { return Ok(()) };
        if pin.token().is_some() {
            return Err("that SharedFS serves (give it a pipe instead)".into());
        }
        let cannot = |errno: Errno| format!("that cannot be opened by the mount ({errno})");
        let file = open_again(pin).map_err(cannot)?;
        let shared = share(&file, pin).map_err(cannot)?;
        if pin.passed() != 0 || has_locks(first, Locks::OfDescription) {
            let kept = kernel::set_aside(borrow(first)).map_err(cannot)?;
            rustix::io::fcntl_setfd(&kept, FdFlags::empty()).map_err(cannot)?;
            self.kept.push(kept);
        }
        let copies = fds.iter().map(|&fd| Ok((fd, kernel::set_aside(borrow(fd))?)));
        let copies = copies.collect::<Result<Vec<_>, Errno>>().map_err(cannot)?;
        // The mount has counted itself in.
        let mut counted_out = match shared {
            Some(Shared::Cell(_)) if !thread::is_vforked() => Some(pin.clone()),
            _ => None,
        };
        if let Some(pin) = &counted_out {
            pin.count_out();
        }
        for (fd, before) in copies {
            self.replaced.push(Replaced { fd, pin: pin.clone(), before, counted_out: counted_out.take() });
            put(file.as_fd(), fd);
        }
        Ok(())
    }
}

/// The program goes on.
impl Drop for Entered {
    fn drop(&mut self) {
        if self.replaced.is_empty() && self.directory.is_none() {
            return;
        }
        if thread::is_vforked() {
            self.leave();
        } else {
            gate::alone(|| self.leave());
        }
    }
}

impl Entered {
    fn leave(&mut self) {
        for Replaced { fd, pin, before, counted_out } in self.replaced.drain(..).rev() {
            if let Some(pin) = counted_out {
                pin.count_in();
            }
            // Another thread may have closed it, and the number be the application's.
            if descriptors::pin(fd).is_some_and(|now| now.is_same(&pin)) {
                put(before.as_fd(), fd);
            }
        }
        if let Some(directory) = self.directory.take() {
            let _ = rustix::process::fchdir(directory);
        }
    }
}

/// Makes `to`, which survives an exec, a copy of `file`.
fn put(file: BorrowedFd<'_>, to: i32) {
    let arguments = [file.as_raw_fd() as usize, to as usize, 0, 0, 0, 0];
    // SAFETY: `to` is ours, and the table has what is behind it.
    unsafe { arch::syscall(libc::SYS_dup3 as usize, arguments) };
}

/// An inode as the kernel finds it by the mount: by this path below the prefix, if that leads there still, or else by its
/// number.
fn reach(name: &[u8], inode: InodeNumber) -> Result<OwnedFd, Errno> {
    let prefix = process::configuration().map(|found| &found.prefix[..]).unwrap_or_default();
    if let Some(found) = find(&[prefix, name].concat(), inode.0).filter(|_| !name.is_empty()) {
        return Ok(found);
    }
    let path = [prefix, b"/", mount_calls::name_of(inode).as_bytes()].concat();
    rustix::fs::open(&path[..], OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}

/// Opens a pipe or a device by the mount; that may wait for the other end.
pub fn open(inode: InodeNumber, name: &[u8], flags: i32) -> Answer {
    let found = Aside::new(reach(name, inode)?)?;
    let path = CString::new(format!("/proc/thread-self/fd/{}", found.number()));
    let path = path.map_err(|_| Failure::Errno(libc::EIO))?;
    let arguments = [libc::AT_FDCWD as usize, path.as_ptr() as usize, (flags & !DECIDED) as usize, 0, 0, 0];
    call::from_kernel(thread::wait(libc::SYS_openat, arguments, true))
}

/// The path of a place for the kernel, wherever its directory is by now.
pub fn path_of(place: &StorePath) -> Result<Vec<u8>, Failure> {
    let prefix = &process::configuration()?.prefix;
    let Some(base) = &place.base else { return Ok([prefix, &b"/"[..], &place.path].concat()) };
    let directory = process::client()?.directory_path(base.file()?, base.path())?;
    let base_path = [prefix, &directory[..]].concat();
    match find(&base_path, base.inode()) {
        Some(_) => Ok([&base_path, &b"/"[..], &place.path].concat()),
        None => Err(Failure::Errno(libc::ENOENT)),
    }
}

/// Opens by the mount what `pin` has open.
pub fn open_again(pin: &Pin) -> Result<OwnedFd, Errno> {
    let flags = pin.without_offset().flags as i32 & KEPT_FLAGS;
    let found = reach(pin.path(), InodeNumber(pin.inode()))?;
    if pin.is_path() {
        return Ok(found);
    }
    let kind = FileType::from_raw_mode(rustix::fs::fstat(&found)?.st_mode);
    // Each call comes to the mount as it was made, at the offset that is shared.
    let direct = if kind == FileType::RegularFile { libc::O_DIRECT } else { 0 };
    let path = format!("/proc/thread-self/fd/{}", found.as_raw_fd());
    let opening = OFlags::from_bits_retain((flags | direct) as u32) | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, opening, Mode::empty())?;
    rustix::fs::fcntl_setfl(&file, OFlags::from_bits_retain(flags as u32))?;
    Ok(file)
}

/// The mount goes on with `file` where `pin` is, and moves what others share. Answers what that is.
fn share(file: &OwnedFd, pin: &Pin) -> Result<Option<Shared>, Errno> {
    if pin.is_path() {
        return Ok(None);
    }
    let (shared, offset) = pin.to_share();
    let sought = rustix::fs::seek(file, SeekFrom::Start(offset));
    let kind = FileType::from_raw_mode(rustix::fs::fstat(file)?.st_mode);
    if kind != FileType::RegularFile {
        return Ok(None);
    }
    sought?;
    let (memory, place) = match shared {
        None => return Ok(None),
        Some(Shared::Passed(number)) => (-1, number),
        Some(Shared::Cell(index)) => {
            let cell = cells::at(index).and_then(cells::place_of);
            (cells::file().ok_or(Errno::BADF)?, cell.ok_or(Errno::BADF)?)
        }
        Some(Shared::Served(_)) => return Err(Errno::OPNOTSUPP),
    };
    let asked = ShareOffset { memory, padding: 0, place, offset };
    let arguments =
        [file.as_raw_fd() as usize, SHARE_OFFSET as usize, std::ptr::from_ref(&asked) as usize, 0, 0, 0];
    // SAFETY: the kernel reads the one structure, which outlives the call.
    let done = unsafe { arch::syscall(libc::SYS_ioctl as usize, arguments) };
    if done < 0 { Err(Errno::from_raw_os_error(-done as i32)) } else { Ok(shared) }
}

/// Kinds of locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Locks {
    /// Of the process (`F_SETLK`).
    OfProcess,
    /// Of the open file description: `flock` and `F_OFD_SETLK`.
    OfDescription,
}

/// Whether the program has such locks by a descriptor.
fn has_locks(fd: i32, kind: Locks) -> bool {
    let Ok(path) = CString::new(format!("/proc/thread-self/fdinfo/{fd}")) else { return true };
    let listed = process::contents(&path).unwrap_or_default();
    let is_one = |line: &[u8]| {
        // lock:	1: OFDLCK ADVISORY READ -1 00:19:3 17 17
        let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let is_of = |kind: &[u8]| words.clone().any(|word| word == kind);
        let (is_whole, is_of_process) = (is_of(b"FLOCK"), is_of(b"POSIX"));
        if kind == Locks::OfProcess || is_of_process {
            return kind == Locks::OfProcess && is_of_process;
        }
        let first = words.nth_back(1).and_then(|word| std::str::from_utf8(word).ok()?.parse::<u64>().ok());
        is_whole || first.is_none_or(|first| first <= USER_LOCK_LAST)
    };
    listed.split(|byte| *byte == b'\n').filter(|line| line.starts_with(b"lock:")).any(is_one)
}
