//! Making a mount and taking it away: by the kernel's own calls where that is allowed, or else by `fusermount3`, which
//! distributions install for everybody else.

use super::error::{HELPER, MountError};
use super::helper::unmount_by_helper;
use super::life::{Life, life};
use super::list::{KIND, mount_lines, mounts};
use super::options::Options;
use crate::kernel::device::Device;
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::mount::UnmountFlags;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType,
};
use std::ffi::CString;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The variable that tells the helper where to send the device.
const HELPER_SOCKET: &str = "_FUSE_COMMFD";

/// Makes sure that something can be mounted at `at`: a mount there whose server died goes.
pub fn prepare(at: &Path, non_empty: bool) -> Result<(), MountError> {
    let place = without_links(at).map_err(MountError::Place)?;
    while let Some(on_top) = mounts().map_err(MountError::Place)?.iter().rfind(|mounted| mounted.at == place)
    {
        match life(on_top) {
            Life::Gone => {}
            Life::Dead(remains) => remains.take_away()?,
            Life::Served | Life::Covered => return Err(MountError::Taken),
            Life::Silent => return Err(MountError::Silent),
            Life::OutOfReach(errno) => return Err(MountError::Place(errno.into())),
        }
    }
    let found = std::fs::metadata(at).map_err(MountError::Place)?;
    if !found.is_dir() {
        return Err(MountError::NotDirectory);
    }
    if !non_empty && std::fs::read_dir(at).map_err(MountError::Place)?.next().is_some() {
        return Err(MountError::NotEmpty);
    }
    Ok(())
}

/// Mounts at `at`, and answers the device whose requests are to be served.
pub fn mount(at: &Path, options: &Options) -> Result<Device, MountError> {
    match mount_directly(at, options) {
        Err(MountError::Refused(Errno::PERM) | MountError::NoFuse(Errno::ACCESS)) => {
            mount_by_helper(at, options)
        }
        mounted => mounted,
    }
}

fn mount_directly(at: &Path, options: &Options) -> Result<Device, MountError> {
    let device = Device::open().map_err(MountError::NoFuse)?;
    let other = if options.allow_other { ",allow_other" } else { "" };
    let data = format!(
        "fd={},rootmode=40000,user_id={},group_id={},default_permissions{other}",
        device.as_fd().as_raw_fd(),
        rustix::process::getuid().as_raw(),
        rustix::process::getgid().as_raw(),
    );
    let data = CString::new(data).map_err(|_| MountError::Refused(Errno::INVAL))?;
    rustix::mount::mount(options.source.as_str(), at, KIND, options.kernel_flags(), Some(data.as_c_str()))
        .map_err(|errno| match errno {
            Errno::NODEV => MountError::NoFuse(errno),
            errno => MountError::Refused(errno),
        })?;
    Ok(device)
}

/// The helper mounts, and sends the device over a socket that it inherits.
fn mount_by_helper(at: &Path, options: &Options) -> Result<Device, MountError> {
    let failed = |error: &dyn std::fmt::Display| MountError::Helper(error.to_string());
    let (ours, theirs) =
        rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
            .map_err(|errno| failed(&errno))?;
    let mut words = vec![
        "default_permissions".to_owned(),
        "subtype=cuesta".to_owned(),
        format!("fsname={}", options.source.replace('\\', "\\\\").replace(',', "\\,")),
    ];
    words.extend(options.words().into_iter().map(str::to_owned));
    let mut command = Command::new(HELPER);
    command
        .arg("-o")
        .arg(words.join(","))
        .arg("--")
        .arg(at)
        .env(HELPER_SOCKET, theirs.as_raw_fd().to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    // SAFETY: between fork and exec only one descriptor's flag is changed, by a system call.
    unsafe {
        let inherited = theirs.as_fd().as_raw_fd();
        command.pre_exec(move || {
            let inherited = rustix::fd::BorrowedFd::borrow_raw(inherited);
            Ok(fcntl_setfd(inherited, FdFlags::empty())?)
        });
    }
    let child = command.spawn().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => MountError::NoHelper,
        _ => failed(&error),
    })?;
    drop(theirs);
    let device = receive_device(&ours);
    let output = child.wait_with_output().map_err(|error| failed(&error))?;
    match device {
        Ok(Some(device)) => Ok(Device::from_file(device)),
        Ok(None) => {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(MountError::Helper(said.lines().next().unwrap_or("it sent no device").to_owned()))
        }
        Err(errno) => Err(failed(&errno)),
    }
}

fn receive_device(socket: &OwnedFd) -> Result<Option<OwnedFd>, Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    rustix::net::recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let rights = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    Ok(rights)
}

/// Gives a mount of a store other options: the `words`, and else those it has, unless these are all there are to be. When access
/// times move stays in either case if no word says it, as it does for the kernel.
pub fn remount(at: &Path, words: &[&str], are_all: bool) -> Result<(), MountError> {
    let at = without_links(at).map_err(MountError::Place)?;
    let listed = mount_lines(&at).map_err(MountError::Place)?;
    let mut options = listed.last().map(|line| Options::of_mounted(line)).ok_or(MountError::NotMounted)?;
    if are_all {
        options = Options { accessed: options.accessed, ..Options::default() };
    }
    for word in words {
        options.set(word);
    }
    rustix::mount::mount_remount(&at, options.kernel_flags(), c"").map_err(|errno| match errno {
        Errno::BUSY => MountError::Written,
        Errno::PERM => MountError::OnlyRoot,
        errno => MountError::Refused(errno),
    })
}

/// Takes a mount of a store away; with `lazy` from the tree at once, although it may be in use.
pub fn unmount(at: &Path, lazy: bool) -> Result<(), MountError> {
    let at = &without_links(at).map_err(MountError::Place)?;
    if !mounts().map_err(MountError::Place)?.iter().any(|mounted| mounted.at == *at) {
        std::fs::symlink_metadata(at).map_err(MountError::Place)?;
        return Err(MountError::NotMounted);
    }
    let flags = if lazy { UnmountFlags::DETACH } else { UnmountFlags::empty() } | UnmountFlags::NOFOLLOW;
    match rustix::mount::unmount(at, flags) {
        Ok(()) => Ok(()),
        Err(Errno::BUSY) => Err(MountError::InUse),
        Err(Errno::INVAL) => Err(MountError::NotMounted),
        Err(Errno::NOENT) => Err(MountError::Place(Errno::NOENT.into())),
        Err(Errno::PERM) => unmount_by_helper(at, lazy),
        Err(errno) => Err(MountError::Refused(errno)),
    }
}

/// The path without symbolic links. The place itself is not looked at: its process may be dead.
fn without_links(at: &Path) -> io::Result<PathBuf> {
    const LINKS_MAX: usize = 40;
    let mut at = std::path::absolute(at)?;
    for _ in 0..LINKS_MAX {
        let (Some(above), Some(name)) = (at.parent(), at.file_name()) else { return Ok(at) };
        let above = above.canonicalize()?;
        let place = above.join(name);
        match std::fs::read_link(&place) {
            Ok(target) => at = above.join(target),
            Err(_) => return Ok(place),
        }
    }
    Err(io::Error::from_raw_os_error(libc::ELOOP))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_that_cannot_be_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        assert!(matches!(prepare(&folder.path().join("none"), false), Err(MountError::Place(_))));
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert!(matches!(prepare(&file, false), Err(MountError::NotDirectory)));
        assert!(matches!(prepare(folder.path(), false), Err(MountError::NotEmpty)));
        assert!(prepare(folder.path(), true).is_ok());
        assert!(matches!(unmount(&folder.path().join("none"), false), Err(MountError::Place(_))));
        assert!(matches!(unmount(folder.path(), false), Err(MountError::NotMounted)));
        assert!(matches!(unmount(Path::new("/"), true), Err(MountError::NotMounted)));
    }
}
