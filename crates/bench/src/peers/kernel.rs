//! The kernel's own file systems: a directory, and programs run as they are.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::error::{BenchError, Context};
use crate::figures::measure::Outcome;
use crate::peers::name::PeerName;
use crate::peers::peer::{OF_USER, Peer};
use crate::processes::child::Role;
use crate::processes::daemon::Daemon;
use crate::processes::user::User;
use crate::works::work::Work;

/// A mounted file system of the kernel.
#[derive(Debug)]
pub struct Kernel {
    name: PeerName,
    at: PathBuf,
    /// The user of the programs, if not ours.
    user: Option<User>,
}

impl Kernel {
    /// The file system mounted `at`.
    pub fn new(name: PeerName, at: PathBuf) -> Self {
        Kernel { name, at, user: None }
    }
}

impl Peer for Kernel {
    fn name(&self) -> PeerName {
        self.name
    }

    fn dir(&self, name: &str) -> PathBuf {
        self.at.join(name)
    }

    fn on_disk(&self) -> Option<&Path> {
        matches!(self.name, PeerName::Ext4Disk | PeerName::XfsDisk).then_some(&self.at)
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        if self.name == PeerName::EatMyData {
            command = Command::new("eatmydata");
            command.arg(program);
        }
        if let Some(user) = self.user {
            user.run(&mut command);
        }
        command
    }

    fn ensure_ready(&mut self, _daemon: Role) -> Result<(), BenchError> {
        Ok(())
    }

    fn renew(&mut self) -> Result<(), BenchError> {
        for entry in std::fs::read_dir(&self.at).context("listing what a failed work left")? {
            let path = entry.context("listing what a failed work left")?.path();
            if path.file_name().is_some_and(|name| name != "lost+found") {
                std::fs::remove_dir_all(&path).context("removing what a failed work left")?;
            }
        }
        Ok(())
    }

    fn of_user(&self, user: User) -> Option<Result<Box<dyn Peer>, BenchError>> {
        let at = self.at.join(OF_USER);
        let made = user.make_dir(&at);
        Some(made.map(|()| Box::new(Kernel { name: self.name, at, user: Some(user) }) as Box<dyn Peer>))
    }

    fn daemon(&self) -> Option<Daemon> {
        None
    }

    fn recover(&mut self, _: &Work, _: Duration) -> Option<Result<Outcome, BenchError>> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    #[test]
    fn another_user_has_a_directory_and_programs() {
        let Some(nobody) = User::named("nobody").filter(|_| rustix::process::geteuid().is_root()) else {
            println!("skipped: needs root, and the user nobody");
            return;
        };
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o711)).unwrap();
        let peer = Kernel::new(PeerName::Tmpfs, dir.path().to_owned());
        for _ in 0..2 {
            let of_user = peer.of_user(nobody).unwrap().unwrap();
            let mut make = of_user.command(Path::new("mkdir"));
            assert!(make.arg("-p").arg(of_user.dir("work")).status().unwrap().success());
        }
        let work = std::fs::metadata(dir.path().join(OF_USER).join("work")).unwrap();
        assert_ne!(work.uid(), 0);
    }

    #[test]
    fn renewing_empties_the_file_system() {
        let dir = tempfile::tempdir().unwrap();
        let mut peer = Kernel::new(PeerName::Tmpfs, dir.path().to_owned());
        std::fs::create_dir_all(peer.dir("work").join("deep")).unwrap();
        peer.renew().unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
