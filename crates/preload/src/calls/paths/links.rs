//! Symbolic links outside the store that lead into it.
//!
//! The kernel follows them, finds nothing where the store is, and answers ENOENT. So the door looks once more at a call on a path that
//! fails this way ([`crate::calls::following`]). If there is a link on the way, which one question to the kernel tells, the path is
//! followed here, and the call made again in the store if it gets there. A call that succeeds pays nothing.
//!
//! Where the kernel has something at the store's place, too, it would find that instead. Then the door looks at every path of a call
//! before the kernel gets it.

use crate::call::filter::{self, class_of};
use crate::call::{Answer, Call, Failure, numbers};
use crate::calls::paths::prefix::Walk;
use crate::calls::paths::store_path::{self, Named};
use crate::descriptors::{self, kernel, working_directory};
use crate::memory::user_memory::{self, UserPath};
use crate::process;
use rustix::fs::{Access, AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, openat2, readlink, statat};
use rustix::io::Errno;
use std::ffi::CString;
use std::sync::atomic::{AtomicBool, Ordering};

/// Links followed before the way counts as a loop, as in the kernel.
const LINKS_MAX: usize = 40;

/// The kernel's answer for a path that leads nowhere.
pub(crate) const NOTHING_FOUND: Answer = Ok(-(libc::ENOENT as isize));

/// Whether the kernel has something where the store is.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// Notes what the kernel has at `prefix`, where the store is to be. Call once.
pub fn note_place(prefix: &[u8]) {
    if rustix::fs::accessat(CWD, prefix, Access::EXISTS, rustix::fs::AtFlags::empty()).is_ok() {
        IS_TAKEN.store(true, Ordering::Relaxed);
        filter::suspect_all_paths();
    }
}

/// Whether a path must be followed here before the kernel gets it.
#[inline]
pub fn must_look_first() -> bool {
    IS_TAKEN.load(Ordering::Relaxed)
}

/// The absolute path in the store to which a link of the kernel's leads the path `named` of a call.
pub fn behind_link(call: &Call, named: Named) -> Option<CString> {
    let directory = named.0.map_or(libc::AT_FDCWD, |index| call.int(index));
    let address = call.word(named.1);
    // Without a path the call is about the descriptor itself.
    if address == 0 || begins_in_store(directory, address) {
        return None;
    }
    let path = UserPath::read(address).ok()?;
    if !matches!(store_path::locate_bytes(directory, path.as_bytes()), Err(Failure::NotOurs)) {
        return None;
    }
    CString::new(into_store(directory, path.as_bytes(), follows_end(call, named.1))?).ok()
}

/// Whether a path is the store's by how it begins, as those of most calls are that come here: they have to be told soon.
fn begins_in_store(directory: i32, path: usize) -> bool {
    const BYTES: usize = 64;
    let Ok(prefix) = process::configuration().map(|configuration| &configuration.prefix[..]) else {
        return false;
    };
    // Up to the end of its page: memory behind the path need not be mapped.
    let step = BYTES.min(user_memory::PAGE_BYTES - path % user_memory::PAGE_BYTES);
    let mut bytes = [0; BYTES];
    if user_memory::read_bytes(path, &mut bytes[..step]).is_err() || bytes[0] == 0 {
        return false;
    }
    match bytes[0] {
        b'/' => bytes.strip_prefix(prefix).is_some_and(|rest| matches!(rest.first(), Some(b'/'))),
        _ if directory == libc::AT_FDCWD => working_directory::is_in_store(),
        _ => descriptors::pin(directory).is_some(),
    }
}

/// As [`behind_link`], if the kernel's `answer` is that it found nothing.
pub fn into_store_behind(call: &Call, named: Named, answer: Answer) -> Option<CString> {
    (answer == NOTHING_FOUND).then(|| behind_link(call, named)).flatten()
}

/// Whether a call follows a symbolic link at the end of the path at argument `path`.
fn follows_end(call: &Call, path: usize) -> bool {
    const NO_FOLLOW: i32 = libc::AT_SYMLINK_NOFOLLOW;
    const MAKES: i32 = libc::O_CREAT | libc::O_EXCL;
    let makes = |flags: i32| flags & libc::O_PATH == 0 && flags & MAKES == MAKES;
    let opens = |flags: i32| flags & libc::O_NOFOLLOW == 0 && !makes(flags);
    match call.number as i64 {
        libc::SYS_lstat
        | libc::SYS_unlink
        | libc::SYS_unlinkat
        | libc::SYS_rmdir
        | libc::SYS_mkdir
        | libc::SYS_mkdirat
        | libc::SYS_mknod
        | libc::SYS_mknodat
        | libc::SYS_rename
        | libc::SYS_renameat
        | libc::SYS_renameat2
        | libc::SYS_link
        | libc::SYS_symlink
        | libc::SYS_symlinkat
        | libc::SYS_readlink
        | libc::SYS_readlinkat
        | libc::SYS_lchown
        | libc::SYS_lgetxattr
        | libc::SYS_lsetxattr
        | libc::SYS_llistxattr
        | libc::SYS_lremovexattr => false,
        libc::SYS_linkat => path == 1 && call.int(4) & libc::AT_SYMLINK_FOLLOW != 0,
        libc::SYS_name_to_handle_at => call.int(4) & libc::AT_SYMLINK_FOLLOW != 0,
        libc::SYS_open => opens(call.int(1)),
        libc::SYS_openat => opens(call.int(2)),
        libc::SYS_openat2 => user_memory::read::<u64>(call.word(2)).is_ok_and(|flags| opens(flags as i32)),
        libc::SYS_newfstatat | libc::SYS_faccessat2 | libc::SYS_fchmodat2 | libc::SYS_utimensat => {
            call.int(3) & NO_FOLLOW == 0
        }
        libc::SYS_statx | libc::SYS_open_tree | libc::SYS_mount_setattr => call.int(2) & NO_FOLLOW == 0,
        numbers::SETXATTRAT..=numbers::OPEN_TREE_ATTR => call.int(2) & NO_FOLLOW == 0,
        libc::SYS_fchownat | numbers::FILE_GETATTR | numbers::FILE_SETATTR => call.int(4) & NO_FOLLOW == 0,
        libc::SYS_inotify_add_watch => call.word(2) as u32 & libc::IN_DONT_FOLLOW == 0,
        libc::SYS_umount2 => call.int(1) & libc::UMOUNT_NOFOLLOW == 0,
        _ => true,
    }
}

/// Where the path arguments of a call are: a directory's descriptor, if it takes one, and the path.
pub(crate) fn paths_of(call: &Call) -> [Option<Named>; 2] {
    match class_of(call.number as i64) {
        _ if call.number as i64 == libc::SYS_chdir => [Some((None, 0)), None],
        _ if call.number as i64 == libc::SYS_inotify_add_watch => [Some((None, 1)), None],
        filter::CLASS_PATH => [Some((None, 0)), None],
        filter::CLASS_PATH_PATH => [Some((None, 0)), Some((None, 1))],
        filter::CLASS_PATH_SECOND => [Some((None, 1)), None],
        filter::CLASS_AT => [Some((Some(0), 1)), None],
        filter::CLASS_AT_AT => [Some((Some(0), 1)), Some((Some(2), 3))],
        filter::CLASS_AT_THIRD => [Some((Some(1), 2)), None],
        _ => [None, None],
    }
}

/// The absolute path in the store that a path leads to by a symbolic link of the kernel's; one at its end counts if it is
/// to be followed.
pub fn into_store(directory: i32, path: &[u8], follow: bool) -> Option<Vec<u8>> {
    let prefix = &process::configuration().ok()?.prefix;
    if path.is_empty() || !has_link(directory, path, follow) {
        return None;
    }
    let absolute = if path[0] == b'/' {
        path.to_vec()
    } else {
        [&working_directory::kernel_path(directory).ok()?[..], path].join(&b'/')
    };
    self::follow(prefix, absolute, follow)
}

/// Whether a path of the kernel's ends at a symbolic link.
pub fn is_link(directory: i32, path: &[u8]) -> bool {
    let found = statat(kernel::borrow(directory), path, AtFlags::SYMLINK_NOFOLLOW);
    found.is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Symlink)
}

/// Whether a symbolic link lies on the way, as far as there is one.
fn has_link(directory: i32, path: &[u8], follow: bool) -> bool {
    let directory = kernel::borrow(directory);
    let end = if follow { OFlags::empty() } else { OFlags::NOFOLLOW };
    let flags = OFlags::PATH | OFlags::CLOEXEC | end;
    openat2(directory, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS).err() == Some(Errno::LOOP)
}

fn follow(prefix: &[u8], absolute: Vec<u8>, end_too: bool) -> Option<Vec<u8>> {
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
            let is_end = walk.rest.is_empty() && end.is_empty();
            match readlink(&walk.passed, Vec::new()) {
                Ok(_) if is_end && !end_too => return None,
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
