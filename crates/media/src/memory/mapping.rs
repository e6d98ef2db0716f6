//! A file mapped whole (or a range of it), shared with all other processes that map it.

use super::huge::{self, HUGE_PAGE_BYTES};
use super::node::{self, Node};
use super::pages::{Protection, map, share_flags, touch};
use super::shared::SharedMemory;
use crate::error::MediaError;
use crate::files::create::{allocate, create_allocated, file_len};
use crate::recorder;
use cuesta_format::Medium;
use rustix::fd::AsFd;
use rustix::fs::{Mode, OFlags};
use rustix::mm::{Advice, MapFlags};
use std::ffi::c_void;
use std::ops::Deref;
use std::path::Path;
use std::ptr::{NonNull, null_mut};

/// A mapped range of a file. Unmapped on drop; needs no descriptor once made.
#[derive(Debug)]
pub struct Mapping {
    memory: SharedMemory,
}

impl Mapping {
    /// Creates `path` (which must not exist, mode 0600) with `len` bytes of zeros that are all allocated: a full
    /// medium is an error here and never a SIGBUS later. `populate` also touches every page now.
    pub fn create(path: &Path, len: u64, medium: Medium, populate: bool) -> Result<Mapping, MediaError> {
        let file = create_allocated(path, len)?;
        Mapping::of_file(&file, 0, len, Protection::ReadWrite, medium, populate)
    }

    /// Maps all of an existing file.
    pub fn open(path: &Path, protection: Protection, medium: Medium) -> Result<Mapping, MediaError> {
        let access = match protection {
            Protection::ReadOnly => OFlags::RDONLY,
            Protection::ReadWrite => OFlags::RDWR,
        };
        let file = rustix::fs::open(path, access | OFlags::CLOEXEC, Mode::empty())
            .map_err(MediaError::system("open file"))?;
        let len = file_len(file.as_fd())?;
        Mapping::of_file(&file, 0, len, protection, medium, false)
    }

    /// Maps `len` bytes from `offset` (a multiple of the page size) of an open file, which must hold them.
    pub fn of_file(
        file: impl AsFd,
        offset: u64,
        len: u64,
        protection: Protection,
        medium: Medium,
        populate: bool,
    ) -> Result<Mapping, MediaError> {
        let found = file_len(file.as_fd())?;
        match offset.checked_add(len) {
            Some(end) if end <= found => {}
            _ => {
                return Err(MediaError::Short { expected: offset.saturating_add(len), found });
            }
        }
        let flags = share_flags(medium)?;
        let base = if len < HUGE_PAGE_BYTES {
            // SAFETY: the kernel picks the address, so no memory in use is replaced.
            unsafe { map(null_mut(), len as usize, protection, flags, &file, offset)? }
        } else {
            let base = huge::reserve_for(offset, len as usize)?;
            let place = base.as_ptr().cast::<c_void>();
            // SAFETY: the place was just reserved, and is given back if it cannot be used.
            unsafe {
                let mapped = map(place, len as usize, protection, flags | MapFlags::FIXED, &file, offset);
                if mapped.is_err() {
                    let _ = rustix::mm::munmap(place, len as usize);
                }
                mapped?
            }
        };
        recorder::on_map(base.as_ptr(), len as usize, file.as_fd(), offset);
        // SAFETY: just mapped, with that length and protection, and unmapped only when the value is dropped.
        let memory = unsafe { SharedMemory::new(base, len as usize, medium, protection) };
        let mapping = Mapping { memory };
        if populate {
            mapping.touch(0, len)?;
        }
        Ok(mapping)
    }

    /// Maps the beginning of another file, which must be as long, in the place of this one. An access
    /// meanwhile meets one or the other.
    pub fn replace(&self, file: impl AsFd) -> Result<(), MediaError> {
        let (len, found) = (self.memory.len(), file_len(file.as_fd())?);
        if found < len {
            return Err(MediaError::Short { expected: len, found });
        }
        let flags = share_flags(self.memory.medium())? | MapFlags::FIXED;
        let place = self.memory.as_ptr();
        // SAFETY: the range is this mapping's own, with the same protection as before; accessors make no assumption on the
        // file that is mapped there.
        unsafe { map(place.cast(), len as usize, self.memory.protection(), flags, &file, 0)? };
        recorder::on_map(place, len as usize, file.as_fd(), 0);
        Ok(())
    }

    /// The same pages once more, at another address.
    pub fn again(&self) -> Result<Mapping, MediaError> {
        let len = self.memory.len() as usize;
        // SAFETY: with an old length of 0 the kernel leaves the old range as it is, and picks the address of the new.
        let base = unsafe {
            rustix::mm::mremap(self.memory.as_ptr().cast(), 0, len, rustix::mm::MremapFlags::MAYMOVE)
        };
        let base = base.map_err(MediaError::system("map pages again"))?;
        let base = NonNull::new(base.cast())
            .ok_or(MediaError::System { action: "map pages again", errno: rustix::io::Errno::NOMEM })?;
        // SAFETY: just mapped, with that length and protection, and unmapped only when the value is dropped.
        let memory = unsafe { SharedMemory::new(base, len, self.memory.medium(), self.memory.protection()) };
        Ok(Mapping { memory })
    }

    /// Touches the pages of a part, so that no later access pays for them.
    pub fn touch(&self, offset: u64, len: u64) -> Result<(), MediaError> {
        self.check_part(offset, len)?;
        // SAFETY: inside the mapping, as was checked, and mapped for as long as `self` lives.
        unsafe { touch(self.memory.as_ptr().add(offset as usize), len as usize, self.memory.protection()) }
    }

    /// Has the file get its memory from a node, as long as that has some. On medium `memory`, before the first touch.
    pub fn prefer(&self, node: Node) {
        node::prefer(&self.memory, node);
    }

    /// Gives a part of `file`, which is what is mapped, its room on the medium, durably, and touches it here: no
    /// later access fails or pays. On medium `block` it is not touched: its pages would be written. Bytes that had room keep it, and no byte changes. With `huge`, on medium `memory`, whole
    /// huge pages of it become that, if the kernel can.
    pub fn provide(&self, file: impl AsFd, offset: u64, len: u64, huge: bool) -> Result<(), MediaError> {
        self.check_part(offset, len)?;
        let aligned = (self.memory.as_ptr() as u64).is_multiple_of(HUGE_PAGE_BYTES);
        if huge && aligned && self.memory.medium() == Medium::Memory {
            for page in huge::whole_pages(offset, len) {
                // The kernel would only copy small pages that it has cleared, so the file gets one to begin with.
                allocate(&file, page.start, rustix::param::page_size() as u64)?;
                // SAFETY: as in `touch`.
                unsafe { huge::collapse(self.memory.as_ptr().add(page.start as usize)) };
            }
        }
        allocate(&file, offset, len)?;
        if self.memory.medium() == Medium::Block { Ok(()) } else { self.touch(offset, len) }
    }

    /// Makes what [`Mapping::provide`] gave small pages one huge page, if the kernel can; no byte changes. `offset` is
    /// that of a whole huge page. Says whether it is one now.
    pub fn collapse(&self, offset: u64) -> Result<bool, MediaError> {
        self.check_part(offset, HUGE_PAGE_BYTES)?;
        let start = self.memory.as_ptr() as u64 + offset;
        if !start.is_multiple_of(HUGE_PAGE_BYTES) || self.memory.medium() != Medium::Memory {
            return Ok(false);
        }
        // SAFETY: as in `touch`.
        Ok(unsafe { huge::collapse(self.memory.as_ptr().add(offset as usize)) })
    }

    /// Children that a fork makes do not have it. In such a child the value must not be dropped.
    pub fn keep_from_children(&self) -> Result<(), MediaError> {
        let advice = Advice::LinuxDontFork;
        // SAFETY: the range is this mapping's own, and stays as it is in this process.
        unsafe { rustix::mm::madvise(self.memory.as_ptr().cast(), self.memory.len() as usize, advice) }
            .map_err(MediaError::system("keep memory from children"))
    }

    /// Gives all memory of a file in memory back to the kernel. Processes that have it mapped find zeros.
    pub fn empty(&self) {
        // SAFETY: the range is this mapping's own; only its content changes, which other processes can change, too.
        // Where the kernel cannot do it, the memory is given back with the last mapping.
        let _ = unsafe {
            rustix::mm::madvise(self.memory.as_ptr().cast(), self.memory.len() as usize, Advice::LinuxRemove)
        };
    }

    fn check_part(&self, offset: u64, len: u64) -> Result<(), MediaError> {
        let expected = offset.saturating_add(len);
        let found = self.memory.len();
        if expected > found { Err(MediaError::Short { expected, found }) } else { Ok(()) }
    }
}

impl Deref for Mapping {
    type Target = SharedMemory;

    fn deref(&self) -> &SharedMemory {
        &self.memory
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let len = self.memory.len() as usize;
        recorder::on_unmap(self.memory.as_ptr(), len);
        // SAFETY: the range was mapped by us as a whole, and no accessor outlives `self`. Unmapping what is
        // mapped cannot fail for a reason that a caller could act on.
        let _ = unsafe { rustix::mm::munmap(self.memory.as_ptr().cast(), len) };
    }
}
