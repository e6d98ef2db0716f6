//! Operations carried out by plain libc calls, below a root path: on the kernel's file systems to
//! check the model, on Cuesta under `cuesta run` to check Cuesta.
//!
//! It must be `libc`, not rustix: what rustix issues by inline system calls, the preload door
//! never sees.

use crate::operations::lists::{list_name, list_value};
use crate::operations::operation::{
    Attributes, Extended, Kind, Operation, Outcome, PathText, SetCondition, Slot, Timestamp,
};
use crate::operations::sparse::Sparse;
use crate::operations::tree::{Content, Tree, TreeBuilder, join};
use libc::c_int;
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::ffi::{CStr, CString};

/// The world below one directory.
pub struct Posix {
    root: Vec<u8>,
    slots: BTreeMap<Slot, Descriptor>,
}

/// When what a path names was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// Which inode it is.
    pub inode: u64,
    /// Its content.
    pub modified: Timestamp,
    /// Anything about it.
    pub changed: Timestamp,
}

/// A descriptor closed on drop.
struct Descriptor(c_int);

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: the descriptor is ours alone.
        unsafe { libc::close(self.0) };
    }
}

impl Posix {
    /// Operations' paths are taken below `root`, which does not end in a slash (empty: from `/`).
    pub fn new(root: &str) -> Posix {
        Posix { root: root.as_bytes().to_vec(), slots: BTreeMap::new() }
    }

    /// Carries out one call.
    pub fn apply(&mut self, operation: &Operation) -> Result<Outcome, Errno> {
        use Operation::*;
        match operation {
            Open { slot, path, flags, mode } => self.open(*slot, path, flags.bits(), *mode),
            OpenUnnamed { slot, path, mode, exclusive } => {
                let exclusive = if *exclusive { libc::O_EXCL } else { 0 };
                self.open(*slot, path, libc::O_TMPFILE | libc::O_RDWR | exclusive, *mode)
            }
            LinkOpen { slot, new } => {
                let fd = self.fd(*slot)?;
                let to = self.below_root(new)?;
                const AT: c_int = libc::AT_FDCWD;
                // Without a path only the privileged may, and without /proc there is no other way.
                let name = CString::new(format!("/proc/self/fd/{fd}")).map_err(|_| Errno::INVAL)?;
                // SAFETY: the paths are NUL-terminated and outlive the calls.
                done(unsafe {
                    match libc::access(c"/proc/self/fd".as_ptr(), libc::F_OK) {
                        0 => libc::linkat(AT, name.as_ptr(), AT, to.as_ptr(), libc::AT_SYMLINK_FOLLOW),
                        _ => libc::linkat(fd, c"".as_ptr(), AT, to.as_ptr(), libc::AT_EMPTY_PATH),
                    }
                })
            }
            Close { slot } => self.slots.remove(slot).map(|_| Outcome::Done).ok_or(Errno::BADF),
            Write { slot, data } => {
                let (fd, bytes) = (self.fd(*slot)?, data.bytes());
                // SAFETY: the buffer is valid for its length.
                count(unsafe { libc::write(fd, bytes.as_ptr().cast(), bytes.len()) }).map(Outcome::Written)
            }
            Pwrite { slot, offset, data } => {
                let (fd, bytes) = (self.fd(*slot)?, data.bytes());
                // SAFETY: the buffer is valid for its length.
                count(unsafe { libc::pwrite(fd, bytes.as_ptr().cast(), bytes.len(), *offset as i64) })
                    .map(Outcome::Written)
            }
            Read { slot, length } => {
                let (fd, mut bytes) = (self.fd(*slot)?, vec![0u8; *length as usize]);
                // SAFETY: the buffer is valid for its length.
                let got = count(unsafe { libc::read(fd, bytes.as_mut_ptr().cast(), bytes.len()) })?;
                bytes.truncate(got);
                Ok(Outcome::Bytes(bytes))
            }
            Pread { slot, offset, length } => {
                let (fd, mut bytes) = (self.fd(*slot)?, vec![0u8; *length as usize]);
                // SAFETY: the buffer is valid for its length.
                let got = count(unsafe {
                    libc::pread(fd, bytes.as_mut_ptr().cast(), bytes.len(), *offset as i64)
                })?;
                bytes.truncate(got);
                Ok(Outcome::Bytes(bytes))
            }
            Seek { slot, offset } => {
                let fd = self.fd(*slot)?;
                // SAFETY: no memory is involved.
                let at = unsafe { libc::lseek(fd, *offset as i64, libc::SEEK_SET) };
                count(at as isize).map(|_| Outcome::Done)
            }
            Ftruncate { slot, length } => {
                let fd = self.fd(*slot)?;
                // SAFETY: no memory is involved.
                done(unsafe { libc::ftruncate(fd, *length as i64) })
            }
            Fallocate { slot, mode, offset, length } => {
                let fd = self.fd(*slot)?;
                // SAFETY: no memory is involved.
                done(unsafe { libc::fallocate(fd, mode.bits(), *offset as i64, *length as i64) })
            }
            Fsync { slot } => {
                let fd = self.fd(*slot)?;
                // SAFETY: no memory is involved.
                done(unsafe { libc::fsync(fd) })
            }
            Fchmod { slot, mode } => {
                let fd = self.fd(*slot)?;
                // SAFETY: no memory is involved.
                done(unsafe { libc::fchmod(fd, *mode) })
            }
            Fstat { slot } => {
                let fd = self.fd(*slot)?;
                // SAFETY: fstat fills the whole struct when it succeeds.
                stat(|into| unsafe { libc::fstat(fd, into) })
                    .map(|(_, attributes)| Outcome::Attributes(attributes))
            }
            FsetExtended { slot, name, value } => {
                let (fd, name, bytes) = (self.fd(*slot)?, attribute(name)?, value.bytes());
                // SAFETY: the name is NUL-terminated and the buffer valid for its length.
                done(unsafe { libc::fsetxattr(fd, name.as_ptr(), bytes.as_ptr().cast(), bytes.len(), 0) })
            }
            FlistExtended { slot } => {
                let fd = self.fd(*slot)?;
                // SAFETY: `sized` hands out a buffer valid for its length.
                sized(|into, bytes| unsafe { libc::flistxattr(fd, into.cast(), bytes) }).map(names)
            }
            SetExtended { .. }
            | RemoveExtended { .. }
            | GetExtended { .. }
            | ListExtended { .. }
            | SetList { .. } => self.apply_extended(operation),
            _ => self.apply_by_path(operation),
        }
    }

    /// The calls on extended attributes by path.
    fn apply_extended(&self, operation: &Operation) -> Result<Outcome, Errno> {
        use Operation::*;
        match operation {
            SetExtended { path, follow, name, value, condition } => {
                let (path, name, bytes) = (self.below_root(path)?, attribute(name)?, value.bytes());
                let flags = match condition {
                    SetCondition::Either => 0,
                    SetCondition::Create => libc::XATTR_CREATE,
                    SetCondition::Replace => libc::XATTR_REPLACE,
                };
                let call = if *follow { libc::setxattr } else { libc::lsetxattr };
                // SAFETY: path and name are NUL-terminated and the buffer valid for its length.
                done(unsafe { call(path.as_ptr(), name.as_ptr(), bytes.as_ptr().cast(), bytes.len(), flags) })
            }
            RemoveExtended { path, follow, name } => {
                let (path, name) = (self.below_root(path)?, attribute(name)?);
                let call = if *follow { libc::removexattr } else { libc::lremovexattr };
                // SAFETY: path and name are NUL-terminated.
                done(unsafe { call(path.as_ptr(), name.as_ptr()) })
            }
            GetExtended { path, follow, name } => {
                get_extended(&self.below_root(path)?, &attribute(name)?, *follow).map(Outcome::Bytes)
            }
            SetList { path, default, list } => {
                let (path, name) = (self.below_root(path)?, attribute(&list_name(*default))?);
                let bytes = list_value(list);
                // SAFETY: path and name are NUL-terminated and the buffer valid for its length.
                done(unsafe {
                    libc::setxattr(path.as_ptr(), name.as_ptr(), bytes.as_ptr().cast(), bytes.len(), 0)
                })
            }
            ListExtended { path, follow } => list_extended(&self.below_root(path)?, *follow).map(names),
            _ => unreachable!("other calls are served elsewhere"),
        }
    }

    /// The calls that take no descriptor.
    fn apply_by_path(&self, operation: &Operation) -> Result<Outcome, Errno> {
        use Operation::*;
        let mut paths = Vec::new();
        match operation {
            Truncate { path, .. } | Mkdir { path, .. } | Rmdir { path } | Unlink { path } => paths.push(path),
            MakeNode { path, .. } => paths.push(path),
            Chmod { path, .. } | Lchown { path, .. } | Utimens { path, .. } => paths.push(path),
            Stat { path } | Lstat { path } | Readlink { path } | Readdir { path } => paths.push(path),
            Symlink { path, .. } => paths.push(path),
            Link { existing: from, new: to }
            | Rename { from, to }
            | RenameExchange { from, to }
            | RenameNoReplace { from, to } => paths.extend([from, to]),
            _ => unreachable!("calls on slots are served by apply"),
        }
        let paths = paths.into_iter().map(|path| self.below_root(path)).collect::<Result<Vec<_>, _>>()?;
        let path = paths[0].as_ptr();
        let other = paths.get(1).map_or(path, |path| path.as_ptr());
        const AT: c_int = libc::AT_FDCWD;
        // SAFETY: every path is a NUL-terminated string that outlives the call.
        unsafe {
            match operation {
                Truncate { length, .. } => done(libc::truncate(path, *length as i64)),
                Mkdir { mode, .. } => done(libc::mkdir(path, *mode)),
                MakeNode { kind, mode, device, .. } => done(libc::mknod(path, kind.bits() | mode, *device)),
                Rmdir { .. } => done(libc::rmdir(path)),
                Unlink { .. } => done(libc::unlink(path)),
                Link { .. } => done(libc::link(path, other)),
                Rename { .. } => done(libc::rename(path, other)),
                RenameExchange { .. } => done(libc::renameat2(AT, path, AT, other, libc::RENAME_EXCHANGE)),
                RenameNoReplace { .. } => done(libc::renameat2(AT, path, AT, other, libc::RENAME_NOREPLACE)),
                Chmod { mode, .. } => done(libc::chmod(path, *mode)),
                Lchown { uid, gid, .. } => done(libc::lchown(path, *uid, *gid)),
                Symlink { target, .. } => {
                    let target = CString::new(target.as_bytes()).map_err(|_| Errno::INVAL)?;
                    done(libc::symlink(target.as_ptr(), path))
                }
                Utimens { modified, .. } => {
                    let time =
                        libc::timespec { tv_sec: modified.seconds, tv_nsec: i64::from(modified.nanoseconds) };
                    done(libc::utimensat(AT, path, [time, time].as_ptr(), 0))
                }
                Stat { .. } => {
                    stat(|into| libc::stat(path, into)).map(|(_, found)| Outcome::Attributes(found))
                }
                Lstat { .. } => {
                    stat(|into| libc::lstat(path, into)).map(|(_, found)| Outcome::Attributes(found))
                }
                Readlink { .. } => readlink(&paths[0]).map(Outcome::Target),
                Readdir { .. } => readdir(&paths[0]).map(Outcome::Names),
                _ => unreachable!("calls on slots are served by apply"),
            }
        }
    }

    /// When what a path names was changed.
    pub fn times(&self, path: &PathText) -> Result<Times, Errno> {
        let full = self.below_root(path)?;
        // SAFETY: the path is NUL-terminated; lstat fills the whole struct when it succeeds.
        let (raw, _) = stat(|into| unsafe { libc::lstat(full.as_ptr(), into) })?;
        let time = |seconds, nanoseconds: i64| Timestamp { seconds, nanoseconds: nanoseconds as u32 };
        Ok(Times {
            inode: raw.st_ino,
            modified: time(raw.st_mtime, raw.st_mtime_nsec),
            changed: time(raw.st_ctime, raw.st_ctime_nsec),
        })
    }

    /// Everything below the root.
    pub fn tree(&self) -> Result<Tree, Errno> {
        let mut builder = TreeBuilder::default();
        self.walk(&PathText::from("/"), &mut builder)?;
        Ok(builder.finish())
    }

    fn walk(&self, path: &PathText, builder: &mut TreeBuilder) -> Result<(), Errno> {
        let full = self.below_root(path)?;
        // SAFETY: the path is NUL-terminated; lstat fills the whole struct when it succeeds.
        let (raw, attributes) = stat(|into| unsafe { libc::lstat(full.as_ptr(), into) })?;
        let content = match attributes.kind {
            Kind::Symlink => Content::Symlink(readlink(&full)?),
            Kind::File => Content::File(read_whole(&full, attributes.size)?),
            Kind::Directory => {
                for name in readdir(&full)? {
                    self.walk(&join(path, name.as_bytes()), builder)?;
                }
                Content::Directory
            }
            Kind::Pipe | Kind::Socket | Kind::CharacterDevice | Kind::BlockDevice => {
                Content::Node { device: raw.st_rdev }
            }
        };
        builder.add(path.clone(), raw.st_ino, attributes, content, all_extended(&full)?);
        Ok(())
    }

    fn open(&mut self, slot: Slot, path: &PathText, flags: c_int, mode: u32) -> Result<Outcome, Errno> {
        self.slots.remove(&slot);
        let path = self.below_root(path)?;
        let bits = flags | libc::O_CLOEXEC;
        // SAFETY: the path is NUL-terminated.
        let fd = count(unsafe { libc::open(path.as_ptr(), bits, mode) } as isize)?;
        self.slots.insert(slot, Descriptor(fd as c_int));
        Ok(Outcome::Done)
    }

    fn fd(&self, slot: Slot) -> Result<c_int, Errno> {
        self.slots.get(&slot).map(|descriptor| descriptor.0).ok_or(Errno::BADF)
    }

    fn below_root(&self, path: &PathText) -> Result<CString, Errno> {
        let root: &[u8] = if path.as_bytes().is_empty() { b"" } else { &self.root };
        CString::new([root, path.as_bytes()].concat()).map_err(|_| Errno::INVAL)
    }
}

fn count(result: isize) -> Result<usize, Errno> {
    usize::try_from(result)
        .map_err(|_| Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO))
}

fn done(result: c_int) -> Result<Outcome, Errno> {
    count(result as isize).map(|_| Outcome::Done)
}

/// A stat, as the kernel has it and as we have.
pub(crate) fn stat(call: impl FnOnce(*mut libc::stat) -> c_int) -> Result<(libc::stat, Attributes), Errno> {
    let mut raw = std::mem::MaybeUninit::<libc::stat>::zeroed();
    done(call(raw.as_mut_ptr()))?;
    // SAFETY: zeroed is a valid stat, and the call may have filled it.
    let raw = unsafe { raw.assume_init() };
    let kind = Kind::of_mode(raw.st_mode);
    let attributes = Attributes {
        kind,
        mode: raw.st_mode & 0o7777,
        links: raw.st_nlink as u32,
        uid: raw.st_uid,
        gid: raw.st_gid,
        size: if kind == Kind::Directory { 0 } else { raw.st_size as u64 },
        modified: Some(Timestamp { seconds: raw.st_mtime, nanoseconds: raw.st_mtime_nsec as u32 }),
    };
    Ok((raw, attributes))
}

pub(crate) fn readlink(path: &CStr) -> Result<PathText, Errno> {
    let mut target = vec![0u8; libc::PATH_MAX as usize];
    // SAFETY: the path is NUL-terminated and the buffer valid for its length.
    let length = count(unsafe { libc::readlink(path.as_ptr(), target.as_mut_ptr().cast(), target.len()) })?;
    target.truncate(length);
    Ok(PathText(target))
}

pub(crate) fn readdir(path: &CStr) -> Result<Vec<PathText>, Errno> {
    // SAFETY: the path is NUL-terminated.
    let stream = unsafe { libc::opendir(path.as_ptr()) };
    if stream.is_null() {
        return count(-1).map(|_| Vec::new());
    }
    let mut names = Vec::new();
    loop {
        // SAFETY: the stream is open; an entry is valid until the next readdir, and its name is
        // NUL-terminated.
        let name = unsafe {
            let entry = libc::readdir(stream);
            if entry.is_null() {
                break;
            }
            CStr::from_ptr((&raw const (*entry).d_name).cast()).to_bytes()
        };
        if name != b"." && name != b".." {
            names.push(PathText(name.to_vec()));
        }
    }
    // SAFETY: the stream is open and not used again.
    unsafe { libc::closedir(stream) };
    names.sort();
    Ok(names)
}

fn attribute(name: &PathText) -> Result<CString, Errno> {
    CString::new(name.as_bytes()).map_err(|_| Errno::INVAL)
}

/// What `call` fills a buffer with, once asked how long that is.
fn sized(mut call: impl FnMut(*mut u8, usize) -> isize) -> Result<Vec<u8>, Errno> {
    let mut bytes = vec![0; count(call(std::ptr::null_mut(), 0))?];
    let filled = count(call(bytes.as_mut_ptr(), bytes.len()))?;
    bytes.truncate(filled);
    Ok(bytes)
}

fn list_extended(path: &CStr, follow: bool) -> Result<Vec<u8>, Errno> {
    let call = if follow { libc::listxattr } else { libc::llistxattr };
    // SAFETY: the path is NUL-terminated, and `sized` hands out a buffer valid for its length.
    sized(|into, bytes| unsafe { call(path.as_ptr(), into.cast(), bytes) })
}

fn get_extended(path: &CStr, name: &CStr, follow: bool) -> Result<Vec<u8>, Errno> {
    let call = if follow { libc::getxattr } else { libc::lgetxattr };
    // SAFETY: path and name are NUL-terminated, and `sized` hands out a buffer valid for its length.
    sized(|into, bytes| unsafe { call(path.as_ptr(), name.as_ptr(), into.cast(), bytes) })
}

/// A list of names, sorted.
fn names(list: Vec<u8>) -> Outcome {
    let names = list.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let mut names: Vec<PathText> = names.map(|name| PathText(name.to_vec())).collect();
    names.sort();
    Outcome::Names(names)
}

/// The extended attributes of a file or link itself.
fn all_extended(path: &CStr) -> Result<Extended, Errno> {
    let mut extended = Extended::new();
    for name in list_extended(path, false)?.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let name = PathText(name.to_vec());
        let value = get_extended(path, &attribute(&name)?, false)?;
        extended.insert(name, value);
    }
    Ok(extended)
}

/// The content of a file, holes and all, read in pieces so that a huge sparse one costs no memory.
fn read_whole(path: &CStr, size: u64) -> Result<Sparse, Errno> {
    // SAFETY: the path is NUL-terminated.
    let fd = count(unsafe { libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) } as isize)?;
    let file = Descriptor(fd as c_int);
    let mut content = Sparse::default();
    let mut buffer = vec![0u8; 1 << 20];
    let mut offset = 0;
    loop {
        // SAFETY: the buffer is valid for its length.
        let got =
            count(unsafe { libc::pread(file.0, buffer.as_mut_ptr().cast(), buffer.len(), offset as i64) })?;
        if got == 0 {
            break;
        }
        content.write(offset, &buffer[..got]);
        offset += got as u64;
    }
    content.set_size(offset);
    if offset == size { Ok(content) } else { Err(Errno::IO) }
}
