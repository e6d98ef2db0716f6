//! Root becomes a store's user before it serves, checks or removes the store.
//!
//! The owner of a folder may change names in it at any time. A process that works there as root would follow the owner's
//! symbolic links with root's rights. As the owner, it can do no more than the owner can.

use crate::messages::failure::Failure;
use crate::messages::user_names;
use rustix::process::geteuid;
use std::ffi::CString;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Becomes the owner of `folder`, for good, if this is root and the owner is not. Later checks compare the
/// owner of a file with this process's new user.
pub fn become_owner(folder: &Path) -> Result<(), Failure> {
    if !geteuid().is_root() {
        return Ok(());
    }
    let found = folder.metadata().map_err(|error| Failure::on(folder, error))?;
    if found.uid() == 0 {
        return Ok(());
    }
    set_user(found.uid(), found.gid()).map_err(|error| {
        let why = format!("belongs to user {}, whom this process cannot become: {error}", found.uid());
        Failure::on(folder, why)
    })
}

/// With the groups that the user has, or, of a user without a name, that of the folder alone.
fn set_user(user: u32, group_of_folder: u32) -> io::Result<()> {
    let known = user_names::login(user).and_then(|(name, group)| Some((CString::new(name).ok()?, group)));
    let done = |status: libc::c_int| if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
    let group = match &known {
        Some((name, group)) => {
            // SAFETY: the name is a C string.
            done(unsafe { libc::initgroups(name.as_ptr(), *group) })?;
            *group
        }
        None => {
            // SAFETY: no groups are read.
            done(unsafe { libc::setgroups(0, std::ptr::null()) })?;
            group_of_folder
        }
    };
    // SAFETY: these change no memory. libc has all threads change.
    done(unsafe { libc::setresgid(group, group, group) })?;
    // SAFETY: as above.
    done(unsafe { libc::setresuid(user, user, user) })
}
