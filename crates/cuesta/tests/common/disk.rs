//! Stores on a disk: an ext4 of its own on a loop device, which can be shut down.

use super::TestFolder;
use cuesta_format::geometry::{BOOT_FILE, SESSIONS_COPY_FILE, SESSIONS_FILE};
use cuesta_format::session_table::{HEAD_BYTES, TableHead, head_offset};
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::process::Command;

/// The ioctl that shuts an ext4 down, without writing what it keeps in memory.
const SHUT_DOWN: &str = "fcntl.ioctl(os.open(disk, os.O_RDONLY), 0x8004587d, struct.pack('I', 2))";

/// A disk of its own, mounted at `disk` in a test's folder.
pub struct Disk {
    pub place: TestFolder,
}

impl Disk {
    pub fn with_store_of(size: &str) -> Disk {
        let disk = Disk::empty();
        let made = disk.place.cuesta(&["mkfs", "disk/store", "--medium", "block", "--nvm", size]);
        assert_eq!(made.status(), 0, "{}", made.errors());
        disk
    }

    pub fn empty() -> Disk {
        let place = TestFolder::new();
        // A file system of its own: see `break_down`.
        std::fs::create_dir(place.path("medium")).unwrap();
        let medium = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=520m", "tmpfs"])
            .arg(place.path("medium"))
            .output();
        assert!(medium.is_ok_and(|mounted| mounted.status.success()));
        let image = std::fs::File::create(place.path("medium/image")).unwrap();
        image.set_len(512 << 20).unwrap();
        ran(Command::new("mkfs.ext4").arg("-q").arg(place.path("medium/image")));
        std::fs::create_dir(place.path("disk")).unwrap();
        let disk = Disk { place };
        disk.mount();
        disk
    }

    /// Shuts the disk down from outside of any store, with all that was written to it: it refuses writes from now on.
    pub fn shut_down(&self) {
        ran(Command::new("sync").arg("-f").arg(self.place.path("disk")));
        self.cut();
    }

    /// Cuts the disk's power from outside of any store: pages that the kernel has not written to it are lost.
    pub fn cut(&self) {
        let disk = self.place.path("disk");
        let script = format!("import fcntl, os, struct\ndisk = {disk:?}\n{SHUT_DOWN}");
        ran(Command::new("python3").args(["-c", &script]));
    }

    /// From now on the disk fails each write of a block that it was never asked to write. The kernel's pages take such writes, and a
    /// flush reports them. Its file system stays in use.
    pub fn break_down(&self) {
        let full = std::fs::File::create(self.place.path("medium/filler")).unwrap();
        let chunk = vec![1; 1 << 20];
        for at in 0.. {
            match full.write_all_at(&chunk, at << 20) {
                Ok(()) => {}
                Err(error) => return assert_eq!(error.kind(), ErrorKind::StorageFull, "{error}"),
            }
        }
    }

    /// The disk takes all writes again.
    pub fn repair(&self) {
        std::fs::remove_file(self.place.path("medium/filler")).unwrap();
    }

    pub fn mount(&self) {
        let (image, at) = (self.place.path("medium/image"), self.place.path("disk"));
        ran(Command::new("mount").args(["-o", "loop"]).args([&image, &at]));
    }

    pub fn unmount(&self) {
        self.place.cuesta(&["stop", "disk/store"]);
        ran(Command::new("umount").arg(self.place.path("disk")));
    }

    /// A program in Python that knows the `disk`, and how to `cut` its power.
    pub fn program(&self, script: &str) -> Command {
        self.program_with(&[], script)
    }

    /// The same with options of `cuesta run`.
    pub fn program_with(&self, options: &[&str], script: &str) -> Command {
        let disk = self.place.path("disk");
        let script = format!(
            "import fcntl, os, struct, sys, threading\ndisk = {disk:?}\ndef cut():\n  {SHUT_DOWN}\n{script}"
        );
        let arguments = [&["run", "--store", "disk/store"], options, &["--", "python3", "-c", &script]];
        self.place.command(&arguments.concat())
    }

    /// Mounts the disk as the machine does after a loss of power, when it has started anew.
    pub fn mount_after_power_loss(&self) {
        self.unmount();
        self.mount();
        let tier = self.place.path("disk/store/nvm");
        std::fs::write(tier.join(BOOT_FILE), "00000000-0000-4000-8000-000000000000\n").unwrap();
        for name in [SESSIONS_FILE, SESSIONS_COPY_FILE] {
            let path = tier.join(name);
            let mut bytes = std::fs::read(&path).unwrap();
            for copy in 0..2 {
                let at = head_offset(copy) as usize..head_offset(copy) as usize + HEAD_BYTES;
                if let Some((sequence, head)) = TableHead::decode(&bytes[at.clone()]) {
                    bytes[at].copy_from_slice(&TableHead { boot: head.boot ^ 6, ..head }.encode(sequence));
                }
            }
            std::fs::write(&path, bytes).unwrap();
        }
    }

    /// Bytes that were written to it since it is mounted.
    pub fn written(&self) -> u64 {
        let device = std::fs::metadata(self.place.path("disk")).unwrap().dev();
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let counts = std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/stat")).unwrap();
        512 * counts.split_whitespace().nth(6).unwrap().parse::<u64>().unwrap()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = self.place.cuesta(&["stop", "disk/store"]);
        for place in ["disk", "medium"] {
            let _ = Command::new("umount").arg("--lazy").arg(self.place.path(place)).status();
        }
    }
}

#[track_caller]
fn ran(command: &mut Command) {
    let ended = command.output().unwrap();
    assert!(ended.status.success(), "{command:?}: {}", String::from_utf8_lossy(&ended.stderr));
}

/// A disk without a file system: a loop device.
pub struct Loop(pub String);

impl Loop {
    pub fn new(image: &std::path::Path, bytes: u64) -> Loop {
        std::fs::File::create(image).unwrap().set_len(bytes).unwrap();
        let made = Command::new("losetup").args(["-f", "--show"]).arg(image).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        Loop(String::from_utf8(made.stdout).unwrap().trim().to_owned())
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["-d", &self.0]).status();
    }
}
