//! The store of a soak, the command as it is installed, and the daemon.
//!
//! Nobody starts the daemon but `cuesta run` and the mount, as it is in use: when it is away, whichever program starts next, or
//! looks at the mount, brings up another. So its process is asked for before it is killed.

use super::lanes::{Lane, SCRIPTS, User};
use crate::kill::served::{ROOT, told};
use crate::operations::random::Random;
use crate::programs::doors::Door;
use crate::programs::processes::{end, process, reap, server_of_mount};
use crate::programs::stores;
use rustix::io::Errno;
use rustix::process::{Pid, Signal};
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// Where programs are looked for.
pub(super) const SEARCH_PATH: &str = "/usr/local/bin:/usr/bin:/bin";
const STORE_BYTES: &str = "512M";
/// The tree that is unpacked and copied.
const TREE_FILES: u64 = 40;
const TREE_FOLDERS: u64 = 5;
const TREE_FILE_BYTES_MAX: u64 = 60_000;

/// The command under test and its library, as they were built.
#[derive(Clone, Debug)]
pub struct Installed {
    /// `cuesta`; the library lies beside it.
    pub cuesta: PathBuf,
    /// Where the store is made, if not in memory.
    pub stores: Option<PathBuf>,
}

/// A folder with all that.
pub(super) struct SoakFolder {
    folder: tempfile::TempDir,
    seed: u64,
}

impl SoakFolder {
    /// Puts the command where every user can execute it, and makes a store that every user reaches.
    pub(super) fn new(installed: &Installed, seed: u64) -> io::Result<SoakFolder> {
        let folder = stores::folder(installed.stores.as_deref(), "cuesta-soak-")?;
        let place = SoakFolder { folder, seed };
        fs::set_permissions(place.folder.path(), Permissions::from_mode(0o755))?;
        for name in ["bin", "jobs", "errors", "files"] {
            fs::create_dir(place.beside(name))?;
        }
        let library = installed.cuesta.with_file_name("libcuesta_preload.so");
        for built in [&installed.cuesta, &library] {
            // By another process: a file open for writing here could be inherited by a fork, and could not be executed.
            let mut copy = Command::new("cp");
            copy.arg(built).arg(place.beside("bin"));
            told(copy)?;
        }
        for (name, text) in SCRIPTS {
            fs::write(place.beside("jobs").join(name), text)?;
        }
        place.make_tree(&mut Random::new(seed))?;
        let mut mkfs = place.cuesta("mkfs");
        mkfs.args(["--nvm", STORE_BYTES]).arg(place.store());
        told(mkfs)?;
        fs::set_permissions(place.store(), Permissions::from_mode(0o711))?;
        Ok(place)
    }

    /// Where all of it lies.
    pub(super) fn folder(&self) -> PathBuf {
        self.folder.path().to_path_buf()
    }

    /// A file beside the store.
    pub(super) fn beside(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn store(&self) -> PathBuf {
        self.beside("store")
    }

    /// Programs end their work when there is this file.
    pub(super) fn stop_file(&self) -> PathBuf {
        self.beside("stop")
    }

    fn make_tree(&self, random: &mut Random) -> io::Result<()> {
        let tree = self.beside("tree");
        for folder in 0..TREE_FOLDERS {
            fs::create_dir_all(tree.join(format!("folder-{folder}/below")))?;
        }
        for file in 0..TREE_FILES {
            let path = tree.join(format!("folder-{}/below/file-{file}", random.below(TREE_FOLDERS)));
            let bytes: Vec<u8> =
                (0..random.below(TREE_FILE_BYTES_MAX)).map(|_| b'a' + random.below(16) as u8).collect();
            fs::write(&path, bytes)?;
            fs::set_permissions(&path, Permissions::from_mode(*random.pick(&[0o644, 0o600, 0o755, 0o444])))?;
            match random.below(8) {
                0 => symlink(format!("file-{file}"), path.with_extension("link"))?,
                1 => fs::hard_link(&path, path.with_extension("again"))?,
                _ => {}
            }
        }
        let mut tar = Command::new("tar");
        tar.arg("-czf").arg(self.beside("tree.tar.gz")).arg("-C").arg(&tree).arg(".");
        told(tar)?;
        // Modes are kept, but everybody may compare.
        let mut readable = Command::new("chmod");
        readable.arg("-R").arg("a+r").arg(&tree);
        told(readable).map(drop)
    }

    fn cuesta(&self, action: &str) -> Command {
        let mut command = Command::new(self.beside("bin/cuesta"));
        command.arg(action).stdin(Stdio::null()).current_dir("/");
        command
    }

    /// `cuesta run -- …`
    fn run(&self) -> Command {
        let mut command = self.cuesta("run");
        command.arg("--store").arg(self.store()).args(["--at", ROOT, "--"]);
        command
    }

    /// Makes the lanes' folders on the store.
    pub(super) fn make_folders(&self, lanes: &[Lane]) -> io::Result<()> {
        for lane in lanes {
            let Some(mode) = lane.mode else { continue };
            let owner = lane.users[0].id().unwrap_or_else(|| rustix::process::geteuid().as_raw());
            let mut command = self.run();
            let script = "mkdir -m \"$1\" \"$2\" && chown \"$3:$3\" \"$2\"";
            let folder = format!("{ROOT}/{}", lane.place);
            command.args(["sh", "-c", script, "sh", mode, &folder, &owner.to_string()]);
            told(command)?;
        }
        Ok(())
    }

    /// A lane's script at work, or looking, by a door.
    pub(super) fn script(&self, lane: &Lane, user: User, door: Door, action: &str) -> Command {
        let interpreter = if lane.script.ends_with(".py") { "python3" } else { "bash" };
        let (mut command, place) = match door {
            Door::Run => (self.run(), format!("{ROOT}/{}", lane.place)),
            Door::Mount => (Command::new("env"), ".".to_owned()),
        };
        if door == Door::Mount {
            command.current_dir(self.mountpoint().join(lane.place));
        }
        command.arg(interpreter).arg(self.beside("jobs").join(lane.script)).arg(action).args(lane.argument);
        command.env_clear().envs([
            ("PATH", SEARCH_PATH),
            ("HOME", "/nonexistent"),
            ("LC_ALL", "C.UTF-8"),
            ("PYTHONDONTWRITEBYTECODE", "1"),
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_AUTHOR_NAME", "soak"),
            ("GIT_AUTHOR_EMAIL", "soak@localhost"),
            ("GIT_COMMITTER_NAME", "soak"),
            ("GIT_COMMITTER_EMAIL", "soak@localhost"),
        ]);
        command.env("PLACE", place).env("SEED", self.seed.to_string());
        command.env("SOURCE", self.beside("tree")).env("STOP", self.stop_file());
        if let Some(id) = user.id() {
            command.uid(id).gid(id);
        }
        command
    }

    /// Makes sure that there is a daemon.
    pub(super) fn ensure_daemon(&self) -> io::Result<()> {
        let mut command = self.run();
        command.arg("true");
        told(command).map(drop)
    }

    /// A daemon's status, if there is one that answers.
    fn status(&self) -> io::Result<Option<serde_json::Value>> {
        let mut command = self.cuesta("status");
        let output = command.arg("--json").arg(self.store()).output()?;
        Ok(serde_json::from_slice(&output.stdout).ok())
    }

    /// The daemon's process.
    fn daemon(&self) -> io::Result<Option<Pid>> {
        Ok(self.status()?.as_ref().and_then(|status| process(&status["pid"])))
    }

    fn mountpoint(&self) -> PathBuf {
        self.beside("files")
    }

    /// Mounts the store for everybody. Answers the process that serves it.
    pub(super) fn mount(&self) -> io::Result<Pid> {
        let mut command = self.cuesta("mount");
        command.arg("--allow-other").arg(self.store()).arg(self.mountpoint());
        told(command)?;
        let server = self.status()?.as_ref().and_then(server_of_mount);
        server.ok_or_else(|| io::Error::other("who serves the mount?"))
    }

    /// Takes the mount away, which is not in use; returns when `server` has ended.
    pub(super) fn unmount(&self, server: Pid) -> io::Result<()> {
        let mut command = self.cuesta("unmount");
        command.arg(self.mountpoint());
        told(command)?;
        end(server, None)
    }

    /// Sends the daemon a signal, if there is one.
    pub(super) fn signal_daemon(&self, signal: Signal) -> io::Result<Option<Pid>> {
        let Some(daemon) = self.daemon()? else { return Ok(None) };
        match rustix::process::kill_process(daemon, signal) {
            Ok(()) => Ok(Some(daemon)),
            Err(Errno::SRCH) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Kills the daemon, if there is one; returns when it is dead.
    pub(super) fn kill_daemon(&self) -> io::Result<()> {
        self.daemon()?.map_or(Ok(()), |daemon| end(daemon, Some(Signal::KILL)))
    }

    /// The daemon leaves in order, if there is one.
    pub(super) fn stop_daemon(&self) -> io::Result<()> {
        let daemon = self.daemon()?;
        let mut command = self.cuesta("stop");
        command.arg(self.store());
        told(command)?;
        if let Some(daemon) = daemon {
            reap(daemon);
        }
        Ok(())
    }

    /// A daemon that may not have come up yet. The soak does not wait for it.
    pub(super) fn begin_daemon(&self) -> io::Result<Child> {
        let mut command = self.cuesta("serve");
        command.arg(self.store()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
    }

    /// The store is clean, whatever was recovered.
    pub(super) fn fsck(&self) -> io::Result<()> {
        let mut command = self.cuesta("fsck");
        command.arg("--content").arg(self.store());
        told(command).map(drop)
    }

    /// Leaves everything where it is, for people to look at.
    pub(super) fn keep(mut self) -> io::Result<PathBuf> {
        self.leave();
        self.kill_daemon()?;
        self.folder.disable_cleanup(true);
        Ok(self.folder.path().to_path_buf())
    }
}

impl SoakFolder {
    /// Whatever became of a mount, nothing of it is to be left.
    fn leave(&self) {
        let mut command = self.cuesta("unmount");
        let _ = command.arg("--lazy").arg(self.mountpoint()).output();
    }
}

impl Drop for SoakFolder {
    fn drop(&mut self) {
        self.leave();
        // A daemon that cannot be killed is gone already.
        let _ = self.kill_daemon();
    }
}
