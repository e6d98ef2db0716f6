//! A mapped file that grows in place: the metadata store's storage.
//!
//! Mechanism: addresses for the largest size are reserved once, and the file is mapped over them as it grows,
//! so the base never moves and readers need no lock. Policy: the file is allocated in chunks ahead of its
//! length, so that a small `set_len` is not a system call on the allocator each time, and a full medium is an
//! error of `set_len`, never a SIGBUS.

use super::pages::{Protection, reserve, share_flags};
use crate::disk::called;
use crate::error::MediaError;
use crate::files::create::{file_len, sync_parent};
use crate::memory::shared::SharedMemory;
use crate::recorder;
use cuesta_format::Medium;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{FallocateFlags, Mode, OFlags};
use rustix::mm::MapFlags;
use std::ops::Deref;
use std::path::Path;
use std::sync::Mutex;

/// Addresses reserved for one file: metadata of a billion inodes. A process has 128 TiB of addresses, on some machines less.
const RESERVED_BYTES: u64 = 1 << 38;

/// The file is allocated and mapped in steps of this size.
const CHUNK_BYTES: u64 = 4 << 20;

/// A file of changing length, all of it mapped.
#[derive(Debug)]
pub struct GrowableMapping {
    memory: SharedMemory,
    file: OwnedFd,
    /// Bytes of the window the file is mapped over; a thread that changes the length locks it.
    mapped: Mutex<u64>,
}

impl GrowableMapping {
    /// Opens `path` for reading and writing, creating it empty (mode 0600) if it does not exist.
    pub fn open(path: &Path, medium: Medium) -> Result<GrowableMapping, MediaError> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
        let file = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)
            .map_err(MediaError::system("open file"))?;
        sync_parent(path)?;
        let len = file_len(file.as_fd())?;
        recorder::on_open(file.as_fd());
        let base = reserve(RESERVED_BYTES as usize)?;
        // SAFETY: reserved until drop; the length is raised only over what is mapped.
        let memory = unsafe { SharedMemory::new(base, 0, medium, Protection::ReadWrite) };
        let growable = GrowableMapping { memory, file, mapped: Mutex::new(0) };
        growable.set_len(len)?;
        Ok(growable)
    }

    /// Changes the length of the file: new bytes are zeros and allocated, or the call fails and nothing changed.
    pub fn set_len(&self, len: u64) -> Result<(), MediaError> {
        if len > RESERVED_BYTES {
            return Err(MediaError::System { action: "grow file", errno: rustix::io::Errno::FBIG });
        }
        let mut mapped = self.mapped.lock().unwrap_or_else(|poison| poison.into_inner());
        let old = file_len(self.file.as_fd())?;
        if len < old {
            // SAFETY: shorter than what is mapped.
            unsafe { self.memory.set_len(len as usize) };
            rustix::fs::ftruncate(&self.file, len).map_err(MediaError::system("shrink file"))?;
            rustix::fs::fsync(&self.file).map_err(MediaError::system("sync file length"))?;
            recorder::on_set_len(self.file.as_fd(), len);
            return Ok(());
        }
        let covered = len.next_multiple_of(CHUNK_BYTES);
        if len > old {
            rustix::fs::fallocate(&self.file, FallocateFlags::KEEP_SIZE, old, covered - old)
                .map_err(MediaError::system("allocate file"))?;
            rustix::fs::ftruncate(&self.file, len).map_err(MediaError::system("grow file"))?;
            rustix::fs::fsync(&self.file).map_err(MediaError::system("sync file length"))?;
            recorder::on_set_len(self.file.as_fd(), len);
        }
        if covered > *mapped {
            let flags = share_flags(self.memory.medium())? | MapFlags::FIXED;
            let more = (covered - *mapped) as usize;
            // SAFETY: the place lies inside the addresses reserved for this file, behind what is mapped.
            unsafe {
                let start = self.memory.as_ptr().add(*mapped as usize);
                let protection = Protection::ReadWrite.flags();
                rustix::mm::mmap(start.cast(), more, protection, flags, &self.file, *mapped)
                    .map_err(MediaError::system("map grown file"))?;
                recorder::on_map(start, more, self.file.as_fd(), *mapped);
            }
            *mapped = covered;
        }
        // SAFETY: everything below `covered` is mapped, and `len` is not above it.
        unsafe { self.memory.set_len(len as usize) };
        Ok(())
    }

    /// On medium `block`, has the disk write a new part of the file: later stores there are written in place, and need
    /// no change of the file's own description.
    pub fn write_zeros(&self, offset: u64, len: u64) -> Result<(), MediaError> {
        if self.memory.medium() != Medium::Block {
            return Ok(());
        }
        called::write_zeros(self.file.as_fd(), offset, len)?;
        rustix::fs::fdatasync(&self.file).map_err(MediaError::system("write new file"))
    }
}

impl Deref for GrowableMapping {
    type Target = SharedMemory;

    fn deref(&self) -> &SharedMemory {
        &self.memory
    }
}

impl Drop for GrowableMapping {
    fn drop(&mut self) {
        recorder::on_unmap(self.memory.as_ptr(), RESERVED_BYTES as usize);
        // SAFETY: the whole range was reserved by us, and no accessor outlives `self`.
        let _ = unsafe { rustix::mm::munmap(self.memory.as_ptr().cast(), RESERVED_BYTES as usize) };
    }
}
