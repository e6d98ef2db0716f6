//! Calls on the tree of mounts. The store is a place of the kernel's only where it is mounted: there what lies in it can be
//! the source of a mount elsewhere. Nothing is ever mounted on what lies in it, so that nothing there is a place of a mount.
//!
//! A path among the arguments that is only a name (the source of a new file system) is not looked at.

use std::ffi::CString;

use cuesta_libfs::Capability;

use crate::call::{Answer, Call, Failure};
use crate::calls::kinds::by_mount;
use crate::calls::paths::store_path::{self, StorePath};
use crate::calls::paths::{crossing, descriptor_files};
use crate::memory::user_memory;
use crate::process;
use crate::users::credentials;

/// What `mount` does by its flags instead of making a file system; then the source is nothing.
const REMOUNTS_OR_SETS_PROPAGATION: u64 =
    libc::MS_REMOUNT | libc::MS_SHARED | libc::MS_PRIVATE | libc::MS_SLAVE | libc::MS_UNBINDABLE;

/// `mount`.
pub fn mount(call: &Call) -> Answer {
    let flags = call.word(3) as u64;
    let moves = flags & (libc::MS_BIND | libc::MS_MOVE) != 0 && flags & REMOUNTS_OR_SETS_PROPAGATION == 0;
    let source = match moves.then(|| store_path::locate(call, None, 0)) {
        None | Some(Err(Failure::NotOurs)) => None,
        Some(place) => Some(by_the_mount(call, &place?)?),
    };
    let mut arguments = call.arguments;
    if let Some(source) = &source {
        arguments[0] = source.as_ptr() as usize;
    }
    let call = Call { number: call.number, arguments };
    match onto(&call, None, 1) {
        Err(Failure::NotOurs) if source.is_some() => Ok(call.kernel(arguments)),
        answer => answer,
    }
}

/// `move_mount`.
pub fn move_mount(call: &Call) -> Answer {
    const FROM_ITSELF: u32 = 4;
    let is_empty = call.word(4) as u32 & FROM_ITSELF != 0
        && user_memory::UserPath::read(call.word(1)).is_ok_and(|path| path.as_bytes().is_empty());
    let from =
        if is_empty { call.pin(0).map(|_| ()) } else { store_path::locate(call, Some(0), 1).map(|_| ()) };
    match from {
        Err(Failure::NotOurs) => onto(call, Some(2), 3),
        Err(failure) => Err(failure),
        Ok(()) => is_no_mount(),
    }
}

/// `open_tree` that makes a mount of its own.
pub fn clone_tree(call: &Call) -> Answer {
    let flags = call.int(2);
    if !may_mount() {
        // The kernel refuses that before it looks at the path.
        return Err(Failure::NotOurs);
    }
    if store_path::itself(call, Some(0), 1, flags)?.is_some() {
        return call.unserved(libc::ENOSYS);
    }
    let follow = flags & libc::AT_SYMLINK_NOFOLLOW == 0;
    crossing::at(
        call,
        (Some(0), 1),
        |client, credentials, base, place| client.stat(credentials, base, &place.path, follow),
        |_| call.unserved(libc::ENOSYS),
    )
}

/// A mount onto what a path leads to.
fn onto(call: &Call, directory: Option<usize>, path: usize) -> Answer {
    crossing::at(
        call,
        (directory, path),
        |client, credentials, base, place| client.stat(credentials, base, &place.path, true),
        |_| match may_mount() {
            true => call.unserved(libc::ENOSYS),
            false => Err(Failure::Errno(libc::EPERM)),
        },
    )
}

/// Where the kernel finds a place of the store that is to be mounted elsewhere.
fn by_the_mount(call: &Call, place: &StorePath) -> Result<CString, Failure> {
    let (base, path) = place.located()?;
    process::client()?.stat(&credentials::effective(), base, path, true)?;
    if !by_mount::is_mounted() {
        call.unserved(libc::ENOSYS)?;
    }
    CString::new(by_mount::path_of(place)?).map_err(|_| Failure::Errno(libc::EINVAL))
}

/// `umount2`.
pub fn unmount(call: &Call) -> Answer {
    const FLAGS: i32 = libc::MNT_FORCE | libc::MNT_DETACH | libc::MNT_EXPIRE | libc::UMOUNT_NOFOLLOW;
    let flags = call.int(1);
    if flags & !FLAGS != 0 {
        return Err(Failure::NotOurs);
    }
    crossing::at(
        call,
        (None, 0),
        |client, credentials, base, place| {
            client.stat(credentials, base, &place.path, flags & libc::UMOUNT_NOFOLLOW == 0)
        },
        |_| match by_mount::is_mounted().then(|| store_path::locate(call, None, 0)) {
            // The store's own mount.
            Some(Ok(place)) => {
                let path =
                    CString::new(by_mount::path_of(&place)?).map_err(|_| Failure::Errno(libc::EINVAL))?;
                Ok(call.kernel([path.as_ptr() as usize, call.word(1), 0, 0, 0, 0]))
            }
            _ => is_no_mount(),
        },
    )
}

/// `pivot_root`: neither the new root nor the place of the old one may lie in the store.
pub fn pivot_root(call: &Call) -> Answer {
    if !may_mount() {
        return Err(Failure::NotOurs);
    }
    let (first, second) = (store_path::locate(call, None, 0), store_path::locate(call, None, 1));
    if first.is_err() && second.is_err() {
        return first.and(second).and(Err(Failure::NotOurs));
    }
    let places = [first, second].into_iter().flatten();
    for place in places {
        let (base, path) = place.located()?;
        process::client()?.stat(&credentials::effective(), base, path, true)?;
    }
    Err(Failure::Errno(libc::EINVAL))
}

/// `chroot`.
pub fn change_root(call: &Call) -> Answer {
    let answer = crossing::at(
        call,
        (None, 0),
        |client, credentials, base, place| client.stat(credentials, base, &place.path, true),
        |_| call.unserved(libc::ENOSYS),
    );
    match answer {
        Err(Failure::NotOurs) if descriptor_files::itself(call, 0).is_ok() => call.unserved(libc::ENOSYS),
        answer => answer,
    }
}

/// The kernel's answer about a place where nothing is mounted.
fn is_no_mount() -> Answer {
    Err(Failure::Errno(if may_mount() { libc::EINVAL } else { libc::EPERM }))
}

fn may_mount() -> bool {
    credentials::effective().capabilities.has(Capability::Administer)
}
