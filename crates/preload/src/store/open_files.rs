//! Open files, and the descriptors that stand for those SharedFS serves.

use crate::descriptors::{self, kernel};
use cuesta_format::{FileKind, InodeNumber, Timestamp};
use cuesta_libfs::Error;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd as _, IntoRawFd as _, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// An open file.
#[derive(Clone, Debug)]
pub enum OpenFile {
    /// Of the process's own session.
    Own(Arc<cuesta_libfs::OpenFile>),
    /// With SharedFS.
    Served(Arc<ServedFile>),
}

/// An open file with SharedFS, and the descriptor that keeps it open.
#[derive(Debug)]
pub struct ServedFile {
    pub(super) file: cuesta_served::OpenFile,
    pub(super) token: Token,
}

/// A descriptor of this library's own that stands for an open file, and outlives its session.
#[derive(Debug)]
pub struct Token(AtomicI32);

/// Files that are open with SharedFS.
pub(crate) static SERVED: Mutex<Vec<Weak<ServedFile>>> = Mutex::new(Vec::new());

/// Of an inode: equal as long as nothing about it has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// As the process's own session knows it.
    Own(cuesta_libfs::Version),
    /// As SharedFS does.
    Served(InodeNumber, Timestamp, Timestamp, u64),
}

impl Version {
    /// The inode.
    pub fn inode(&self) -> InodeNumber {
        match self {
            Version::Own(version) => version.inode(),
            Version::Served(inode, ..) => *inode,
        }
    }
}

impl Token {
    /// Takes a descriptor in.
    pub fn new(file: OwnedFd) -> Self {
        descriptors::keep_hidden(file.as_raw_fd());
        Self(AtomicI32::new(file.into_raw_fd()))
    }

    /// One that was left to its number.
    pub fn of_number(number: i32) -> Self {
        Self(AtomicI32::new(number))
    }

    /// By its number.
    pub fn number(&self) -> i32 {
        self.0.load(Ordering::Acquire)
    }

    /// Leaves it to its number.
    pub fn into_number(self) -> i32 {
        self.0.swap(-1, Ordering::AcqRel)
    }

    /// One more for the same file.
    pub(super) fn copy(&self) -> Result<Self, Error> {
        kernel::set_aside(self.as_fd()).map(Self::new).map_err(|_| Error::Descriptors)
    }
}

impl AsFd for Token {
    fn as_fd(&self) -> BorrowedFd<'_> {
        kernel::borrow(self.number())
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        if let number @ 0.. = *self.0.get_mut() {
            descriptors::hide(number, false);
            // SAFETY: `new`, or the caller that gave the number, left the descriptor to this token alone.
            drop(unsafe { OwnedFd::from_raw_fd(number) });
        }
    }
}

impl ServedFile {
    /// The descriptor that keeps it open.
    pub fn token(&self) -> &Token {
        &self.token
    }
}

impl OpenFile {
    pub(super) fn served(token: OwnedFd, file: cuesta_served::OpenFile) -> Self {
        Self::known(ServedFile { file, token: Token::new(token) })
    }

    /// One that the next daemon is to know of.
    pub(super) fn known(served: ServedFile) -> Self {
        let served = Arc::new(served);
        let mut files = SERVED.lock().unwrap_or_else(PoisonError::into_inner);
        if files.len() == files.capacity() {
            files.retain(|file| file.strong_count() > 0);
        }
        files.push(Arc::downgrade(&served));
        OpenFile::Served(served)
    }

    #[inline]
    pub(super) fn own(&self) -> Result<&Arc<cuesta_libfs::OpenFile>, Error> {
        match self {
            OpenFile::Own(file) => Ok(file),
            OpenFile::Served(_) => Err(stranger()),
        }
    }

    pub(super) fn with_shared_fs(&self) -> Result<&cuesta_served::OpenFile, Error> {
        match self {
            OpenFile::Own(_) => Err(stranger()),
            OpenFile::Served(served) => served.file.there(),
        }
    }

    /// The descriptor that keeps it open, if one does.
    pub fn token(&self) -> Option<i32> {
        match self {
            OpenFile::Own(_) => None,
            OpenFile::Served(served) => Some(served.token.number()),
        }
    }

    /// It is kept open by the descriptor `to` from now on, if it was by `from` before.
    pub fn move_token(&self, from: i32, to: i32) -> bool {
        let OpenFile::Served(served) = self else { return false };
        served.token.0.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Its inode.
    pub fn inode(&self) -> InodeNumber {
        match self {
            OpenFile::Own(file) => file.inode(),
            OpenFile::Served(served) => served.file.inode(),
        }
    }

    /// What kind of file it is.
    #[inline]
    pub fn kind(&self) -> FileKind {
        match self {
            OpenFile::Own(file) => file.kind(),
            OpenFile::Served(served) => served.file.kind(),
        }
    }

    /// The flags `fcntl(F_GETFL)` shows.
    #[inline]
    pub fn flags(&self) -> i32 {
        match self {
            OpenFile::Own(file) => file.flags(),
            OpenFile::Served(served) => served.file.flags(),
        }
    }

    /// As LibFS has it; an offset that SharedFS keeps is not this process's to keep.
    pub fn offset_before_fork(&self) -> u64 {
        self.own().map_or(0, |file| file.offset_before_fork())
    }

    /// Sets it, where it is shared by memory.
    #[inline]
    pub fn set_offset(&self, offset: u64) {
        if let OpenFile::Own(file) = self {
            file.set_offset(offset);
        }
    }

    /// Whether writes go to the end.
    #[inline]
    pub fn appends(&self) -> bool {
        self.flags() & libc::O_APPEND != 0
    }

    /// Whether it was opened to be read.
    #[inline]
    pub fn check_readable(&self) -> Result<(), Error> {
        match self {
            OpenFile::Own(file) => file.check_readable(),
            OpenFile::Served(served) => served.file.check_readable(),
        }
    }

    /// Whether it was opened to be written.
    #[inline]
    pub fn check_writable(&self) -> Result<(), Error> {
        match self {
            OpenFile::Own(file) => file.check_writable(),
            OpenFile::Served(served) => served.file.check_writable(),
        }
    }

    /// Whether more can be done with it than to name it.
    #[inline]
    pub fn check_not_path(&self) -> Result<(), Error> {
        match self {
            OpenFile::Own(file) => file.check_not_path(),
            OpenFile::Served(served) => served.file.check_not_path(),
        }
    }
}

/// A file of one server is none of the other's.
pub(super) fn stranger() -> Error {
    Error::Disconnected
}
