//! Open files: opening, reading, writing, closing.

use crate::door::call::Call;
use crate::door::dispatch::Door;
use crate::door::refusal::Refusal;
use crate::door::refusal::stale;
use crate::door::state::pages::Pages;
use crate::door::who;
use crate::kernel::abi::{
    AllocateIn, CopyRangeIn, CreateIn, FSyncIn, FlushIn, OPEN_DIRECT, OPEN_KEEP_CACHE, OpenIn, OpenOut,
    READ_OF_CALL, ReadIn, ReleaseIn, SeekIn, SeekOut, WRITE_FROM_CACHE, WRITE_PAST_CACHE, WRITE_TAKES_SET_ID,
    WriteIn, WriteOut,
};
use cuesta_format::{BLOCK_BYTES, FileKind, InodeNumber, InodeRecord};
use cuesta_libfs::{Allocation, Answer, NewMode, OpenFile, UNNAMED, Whence};
use cuesta_media::{UserSlice, UserSliceMut};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Flags of an open that the kernel has dealt with, or that concern the descriptor.
const NOT_OURS: i32 = libc::O_CREAT | libc::O_EXCL | libc::O_NOCTTY | libc::O_TRUNC | libc::O_NOFOLLOW;
/// Flags of an open whose file is read and written past the kernel's cache.
const PAST_CACHE: i32 = libc::O_APPEND | libc::O_DIRECT;
/// Bytes that are copied from file to file at once.
const COPY_BYTES: usize = 1 << 20;
/// How long after a file was closed SharedFS learns that it was read.
const TOLD_AFTER: Duration = Duration::from_millis(2);
/// Holes that are written back one by one; with more, everything behind them is.
const HOLES_MAX: usize = 64;

/// Whether reads by it move the time of last access.
pub(in crate::door) fn may_read(file: &OpenFile) -> bool {
    let flags = file.flags();
    let is_read = flags & libc::O_ACCMODE != libc::O_WRONLY && flags & (libc::O_PATH | libc::O_NOATIME) == 0;
    file.kind() == FileKind::File && is_read
}

/// Whether it can be mapped so that stores change it, which takes a file that is open for both.
fn may_store(file: &OpenFile) -> bool {
    file.kind() == FileKind::File && file.flags() & libc::O_ACCMODE == libc::O_RDWR
}

impl Door {
    pub(in crate::door) fn open(&self, call: &mut Call<'_>) -> Result<(), Refusal> {
        let OpenIn { flags, .. } = call.arguments.structure()?;
        let flags = flags as i32 & !NOT_OURS;
        let opened = self.client.open_by_number(&self.writer(call), call.inode(), flags).map_err(stale)?;
        let (file, record, tenure) = opened.value;
        // The kernel's cached content stays, if it holds; with the attributes it asks again before each read, but not where
        // pages are mapped or spliced.
        self.expect_reads(call, &file, &record);
        let holds = opened.is_own && self.known.content_holds(call.inode(), tenure);
        self.known.note_content(call.inode(), None);
        self.put_open(call, file, flags, opened.is_own, holds);
        Ok(())
    }

    /// Where a read will move the time of last access, the kernel has to ask for attributes before it reads its own pages.
    fn expect_reads(&self, call: &Call<'_>, file: &OpenFile, record: &InodeRecord) {
        if may_read(file) {
            self.known.pages(file.inode(), Pages::note_readable);
            if self.client.is_access_due(record) {
                call.device.doubt_attributes(file.inode());
            }
        }
    }

    /// With its cache the kernel cuts a write where it takes the pages of the end to be, and shows bytes before their write
    /// is done. So appends go past it, since others append, too, and so do calls of openers that ask for it. Their calls are then as
    /// by the other door. So are those on a file that SharedFS answers for: the kernel would ask twice for each of them.
    fn put_open(
        &self,
        call: &mut Call<'_>,
        file: Arc<OpenFile>,
        flags: i32,
        is_own: bool,
        keeps_cache: bool,
    ) {
        let inode = file.inode();
        if may_store(&file) && self.known.pages(inode, Pages::note_writable) == Some(true) {
            call.device.doubt_attributes(inode);
        }
        let is_shipped = !is_own && self.kernel.maps_direct && file.kind() == FileKind::File;
        let handle = self.files.add(file);
        // Before Linux 6.6 such a file could not be mapped by others' programs.
        let past_cache = if self.kernel.maps_direct { PAST_CACHE } else { libc::O_DIRECT };
        let direct = if is_shipped || flags & past_cache != 0 { OPEN_DIRECT } else { 0 };
        let keeps = if keeps_cache { OPEN_KEEP_CACHE } else { 0 };
        call.answer.put(&OpenOut { handle, open_flags: keeps | direct, padding: 0 });
    }

    pub(in crate::door) fn create(&self, call: &mut Call<'_>) -> Result<(), Refusal> {
        let CreateIn { flags, mode, umask, .. } = call.arguments.structure()?;
        let name = call.arguments.text()?;
        // The kernel has checked that it may be made, and would not check a file that another process made there meanwhile: that it is
        // to open as anything that is there.
        let exclusive = flags as i32 & libc::O_EXCL != 0;
        let flags = flags as i32 & !(libc::O_NOCTTY | libc::O_TRUNC) | libc::O_CREAT | libc::O_EXCL;
        let made = self.make_open(call, name, flags, NewMode { bits: mode & 0o7777, umask });
        if made == Err(Refusal(libc::EEXIST)) && !exclusive {
            return Err(Refusal(libc::ESTALE));
        }
        made
    }

    pub(in crate::door) fn create_unnamed(&self, call: &mut Call<'_>) -> Result<(), Refusal> {
        let CreateIn { flags, mode, umask, .. } = call.arguments.structure()?;
        let flags = flags as i32 & !libc::O_CREAT | libc::O_DIRECTORY | UNNAMED;
        self.make_open(call, b"", flags, NewMode { bits: mode & 0o7777, umask })
    }

    /// The file is new, with the set-id bits that the kernel has left.
    fn make_open(&self, call: &mut Call<'_>, name: &[u8], flags: i32, mode: NewMode) -> Result<(), Refusal> {
        let who = who::trusted(&call.header);
        let made = if flags & UNNAMED == UNNAMED {
            let value = self.client.open_or_make(&who, call.base(), name, flags, mode)?;
            Answer { value, is_own: true }
        } else {
            self.client.make_by_number(&who, call.inode(), name, flags, mode)?
        };
        let (file, record) = made.value;
        self.put_entry(call, Answer { value: record, is_own: made.is_own });
        // Nothing is cached of it before this is answered.
        let tenure = || self.client.stat_inode(file.inode()).ok().map(|(_, tenure)| tenure);
        self.known.note_content(file.inode(), made.is_own.then(tenure).flatten());
        if may_read(&file) {
            self.known.pages(file.inode(), Pages::note_readable);
        }
        self.put_open(call, file, flags, made.is_own, made.is_own);
        Ok(())
    }

    pub(in crate::door) fn read(&self, call: &mut Call<'_>) -> Result<(), Refusal> {
        let ReadIn { handle, offset, size, read_flags, .. } = call.arguments.structure()?;
        let file = self.files.get(handle)?;
        let offset = i64::try_from(offset).map_err(|_| Refusal(libc::EINVAL))?;
        // A read for a mapped page is no call of a program's, and has nothing to do with an offset.
        let is_call = read_flags & READ_OF_CALL != 0;
        if !is_call {
            self.note_pages_read(call, &file, offset..offset.saturating_add(size.into()));
        }
        self.at_its_offset(handle, &file, offset, is_call, |offset| {
            let mut read = 0;
            call.answer.fill(size as usize, |room| {
                read = self.client.pread(&file, &mut [UserSliceMut::from(room)], offset)?;
                Ok::<_, Refusal>(read)
            })?;
            Ok(read)
        })?;
        Ok(())
    }

    /// Pages are about to be read into the kernel's cache.
    fn note_pages_read(&self, call: &Call<'_>, file: &OpenFile, bytes: Range<i64>) {
        let inode = file.inode();
        let known = self.client.attributes(inode).map(|found| found.value.0);
        let of_holes = known.as_ref().is_ok_and(|record| {
            let is_sparse = record.blocks < record.size.div_ceil(BLOCK_BYTES);
            let hole = || self.client.find_boundary(file, bytes.start, false);
            is_sparse && hole().is_ok_and(|hole| hole < bytes.end as u64)
        });
        // Of a file in mapped mode it keeps no attributes; told to doubt them, it would ignore an answer that is on its way.
        let keeps_attributes = known.is_ok_and(|record| !record.mapped);
        let thread = call.header.pid;
        let hides = self.known.pages(inode, |pages| pages.note_read(thread, of_holes)) == Some(true);
        if hides && keeps_attributes {
            call.device.doubt_attributes(inode);
        }
    }

    /// Has the kernel write back what it has of a file's holes from `start` on, if that may be data by now.
    pub(in crate::door) fn write_back_holes(&self, call: &Call<'_>, file: &OpenFile, start: u64) {
        let inode = file.inode();
        let is_due = self.known.pages(inode, |pages| {
            let is_due = pages.may_hide_data();
            if is_due && start == 0 {
                pages.forget_holes();
            }
            is_due
        });
        if is_due != Some(true) {
            return;
        }
        let mut at = start;
        for _ in 0..HOLES_MAX {
            let Ok(hole) = self.client.find_boundary(file, at as i64, false) else { return };
            match self.client.find_boundary(file, hole as i64, true) {
                Ok(data) => {
                    call.device.forget_content_part(inode, hole..data);
                    at = data;
                }
                Err(_) => return call.device.forget_content_part(inode, hole..i64::MAX as u64),
            }
        }
        call.device.forget_content_part(inode, at..i64::MAX as u64);
    }

    pub(in crate::door) fn write(&self, call: &mut Call<'_>) -> Result<(), Refusal> {
        let WriteIn { handle, offset, size, write_flags, flags, .. } = call.arguments.structure()?;
        let data = call.arguments.bytes(size as usize)?;
        let file = self.files.get(handle)?;
        let offset = i64::try_from(offset).map_err(|_| Refusal(libc::EFBIG))?;
        let appends = flags as i32 & libc::O_APPEND != 0 && write_flags & WRITE_FROM_CACHE == 0;
        let is_call = write_flags & WRITE_FROM_CACHE == 0;
        let is_past_cache = write_flags & WRITE_PAST_CACHE != 0;
        if write_flags & WRITE_TAKES_SET_ID != 0 {
            self.take_set_id(call)?;
        }
        let written = self.at_its_offset(handle, &file, offset, is_call, |offset| {
            Ok(self.client.write_appending(&file, &[UserSlice::from(data)], Some(offset), appends)?)
        })?;
        if flags as i32 & libc::O_DSYNC != 0 && file.flags() & libc::O_DSYNC == 0 {
            // By this call alone, or since the file was opened.
            self.client.fsync(&file)?;
        }
        self.known.note_end(file.inode(), offset as u64 + written as u64);
        if appends {
            // The kernel caches it where it took the end to be.
            self.known.doubt_content(file.inode());
        }
        let end = offset as u64 + written as u64;
        if is_past_cache {
            self.forget_pages_behind(
                call,
                file.inode(),
                if appends { 0..i64::MAX as u64 } else { offset as u64..end },
            );
        } else if is_call {
            self.known.pages(file.inode(), Pages::note_written);
            self.doubt_older_pages(call, file.inode(), offset as u64..end);
        }
        call.answer.put(&WriteOut { size: written as u32, padding: 0 });
        Ok(())
    }

    /// Once a write past the cache is answered, reads by the cache see its bytes.
    fn forget_pages_behind(&self, call: &Call<'_>, inode: InodeNumber, bytes: Range<u64>) {
        if self.known.pages(inode, |pages| pages.are_there()) == Some(true) {
            call.device.forget_content_part(inode, bytes);
        }
    }

    /// Once a write by the cache is answered, reads by the cache see its bytes: the next question for attributes, which
    /// comes with the next read, sees to it. A process with mapped pages asks nothing, so these go as soon as the kernel can have let go
    /// of them all.
    fn doubt_older_pages(&self, call: &mut Call<'_>, inode: InodeNumber, bytes: Range<u64>) {
        let thread = call.header.pid;
        if self.known.pages(inode, |pages| pages.may_be_older_than_write(thread)) == Some(true) {
            self.known.doubt_content(inode);
            call.older_pages = Some(bytes);
        }
    }

    /// Makes the written bytes durable.
    pub(in crate::door) fn fsync(&self, call: &mut Call<'_>) -> Result<(), Refusal> {
        let FSyncIn { handle, .. } = call.arguments.structure()?;
        Ok(self.client.fsync(&*self.files.get(handle)?)?)
    }

    /// A descriptor is closed: the record locks of its process go.
    pub(in crate::door) fn flush(&self, call: &mut Call<'_>) -> Result<(), Refusal> {
        let FlushIn { lock_owner, .. } = call.arguments.structure()?;
        self.locks.let_go_of_records(call.inode(), lock_owner);
        Ok(())
    }

    pub(in crate::door) fn release(&self, call: &mut Call<'_>) -> Result<(), Refusal> {
        let ReleaseIn { handle, .. } = call.arguments.structure()?;
        self.locks.let_go_of_file(handle);
        self.shared_offsets.end(handle);
        if let Some(file) = self.files.take(handle) {
            if may_store(&file) {
                self.known.pages(file.inode(), Pages::end_writable);
            }
            if may_read(&file) {
                self.known.pages(file.inode(), Pages::end_readable);
            }
            self.client.tell_shipped_accesses(&file);
            self.close(file);
            self.tell_accesses_soon();
        }
        Ok(())
    }

    /// Nobody waits for this request. Of what is closed in the same moment SharedFS is told at once.
    fn tell_accesses_soon(&self) {
        if self.client.has_accesses() && !self.is_telling.swap(true, Ordering::AcqRel) {
            std::thread::sleep(TOLD_AFTER);
            self.is_telling.store(false, Ordering::Release);
            self.client.tell_accesses();
        }
    }

    pub(in crate::door) fn allocate(&self, call: &mut Call<'_>) -> Result<(), Refusal> {
        const KEEP_PUNCHED: i32 = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        const KEEP_ZEROED: i32 = libc::FALLOC_FL_ZERO_RANGE | libc::FALLOC_FL_KEEP_SIZE;
        let AllocateIn { handle, offset, length, mode, .. } = call.arguments.structure()?;
        let what = match mode as i32 {
            0 => Allocation::Extend,
            libc::FALLOC_FL_KEEP_SIZE => Allocation::KeepSize,
            // No space is set aside, so that to punch a hole and to zero what the file has are the same.
            KEEP_PUNCHED | KEEP_ZEROED => Allocation::Punch,
            libc::FALLOC_FL_ZERO_RANGE => Allocation::Zero,
            // Linux has file systems behind FUSE refuse the others.
            _ => return Err(Refusal(libc::EOPNOTSUPP)),
        };
        let file = self.files.get(handle)?;
        let signed = |number: u64| i64::try_from(number).map_err(|_| Refusal(libc::EFBIG));
        self.client.allocate(&file, what, signed(offset)?, signed(length)?)?;
        if mode as i32 & libc::FALLOC_FL_KEEP_SIZE == 0 {
            self.known.note_end(file.inode(), offset + length);
        }
        Ok(())
    }

    pub(in crate::door) fn seek(&self, call: &mut Call<'_>) -> Result<(), Refusal> {
        let SeekIn { handle, offset, whence, .. } = call.arguments.structure()?;
        let whence = match whence as i32 {
            libc::SEEK_DATA => Whence::Data,
            libc::SEEK_HOLE => Whence::Hole,
            _ => return Err(Refusal(libc::EINVAL)),
        };
        let offset = i64::try_from(offset).map_err(|_| Refusal(libc::ENXIO))?;
        let file = self.files.get(handle)?;
        self.write_back_holes(call, &file, offset.unsigned_abs());
        let offset = self.client.seek(&file, offset, whence)?;
        call.answer.put(&SeekOut { offset });
        Ok(())
    }

    pub(in crate::door) fn copy_range(&self, call: &mut Call<'_>) -> Result<(), Refusal> {
        let asked: CopyRangeIn = call.arguments.structure()?;
        let (from, to) = (self.files.get(asked.handle_in)?, self.files.get(asked.handle_out)?);
        let signed = |number: u64| i64::try_from(number).map_err(|_| Refusal(libc::EFBIG));
        let (read_at, write_at) = (signed(asked.offset_in)?, signed(asked.offset_out)?);
        let length = usize::try_from(asked.length).unwrap_or(usize::MAX).min(COPY_BYTES);
        let mut written = 0;
        // The room an answer has serves as the buffer.
        call.answer.fill(length, |room| {
            let read = self.client.pread(&from, &mut [UserSliceMut::from(&mut *room)], read_at)?;
            written = self.client.pwrite(&to, &[UserSlice::from(&room[..read])], write_at)?;
            Ok::<_, Refusal>(0)
        })?;
        self.known.note_end(to.inode(), asked.offset_out + written as u64);
        call.answer.put(&WriteOut { size: written as u32, padding: 0 });
        Ok(())
    }
}
