//! Open files: opening, reading, writing, closing.

use super::attributes::stale;
use super::who;
use super::{Call, Door, Refusal};
use crate::abi::{
    AllocateIn, CopyRangeIn, CreateIn, FSyncIn, FlushIn, OPEN_DIRECT, OPEN_KEEP_CACHE, OpenIn, OpenOut,
    READ_OF_CALL, ReadIn, ReleaseIn, SeekIn, SeekOut, WRITE_FROM_CACHE, WRITE_TAKES_SET_ID, WriteIn,
    WriteOut,
};
use cuesta_libfs::{Allocation, NewMode, OpenFile, UNNAMED, Whence};
use cuesta_media::{UserSlice, UserSliceMut};
use std::sync::Arc;

/// Flags of an open that the kernel has dealt with, or that concern the descriptor.
const NOT_OURS: i32 = libc::O_CREAT | libc::O_EXCL | libc::O_NOCTTY | libc::O_TRUNC | libc::O_NOFOLLOW;
/// Flags of an open whose file is read and written past the kernel's cache.
const PAST_CACHE: i32 = libc::O_APPEND | libc::O_DIRECT;
/// Bytes that are copied from file to file at once.
const COPY_BYTES: usize = 1 << 20;

impl Door {
    pub(super) fn open(&self, call: &mut Call<'_>) -> Result<(), Refusal> {
        let OpenIn { flags, .. } = call.arguments.structure()?;
        let flags = flags as i32 & !NOT_OURS;
        let file = self.client.open(&who::asks(&call.header), call.base(), b"", flags, 0).map_err(stale)?;
        self.known.note_content(call.inode(), None);
        self.put_open(call, file, flags);
        Ok(())
    }

    /// What the kernel has cached stays: whether it still holds is asked with the attributes. With its cache it cuts a write
    /// where it takes the pages of the end to be, and shows what is written before it is; so past it goes what is
    /// appended, since others append, too, and whoever asks for that, whose calls then are what they are by the other door.
    fn put_open(&self, call: &mut Call<'_>, file: Arc<OpenFile>, flags: i32) {
        let handle = self.files.add(file);
        // Before Linux 6.6 such a file could not be mapped by others' programs.
        let past_cache = if self.can_map_direct { PAST_CACHE } else { libc::O_DIRECT };
        let direct = if flags & past_cache != 0 { OPEN_DIRECT } else { 0 };
        call.answer.put(&OpenOut { handle, open_flags: OPEN_KEEP_CACHE | direct, padding: 0 });
    }

    pub(super) fn create(&self, call: &mut Call<'_>) -> Result<(), Refusal> {
        let CreateIn { flags, mode, umask, .. } = call.arguments.structure()?;
        let name = call.arguments.text()?;
        // The kernel has checked that it may be made, and would not check what somebody else made there meanwhile: that it is
        // to open as anything that is there.
        let exclusive = flags as i32 & libc::O_EXCL != 0;
        let flags = flags as i32 & !(libc::O_NOCTTY | libc::O_TRUNC) | libc::O_CREAT | libc::O_EXCL;
        let made = self.make_open(call, name, flags, NewMode { bits: mode & 0o7777, umask });
        if made == Err(Refusal(libc::EEXIST)) && !exclusive {
            return Err(Refusal(libc::ESTALE));
        }
        made
    }

    pub(super) fn create_unnamed(&self, call: &mut Call<'_>) -> Result<(), Refusal> {
        let CreateIn { flags, mode, umask, .. } = call.arguments.structure()?;
        let flags = flags as i32 & !libc::O_CREAT | libc::O_DIRECTORY | UNNAMED;
        self.make_open(call, b"", flags, NewMode { bits: mode & 0o7777, umask })
    }

    /// What is opened is new, with the set-id bits that the kernel has left.
    fn make_open(&self, call: &mut Call<'_>, name: &[u8], flags: i32, mode: NewMode) -> Result<(), Refusal> {
        let who = who::trusted(&call.header);
        let (file, record) = self.client.open_or_make(&who, call.base(), name, flags, mode)?;
        self.put_entry(call, &record);
        // Nothing is cached of it before this is answered.
        let tenure = self.client.stat_inode(file.inode()).ok().map(|(_, tenure)| tenure);
        self.known.note_content(file.inode(), tenure);
        self.put_open(call, file, flags);
        Ok(())
    }

    pub(super) fn read(&self, call: &mut Call<'_>) -> Result<(), Refusal> {
        let ReadIn { handle, offset, size, read_flags, .. } = call.arguments.structure()?;
        let file = self.files.get(handle)?;
        let offset = i64::try_from(offset).map_err(|_| Refusal(libc::EINVAL))?;
        // What is not a program's call but a page that is mapped has nothing to do with anybody's offset.
        let is_call = read_flags & READ_OF_CALL != 0;
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

    pub(super) fn write(&self, call: &mut Call<'_>) -> Result<(), Refusal> {
        let WriteIn { handle, offset, size, write_flags, flags, .. } = call.arguments.structure()?;
        let data = call.arguments.bytes(size as usize)?;
        let file = self.files.get(handle)?;
        let offset = i64::try_from(offset).map_err(|_| Refusal(libc::EFBIG))?;
        let appends = flags as i32 & libc::O_APPEND != 0 && write_flags & WRITE_FROM_CACHE == 0;
        let is_call = write_flags & WRITE_FROM_CACHE == 0;
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
        if write_flags & WRITE_TAKES_SET_ID != 0 {
            // What the file had of these bits is gone, and the kernel would go by what it knows.
            call.device.doubt_attributes(file.inode());
        }
        call.answer.put(&WriteOut { size: written as u32, padding: 0 });
        Ok(())
    }

    /// What was written is to be durable.
    pub(super) fn fsync(&self, call: &mut Call<'_>) -> Result<(), Refusal> {
        let FSyncIn { handle, .. } = call.arguments.structure()?;
        Ok(self.client.fsync(&*self.files.get(handle)?)?)
    }

    /// A descriptor is closed: the record locks of who had it go.
    pub(super) fn flush(&self, call: &mut Call<'_>) -> Result<(), Refusal> {
        let FlushIn { lock_owner, .. } = call.arguments.structure()?;
        self.locks.let_go_of_records(call.inode(), lock_owner);
        Ok(())
    }

    pub(super) fn release(&self, call: &mut Call<'_>) -> Result<(), Refusal> {
        let ReleaseIn { handle, .. } = call.arguments.structure()?;
        self.locks.let_go_of_file(handle);
        self.shared_offsets.end(handle);
        if let Some(file) = self.files.take(handle) {
            self.close(file);
        }
        Ok(())
    }

    pub(super) fn allocate(&self, call: &mut Call<'_>) -> Result<(), Refusal> {
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

    pub(super) fn seek(&self, call: &mut Call<'_>) -> Result<(), Refusal> {
        let SeekIn { handle, offset, whence, .. } = call.arguments.structure()?;
        let whence = match whence as i32 {
            libc::SEEK_DATA => Whence::Data,
            libc::SEEK_HOLE => Whence::Hole,
            _ => return Err(Refusal(libc::EINVAL)),
        };
        let offset = i64::try_from(offset).map_err(|_| Refusal(libc::ENXIO))?;
        let offset = self.client.seek(&*self.files.get(handle)?, offset, whence)?;
        call.answer.put(&SeekOut { offset });
        Ok(())
    }

    pub(super) fn copy_range(&self, call: &mut Call<'_>) -> Result<(), Refusal> {
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
