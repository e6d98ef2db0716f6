//! Landlock: the program forbids itself things for ever after. The kernel does each of these calls; rules about the store are noted
//! ([`crate::users::confinement`]).

use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};

use cuesta_format::FileKind;
use cuesta_libfs::Rights;
use rustix::fs::{MemfdFlags, Mode, OFlags};

use crate::call::{Answer, Call, Failure};
use crate::calls::kinds::other_kinds;
use crate::descriptors::kernel::borrow;
use crate::memory::user_memory;
use crate::users::confinement;
use crate::{arch, descriptors, process, thread};

/// A rule about what lies below a directory.
const PATH_BENEATH: i32 = 1;

/// `landlock_create_ruleset`.
pub fn create_ruleset(call: &Call) -> Answer {
    let answer = call.kernel(call.arguments);
    // With flags it makes none, and answers what the kernel can do.
    if answer >= 0 && call.word(2) == 0 {
        let handled: u64 = user_memory::read(call.word(0))?;
        confinement::made(answer as i32, Rights(handled));
    }
    Ok(answer)
}

/// `landlock_add_rule`.
pub fn add_rule(call: &Call) -> Answer {
    match call.pin(0) {
        Err(Failure::NotOurs) => {}
        Ok(_) if call.word(3) != 0 => return Err(Failure::Errno(libc::EINVAL)),
        Ok(pin) if pin.is_path() => return Err(Failure::Errno(libc::EBADF)),
        Ok(_) => return Err(Failure::Errno(libc::EBADFD)),
        Err(failure) => return Err(failure),
    }
    if call.int(1) != PATH_BENEATH {
        return Err(Failure::NotOurs);
    }
    // struct landlock_path_beneath_attr: the allowed rights, and below which descriptor. Errors in it are reported last.
    let [low, high, below]: [u32; 3] = user_memory::read(call.word(2)).map_err(|_| Failure::NotOurs)?;
    let allowed = Rights(u64::from(high) << 32 | u64::from(low));
    let Some(pin) = descriptors::pin(below as i32) else {
        if descriptors::is_hidden(below as i32) {
            return Err(Failure::Errno(libc::EBADF));
        }
        let answer = call.kernel(call.arguments);
        if answer == 0 && is_above_store(below as i32) {
            confinement::of(call.int(0), |layer| layer.above = layer.above | allowed);
        }
        return Ok(answer);
    };
    // Which directory it is the kernel looks at last: of one it cannot take it says nothing but that.
    let nowhere = rustix::fs::memfd_create("cuesta-rule", MemfdFlags::CLOEXEC)?;
    let rule = [low, high, nowhere.as_raw_fd() as u32];
    let mut arguments = call.arguments;
    arguments[2] = rule.as_ptr() as usize;
    let answer = call.kernel(arguments);
    if answer != -(libc::EBADFD as isize) {
        return Ok(answer);
    }
    let file = pin.file()?;
    if file.kind() != FileKind::Directory && allowed & !Rights::OF_FILES != Rights::NONE {
        return Err(Failure::Errno(libc::EINVAL));
    }
    let noted = confinement::of(call.int(0), |layer| layer.rules.push((file.inode(), allowed)));
    noted.map(|()| 0).ok_or(Failure::Errno(libc::EBADFD))
}

/// Whether a directory of the kernel's is one that the store appears below.
fn is_above_store(descriptor: i32) -> bool {
    let Ok(configuration) = process::configuration() else { return false };
    let Ok(link) =
        rustix::fs::readlink(format!("/proc/self/fd/{}", borrow(descriptor).as_raw_fd()), Vec::new())
    else {
        return false;
    };
    let path = link.as_bytes();
    path == b"/"
        || configuration.prefix.strip_prefix(path).is_some_and(|rest| matches!(rest, [] | [b'/', ..]))
}

/// Lets this library go on. Programs that this one executes must find it, and lock files and files in mapped mode lie in a folder of the store's,
/// of which the program knows nothing.
fn allow_own(ruleset: i32) {
    const BOOKKEEPING: Rights = Rights(
        Rights::READ_FILE.0
            | Rights::WRITE_FILE.0
            | Rights::READ_DIRECTORY.0
            | Rights::TRUNCATE.0
            | Rights::to_make(FileKind::File).0
            | Rights::REMOVE_FILE.0,
    );
    let Some(handled) = confinement::of(ruleset, |layer| layer.handled) else { return };
    if let Some(path) = process::preload_path()
        && let Ok(library) = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
    {
        allow(ruleset, library.as_fd(), handled & (Rights::EXECUTE | Rights::READ_FILE));
    }
    if let Some(client) = process::attached() {
        client.references(|folder| allow(ruleset, folder.as_fd(), handled & BOOKKEEPING));
    }
}

/// Adds a rule to a ruleset of the kernel's.
fn allow(ruleset: i32, below: BorrowedFd<'_>, allowed: Rights) {
    if allowed != Rights::NONE {
        let rule = [allowed.0 as u32, (allowed.0 >> 32) as u32, below.as_raw_fd() as u32];
        let arguments = [ruleset as usize, PATH_BENEATH as usize, rule.as_ptr() as usize, 0, 0, 0];
        // SAFETY: the rule lives until the call returns.
        unsafe { arch::syscall(libc::SYS_landlock_add_rule as usize, arguments) };
    }
}

/// `landlock_restrict_self`.
pub fn restrict_self(call: &Call) -> Answer {
    if call.pin(0).is_ok() {
        return other_kinds::refuse(call, libc::EBADFD);
    }
    if !thread::is_vforked() {
        // A process that may open nothing any more could not begin a session: it begins one now.
        let _ = process::client();
    }
    allow_own(call.int(0));
    let answer = call.kernel(call.arguments);
    // Without a ruleset it says what is to be logged.
    if answer == 0 && call.int(0) >= 0 {
        confinement::enforce(call.int(0));
    }
    Ok(answer)
}
