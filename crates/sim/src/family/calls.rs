//! A member's calls, by libc: what rustix issues by inline system calls, the preload door never sees.

use super::step::Step;
use crate::operations::posix;
use libc::c_int;
use std::ffi::CString;
use std::fmt::Write;
use std::io;

/// The bits of `F_GETFL` that are compared: the kernel adds others of its own.
const FLAGS_COMPARED: c_int =
    libc::O_ACCMODE | libc::O_APPEND | libc::O_NONBLOCK | libc::O_DIRECTORY | libc::O_NOFOLLOW;

/// Carries out a call that leaves the member what it is; says what came of it. `root` is where paths that begin with a
/// slash begin.
pub(super) fn make(step: &Step, root: &str) -> io::Result<String> {
    use Step::*;
    let path = |text: &str| {
        let full = if text.starts_with('/') { format!("{root}{text}") } else { text.to_owned() };
        CString::new(full).expect("a path of ours has no zero in it")
    };
    let start = |at: &Option<i32>| at.unwrap_or(libc::AT_FDCWD);
    // SAFETY: every path is a NUL-terminated string and every buffer valid for its length until its call returns.
    unsafe {
        match step {
            Open { at, path: name, flags, mode } => {
                number(libc::openat(start(at), path(name).as_ptr(), *flags, *mode) as isize)
            }
            Close { fd } => done(libc::close(*fd)),
            CloseRange { first, last, close_on_exec } => {
                let flags = if *close_on_exec { libc::CLOSE_RANGE_CLOEXEC as c_int } else { 0 };
                done(libc::close_range(*first as u32, *last as u32, flags))
            }
            Dup { fd } => number(libc::dup(*fd) as isize),
            DupOnto { fd, onto, close_on_exec: false } => number(libc::dup2(*fd, *onto) as isize),
            DupOnto { fd, onto, close_on_exec: true } => {
                number(libc::dup3(*fd, *onto, libc::O_CLOEXEC) as isize)
            }
            DupAbove { fd, least, close_on_exec } => {
                let command = if *close_on_exec { libc::F_DUPFD_CLOEXEC } else { libc::F_DUPFD };
                number(libc::fcntl(*fd, command, *least) as isize)
            }
            GetCloseOnExec { fd } => number(libc::fcntl(*fd, libc::F_GETFD) as isize),
            SetCloseOnExec { fd, on } => done(libc::fcntl(*fd, libc::F_SETFD, c_int::from(*on))),
            GetFlags { fd } => {
                let flags = libc::fcntl(*fd, libc::F_GETFL);
                number(if flags < 0 { -1 } else { flags & FLAGS_COMPARED } as isize)
            }
            SetFlags { fd, flags } => done(libc::fcntl(*fd, libc::F_SETFL, *flags)),
            Read { fd, length } => {
                let mut bytes = vec![0u8; *length as usize];
                let got = libc::read(*fd, bytes.as_mut_ptr().cast(), bytes.len());
                content(&bytes, got)
            }
            ReadAt { fd, offset, length } => {
                let mut bytes = vec![0u8; *length as usize];
                let got = libc::pread(*fd, bytes.as_mut_ptr().cast(), bytes.len(), *offset);
                content(&bytes, got)
            }
            Write { fd, data } => {
                let bytes = data.bytes();
                number(libc::write(*fd, bytes.as_ptr().cast(), bytes.len()))
            }
            WriteAt { fd, offset, data } => {
                let bytes = data.bytes();
                number(libc::pwrite(*fd, bytes.as_ptr().cast(), bytes.len(), *offset))
            }
            Seek { fd, .. } if is(*fd, libc::S_IFDIR) => {
                Ok("where in a directory is each file system's own".into())
            }
            Seek { fd, offset, whence } => number(libc::lseek(*fd, *offset, *whence) as isize),
            Truncate { fd, length } => done(libc::ftruncate(*fd, *length)),
            Copy { from, to, length } => {
                let (from_offset, to_offset) = (std::ptr::null_mut(), std::ptr::null_mut());
                number(libc::copy_file_range(*from, from_offset, *to, to_offset, *length as usize, 0))
            }
            Send { from, .. } if is(*from, libc::S_IFCHR) => {
                Ok("what a device sends is its driver's".to_owned())
            }
            Send { from, to, length } => {
                number(libc::sendfile(*to, *from, std::ptr::null_mut(), *length as usize))
            }
            Map { fd, length } => map(*fd, *length as usize),
            Stat { fd } => attributes(|into| libc::fstat(*fd, into)),
            StatPath { at, path: name, follow } => {
                let flags = if *follow { 0 } else { libc::AT_SYMLINK_NOFOLLOW };
                attributes(|into| libc::fstatat(start(at), path(name).as_ptr(), into, flags))
            }
            Access { path: name, mode } => done(libc::access(path(name).as_ptr(), *mode)),
            List { path: name } => Ok(format!("{:?}", posix::readdir(&path(name))?)),
            MakeDirectory { at, path: name, mode } => {
                done(libc::mkdirat(start(at), path(name).as_ptr(), *mode))
            }
            Unlink { at, path: name, directory } => {
                let flags = if *directory { libc::AT_REMOVEDIR } else { 0 };
                done(libc::unlinkat(start(at), path(name).as_ptr(), flags))
            }
            Rename { from, to } => done(libc::rename(path(from).as_ptr(), path(to).as_ptr())),
            Link { from, to } => done(libc::link(path(from).as_ptr(), path(to).as_ptr())),
            Symlink { target, path: name } => done(libc::symlink(path(target).as_ptr(), path(name).as_ptr())),
            ReadLink { path: name } => Ok(below(posix::readlink(&path(name))?.as_bytes(), root)),
            // By path: a descriptor may be the machine's /dev/null, which a program opens if it starts without standard streams.
            ChangeMode { path: name, mode } => done(libc::chmod(path(name).as_ptr(), *mode)),
            ChangeDirectory { path: name } => done(libc::chdir(path(name).as_ptr())),
            ChangeDirectoryTo { fd } => done(libc::fchdir(*fd)),
            WorkingDirectory => working_directory(root),
            LockWhole { fd, operation } => done(libc::flock(*fd, *operation)),
            LockRecord { fd, by_description, kind, whence, start, length } => {
                let command = if *by_description { libc::F_OFD_SETLK } else { libc::F_SETLK };
                done(libc::fcntl(*fd, command, &raw mut *lock(*kind, *whence, *start, *length)))
            }
            AskForLock { fd, by_description, kind, start, length } => {
                let command = if *by_description { libc::F_OFD_GETLK } else { libc::F_GETLK };
                let mut lock = lock(*kind, libc::SEEK_SET, *start, *length);
                done(libc::fcntl(*fd, command, &raw mut *lock))?;
                // If several are in the way any of them may be named.
                Ok(if i32::from(lock.l_type) == libc::F_UNLCK { "free" } else { "locked" }.to_owned())
            }
            Umask { mask } => number(libc::umask(*mask) as isize),
            Fork { .. } | Spawn { .. } | Exec | Exit => unreachable!("these change who there is"),
        }
    }
}

fn lock(kind: i32, whence: i32, start: i64, length: i64) -> Box<libc::flock> {
    let (l_type, l_whence) = (kind as i16, whence as i16);
    Box::new(libc::flock { l_type, l_whence, l_start: start, l_len: length, l_pid: 0 })
}

fn number(result: isize) -> io::Result<String> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result.to_string()) }
}

fn done(result: c_int) -> io::Result<String> {
    number(result as isize)
}

fn content(bytes: &[u8], got: isize) -> io::Result<String> {
    let length: usize = number(got)?.parse().expect("a number of bytes");
    let mut text = format!("{length} bytes");
    if length > 0 {
        let checksum = bytes[..length]
            .iter()
            .fold(0u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)));
        write!(text, " {checksum:016x}").expect("writing to a string");
    }
    Ok(text)
}

/// The first bytes of a private mapping, as far as the file goes, after a store into it.
fn map(fd: c_int, length: usize) -> io::Result<String> {
    let mut found = std::mem::MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: zeroed is a valid stat; the mapping is unmapped again, and only bytes before the end of the file are
    // touched while no other process is at work.
    unsafe {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let place = libc::mmap(std::ptr::null_mut(), length, protection, libc::MAP_PRIVATE, fd, 0);
        if place == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        done(libc::fstat(fd, found.as_mut_ptr()))?;
        let there = (found.assume_init().st_size.max(0) as usize).min(length);
        let bytes = std::slice::from_raw_parts_mut(place.cast::<u8>(), there);
        if let Some(first) = bytes.first_mut() {
            *first = first.wrapping_add(1);
        }
        let text = content(bytes, there as isize);
        libc::munmap(place, length);
        text
    }
}

fn attributes(call: impl FnOnce(*mut libc::stat) -> c_int) -> io::Result<String> {
    Ok(format!("{:?}", posix::stat(call).map(|(_, found)| found.without_time())?))
}

/// Whether that kind of file is open there.
fn is(fd: c_int, kind: libc::mode_t) -> bool {
    let mut found = std::mem::MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: zeroed is a valid stat, and fstat may have filled it.
    unsafe { libc::fstat(fd, found.as_mut_ptr()) == 0 && found.assume_init().st_mode & libc::S_IFMT == kind }
}

fn working_directory(root: &str) -> io::Result<String> {
    let mut bytes = vec![0u8; libc::PATH_MAX as usize];
    // SAFETY: the buffer is valid for its length.
    if unsafe { libc::getcwd(bytes.as_mut_ptr().cast(), bytes.len()) }.is_null() {
        return Err(io::Error::last_os_error());
    }
    bytes.truncate(bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len()));
    Ok(below(&bytes, root))
}

/// A path with what is this family's alone taken off: its root, or the directory around that.
fn below(path: &[u8], root: &str) -> String {
    let path = String::from_utf8_lossy(path);
    let around = root.rsplit_once('/').map_or("", |(around, _)| around);
    let without = |prefix: &str, name: &str| path.strip_prefix(prefix).map(|rest| format!("<{name}>{rest}"));
    without(root, "root").or_else(|| without(around, "around")).unwrap_or_else(|| path.to_string())
}
