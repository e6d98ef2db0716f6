//! Symbolic links outside the store that lead into it.
//!
//! The kernel follows them, finds nothing where the store is, and answers ENOENT. So a call on a path that fails this
//! way is looked at once more: if there is a link on the way, which one question to the kernel tells, the path is
//! followed here, and made again in the store if it gets there. What succeeds pays nothing.

use std::ffi::CString;

use rustix::fs::{Mode, OFlags, ResolveFlags, openat2, readlink};
use rustix::io::Errno;

use super::path::{Named, Walk};
use super::{Answer, Call, Failure};
use crate::filter::{self, class_of};
use crate::user_memory::UserPath;
use crate::{process, working_directory};

/// Links followed before the way counts as a loop, as in the kernel.
const LINKS_MAX: usize = 40;

/// What the kernel says of a path that leads nowhere.
const NOTHING_FOUND: Answer = Ok(-(libc::ENOENT as isize));

/// A call on paths of the kernel's that it has answered with ENOENT: the answer it has in the store, or that one.
pub fn look_again(call: &Call) -> Answer {
    let mut arguments = call.arguments;
    // The kernel reads them in the call.
    let mut paths: [Option<CString>; 2] = [None, None];
    for (named, kept) in paths_of(call).into_iter().flatten().zip(&mut paths) {
        if let Some(found) = into_store_behind(call, named, NOTHING_FOUND) {
            arguments[named.1] = kept.insert(found).as_ptr() as usize;
            if let Some(directory) = named.0 {
                arguments[directory] = libc::AT_FDCWD as usize;
            }
        }
    }
    match paths.iter().any(Option::is_some).then(|| super::serve(call.number, arguments)) {
        None | Some(Err(Failure::NotOurs)) => NOTHING_FOUND,
        Some(answer) => answer,
    }
}

/// Where the path arguments of a call are: a directory's descriptor, if it takes one, and the path.
fn paths_of(call: &Call) -> [Option<Named>; 2] {
    match class_of(call.number as i64) {
        filter::CLASS_PATH => [Some((None, 0)), None],
        filter::CLASS_PATH_PATH => [Some((None, 0)), Some((None, 1))],
        filter::CLASS_PATH_SECOND => [Some((None, 1)), None],
        filter::CLASS_AT => [Some((Some(0), 1)), None],
        filter::CLASS_AT_AT => [Some((Some(0), 1)), Some((Some(2), 3))],
        filter::CLASS_AT_THIRD => [Some((Some(1), 2)), None],
        _ => [None, None],
    }
}

/// The absolute path in the store that `named` of a call leads to, if the kernel's `answer` is that it found nothing.
pub fn into_store_behind(call: &Call, named: Named, answer: Answer) -> Option<CString> {
    if answer != NOTHING_FOUND {
        return None;
    }
    let directory = named.0.map_or(libc::AT_FDCWD, |index| call.int(index));
    let path = UserPath::read(call.word(named.1)).ok()?;
    CString::new(into_store(directory, path.as_bytes())?).ok()
}

/// The absolute path in the store that a path leads to by a symbolic link of the kernel's.
pub fn into_store(directory: i32, path: &[u8]) -> Option<Vec<u8>> {
    let prefix = &process::configuration().ok()?.prefix;
    if path.is_empty() || !has_link(directory, path) {
        return None;
    }
    let absolute = if path[0] == b'/' {
        path.to_vec()
    } else {
        [&working_directory::kernel_path(directory).ok()?[..], path].join(&b'/')
    };
    follow(prefix, absolute)
}

/// Whether a symbolic link lies on the way, as far as there is one.
fn has_link(directory: i32, path: &[u8]) -> bool {
    // SAFETY: a number the application named, or the working directory; the kernel checks it.
    let directory = unsafe { rustix::fd::BorrowedFd::borrow_raw(directory) };
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    openat2(directory, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS).err() == Some(Errno::LOOP)
}

fn follow(prefix: &[u8], absolute: Vec<u8>) -> Option<Vec<u8>> {
    // What ends in a slash must be a directory.
    let end: &[u8] = if absolute.ends_with(b"/") { b"/" } else { b"" };
    let (mut passed, mut left) = (Vec::new(), absolute);
    for _ in 0..LINKS_MAX {
        let mut walk = Walk { passed, rest: &left };
        let target = loop {
            if walk.passed == prefix {
                return Some([prefix, b"/", walk.rest, end].concat());
            }
            if !walk.step() {
                return None;
            }
            match readlink(&walk.passed, Vec::new()) {
                Ok(target) => break target.into_bytes(),
                Err(Errno::INVAL) => {}
                // Nothing need be where the store is, nor above it.
                Err(_) if is_above(&walk.passed, prefix) => {}
                Err(_) => return None,
            }
        };
        passed = match target.first() {
            Some(b'/') => Vec::new(),
            _ => walk.passed[..walk.passed.iter().rposition(|byte| *byte == b'/')?].to_vec(),
        };
        left = if walk.rest.is_empty() { target } else { [&target[..], walk.rest].join(&b'/') };
    }
    None
}

fn is_above(directory: &[u8], prefix: &[u8]) -> bool {
    prefix.strip_prefix(directory).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}
