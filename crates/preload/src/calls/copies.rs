//! Copies of programs that lie in the store, in sealed memory files: the kernel cannot read them there.
//!
//! A shell starts the same programs again and again, each from a child that has its memory but not its
//! descriptors (vfork). So a child that had to make a copy says so, and when this happens again the process makes
//! one for those to come, before its next child. A copy is of one version of the file, and used for no other.

use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, FromRawFd as _, IntoRawFd as _, OwnedFd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use cuesta_format::InodeNumber;
use cuesta_libfs::{OpenFile, Version};
use rustix::fs::{MemfdFlags, SealFlags};

use super::{Failure, running};
use crate::{credentials, descriptors, process, thread};

/// Copies kept, and the largest of them: what a process holds of memory stays below their product.
const KEPT_MAX: usize = 4;
const KEPT_BYTES_MAX: u64 = 8 << 20;
const BUFFER_BYTES: usize = 1 << 20;
/// No inode has this number.
const NONE: u64 = 0;

/// The last one used stands last.
static KEPT: Mutex<Vec<Kept>> = Mutex::new(Vec::new());
/// The program vfork children had to copy again.
static WANTED: AtomicU64 = AtomicU64::new(NONE);
/// Programs they had to copy, each where its number says.
static MISSED: [AtomicU64; 16] = [const { AtomicU64::new(NONE) }; 16];

#[derive(Clone, Copy)]
struct Kept {
    version: Version,
    fd: i32,
    /// Number of the memory file behind it.
    memory: u64,
}

/// A copy to execute.
#[derive(Debug)]
pub struct ProgramCopy {
    fd: i32,
    /// Made for this one exec.
    _own: Option<OwnedFd>,
}

impl ProgramCopy {
    /// Of the open `file`.
    pub fn of(file: &OpenFile) -> Result<Self, Failure> {
        let client = process::client()?;
        let version = client.version(file)?;
        running::mark(client, file.inode());
        match find(version) {
            Some(Kept { fd, .. }) => Ok(Self { fd, _own: None }),
            None => {
                if thread::is_vforked() && client.stat_open(file)?.record.size <= KEPT_BYTES_MAX {
                    want(version.inode().0);
                }
                let (own, _bytes) = make(file)?;
                Ok(Self { fd: own.as_raw_fd(), _own: Some(own) })
            }
        }
    }

    /// Its descriptor.
    pub fn descriptor(&self) -> i32 {
        self.fd
    }
}

fn find(version: Version) -> Option<Kept> {
    let mut kept = KEPT.try_lock().ok()?;
    let place = kept.iter().position(|copy| copy.version == version)?;
    let found = kept[place];
    kept[place..].rotate_left(1);
    // What another thread keeps since a vfork is not among the child's descriptors.
    rustix::fs::fstat(borrow(found.fd)).is_ok_and(|stat| stat.st_ino == found.memory).then_some(found)
}

fn want(inode: u64) {
    if MISSED[(inode % MISSED.len() as u64) as usize].swap(inode, Ordering::Relaxed) == inode {
        WANTED.store(inode, Ordering::Relaxed);
    }
}

/// A process is about to make a child: what the last one missed is there for this one.
pub fn before_child() {
    let inode = WANTED.swap(NONE, Ordering::Relaxed);
    if inode != NONE {
        // Without it the child makes a copy of its own, and says what is wrong.
        let _ = keep(InodeNumber(inode));
    }
}

/// This is the child of a fork: its session, when it has one, counts versions anew.
pub fn after_fork() {
    match KEPT.lock() {
        Ok(mut kept) => kept.clear(),
        Err(poisoned) => poisoned.into_inner().clear(),
    }
}

#[cold]
fn keep(inode: InodeNumber) -> Result<(), Failure> {
    let client = process::client()?;
    let file = client.reopen(&credentials::effective(), inode, libc::O_RDONLY, 0)?;
    let kept = keep_open(&file);
    client.close(file)?;
    kept
}

fn keep_open(file: &OpenFile) -> Result<(), Failure> {
    let client = process::client()?;
    let version = client.version(file)?;
    let (copy, bytes) = make(file)?;
    if client.version(file)? != version || bytes > KEPT_BYTES_MAX {
        return Ok(());
    }
    let Ok(mut kept) = KEPT.lock() else { return Ok(()) };
    let is_other = |copy: &Kept| copy.version.inode() != version.inode();
    let is_full = |kept: &[Kept]| kept.len() >= KEPT_MAX;
    while let Some(old) = kept.iter().position(|copy| !is_other(copy)).or(is_full(&kept).then_some(0)) {
        let old = kept.remove(old).fd;
        descriptors::hide(old, false);
        // SAFETY: it was kept here, and nowhere else.
        drop(unsafe { OwnedFd::from_raw_fd(old) });
    }
    let memory = rustix::fs::fstat(&copy)?.st_ino;
    let fd = copy.into_raw_fd();
    descriptors::hide(fd, true);
    kept.push(Kept { version, fd, memory });
    Ok(())
}

fn borrow(fd: i32) -> BorrowedFd<'static> {
    // SAFETY: used for one call each; a descriptor closed meanwhile answers EBADF.
    unsafe { BorrowedFd::borrow_raw(fd) }
}

/// A new copy, out of the way of the program's descriptors, and its size.
fn make(file: &OpenFile) -> Result<(OwnedFd, u64), Failure> {
    let client = process::client()?;
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let memory = rustix::fs::memfd_create(running::name(client, file.inode()), flags)?;
    let memory = process::set_aside(memory.as_fd())?;
    let mut buffer = vec![0u8; BUFFER_BYTES];
    let mut bytes = 0;
    loop {
        let count = client.pread(file, &mut [buffer.as_mut_slice().into()], bytes as i64)?;
        if count == 0 {
            break;
        }
        let mut written = 0;
        while written < count {
            written += rustix::io::pwrite(&memory, &buffer[written..count], bytes + written as u64)?;
        }
        bytes += count as u64;
    }
    rustix::fs::fcntl_add_seals(
        &memory,
        SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL,
    )?;
    Ok((memory, bytes))
}
