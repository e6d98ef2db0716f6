//! Writing to a disk past the kernel's pages, from mapped memory: the bytes are durable then, and cost the disk's time alone.

use crate::disk::aio::{Queue, Request};
use crate::disk::vigil::Vigil;
use crate::error::{AccessError, MediaError};
use crate::memory::shared::SharedMemory;
use crate::recorder;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Places and lengths are multiples of this, which is one of every disk's blocks.
pub const DIRECT_BYTES: u64 = 4096;

/// Pieces under way at once.
const PIECES_MAX: u32 = 2;

/// Bytes of a mapping, and where in a file they go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Where in the mapping.
    pub from: u64,
    /// How many.
    pub bytes: u64,
    /// Where in the file.
    pub to: u64,
}

/// Opens a file that exists to be written so. `None`: the file system it lies on does not do that.
pub fn open_direct(path: &Path) -> Result<Option<OwnedFd>, MediaError> {
    match rustix::fs::open(path, OFlags::RDWR | OFlags::DIRECT | OFlags::CLOEXEC, Mode::empty()) {
        Ok(file) => Ok(Some(file)),
        Err(Errno::INVAL) => Ok(None),
        Err(errno) => Err(MediaError::system("open file to write past the kernel's pages")(errno)),
    }
}

/// The way to write so; one at a time.
#[derive(Debug)]
pub struct DirectWriter {
    queue: Mutex<Queue>,
    vigil: Vigil,
}

impl DirectWriter {
    /// A writer whose waits keep the processor awake for so long. Where the kernel does not write so, or has no room for one more writer,
    /// it is an error.
    pub fn new(awake: Duration) -> Result<DirectWriter, MediaError> {
        let queue = Queue::new(PIECES_MAX).map_err(MediaError::system("set up asynchronous writes"))?;
        Ok(DirectWriter { queue: Mutex::new(queue), vigil: Vigil::new(awake) })
    }

    /// Writes pieces of `memory`, at most two, to a file that holds blocks there. They are durable when it returns. After an error
    /// any of them may be.
    pub fn write(&self, file: impl AsFd, memory: &SharedMemory, pieces: &[Piece]) -> Result<(), AccessError> {
        for piece in pieces {
            memory.range(piece.from, piece.bytes as usize)?;
        }
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut submitted, mut missing) = (0, 0);
        let mut written = Ok(());
        for piece in pieces {
            let start = memory.range(piece.from, piece.bytes as usize)?;
            recorder::on_direct_write(file.as_fd(), piece.to, start, piece.bytes as usize);
            written = queue.submit(&Request::durable_write(file.as_fd(), start, piece.bytes, piece.to));
            if written.is_err() {
                break;
            }
            (submitted, missing) = (submitted + 1, missing + piece.bytes);
        }
        for _ in 0..submitted {
            self.vigil.watch(|| queue.has_done());
            match queue.take() {
                Ok(bytes) => missing -= bytes.min(missing),
                Err(errno) => written = Err(errno),
            }
        }
        if missing > 0 {
            written = written.and(Err(Errno::IO));
        }
        written.map_err(AccessError::Unwritten)?;
        recorder::record_file_sync(file.as_fd());
        Ok(())
    }
}
