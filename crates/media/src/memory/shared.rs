//! Mapped memory that several threads and processes use at once, behind checked accessors.
//!
//! Rust's references promise that no other thread writes; a mapped file cannot keep that. So no `&[u8]` to it is
//! ever made here: bytes move by assembly copies ([`crate::copying::persist`]), which the compiler treats as foreign
//! code and which may be torn when another thread writes the same bytes, and control words are reached as atomics.
//! The caller's protocol says when a thread may write which bytes (reservations of the log, the digest's own
//! blocks); breaking it garbles file contents, which checksums catch, but not memory safety.

use super::pages::Protection;
use crate::copying::persist;
use crate::copying::user_copy::{Fault, UserSlice, UserSliceMut};
use crate::disk::called;
use crate::emulate::Emulated;
use crate::error::AccessError;
use crate::memory::unsynced::{self, Unsynced};
use crate::recorder;
use cuesta_format::Medium;
use cuesta_format::entry::Crc32c;
use rustix::fd::AsFd;
use rustix::io::Errno;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// Bytes that are summed at once.
const SUMMED_BYTES: usize = 4096;

/// A range of mapped memory. Its owner ([`crate::Mapping`], [`crate::Window`], [`crate::GrowableMapping`])
/// keeps the range reserved for as long as this value lives.
#[derive(Debug)]
pub struct SharedMemory {
    base: NonNull<u8>,
    len: AtomicUsize,
    medium: Medium,
    protection: Protection,
    /// On medium `block`, if fences have to wait for the disk.
    unsynced: Option<Unsynced>,
    /// The medium that is played here, if one is.
    emulated: OnceLock<Arc<Emulated>>,
}

// SAFETY: the pointer is only used for the accesses the module comment explains, which any thread may make.
unsafe impl Send for SharedMemory {}
// SAFETY: as for `Send`.
unsafe impl Sync for SharedMemory {}

impl SharedMemory {
    /// # Safety
    /// `base..base+len` stays reserved for mappings of the owner while the value lives, and is mapped with
    /// `protection` wherever it is mapped.
    pub(crate) unsafe fn new(
        base: NonNull<u8>,
        len: usize,
        medium: Medium,
        protection: Protection,
    ) -> SharedMemory {
        let waits = medium == Medium::Block && protection == Protection::ReadWrite;
        let unsynced = waits.then(Unsynced::default);
        SharedMemory {
            base,
            len: AtomicUsize::new(len),
            medium,
            protection,
            unsynced,
            emulated: OnceLock::new(),
        }
    }

    /// As [`SharedMemory::new`]; on medium `block` no fence waits for the disk, but [`SharedMemory::sync`] does.
    ///
    /// # Safety
    /// As for [`SharedMemory::new`].
    pub(crate) unsafe fn new_synced_by_request(
        base: NonNull<u8>,
        len: usize,
        medium: Medium,
        protection: Protection,
    ) -> SharedMemory {
        // SAFETY: the caller's promise.
        let memory = unsafe { SharedMemory::new(base, len, medium, protection) };
        SharedMemory { unsynced: None, ..memory }
    }

    /// # Safety
    /// As for [`SharedMemory::new`], with the new length.
    pub(crate) unsafe fn set_len(&self, len: usize) {
        self.len.store(len, Ordering::Release);
    }

    /// Bytes mapped.
    #[inline]
    pub fn len(&self) -> u64 {
        self.len.load(Ordering::Acquire) as u64
    }

    /// Whether no byte is mapped.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Has every access from now on take what it takes on the medium that is played. The first one stays.
    pub fn emulate(&self, emulated: &Arc<Emulated>) {
        let _ = self.emulated.set(Arc::clone(emulated));
    }

    #[inline(always)]
    fn as_read(&self, len: usize, copy: impl FnOnce() -> usize) -> usize {
        match self.emulated.get() {
            None => copy(),
            Some(emulated) => emulated.read(len, copy),
        }
    }

    #[inline(always)]
    fn as_written(&self, len: usize, copy: impl FnOnce() -> usize) -> usize {
        match self.emulated.get() {
            None => copy(),
            Some(emulated) => emulated.write(len, copy),
        }
    }

    /// How its bytes become durable.
    #[inline]
    pub fn medium(&self) -> Medium {
        self.medium
    }

    /// What its mapping allows.
    #[inline]
    pub(crate) fn protection(&self) -> Protection {
        self.protection
    }

    /// Where it lies in this process.
    #[inline]
    pub fn as_ptr(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    #[inline(always)]
    pub(crate) fn range(&self, offset: u64, len: usize) -> Result<*mut u8, AccessError> {
        let limit = self.len();
        if offset > limit || len as u64 > limit - offset {
            return Err(AccessError::OutOfBounds { offset, len: len as u64, limit });
        }
        // SAFETY: just checked to be inside the range.
        Ok(unsafe { self.base.as_ptr().add(offset as usize) })
    }

    #[inline(always)]
    fn writable(&self, offset: u64, len: usize) -> Result<*mut u8, AccessError> {
        if self.protection == Protection::ReadOnly {
            return Err(Fault { copied: 0 }.into());
        }
        self.range(offset, len)
    }

    /// Copies bytes out.
    #[inline]
    pub fn read(&self, offset: u64, dst: &mut [u8]) -> Result<(), AccessError> {
        let len = dst.len();
        let src = self.range(offset, len)?;
        recorder::on_read(src, len);
        // SAFETY: `dst` is ours, `src` is in range; torn bytes are the caller's protocol (module comment).
        let copy = move || unsafe { crate::copying::arch::copy(dst.as_mut_ptr(), src, dst.len()) };
        let left = self.as_read(len, copy);
        Ok(Fault::check(len, left)?)
    }

    /// The checksum of bytes as they lie there now.
    pub fn sum(&self, offset: u64, len: u64) -> Result<u32, AccessError> {
        let mut piece = [0; SUMMED_BYTES];
        let mut sum = Crc32c::new();
        let mut at = 0;
        while at < len {
            let part = &mut piece[..(len - at).min(SUMMED_BYTES as u64) as usize];
            self.read(offset + at, part)?;
            sum = sum.with(part);
            at += part.len() as u64;
        }
        Ok(sum.value())
    }

    /// Copies bytes out into memory of the application, as many as `dst` is long.
    #[inline]
    pub fn read_user(&self, offset: u64, mut dst: UserSliceMut<'_>) -> Result<(), AccessError> {
        let len = dst.len();
        let src = self.range(offset, len)?;
        recorder::on_read(src, len);
        // SAFETY: `UserSliceMut::new` promised that the destination may be written or faults.
        let copy = move || unsafe { crate::copying::arch::copy(dst.as_mut_ptr(), src, dst.len()) };
        let left = self.as_read(len, copy);
        Ok(Fault::check(len, left)?)
    }

    /// Stores bytes in the cache; durable only after [`SharedMemory::flush`] and a fence.
    #[inline]
    pub fn write(&self, offset: u64, src: &[u8]) -> Result<(), AccessError> {
        let dst = self.writable(offset, src.len())?;
        // SAFETY: in range and mapped writable.
        let left = unsafe { persist::store(dst, src.as_ptr(), src.len()) };
        Ok(Fault::check(src.len(), left)?)
    }

    /// Stores bytes that the next [`SharedMemory::fence`] makes durable.
    #[inline]
    pub fn write_through(&self, offset: u64, src: &[u8]) -> Result<(), AccessError> {
        self.write_user(offset, UserSlice::from(src))
    }

    /// As [`SharedMemory::write_through`], straight from memory of the application: one pass.
    #[inline]
    pub fn write_user(&self, offset: u64, src: UserSlice<'_>) -> Result<(), AccessError> {
        let dst = self.writable(offset, src.len())?;
        // SAFETY: in range and mapped writable; `UserSlice` promised that the source may be read or faults.
        let copy = move || unsafe { persist::store_through(self.medium, dst, src.as_ptr(), src.len()) };
        let left = self.as_written(src.len(), copy);
        self.note_stored(dst, src.len() - left);
        Ok(Fault::check(src.len(), left)?)
    }

    /// As [`SharedMemory::write_through`], for memory that is a `file` from its byte `begins` on: by calls, which change the blocks
    /// they write and no others ([`crate::disk::called`]).
    pub fn write_by_calls(
        &self,
        file: impl AsFd,
        begins: u64,
        offset: u64,
        src: &[u8],
    ) -> Result<(), AccessError> {
        let dst = self.writable(offset, src.len())?;
        let mut outcome = Ok(());
        let left = self.as_written(src.len(), || {
            let (written, refused) = called::write(file.as_fd(), begins + offset, src);
            outcome = refused;
            src.len() - written
        });
        let written = src.len() - left;
        recorder::on_store(dst, written);
        self.note_stored(dst, written);
        outcome.map_err(|errno| match errno {
            Errno::IO | Errno::HWPOISON => AccessError::Fault(Fault { copied: written }),
            errno => AccessError::Unwritten(errno),
        })
    }

    /// As [`SharedMemory::write_user`]; takes what was stored into `sum`. Nobody else writes there.
    #[inline]
    pub fn write_user_summed(
        &self,
        offset: u64,
        src: UserSlice<'_>,
        sum: &mut Crc32c,
    ) -> Result<(), AccessError> {
        let dst = self.writable(offset, src.len())?;
        // SAFETY: as in `write_user`; the destination is the caller's.
        let copy =
            move || unsafe { persist::store_through_summed(self.medium, dst, src.as_ptr(), src.len(), sum) };
        let left = self.as_written(src.len(), copy);
        self.note_stored(dst, src.len() - left);
        Ok(Fault::check(src.len(), left)?)
    }

    /// Starts the write-back of bytes stored with [`SharedMemory::write`].
    #[inline]
    pub fn flush(&self, offset: u64, len: u64) -> Result<(), AccessError> {
        let start = self.range(offset, len as usize)?;
        // SAFETY: in range.
        unsafe { persist::flush(self.medium, start, len as usize) };
        if let Some(emulated) = self.emulated.get() {
            emulated.owe(len as usize);
        }
        self.note_stored(start, len as usize);
        Ok(())
    }

    #[inline(always)]
    fn note_stored(&self, start: *const u8, len: usize) {
        if let Some(unsynced) = &self.unsynced {
            unsynced.note(start, len);
        }
    }

    /// Orders this thread's flushed stores; what more it does is told in [`persist::fence`].
    #[inline]
    pub fn order(&self) {
        match self.emulated.get() {
            None => persist::fence(self.medium),
            Some(emulated) => emulated.fence(|| persist::fence(self.medium)),
        }
    }

    /// Makes what this thread stored here and flushed durable: on medium `block` it waits for the disk.
    #[inline]
    pub fn fence(&self) -> Result<(), AccessError> {
        SharedMemory::fence_all([self])
    }

    /// As [`SharedMemory::fence`], for several at once, which are of one medium.
    pub fn fence_all<'a>(all: impl IntoIterator<Item = &'a SharedMemory>) -> Result<(), AccessError> {
        let mut all = all.into_iter();
        let Some(first) = all.next() else { return Ok(()) };
        if first.medium != Medium::Block {
            first.order();
            return Ok(());
        }
        for unsynced in std::iter::once(first).chain(all).filter_map(|memory| memory.unsynced.as_ref()) {
            let written = unsynced.sync().map_err(AccessError::Unwritten)?;
            recorder::on_sync(written.start as *const u8, written.len());
        }
        Ok(())
    }

    /// Asks the kernel to read a part of the file ahead, without waiting. What lies outside is not read.
    pub fn will_need(&self, offset: u64, len: u64) {
        let Ok(start) = self.range(offset, len as usize) else { return };
        let inside = start as usize % rustix::param::page_size();
        let page = start.wrapping_sub(inside).cast();
        // SAFETY: the pages lie in this mapping, and the advice changes no byte of them.
        let _ = unsafe { rustix::mm::madvise(page, len as usize + inside, rustix::mm::Advice::WillNeed) };
    }

    /// On medium `block`, has the kernel write a part that is mapped, and waits until the disk has it.
    pub fn sync(&self, offset: u64, len: u64) -> Result<(), AccessError> {
        let start = self.range(offset, len as usize)?;
        // SAFETY: in range, and mapped (caller); where it is not, the kernel says so.
        unsafe { unsynced::sync(start as usize..start as usize + len as usize) }
            .map_err(AccessError::Unwritten)?;
        recorder::on_sync(start, len as usize);
        Ok(())
    }

    /// Adds one to a number that others add to as well, durably, and answers what it was.
    pub fn count_up(&self, offset: u64) -> Result<u64, AccessError> {
        let before = self.atomic_u64(offset)?.fetch_add(1, Ordering::SeqCst);
        recorder::on_store(self.as_ptr().wrapping_add(offset as usize), size_of::<u64>());
        self.flush(offset, size_of::<u64>() as u64)?;
        self.fence()?;
        Ok(before)
    }

    /// The 64-bit word at `offset`, which must be a multiple of 8.
    ///
    /// For control pages: the recorder does not see what is stored through it, and storing to a read-only mapping through it is a fault nothing recovers from.
    #[inline]
    pub fn atomic_u64(&self, offset: u64) -> Result<&AtomicU64, AccessError> {
        let word = self.aligned(offset, 8)?;
        // SAFETY: in range, aligned, and alive as long as `self`; sharing with other processes is what atomics are for.
        Ok(unsafe { AtomicU64::from_ptr(word.cast()) })
    }

    /// The 32-bit word at `offset`, which must be a multiple of 4; see [`SharedMemory::atomic_u64`].
    #[inline]
    pub fn atomic_u32(&self, offset: u64) -> Result<&AtomicU32, AccessError> {
        let word = self.aligned(offset, 4)?;
        // SAFETY: as in `atomic_u64`.
        Ok(unsafe { AtomicU32::from_ptr(word.cast()) })
    }

    #[inline(always)]
    fn aligned(&self, offset: u64, size: usize) -> Result<*mut u8, AccessError> {
        let word = self.range(offset, size)?;
        recorder::on_read(word, size);
        if (word as usize).is_multiple_of(size) {
            Ok(word)
        } else {
            Err(AccessError::OutOfBounds { offset, len: size as u64, limit: self.len() })
        }
    }
}
