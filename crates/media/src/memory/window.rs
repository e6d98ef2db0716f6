//! A reserved range of addresses in which files are mapped side by side.
//!
//! The operation log is a ring of segment files; its client maps them in order, and the first ones once more
//! behind the last, so that every entry is one contiguous range.

use super::pages::{Protection, share_flags, touch};
use crate::error::MediaError;
use crate::files::create::file_len;
use crate::memory::huge::reserve_for;
use crate::memory::shared::SharedMemory;
use crate::recorder;
use cuesta_format::Medium;
use rustix::fd::AsFd;
use rustix::mm::MapFlags;
use std::ops::Deref;

/// Reserved addresses; an access to a part where nothing was mapped answers a fault.
#[derive(Debug)]
pub struct Window {
    memory: SharedMemory,
}

impl Window {
    /// Reserves `len` bytes of addresses (no memory) for files of `medium`; such that huge pages can be mapped at
    /// multiples of their size. On medium `block`, stores are durable once [`SharedMemory::sync`] says so.
    pub fn reserve(len: u64, medium: Medium) -> Result<Window, MediaError> {
        let base = reserve_for(0, len as usize)?;
        // SAFETY: reserved by us until drop; `map` maps files in it writable or read-only,
        // and a store into the latter is a fault that the copies recover from.
        let memory =
            unsafe { SharedMemory::new_synced_by_request(base, len as usize, medium, Protection::ReadWrite) };
        Ok(Window { memory })
    }

    /// Maps `len` bytes from `offset` of `file` at `at` in the window, in place of what was mapped there.
    /// All three are multiples of the page size, and the file must hold the bytes.
    pub fn map(
        &self,
        file: impl AsFd,
        offset: u64,
        len: u64,
        at: u64,
        protection: Protection,
        populate: bool,
    ) -> Result<(), MediaError> {
        let window = self.memory.len();
        let page = rustix::param::page_size() as u64;
        let aligned = at.is_multiple_of(page) && len.is_multiple_of(page);
        if at > window || len > window - at || !aligned {
            return Err(MediaError::Placement { at, len, window });
        }
        let found = file_len(file.as_fd())?;
        let expected = offset.saturating_add(len);
        if expected > found {
            return Err(MediaError::Short { expected, found });
        }
        let flags = share_flags(self.memory.medium())? | MapFlags::FIXED;
        // SAFETY: the place lies inside the addresses this window reserved (checked above), which nothing
        // but its own mappings uses; accessors make no assumption on what is mapped where.
        unsafe {
            let start = self.memory.as_ptr().add(at as usize);
            rustix::mm::mmap(start.cast(), len as usize, protection.flags(), flags, &file, offset)
                .map_err(MediaError::system("map file in window"))?;
            recorder::on_map(start, len as usize, file.as_fd(), offset);
            // Pages of a disk's file would count as changed, and be written.
            if populate && self.memory.medium() != Medium::Block {
                touch(start, len as usize, protection)?;
            }
        }
        Ok(())
    }
}

impl Deref for Window {
    type Target = SharedMemory;

    fn deref(&self) -> &SharedMemory {
        &self.memory
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        let len = self.memory.len() as usize;
        recorder::on_unmap(self.memory.as_ptr(), len);
        // SAFETY: the whole range was reserved by us, and no accessor outlives `self`.
        let _ = unsafe { rustix::mm::munmap(self.memory.as_ptr().cast(), len) };
    }
}
