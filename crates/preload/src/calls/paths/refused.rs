//! Calls of ours that are not served.

use crate::call::filter::{self, class_of};
use crate::call::{Answer, Call, Failure};
use crate::calls::paths::descriptor_files;
use crate::calls::paths::store_path::{itself, locate, locate_bytes};
use crate::memory::user_memory::{self, UserPath};
use crate::process;
use crate::users::credentials;
use cuesta_libfs::Error;

/// Answers a call of ours that is not served: by descriptor or path, whichever its class looks at.
pub fn refuse(call: &Call) -> Answer {
    if call.number as i64 == libc::SYS_inotify_add_watch
        && let Some(errno) = refusal_of_watcher(call)?
    {
        return Err(Failure::Errno(errno));
    }
    if call.number as i64 == libc::SYS_name_to_handle_at && has_unknown_flags(call) {
        return Err(Failure::Errno(libc::EINVAL));
    }
    let ours = match class_of(call.number as i64) {
        _ if call.number as i64 == libc::SYS_inotify_add_watch => {
            locate(call, None, 1).map(|_| ()).or_else(|failure| followed(call, 1, failure))
        }
        _ if call.number as i64 == libc::SYS_name_to_handle_at => {
            match itself(call, Some(0), 1, call.int(4)) {
                Ok(None) => {
                    locate(call, Some(0), 1).map(|_| ()).or_else(|failure| followed(call, 1, failure))
                }
                file => file.map(|_| ()),
            }
        }
        filter::CLASS_FD => call.pin(0).map(|_| ()),
        filter::CLASS_FD_FD => call.pin(0).or_else(|_| call.pin(1)).map(|_| ()),
        filter::CLASS_FD_THIRD => call.pin(0).or_else(|_| call.pin(2)).map(|_| ()),
        filter::CLASS_PATH => locate(call, None, 0).map(|_| ()).or_else(|failure| followed(call, 0, failure)),
        filter::CLASS_PATH_PATH => locate(call, None, 0).or_else(|_| locate(call, None, 1)).map(|_| ()),
        filter::CLASS_PATH_SECOND => {
            locate(call, None, 1).map(|_| ()).or_else(|failure| followed(call, 1, failure))
        }
        filter::CLASS_AT => {
            locate(call, Some(0), 1).map(|_| ()).or_else(|failure| followed(call, 1, failure))
        }
        filter::CLASS_AT_AT => locate(call, Some(0), 1).or_else(|_| locate(call, Some(2), 3)).map(|_| ()),
        _ if call.number as i64 == libc::SYS_fanotify_mark => {
            locate(call, Some(3), 4).map(|_| ()).or_else(|_| call.pin(3).map(|_| ()))
        }
        _ if call.number as i64 == libc::SYS_fsconfig => parameter(call),
        _ if call.number as i64 == libc::SYS_bpf => pinned(call),
        _ => Err(Failure::NotOurs),
    };
    ours?;
    check_others(call)?;
    let errno = match call.number as i64 {
        libc::SYS_name_to_handle_at | libc::SYS_open_by_handle_at => libc::EOPNOTSUPP,
        // As on every file system but its own.
        libc::SYS_bpf if call.int(0) == BPF_OBJ_GET => libc::EACCES,
        libc::SYS_bpf => libc::EPERM,
        _ => libc::ENOSYS,
    };
    process::client()?;
    call.unserved(errno)
}

/// The error in the other arguments of a call that is not served, where programs try whether it is.
fn check_others(call: &Call) -> Result<(), Failure> {
    const HANDLE_BYTES_MAX: u32 = 128;
    let (named, follow) = match call.number as i64 {
        // The kernel has looked at the rest.
        libc::SYS_inotify_add_watch => ((None, 1), call.word(2) as u32 & libc::IN_DONT_FOLLOW == 0),
        libc::SYS_name_to_handle_at => {
            // It looks at the path last, and cannot read the one the kernel gets.
            let mut arguments = call.arguments;
            (arguments[0], arguments[1]) = (libc::AT_FDCWD as usize, 0);
            let answer = call.kernel(arguments);
            if answer != -(libc::EFAULT as isize) {
                return Err(Failure::Errno(-answer as i32));
            }
            ((Some(0), 1), call.int(4) & libc::AT_SYMLINK_FOLLOW != 0)
        }
        libc::SYS_open_by_handle_at => {
            let bytes: u32 = user_memory::read(call.word(1))?;
            return match bytes {
                1..=HANDLE_BYTES_MAX => Ok(()),
                _ => Err(Failure::Errno(libc::EINVAL)),
            };
        }
        _ => return Ok(()),
    };
    let path = UserPath::read(call.word(named.1))?;
    if path.as_bytes().is_empty() {
        return Ok(());
    }
    let place = locate(call, named.0, named.1)?;
    let (base, path) = place.located()?;
    match process::client()?.stat(&credentials::effective(), base, path, follow) {
        Ok(_) | Err(Error::Leaves { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Whether the kernel does not know a flag of `name_to_handle_at`. It looks at them first, and cannot read the path that it gets here.
fn has_unknown_flags(call: &Call) -> bool {
    const NOWHERE: usize = 1;
    let mut arguments = call.arguments;
    (arguments[0], arguments[1]) = (libc::AT_FDCWD as usize, NOWHERE);
    call.kernel(arguments) == -(libc::EINVAL as isize)
}

/// The error number for `inotify_add_watch` with a wrong mask, or a descriptor that is not inotify's. The kernel checks both before
/// it reads the path.
fn refusal_of_watcher(call: &Call) -> Result<Option<i32>, Failure> {
    match call.pin(0) {
        _ if !is_watch_mask(call.word(2) as u32) => Ok(Some(libc::EINVAL)),
        Ok(pin) if pin.is_path() => Ok(Some(libc::EBADF)),
        Ok(_) => Ok(Some(libc::EINVAL)),
        // The kernel checks its own descriptor. This call adds no watch: it fails with EFAULT at a path that the kernel cannot read.
        Err(Failure::NotOurs) => {
            let mut arguments = call.arguments;
            arguments[1] = 0;
            let answer = call.kernel(arguments);
            Ok((answer != -(libc::EFAULT as isize)).then_some(-answer as i32))
        }
        Err(failure) => Err(failure),
    }
}

/// Whether a watch may be for this.
fn is_watch_mask(mask: u32) -> bool {
    const OPTIONS: u32 = libc::IN_ONLYDIR
        | libc::IN_DONT_FOLLOW
        | libc::IN_EXCL_UNLINK
        | libc::IN_MASK_CREATE
        | libc::IN_MASK_ADD;
    const TOLD: u32 =
        libc::IN_UNMOUNT | libc::IN_Q_OVERFLOW | libc::IN_IGNORED | libc::IN_ISDIR | libc::IN_ONESHOT;
    mask != 0 && mask & !(libc::IN_ALL_EVENTS | OPTIONS | TOLD) == 0
}

/// What makes a name for an object of BPF's, and what finds it by that.
const BPF_OBJ_PIN: i32 = 6;

const BPF_OBJ_GET: i32 = 7;

/// The place of an object's name.
fn pinned(call: &Call) -> Result<(), Failure> {
    // Whether it starts in a directory that is named, too.
    const PATH_FD: u32 = 1 << 14;
    if !matches!(call.int(0), BPF_OBJ_PIN | BPF_OBJ_GET) {
        return Err(Failure::NotOurs);
    }
    // The path's address, the object's descriptor and flags, the directory's descriptor.
    let [path, object]: [u64; 2] = user_memory::read(call.word(1)).map_err(|_| Failure::NotOurs)?;
    let directory = match (object >> 32) as u32 & PATH_FD {
        0 => libc::AT_FDCWD,
        _ => user_memory::read(call.word(1).wrapping_add(16)).map_err(|_| Failure::NotOurs)?,
    };
    locate_bytes(directory, UserPath::read(path as usize)?.as_bytes()).map(|_| ())
}

/// The path or descriptor among a file system's parameters.
fn parameter(call: &Call) -> Result<(), Failure> {
    const SET_PATH: i32 = 3;
    const SET_PATH_EMPTY: i32 = 4;
    const SET_FD: i32 = 5;
    match call.int(1) {
        SET_PATH => locate(call, Some(4), 3).map(|_| ()),
        SET_PATH_EMPTY | SET_FD => call.pin(4).map(|_| ()),
        _ => Err(Failure::NotOurs),
    }
}

/// Whether a call whose path is no place of ours names a descriptor of ours, and would follow it.
fn followed(call: &Call, path: usize, failure: Failure) -> Result<(), Failure> {
    let is_about_link = matches!(call.number as i64, libc::SYS_open_tree | libc::SYS_name_to_handle_at);
    match failure {
        Failure::NotOurs if !is_about_link => descriptor_files::itself(call, path).map(|_| ()),
        failure => Err(failure),
    }
}
