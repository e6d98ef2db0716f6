//! Making a mount and taking it away: by the kernel's own calls where that is allowed, or else by `fusermount3`, which
//! distributions install for everybody else.

use crate::device::Device;
use crate::life::{Life, life};
use crate::options::Options;
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::mount::UnmountFlags;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType,
};
use std::ffi::CString;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What the kernel calls such mounts.
pub const KIND: &str = "fuse.cuesta";
/// Where the kernel lists them.
const MOUNTS: &str = "/proc/self/mountinfo";
/// The helper, and the variable that tells it where to send the device.
const HELPER: &str = "fusermount3";
const HELPER_SOCKET: &str = "_FUSE_COMMFD";

/// Why there is no mount, or it does not go.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The place cannot be a mount point.
    #[error("{0}")]
    Place(io::Error),
    /// It is no directory.
    #[error("it is not a directory")]
    NotDirectory,
    /// It has something in it.
    #[error("the directory is not empty (--nonempty mounts over what it holds)")]
    NotEmpty,
    /// Something is mounted there.
    #[error("something is mounted there already")]
    Taken,
    /// Something is, and who serves it does not answer.
    #[error(
        "a store is mounted there already, and its process does not answer (cuesta unmount --lazy takes it away)"
    )]
    Silent,
    /// Nothing is.
    #[error("no store is mounted there")]
    NotMounted,
    /// It cannot be made read only.
    #[error("it is in use: a program has a file open for writing there (fuser -m names it)")]
    Written,
    /// The options of a mount are the administrator's.
    #[error("only root may change the options of a mount")]
    OnlyRoot,
    /// Somebody uses it.
    #[error("it is in use: a program has a file or its working directory there (fuser -m names it)")]
    InUse,
    /// The kernel cannot do it.
    #[error("FUSE is not to be had here: {0} (is the kernel module loaded, and /dev/fuse there?)")]
    NoFuse(Errno),
    /// It would not.
    #[error("the kernel refuses: {0}")]
    Refused(Errno),
    /// Only root can without the helper.
    #[error("only root may mount without {HELPER}, which is not installed (Debian: fuse3)")]
    NoHelper,
    /// The helper would not.
    #[error("{HELPER}: {0}")]
    Helper(String),
}

/// What is mounted at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mounted {
    /// The kernel's number for the mount; that of one that is gone may be another's.
    pub number: u64,
    /// Where.
    pub at: PathBuf,
    /// What is shown as its source: whoever made the mount may have said anything.
    pub source: String,
    /// Who made it.
    pub user: u32,
}

/// The mounts of stores that this process can see, the innermost of each place last.
pub fn mounts() -> io::Result<Vec<Mounted>> {
    let mut found = Vec::new();
    for line in BufReader::new(File::open(MOUNTS)?).split(b'\n') {
        found.extend(mounted(&line?));
    }
    Ok(found)
}

/// What a line of the kernel's list says: six fields and more, a dash, the kind, the source and what the file system says of
/// itself. Where only a part of the tree is bound there is no store.
fn mounted(line: &[u8]) -> Option<Mounted> {
    let mut fields = line.split(|&byte| byte == b' ');
    let number = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    let (root, at) = (fields.nth(2)?, fields.next()?);
    if root != b"/" {
        return None;
    }
    let mut behind = fields.skip_while(|&field| field != b"-").skip(1);
    if behind.next()? != KIND.as_bytes() {
        return None;
    }
    let source = String::from_utf8_lossy(&unescaped(behind.next()?)).into_owned();
    let own = std::str::from_utf8(behind.next()?).ok()?;
    let user = own.split(',').find_map(|word| word.strip_prefix("user_id=")?.parse().ok())?;
    Some(Mounted { number, at: PathBuf::from(std::ffi::OsString::from_vec(unescaped(at))), source, user })
}

/// Spaces and the like stand there in octal.
fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, behind)) = rest.split_first() {
        let octal = behind.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()).filter(|_| byte == b'\\') {
            Some(escaped) => {
                out.push(escaped);
                rest = &behind[3..];
            }
            None => {
                out.push(byte);
                rest = behind;
            }
        }
    }
    out
}

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

/// What the kernel's list says of the mounts of stores at a place, one line each.
pub(crate) fn mount_lines(at: &Path) -> io::Result<Vec<Vec<u8>>> {
    let mut found = Vec::new();
    for line in BufReader::new(File::open(MOUNTS)?).split(b'\n') {
        let line = line?;
        if mounted(&line).is_some_and(|mounted| mounted.at == at) {
            found.push(line);
        }
    }
    Ok(found)
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

/// The path without symbolic links. The place itself is not looked at: who serves it may be dead.
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

pub(crate) fn unmount_by_helper(at: &Path, lazy: bool) -> Result<(), MountError> {
    let mut command = Command::new(HELPER);
    command.arg(if lazy { "-uz" } else { "-u" }).arg("--").arg(at).stdin(Stdio::null());
    let output = command.output().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => MountError::NoHelper,
        _ => MountError::Helper(error.to_string()),
    })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("busy") {
        return Err(MountError::InUse);
    }
    Err(MountError::Helper(said.lines().next().unwrap_or("it failed").to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt as _;

    #[test]
    fn lines_of_the_kernel_s_list_are_read() {
        let line =
            br"97 66 0:51 / /mnt/a\040b rw,nosuid shared:5 - fuse.cuesta /srv/my\040store rw,user_id=7";
        let found = mounted(line).unwrap();
        assert_eq!(
            (found.at.as_os_str().as_bytes(), found.source.as_str()),
            (b"/mnt/a b".as_slice(), "/srv/my store")
        );
        assert_eq!((found.number, found.user), (97, 7));
        assert_eq!(mounted(br"x 66 0:51 / /mnt rw - fuse.cuesta /store rw,user_id=0"), None);
        assert_eq!(mounted(br"97 66 0:51 / /mnt rw - fuse.sshfs somewhere rw,user_id=0"), None);
        assert_eq!(mounted(br"97 66 0:51 /part /mnt rw - fuse.cuesta /store rw,user_id=0"), None);
        assert_eq!(mounted(b""), None);
        assert_eq!(unescaped(br"a\b\0"), br"a\b\0");
    }

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
