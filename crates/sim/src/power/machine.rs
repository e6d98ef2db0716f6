//! The disk's ext4, the store on it, and all that starts and ends with the power.

use super::disk::PowerDisk;
use crate::kill::served::{ROOT, told};
use crate::programs::doors::Door;
use crate::programs::processes::end_descendants;
use crate::programs::stores;
use cuesta_format::geometry::{BOOT_FILE, SESSIONS_COPY_FILE, SESSIONS_FILE};
use cuesta_format::session_table::{HEAD_BYTES, TableHead, head_offset};
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const DISK_BYTES: usize = 1 << 30;
const STORE_BYTES: &str = "192M";
/// A boot that never was.
const OTHER_BOOT: &str = "00000000-0000-4000-8000-000000000000\n";
/// Far longer than the kernel needs to let go of a disk that nothing uses.
const PATIENCE: Duration = Duration::from_secs(180);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A machine whose power can be cut.
pub(super) struct Machine {
    pub(super) disk: PowerDisk,
    folder: tempfile::TempDir,
    is_mounted: bool,
}

impl Machine {
    /// A new disk with a new store in optimistic mode.
    pub(super) fn new(cuesta: &Path, seed: u64) -> io::Result<Machine> {
        let folder = stores::folder(None, "cuesta-power-")?;
        let beside = |name: &str| folder.path().join(name);
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755))?;
        for name in ["bin", "jobs", "device", "disk", "files"] {
            fs::create_dir(beside(name))?;
        }
        let mut copy = Command::new("cp");
        let library = cuesta.with_file_name("libcuesta_preload.so");
        copy.arg(cuesta).arg(library).arg(beside("bin"));
        told(copy)?;
        fs::write(beside("jobs/work.py"), include_str!("jobs/work.py"))?;
        fs::write(beside("jobs/insert.py"), include_str!("jobs/insert.py"))?;
        let disk = PowerDisk::new(&beside("device"), DISK_BYTES, seed)?;
        let mut format = Command::new("mkfs.ext4");
        format.args(["-q", "-E", "nodiscard,lazy_itable_init=1,lazy_journal_init=1"]).arg(disk.file());
        told(format)?;
        let mut machine = Machine { disk, folder, is_mounted: false };
        machine.mount()?;
        let mut make = machine.cuesta("mkfs");
        make.args(["--medium", "block", "--durability", "optimistic", "--nvm", STORE_BYTES])
            .arg(machine.store());
        told(make)?;
        fs::set_permissions(machine.store(), Permissions::from_mode(0o711))?;
        Ok(machine)
    }

    /// A file beside the disk.
    pub(super) fn beside(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn store(&self) -> PathBuf {
        self.beside("disk/store")
    }

    pub(super) fn cuesta(&self, action: &str) -> Command {
        let mut command = Command::new(self.beside("bin/cuesta"));
        command.arg(action).stdin(Stdio::null()).current_dir("/").env("PYTHONDONTWRITEBYTECODE", "1");
        command
    }

    /// `cuesta run … --`
    pub(super) fn run(&self, options: &[&str]) -> Command {
        let mut command = self.cuesta("run");
        command.arg("--store").arg(self.store()).args(["--at", ROOT]).args(options).arg("--");
        command
    }

    /// The script that works on the store, by a door.
    pub(super) fn work(&self, door: Door, options: &[&str]) -> Command {
        let (mut command, root) = match door {
            Door::Run => (self.run(options), PathBuf::from(ROOT)),
            Door::Mount => (Command::new("env"), self.beside("files")),
        };
        command.arg("python3").arg(self.beside("jobs/work.py"));
        command.env("PYTHONDONTWRITEBYTECODE", "1").env("ROOT", root).current_dir("/");
        command
    }

    /// Mounts the store. The mount ends with the power.
    pub(super) fn mount_store(&self) -> io::Result<()> {
        let mut command = self.cuesta("mount");
        command.arg(self.store()).arg(self.beside("files"));
        told(command).map(drop)
    }

    fn mount(&mut self) -> io::Result<()> {
        let mut command = Command::new("mount");
        command
            .args(["-t", "ext4", "-o", "loop,noinit_itable"])
            .arg(self.disk.file())
            .arg(self.beside("disk"));
        told(command)?;
        self.is_mounted = true;
        Ok(())
    }

    /// The machine is off: no process is left, and nothing of the disk is in memory.
    pub(super) fn end_everything(&mut self) -> io::Result<()> {
        end_descendants();
        // Without its server a mount stays, and is in the way of the next one.
        while cuesta_fuse::unmount(&self.beside("files"), true).is_ok() {}
        let deadline = Instant::now() + PATIENCE;
        while self.is_mounted {
            match rustix::mount::unmount(self.beside("disk"), rustix::mount::UnmountFlags::empty()) {
                Ok(()) => self.is_mounted = false,
                Err(rustix::io::Errno::BUSY) if Instant::now() < deadline => std::thread::sleep(LOOK_EVERY),
                Err(errno) => return Err(errno.into()),
            }
        }
        // A process of another mount namespace may hold a copy of the mount, and with it the kernel's memory of the disk.
        while is_attached(&self.disk.file())? {
            if Instant::now() > deadline {
                return Err(io::Error::other("the disk is in use after it was unmounted"));
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    /// The machine starts again, in another boot.
    pub(super) fn start_anew(&mut self) -> io::Result<()> {
        self.disk.restore_power();
        self.mount()?;
        let tier = self.store().join("nvm");
        fs::write(tier.join(BOOT_FILE), OTHER_BOOT)?;
        for name in [SESSIONS_FILE, SESSIONS_COPY_FILE] {
            let path = tier.join(name);
            let mut bytes = fs::read(&path)?;
            for copy in 0..2 {
                let at = head_offset(copy) as usize..head_offset(copy) as usize + HEAD_BYTES;
                if let Some((sequence, head)) = bytes.get(at.clone()).and_then(TableHead::decode) {
                    bytes[at].copy_from_slice(&TableHead { boot: head.boot ^ 6, ..head }.encode(sequence));
                }
            }
            fs::write(&path, bytes)?;
        }
        Ok(())
    }

    /// The store has no fault.
    pub(super) fn fsck(&self, options: &[&str]) -> io::Result<()> {
        let mut command = self.cuesta("fsck");
        command.args(options).arg(self.store());
        told(command).map(drop).map_err(|error| io::Error::other(format!("cuesta fsck: {error}")))
    }

    /// The daemon leaves in order.
    pub(super) fn stop_daemon(&self) -> io::Result<()> {
        let mut command = self.cuesta("stop");
        command.arg(self.store());
        told(command).map(drop)
    }

    /// Leaves the disk's bytes as a file, for people to look at.
    pub(super) fn keep(mut self) -> io::Result<PathBuf> {
        self.end_everything()?;
        self.disk.restore_power();
        let kept = self.beside("kept.img");
        let mut copy = Command::new("cp");
        copy.arg("--sparse=always").arg(self.disk.file()).arg(&kept);
        told(copy)?;
        self.folder.disable_cleanup(true);
        Ok(kept)
    }
}

/// Whether a loop device has the file.
fn is_attached(file: &Path) -> io::Result<bool> {
    for device in fs::read_dir("/sys/block")? {
        // Only loop devices that have a file say so.
        let said = fs::read_to_string(device?.path().join("loop/backing_file"));
        if said.is_ok_and(|said| Path::new(said.trim_end()) == file) {
            return Ok(true);
        }
    }
    Ok(false)
}

impl Drop for Machine {
    fn drop(&mut self) {
        // A mount that cannot be taken away keeps the folder, which shows it.
        let _ = self.end_everything();
    }
}
