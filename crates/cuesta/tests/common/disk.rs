//! Stores on a disk: an ext4 of its own on a loop device, which can be shut down.

use super::TestFolder;
use std::os::unix::fs::MetadataExt;
use std::process::Command;

/// The ioctl that shuts an ext4 down, without writing what it keeps in memory.
const SHUT_DOWN: &str = "fcntl.ioctl(os.open(disk, os.O_RDONLY), 0x8004587d, struct.pack('I', 2))";

/// A store on a disk of its own.
pub struct Disk {
    pub place: TestFolder,
}

impl Disk {
    pub fn with_store_of(size: &str) -> Disk {
        let place = TestFolder::new();
        let image = std::fs::File::create(place.path("image")).unwrap();
        image.set_len(512 << 20).unwrap();
        ran(Command::new("mkfs.ext4").arg("-q").arg(place.path("image")));
        std::fs::create_dir(place.path("disk")).unwrap();
        let disk = Disk { place };
        disk.mount();
        let made = disk.place.cuesta(&["mkfs", "disk/store", "--medium", "block", "--nvm", size]);
        assert_eq!(made.status(), 0, "{}", made.errors());
        disk
    }

    pub fn mount(&self) {
        let (image, at) = (self.place.path("image"), self.place.path("disk"));
        ran(Command::new("mount").args(["-o", "loop"]).args([&image, &at]));
    }

    pub fn unmount(&self) {
        self.place.cuesta(&["stop", "disk/store"]);
        ran(Command::new("umount").arg(self.place.path("disk")));
    }

    /// A program in Python that knows the `disk`, and how to `cut` its power.
    pub fn program(&self, script: &str) -> Command {
        let disk = self.place.path("disk");
        let script = format!(
            "import fcntl, os, struct, sys, threading\ndisk = {disk:?}\ndef cut():\n  {SHUT_DOWN}\n{script}"
        );
        self.place.command(&["run", "--store", "disk/store", "--", "python3", "-c", &script])
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
        let _ = Command::new("umount").arg(self.place.path("disk")).status();
    }
}

#[track_caller]
fn ran(command: &mut Command) {
    let ended = command.output().unwrap();
    assert!(ended.status.success(), "{command:?}: {}", String::from_utf8_lossy(&ended.stderr));
}
