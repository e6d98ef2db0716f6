//! A place for the peers that leaves nothing behind.
//!
//! As root, everything is mounted in a mount namespace of our own, loop devices are attached by `mount` with
//! autoclear, and a disk image is unlinked as soon as it is mounted: whatever ends us, even SIGKILL, the
//! kernel takes mounts, loop devices and images away. On an ordinary way out (an interrupt is one) we unmount
//! ourselves and remove the mount points. Not as root, there is only a directory on the system's tmpfs.

use std::ffi::CString;
use std::fs::{File, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_change, unmount};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use tempfile::TempDir;

use crate::error::{BenchError, Context};

const SHARED_MEMORY: &str = "/dev/shm";
const TMPFS_MAGIC: u64 = 0x0102_1994;

/// A file system of the kernel's that keeps a journal and lies on a block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Journalled {
    /// ext4.
    Ext4,
    /// XFS.
    Xfs,
}

impl Journalled {
    fn name(self) -> &'static str {
        match self {
            Journalled::Ext4 => "ext4",
            Journalled::Xfs => "xfs",
        }
    }

    fn maker(self) -> &'static str {
        match self {
            Journalled::Ext4 => "mkfs.ext4",
            Journalled::Xfs => "mkfs.xfs",
        }
    }

    /// Both have a journal unless told otherwise. All that can be done before the mount is done then, and nothing is discarded:
    /// blocks of an image that were written stay written. XFS chooses sectors of 4 KiB by itself on a disk that has them, but does
    /// not see the disk below an image.
    fn maker_arguments(self) -> &'static [&'static str] {
        match self {
            Journalled::Ext4 => &["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard"],
            Journalled::Xfs => &["-q", "-f", "-K", "-s", "size=4096"],
        }
    }

    fn is_known_to_kernel(self) -> bool {
        // Without the list it is unknown whether something is missing from it.
        std::fs::read_to_string("/proc/filesystems").map_or(true, |list| lists(&list, self.name()))
    }

    fn unknown_to_kernel(self) -> BenchError {
        BenchError::Unusable(format!("this kernel has no {}", self.name()))
    }
}

/// Whether the kernel's list of file systems, one a line and its name last, has that one.
fn lists(list: &str, name: &str) -> bool {
    list.lines().any(|line| line.split('\t').next_back() == Some(name))
}

/// The place; unmounts and removes everything when dropped.
#[derive(Debug)]
pub struct Scratch {
    root: TempDir,
    mounted: Vec<PathBuf>,
    is_root: bool,
}

impl Scratch {
    /// Makes it. Call before any thread is started: threads started earlier would not see the mounts.
    pub fn new() -> Result<Self, BenchError> {
        let is_root = rustix::process::geteuid().is_root();
        let builder = || {
            let mut builder = tempfile::Builder::new();
            builder.prefix("cuesta-bench-");
            builder
        };
        if !is_root {
            let root = builder().tempdir_in(SHARED_MEMORY).context("making a directory for the peers")?;
            return Ok(Scratch { root, mounted: Vec::new(), is_root });
        }
        // SAFETY: only the mount namespace is unshared; no descriptor table that others rely on.
        unsafe { unshare_unsafe(UnshareFlags::NEWNS) }.context("making a mount namespace")?;
        mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
            .context("making mounts private")?;
        let root = builder().tempdir().context("making a directory for the peers")?;
        // Programs of other users may reach their own folders below.
        std::fs::set_permissions(root.path(), Permissions::from_mode(0o711))
            .context("making a directory for the peers")?;
        Ok(Scratch { root, mounted: Vec::new(), is_root })
    }

    /// The path all places lie under.
    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// A directory on a tmpfs; a mount of its own as root.
    pub fn tmpfs(&mut self, name: &str, bytes_max: u64) -> Result<PathBuf, BenchError> {
        let at = self.point(name)?;
        if self.is_root {
            let data = CString::new(format!("size={bytes_max},mode=711")).expect("no NUL in a number");
            mount("cuesta-bench", &at, "tmpfs", MountFlags::empty(), Some(data.as_c_str()))
                .context(format!("mounting a tmpfs for {name}"))?;
            self.mounted.push(at.clone());
        }
        Ok(at)
    }

    /// A new file system, with its journal, in an image on a tmpfs.
    pub fn image_in_memory(
        &mut self,
        kind: Journalled,
        name: &str,
        bytes: u64,
    ) -> Result<PathBuf, BenchError> {
        self.require_root()?;
        let images = self.tmpfs(&format!("{name}-image"), bytes + bytes / 8)?;
        let image = images.join("image");
        File::create_new(&image).and_then(|file| file.set_len(bytes)).context("making an image in memory")?;
        self.made_on(kind, name, &image)
    }

    /// A new file system, with its journal, in an image in `dir`, which has to be on a disk.
    ///
    /// The image is written once from end to end, and then past the page cache: so a write costs what it costs the disk. In a sparse
    /// image, or one that was never written, the first write of each block would wait for the journal of the file system below.
    pub fn image_on_disk(
        &mut self,
        kind: Journalled,
        name: &str,
        dir: &Path,
        bytes: u64,
    ) -> Result<PathBuf, BenchError> {
        self.require_root()?;
        let facts = rustix::fs::statfs(dir).context("looking at the directory for the disk image")?;
        if facts.f_type as u64 == TMPFS_MAGIC {
            return Err(BenchError::Unusable(
                "the directory for the disk image is a tmpfs; see --disk-dir".into(),
            ));
        }
        let free = facts.f_bavail * facts.f_bsize as u64;
        if free < bytes + bytes / 4 {
            return Err(BenchError::Unusable(format!("only {} MiB free for a disk image", free >> 20)));
        }
        let image = tempfile::Builder::new()
            .prefix("cuesta-bench-image-")
            .tempfile_in(dir)
            .context("making a disk image")?;
        fill(image.as_file(), bytes).context("writing a disk image")?;
        // The loop device keeps the image alive; its name goes when `image` is dropped, at return.
        let at = self.made_on(kind, name, image.path())?;
        let device = tool(Command::new("findmnt").args(["-n", "-o", "SOURCE"]).arg(&at))?;
        tool(Command::new("losetup").arg("--direct-io=on").arg(device.trim()))?;
        Ok(at)
    }

    /// Fills `dir`, which is on a tmpfs, with a file for a moment. A virtual machine is given memory by its host
    /// page by page as it is first touched, at several times the cost of a page fault: a peer that happens to
    /// run on memory that was never touched would pay for that.
    pub fn touch_memory(dir: &Path, bytes: u64) -> Result<(), BenchError> {
        let path = dir.join("touched");
        File::create(&path).and_then(|file| fill(&file, bytes)).context("touching memory")?;
        std::fs::remove_file(&path).context("giving touched memory back")
    }

    fn made_on(&mut self, kind: Journalled, name: &str, image: &Path) -> Result<PathBuf, BenchError> {
        tool(Command::new(kind.maker()).args(kind.maker_arguments()).arg(image))?;
        let at = self.point(name)?;
        // The kernel loads the module of a file system when it is first mounted: a missing feature shows only behind that.
        tool(Command::new("mount").args(["-t", kind.name(), "-o", "loop"]).arg(image).arg(&at))
            .map_err(|error| if kind.is_known_to_kernel() { error } else { kind.unknown_to_kernel() })?;
        self.mounted.push(at.clone());
        Ok(at)
    }

    /// A directory for another program to mount something at, which goes when this does.
    pub fn mount_point(&mut self, name: &str) -> Result<PathBuf, BenchError> {
        self.require_root()?;
        let at = self.point(name)?;
        self.mounted.push(at.clone());
        Ok(at)
    }

    fn point(&self, name: &str) -> Result<PathBuf, BenchError> {
        let at = self.root.path().join(name);
        std::fs::create_dir(&at).context(format!("making a directory for {name}"))?;
        Ok(at)
    }

    fn require_root(&self) -> Result<(), BenchError> {
        if self.is_root { Ok(()) } else { Err(BenchError::Unusable("needs root (loop devices)".into())) }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        for at in self.mounted.drain(..).rev() {
            // Whoever mounted there may have taken that away.
            if let Err(error) = unmount(&at, UnmountFlags::DETACH)
                && error != rustix::io::Errno::INVAL
            {
                eprintln!("cuesta-bench: unmounting {}: {error}", at.display());
            }
        }
    }
}

/// Fills a new file, so that all of it is on the disk: not with zeros, of which some disks keep nothing.
fn fill(mut file: &File, bytes: u64) -> std::io::Result<()> {
    const CHUNK: usize = 1 << 20;
    let chunk = vec![1_u8; CHUNK];
    for _ in 0..bytes / CHUNK as u64 {
        file.write_all(&chunk)?;
    }
    file.sync_all()
}

/// Runs a tool of the system to its end; answers what it said.
fn tool(command: &mut Command) -> Result<String, BenchError> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| match error.kind() {
        ErrorKind::NotFound => BenchError::Unusable(format!("{name} is not installed")),
        _ => BenchError::Io { what: format!("running {name}"), source: error },
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(BenchError::Child {
        what: name,
        status: output.status.to_string(),
        words: String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or_default().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_that_is_not_there_is_named() {
        let error = tool(&mut Command::new("mkfs.nothing")).unwrap_err();
        assert_eq!(error.to_string(), "mkfs.nothing is not installed");
    }

    #[test]
    fn what_the_kernel_has_is_read_from_its_list() {
        let list = "nodev\tsysfs\nnodev\ttmpfs\n\text4\n";
        assert!(lists(list, "ext4") && lists(list, "tmpfs"));
        assert!(!lists(list, "xfs") && !lists(list, "nodev"));
        assert_eq!(Journalled::Xfs.unknown_to_kernel().to_string(), "this kernel has no xfs");
    }
}
