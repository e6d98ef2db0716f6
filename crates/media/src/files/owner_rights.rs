//! Calls in a folder that is its owner's alone, made as that owner: also while the process acts for another user, if it may go back.
//!
//! A process of root's that serves many users changes its effective user for each (`seteuid`). It opened its files of a store
//! before that, and keeps the store in order with the rights it had then.

use rustix::fd::AsFd;
use rustix::fs::{Stat, fchown, fstat};
use rustix::io::Errno;
use rustix::process::{Uid, geteuid};

/// Changes nothing, and answers the user there is.
const NO_USER: u32 = u32::MAX;
const ROOT: u32 = 0;

/// Another user for what this thread does with files, until it is dropped.
struct Acting {
    before: u32,
}

impl Acting {
    /// `None`: this thread may not act as that user.
    fn as_user(user: u32) -> Option<Acting> {
        let before = set_user(user);
        if set_user(NO_USER) == user { Some(Acting { before }) } else { None }
    }
}

impl Drop for Acting {
    fn drop(&mut self) {
        set_user(self.before);
    }
}

/// Sets the user that this thread uses files as, if it may; answers who that was before.
fn set_user(user: u32) -> u32 {
    // SAFETY: changes one number of this thread, as far as the kernel allows it.
    unsafe { libc::syscall(libc::SYS_setfsuid, user) as u32 }
}

/// Runs `act` in a folder as its owner, or as root, if this process is neither at the moment and may be.
pub fn as_owner<T>(folder: impl AsFd, act: impl Fn() -> Result<T, Errno>) -> Result<T, Errno> {
    let owner = fstat(folder)?.st_uid;
    let effective = geteuid().as_raw();
    if effective == owner || effective == ROOT {
        match act() {
            Err(Errno::ACCESS) => {}
            answer => return answer,
        }
    }
    for user in [owner, ROOT] {
        if let Some(_acting) = Acting::as_user(user) {
            return act();
        }
    }
    act()
}

/// Gives a file that this process has made, as root, to the owner of the folder.
pub fn give_to_owner(folder: impl AsFd, file: impl AsFd, found: &Stat) {
    let Ok(owner) = fstat(folder).map(|folder| folder.st_uid) else { return };
    if found.st_uid != owner && found.st_uid == ROOT {
        let _acting = if geteuid().as_raw() == ROOT { None } else { Acting::as_user(ROOT) };
        // A process that may not do that has not made it.
        let _ = fchown(file, Some(Uid::from_raw(owner)), None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{Mode, OFlags, openat};
    use std::fs::File;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};

    const OWNER: u32 = 65_001;
    const OTHER: u32 = 65_002;

    /// Runs `act` in a thread whose effective user is another one, and which may go back to root.
    fn acting_for(user: u32, act: impl FnOnce() + Send) {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                // SAFETY: only this thread's credentials change, for libc is not asked.
                assert_eq!(unsafe { libc::syscall(libc::SYS_setresuid, NO_USER, user, NO_USER) }, 0);
                act();
            });
            thread.join().unwrap();
        });
    }

    #[test]
    fn a_process_that_acts_for_another_user_makes_files_of_the_owner_s() {
        if !geteuid().is_root() {
            println!("skipped: only root acts for others");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
        chown(folder.path(), Some(OWNER), None).unwrap();
        let opened = File::open(folder.path()).unwrap();
        let flags = OFlags::RDWR | OFlags::CREATE;
        let make = |name: &str| {
            let file = as_owner(&opened, || openat(&opened, name, flags, Mode::from_raw_mode(0o600)));
            let file = file.map(File::from).unwrap();
            give_to_owner(&opened, &file, &fstat(&file).unwrap());
            assert_eq!(file.metadata().unwrap().uid(), OWNER, "{name}");
        };
        make("root");
        acting_for(OTHER, || {
            make("other");
            make("root");
            assert_eq!(set_user(NO_USER), OTHER, "it acts for the other user again");
        });
    }
}
