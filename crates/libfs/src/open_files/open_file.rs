//! An open file description: its inode, its flags, its offset, and what else it remembers. Opening and
//! closing are calls.

use crate::cache::inode::Inode;
use crate::errno::Error;
use crate::open_files::listing::Listing;
use crate::open_files::offset::Offset;
use crate::open_files::open_flags::STATUS_FLAGS;
use crate::open_files::open_handle::OpenHandle;
use crate::paths::credentials::Writer;
use crate::steering::read_ahead::ReadAhead;
use crate::steering::write_stream::WriteStream;
use crate::sync::{Arc, AtomicBool, AtomicI32, Mutex, Ordering};
use cuesta_format::{FileKind, InodeNumber};
use libc::{O_ACCMODE, O_APPEND, O_CREAT, O_EXCL, O_PATH, O_RDONLY, O_RDWR, O_TRUNC, O_WRONLY};

/// An open file description.
#[derive(Debug)]
pub struct OpenFile {
    pub(crate) open: OpenHandle,
    flags: AtomicI32,
    pub(crate) offset: Offset,
    /// The names of a directory when it was last read from the start.
    pub(crate) listing: Mutex<Option<Listing>>,
    /// The credentials that opened it, as far as a write needs them.
    pub(crate) writer: Writer,
    /// The inode was put into mapped mode through this file, or a write found it there.
    pub(crate) was_mapped: AtomicBool,
    pub(crate) read_ahead: ReadAhead,
    pub(crate) write_stream: WriteStream,
    /// SharedFS read it for this session, and has noted that it was read.
    pub(crate) was_read_there: AtomicBool,
    /// The rulesets of the process that opened it allow truncation.
    pub(crate) may_truncate: bool,
}

impl OpenFile {
    /// An open file at offset 0. It keeps the flags that `fcntl(F_GETFL)` shows.
    pub(crate) fn new(open: OpenHandle, flags: i32, writer: Writer, may_truncate: bool) -> OpenFile {
        let kept = flags & !(O_CREAT | O_EXCL | O_TRUNC | libc::O_NOCTTY | libc::O_CLOEXEC);
        OpenFile {
            open,
            flags: AtomicI32::new(kept),
            offset: Offset::default(),
            listing: Mutex::new(None),
            writer,
            was_mapped: AtomicBool::new(false),
            read_ahead: ReadAhead::default(),
            write_stream: WriteStream::default(),
            was_read_there: AtomicBool::new(false),
            may_truncate,
        }
    }

    /// Its inode.
    #[must_use]
    pub fn inode(&self) -> InodeNumber {
        self.open.inode().number
    }

    #[inline]
    pub(crate) fn inode_ref(&self) -> &Arc<Inode> {
        self.open.inode()
    }

    /// The kind of the file.
    #[inline]
    #[must_use]
    pub fn kind(&self) -> FileKind {
        self.open.kind()
    }

    /// The flags it was opened with that `fcntl(F_GETFL)` shows.
    #[must_use]
    pub fn flags(&self) -> i32 {
        self.flags.load(Ordering::Relaxed)
    }

    /// `fcntl(F_SETFL)`: flags that cannot be changed are ignored.
    pub fn set_flags(&self, flags: i32) {
        let kept = self.flags() & !STATUS_FLAGS;
        self.flags.store(kept | flags & STATUS_FLAGS, Ordering::Relaxed);
    }

    /// Where the next read or write starts.
    #[must_use]
    pub fn offset(&self) -> u64 {
        *self.offset.lock()
    }

    /// The offset, without waiting for a call that moves it. For the child of a fork, in which such a call of
    /// the parent never ends.
    #[must_use]
    pub fn offset_before_fork(&self) -> u64 {
        self.offset.get()
    }

    /// Sets the offset, for a door that shares offsets between processes.
    pub fn set_offset(&self, offset: u64) {
        *self.offset.lock() = offset;
    }

    #[inline]
    /// Whether writes go to the end.
    #[must_use]
    pub fn appends(&self) -> bool {
        self.flags() & O_APPEND != 0
    }

    #[inline]
    /// Whether it was opened to be read.
    pub fn check_readable(&self) -> Result<(), Error> {
        let flags = self.flags();
        if flags & O_PATH != 0 || !matches!(flags & O_ACCMODE, O_RDONLY | O_RDWR) {
            return Err(Error::AccessMode);
        }
        Ok(())
    }

    #[inline]
    /// Whether it was opened to be written.
    pub fn check_writable(&self) -> Result<(), Error> {
        let flags = self.flags();
        if flags & O_PATH != 0 || !matches!(flags & O_ACCMODE, O_WRONLY | O_RDWR) {
            return Err(Error::AccessMode);
        }
        Ok(())
    }

    /// Whether the file was opened for more than naming it (`O_PATH`).
    pub fn check_not_path(&self) -> Result<(), Error> {
        if self.flags() & O_PATH != 0 { Err(Error::AccessMode) } else { Ok(()) }
    }
}
