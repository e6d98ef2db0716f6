//! Offsets that a session shares when it executes calls for other processes. Processes of the store's own
//! user share an offset by memory. Some processes that share the file do not have that memory: a process of
//! another user, which inherited the file, or one whose calls come by a mount. The memory also holds the
//! offsets of other files, so they must not have it.

use crate::errno::Error;
use crate::open_files::open_file::OpenFile;
use cuesta_format::Medium;
use cuesta_format::control::{CELL_HOLDER, CELL_MOVED, CELL_OFFSET, CELL_PROCESSES, PASSED_CELL_BYTES};
use cuesta_media::{Mapping, Protection};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, test_kill_process};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Largest memory file of offsets.
const BYTES_MAX: u64 = 64 << 20;

/// How long the offset may be in use by another process.
const PATIENCE: Duration = Duration::from_secs(2);

/// The offset of one file.
#[derive(Debug)]
pub struct SharedOffset {
    memory: Mapping,
    place: u64,
}

/// A shared offset in use.
#[derive(Debug)]
pub struct HeldOffset<'f> {
    shared: &'f SharedOffset,
    file: &'f OpenFile,
}

impl SharedOffset {
    /// The offset at `place` in a memory file of the store's own user, or of root.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there is no room for a cell at `place`.
    pub fn new(memory: &OwnedFd, place: u64) -> Result<SharedOffset, Error> {
        let bytes = rustix::fs::fstat(memory).map_err(|_| Error::Invalid)?.st_size as u64;
        let end = place.checked_add(PASSED_CELL_BYTES as u64);
        if bytes > BYTES_MAX || end.is_none_or(|end| end > bytes) || !place.is_multiple_of(8) {
            return Err(Error::Invalid);
        }
        let memory = Mapping::of_file(memory, 0, bytes, Protection::ReadWrite, Medium::Memory, false)?;
        let shared = SharedOffset { memory, place };
        shared.half(CELL_PROCESSES)?.fetch_add(1, Ordering::Relaxed);
        Ok(shared)
    }

    fn half(&self, part: usize) -> Result<&AtomicU32, Error> {
        self.memory.atomic_u32(self.place + part as u64).map_err(|_| Error::Invalid)
    }

    fn word(&self, part: usize) -> Result<&AtomicU64, Error> {
        self.memory.atomic_u64(self.place + part as u64).map_err(|_| Error::Invalid)
    }

    /// Locks the shared offset, and sets the file's offset to it. The guard's drop writes the file's offset
    /// back.
    ///
    /// # Errors
    /// [`Error::Busy`] if it is in use elsewhere for long; [`Error::Unsupported`] if it has gone elsewhere.
    pub fn hold<'f>(&'f self, file: &'f OpenFile) -> Result<HeldOffset<'f>, Error> {
        let holder = self.half(CELL_HOLDER)?;
        let us = rustix::process::getpid().as_raw_nonzero().get().unsigned_abs();
        let deadline = Instant::now() + PATIENCE;
        while let Err(other) = holder.compare_exchange(0, us, Ordering::Acquire, Ordering::Relaxed) {
            if !lives(other) {
                let _ = holder.compare_exchange(other, 0, Ordering::Relaxed, Ordering::Relaxed);
            }
            if Instant::now() > deadline {
                return Err(Error::Busy);
            }
            std::thread::yield_now();
        }
        let held = HeldOffset { shared: self, file };
        if self.word(CELL_MOVED)?.load(Ordering::Acquire) != 0 {
            // The offset was sent to other processes since, and has moved to another cell.
            return Err(Error::Unsupported);
        }
        file.set_offset(self.word(CELL_OFFSET)?.load(Ordering::Relaxed));
        Ok(held)
    }
}

impl Drop for HeldOffset<'_> {
    fn drop(&mut self) {
        let HeldOffset { shared, file } = self;
        let is_here = shared.word(CELL_MOVED).is_ok_and(|moved| moved.load(Ordering::Acquire) == 0);
        if let (true, Ok(offset)) = (is_here, shared.word(CELL_OFFSET)) {
            offset.store(file.offset(), Ordering::Relaxed);
        }
        if let Ok(holder) = shared.half(CELL_HOLDER) {
            holder.store(0, Ordering::Release);
        }
    }
}

impl Drop for SharedOffset {
    fn drop(&mut self) {
        if let Ok(processes) = self.half(CELL_PROCESSES) {
            processes.fetch_sub(1, Ordering::Release);
        }
    }
}

/// Whether the process exists.
fn lives(process: u32) -> bool {
    let process = i32::try_from(process).ok().and_then(Pid::from_raw);
    process.is_some_and(|process| !matches!(test_kill_process(process), Err(rustix::io::Errno::SRCH)))
}
