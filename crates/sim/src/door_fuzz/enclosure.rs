//! A place that sequences cannot leave: root's calls would otherwise change the machine (`chmod /`, `unlink /dev/null`).
//!
//! ```text
//! /                  a file system in memory, read-only
//! /usr /etc /proc …  the machine's, read-only, where the machine has them
//! /dev               null and zero, nodes of the enclosure's own, read-only
//! /tmp, /dev/shm     file systems in memory
//! FOLDER             where the players play, and the store; and what they run, read-only
//! ```
//!
//! A process that is not root's cannot change what is not its user's, and has no enclosure.

use std::ffi::CString;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

/// What programs need of the machine.
const READ_ONLY: &[&str] = &["usr", "etc", "proc", "bin", "sbin", "lib", "lib64"];

fn text(path: &Path) -> CString {
    CString::new(path.as_os_str().as_encoded_bytes()).unwrap_or_default()
}

fn mount(source: &Path, target: &Path, kind: &str, flags: libc::c_ulong) -> io::Result<()> {
    let (source, target, kind) = (text(source), text(target), CString::new(kind).unwrap_or_default());
    // SAFETY: paths and a name that end with a zero, and no further data.
    let answer =
        unsafe { libc::mount(source.as_ptr(), target.as_ptr(), kind.as_ptr(), flags, std::ptr::null()) };
    let error = io::Error::last_os_error();
    let target = target.to_string_lossy().into_owned();
    if answer == 0 { Ok(()) } else { Err(io::Error::new(error.kind(), format!("mount {target}: {error}"))) }
}

/// Makes a mount one that nothing can be changed in.
fn forbid_changes(target: &Path) -> io::Result<()> {
    mount(target, target, "", libc::MS_BIND | libc::MS_REMOUNT | libc::MS_RDONLY)
}

/// Shows what the machine has at `path` at the same place below `root`.
fn show(root: &Path, path: &Path, may_change: bool) -> io::Result<()> {
    let target = root.join(path.strip_prefix("/").unwrap_or(path));
    std::fs::create_dir_all(&target)?;
    mount(path, &target, "", libc::MS_BIND)?;
    if may_change { Ok(()) } else { forbid_changes(&target) }
}

fn node(root: &Path, name: &str, device: libc::dev_t) -> io::Result<()> {
    let path = root.join("dev").join(name);
    // SAFETY: a path that ends with a zero.
    if unsafe { libc::mknod(text(&path).as_ptr(), libc::S_IFCHR | 0o666, device) } != 0 {
        return Err(io::Error::last_os_error());
    }
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666))
}

/// Moves this process into an enclosure of its own that is made at `root`, an empty directory. It may change what is below
/// `folders`, and run what is in `programs`.
///
/// # Errors
///
/// A step of it fails; then nothing must be played.
pub fn enter(root: &Path, folders: &[PathBuf], programs: &Path) -> io::Result<()> {
    // SAFETY: asks, and gives this process mounts of its own.
    unsafe {
        if libc::geteuid() != 0 {
            return Ok(());
        }
        if libc::unshare(libc::CLONE_NEWNS) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    mount(Path::new("none"), Path::new("/"), "", libc::MS_REC | libc::MS_PRIVATE)?;
    mount(Path::new("none"), root, "tmpfs", 0)?;
    std::fs::set_permissions(root, std::fs::Permissions::from_mode(0o755))?;
    for name in READ_ONLY {
        let path = Path::new("/").join(name);
        match path.symlink_metadata() {
            Ok(found) if found.is_symlink() => symlink(std::fs::read_link(&path)?, root.join(name))?,
            Ok(_) => show(root, &path, false)?,
            Err(_) => {}
        }
    }
    std::fs::DirBuilder::new().mode(0o755).create(root.join("dev"))?;
    node(root, "null", libc::makedev(1, 3))?;
    node(root, "zero", libc::makedev(1, 5))?;
    symlink("/proc/self/fd", root.join("dev/fd"))?;
    for name in ["tmp", "dev/shm"] {
        std::fs::create_dir(root.join(name))?;
        mount(Path::new("none"), &root.join(name), "tmpfs", 0)?;
        std::fs::set_permissions(root.join(name), std::fs::Permissions::from_mode(0o1777))?;
    }
    show(root, programs, false)?;
    for folder in folders {
        show(root, folder, true)?;
    }
    forbid_changes(root)?;
    let entered = text(root);
    // SAFETY: a path that ends with a zero.
    if unsafe { libc::chroot(entered.as_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    std::env::set_current_dir("/")
}

/// Fails unless nothing of the machine can be changed: the player of a user who could asks before it plays.
///
/// # Errors
///
/// The root directory can be changed.
pub fn check() -> io::Result<()> {
    let found = std::fs::symlink_metadata("/")?;
    // SAFETY: asks.
    if unsafe { libc::geteuid() } != 0 && found.uid() == 0 {
        return Ok(());
    }
    match std::fs::set_permissions("/", std::fs::Permissions::from_mode(found.mode() & 0o7777)) {
        Err(error) if error.raw_os_error() == Some(libc::EROFS) => Ok(()),
        _ => Err(io::Error::other("sequences could change the machine: not played outside an enclosure")),
    }
}
