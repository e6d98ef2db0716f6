//! A file that a program has mapped, to read and write.

use cuesta_media::planted::{self, Bug};
use cuesta_media::recorder;
use rustix::fs::fstat;
use rustix::io::Errno;
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags, mmap, msync, munmap};
use std::ffi::c_void;
use std::os::fd::{AsFd, OwnedFd};

/// Bytes of a page: the kernel maps no less.
const PAGE_BYTES: u64 = 4096;

/// A file that a program has mapped, to read and write.
#[derive(Debug)]
pub(super) struct SharedMapping {
    memory: *mut c_void,
    bytes: usize,
    /// The file, for the recorder.
    file: OwnedFd,
}

// SAFETY: the memory is the mapping's own, and goes with it.
unsafe impl Send for SharedMapping {}

impl SharedMapping {
    pub(super) fn new(file: OwnedFd, bytes: usize) -> Result<SharedMapping, Errno> {
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, at a place the kernel chooses.
        let memory = unsafe { mmap(std::ptr::null_mut(), bytes, rights, MapFlags::SHARED, &file, 0)? };
        Ok(SharedMapping { memory, bytes, file })
    }

    pub(super) fn store(&self, offset: u64, bytes: &[u8]) -> Result<(), String> {
        let end = offset + bytes.len() as u64;
        let size = fstat(&self.file).map_err(|errno| errno.to_string())?.st_size.unsigned_abs();
        if end > (self.bytes as u64).min(size.next_multiple_of(PAGE_BYTES)) {
            return Err(format!("a store up to {end} to a mapped file of {size} bytes"));
        }
        // SAFETY: the range is mapped and the file has the pages, which no call takes from it meanwhile: the steps of a
        // workload follow each other.
        unsafe {
            let place = self.memory.cast::<u8>().add(offset as usize);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), place, bytes.len());
        }
        recorder::record_file_write(self.file.as_fd(), offset, bytes);
        Ok(())
    }

    pub(super) fn sync(&self) -> Result<(), Errno> {
        // SAFETY: all of it is mapped; nothing is changed.
        unsafe { msync(self.memory, self.bytes, MsyncFlags::SYNC)? };
        // The kernel does it: a planted bug here plays a kernel that forgets.
        if !planted::active(Bug::SyncForgotten) {
            recorder::record_file_sync(self.file.as_fd());
        }
        Ok(())
    }
}

impl Drop for SharedMapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, and only this value knows of it.
        let _ = unsafe { munmap(self.memory, self.bytes) };
    }
}
