//! Shared mappings, as a program has them: memory of the kernel's, which it stores to without asking anybody.

use super::World;
use crate::operation::Slot;
use cuesta_format::geometry::REFERENCES_FOLDER;
use cuesta_media::mapped_files::{self, Pin};
use cuesta_media::planted::{self, Bug};
use cuesta_media::recorder;
use rustix::fs::fstat;
use rustix::io::Errno;
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags, mmap, msync, munmap};
use std::ffi::c_void;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

/// What the kernel maps at the least.
const PAGE_BYTES: u64 = 4096;

/// A file that a program has mapped, to read and write.
#[derive(Debug)]
pub(super) struct SharedMapping {
    memory: *mut c_void,
    bytes: usize,
    /// What is mapped, for the recorder.
    file: OwnedFd,
}

// SAFETY: the memory is the mapping's own, and goes with it.
unsafe impl Send for SharedMapping {}

impl SharedMapping {
    fn new(file: OwnedFd, bytes: usize) -> Result<SharedMapping, Errno> {
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, at a place the kernel chooses.
        let memory = unsafe { mmap(std::ptr::null_mut(), bytes, rights, MapFlags::SHARED, &file, 0)? };
        Ok(SharedMapping { memory, bytes, file })
    }

    fn store(&self, offset: u64, bytes: &[u8]) -> Result<(), String> {
        let end = offset + bytes.len() as u64;
        let size = fstat(&self.file).map_err(|errno| errno.to_string())?.st_size.unsigned_abs();
        if end > (self.bytes as u64).min(size.next_multiple_of(PAGE_BYTES)) {
            return Err(format!("a store up to {end} to a mapped file of {size} bytes"));
        }
        // SAFETY: the range is mapped and the file has the pages, which nobody takes from it meanwhile: the steps of a
        // workload follow each other.
        unsafe {
            let place = self.memory.cast::<u8>().add(offset as usize);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), place, bytes.len());
        }
        recorder::record_file_write(self.file.as_fd(), offset, bytes);
        Ok(())
    }

    fn sync(&self) -> Result<(), Errno> {
        // SAFETY: all of it is mapped; nothing is changed.
        unsafe { msync(self.memory, self.bytes, MsyncFlags::SYNC)? };
        // It is the kernel's: whoever forgets it is played here.
        if !planted::active(Bug::SyncForgotten) {
            recorder::record_file_sync(self.file.as_fd());
        }
        Ok(())
    }
}

impl Drop for SharedMapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, and nobody else knows of it.
        let _ = unsafe { munmap(self.memory, self.bytes) };
    }
}

/// Keeps every file in mapped mode that is so in a store, whether a daemon runs there or not, as a program does that has
/// it mapped.
pub fn pin_all(directory: &Path) -> Result<Vec<Pin>, String> {
    let folder = directory.join(REFERENCES_FOLDER);
    let folder = File::open(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let pin = |inode| match mapped_files::open_marked(&folder, inode, true)? {
        Some(file) => Pin::new(file).map(Some),
        None => Ok(None),
    };
    let pins: Result<Vec<Option<Pin>>, Errno> =
        mapped_files::list(&folder).and_then(|files| files.into_iter().map(pin).collect());
    Ok(pins.map_err(|errno| format!("pin: {errno}"))?.into_iter().flatten().collect())
}

impl World {
    /// Maps so many bytes of the file open in a slot; the mapping outlasts the open file. What was mapped there before is
    /// unmapped.
    pub fn map(&mut self, slot: Slot, bytes: u64) -> Result<(), String> {
        let file = self.file(slot).map_err(|error| format!("map: {error}"))?;
        let shared = self.client.map_shared(file, true).map_err(|error| format!("map: {error}"))?;
        let mapping = SharedMapping::new(shared, bytes as usize).map_err(|errno| format!("map: {errno}"))?;
        self.mappings.insert(slot, mapping);
        Ok(())
    }

    /// Stores bytes through a mapping.
    pub fn store_mapped(&self, slot: Slot, offset: u64, bytes: &[u8]) -> Result<(), String> {
        self.mappings.get(&slot).ok_or("nothing is mapped")?.store(offset, bytes)
    }

    /// msync of a whole mapping.
    pub fn sync_mapped(&self, slot: Slot) -> Result<(), String> {
        let mapping = self.mappings.get(&slot).ok_or("nothing is mapped")?;
        mapping.sync().map_err(|errno| format!("msync: {errno}"))
    }

    /// Unmaps.
    pub fn unmap(&mut self, slot: Slot) -> Result<(), String> {
        self.mappings.remove(&slot).map(drop).ok_or_else(|| "nothing is mapped".to_owned())
    }

    /// Whether any file of the store is in mapped mode.
    pub fn has_files_in_mapped_mode(&self) -> Result<bool, String> {
        let found = mapped_files::list(&*self.client.references());
        found.map(|files| !files.is_empty()).map_err(|errno| format!("files in mapped mode: {errno}"))
    }
}
