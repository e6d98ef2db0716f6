//! Processes of another user, which root starts: for programs that refuse to be root's.

use std::ffi::CString;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::error::{BenchError, Context};

/// A user of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct User {
    uid: libc::uid_t,
    gid: libc::gid_t,
}

impl User {
    /// The user of that name, if there is one.
    pub fn named(name: &str) -> Option<User> {
        let name = CString::new(name).ok()?;
        // SAFETY: `name` is a C string; the runner looks for a user in one thread at a time, so that nothing else changes the
        // static entry before it is read.
        let entry = unsafe { libc::getpwnam(name.as_ptr()).as_ref() }?;
        Some(User { uid: entry.pw_uid, gid: entry.pw_gid })
    }

    /// Has the command run as this user, from where this user may be.
    pub fn run(self, command: &mut Command) {
        command.uid(self.uid).gid(self.gid).current_dir("/").env("HOME", "/");
    }

    /// Makes a directory of this user's, if there is none.
    pub fn make_dir(self, dir: &Path) -> Result<(), BenchError> {
        std::fs::create_dir_all(dir)
            .and_then(|()| std::os::unix::fs::chown(dir, Some(self.uid), Some(self.gid)))
            .context("making a directory for another user")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_runs_as_the_user() {
        assert_eq!(User::named("no-such-user-here"), None);
        if !rustix::process::geteuid().is_root() {
            println!("skipped: needs root");
            return;
        }
        let nobody = User::named("nobody").unwrap();
        let mut id = Command::new("id");
        nobody.run(id.arg("-u"));
        let told = String::from_utf8(id.output().unwrap().stdout).unwrap();
        assert_eq!(told.trim(), nobody.uid.to_string());
    }
}
