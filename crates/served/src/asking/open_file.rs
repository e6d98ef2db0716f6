//! An open file, as the asking end knows it.

use cuesta_format::{FileKind, InodeNumber};
use cuesta_libfs::Error;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

/// Flags that `fcntl(F_SETFL)` may change.
const STATUS_FLAGS: i32 = libc::O_APPEND | libc::O_NONBLOCK | libc::O_DIRECT | libc::O_NOATIME;

/// An open file. Its token keeps it open, not this.
#[derive(Debug)]
pub struct OpenFile {
    number: u64,
    inode: InodeNumber,
    kind: FileKind,
    flags: AtomicI32,
    /// It went with the daemon that had it open.
    is_lost: AtomicBool,
}

impl OpenFile {
    pub(crate) fn new(number: u64, inode: InodeNumber, kind: FileKind, flags: i32) -> OpenFile {
        let is_lost = AtomicBool::new(false);
        OpenFile { number, inode, kind, flags: AtomicI32::new(flags), is_lost }
    }

    /// Its number on its connection.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Its inode.
    #[must_use]
    pub fn inode(&self) -> InodeNumber {
        self.inode
    }

    /// Itself, unless it went with a daemon.
    pub fn there(&self) -> Result<&OpenFile, Error> {
        if self.is_lost.load(Ordering::Relaxed) { Err(Error::Disconnected) } else { Ok(self) }
    }

    /// What kind of file it is.
    #[must_use]
    pub fn kind(&self) -> FileKind {
        self.kind
    }

    /// The flags it was opened with, as `fcntl(F_GETFL)` shows them.
    #[must_use]
    pub fn flags(&self) -> i32 {
        self.flags.load(Ordering::Relaxed)
    }

    /// Whether it was opened to be read.
    pub fn check_readable(&self) -> Result<(), Error> {
        self.check_access(libc::O_RDONLY)
    }

    /// Whether it was opened to be written.
    pub fn check_writable(&self) -> Result<(), Error> {
        self.check_access(libc::O_WRONLY)
    }

    /// Whether more can be done with it than to name it (`O_PATH`).
    pub fn check_not_path(&self) -> Result<(), Error> {
        if self.flags() & libc::O_PATH != 0 { Err(Error::AccessMode) } else { Ok(()) }
    }

    pub(crate) fn note_flags(&self, flags: i32) {
        self.flags.store(self.flags() & !STATUS_FLAGS | flags & STATUS_FLAGS, Ordering::Relaxed);
    }

    pub(crate) fn note_whether_lost(&self, is_lost: bool) {
        self.is_lost.store(is_lost, Ordering::Relaxed);
    }

    fn check_access(&self, wanted: i32) -> Result<(), Error> {
        self.check_not_path()?;
        let mode = self.flags() & libc::O_ACCMODE;
        if mode == wanted || mode == libc::O_RDWR { Ok(()) } else { Err(Error::AccessMode) }
    }
}
