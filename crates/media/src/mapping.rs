//! A file mapped whole (or a range of it), shared with whoever else maps it.

use crate::called;
use crate::device;
use crate::error::MediaError;
use crate::huge::{self, HUGE_PAGE_BYTES};
use crate::node::{self, Node};
use crate::recorder;
use crate::shared::SharedMemory;
use cuesta_format::Medium;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{CWD, FallocateFlags, FileType, Mode, OFlags, RenameFlags};
use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::ffi::c_void;
use std::io;
use std::ops::Deref;
use std::path::Path;
use std::ptr::{NonNull, null_mut};

/// What the name of a file ends in until it is whole; a maker that was killed leaves one such, see [`create_allocated`].
pub const UNFINISHED_EXTENSION: &str = "unfinished";

/// Maps part of a file.
///
/// # Safety
/// With `MapFlags::FIXED` the range at `place` is the caller's to replace.
unsafe fn map(
    place: *mut c_void,
    len: usize,
    protection: Protection,
    flags: MapFlags,
    file: impl AsFd,
    offset: u64,
) -> Result<NonNull<u8>, MediaError> {
    // SAFETY: the caller's promise.
    let base = unsafe { rustix::mm::mmap(place, len, protection.flags(), flags, file, offset) }
        .map_err(MediaError::system("map file"))?;
    NonNull::new(base.cast())
        .ok_or(MediaError::System { action: "map file", errno: rustix::io::Errno::NOMEM })
}

/// What a mapping allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// Loads only.
    ReadOnly,
    /// Loads and stores.
    ReadWrite,
}

impl Protection {
    pub(crate) fn flags(self) -> ProtFlags {
        match self {
            Protection::ReadOnly => ProtFlags::READ,
            Protection::ReadWrite => ProtFlags::READ | ProtFlags::WRITE,
        }
    }
}

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

    /// Maps the beginning of another file, which must be as long, in the place of what is mapped. Who reads or writes
    /// meanwhile does so in one or the other.
    pub fn replace(&self, file: impl AsFd) -> Result<(), MediaError> {
        let (len, found) = (self.memory.len(), file_len(file.as_fd())?);
        if found < len {
            return Err(MediaError::Short { expected: len, found });
        }
        let flags = share_flags(self.memory.medium())? | MapFlags::FIXED;
        let place = self.memory.as_ptr();
        // SAFETY: the range is this mapping's own, with the same protection as before; accessors make no assumption on
        // what is mapped there.
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
    /// later access fails or pays. On medium `block` it is not touched: its pages would be written. What had its room keeps it; no byte changes. With `huge`, on medium `memory`, whole
    /// huge pages of it become that, if the kernel can.
    pub fn provide(&self, file: impl AsFd, offset: u64, len: u64, huge: bool) -> Result<(), MediaError> {
        self.check_part(offset, len)?;
        let aligned = (self.memory.as_ptr() as u64).is_multiple_of(HUGE_PAGE_BYTES);
        if huge && aligned && self.memory.medium() == Medium::Memory {
            for page in huge::whole_pages(offset, len) {
                // What the kernel has cleared as small pages it would only copy: it gets one to begin with.
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

    /// Gives all memory of a file in memory back to the kernel. Who has it mapped finds zeros.
    pub fn empty(&self) {
        // SAFETY: the range is this mapping's own; what changes is what is read there, as others can change it, too.
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
        // mapped cannot fail for a reason anybody could act on.
        let _ = unsafe { rustix::mm::munmap(self.memory.as_ptr().cast(), len) };
    }
}

/// Creates a file of allocated zeros (mode 0600) that survives a crash from then on, its name included. It has its
/// name only once it is whole: whoever is killed in the middle, or finds no room, leaves no part of it under `path`.
pub fn create_allocated(path: &Path, len: u64) -> Result<OwnedFd, MediaError> {
    create_whole(path, |file| {
        rustix::fs::fallocate(file, FallocateFlags::empty(), 0, len)
            .map_err(MediaError::system("allocate file"))
    })
}

/// Creates a file of `len` zeros (mode 0600) that takes no room yet, whole and durably as [`create_allocated`]: it
/// gets its room step by step, see [`Mapping::provide`].
pub fn create_sparse(path: &Path, len: u64) -> Result<OwnedFd, MediaError> {
    create_whole(path, |file| rustix::fs::ftruncate(file, len).map_err(MediaError::system("size new file")))
}

/// Creates a file of zeros as [`create_allocated`], for medium `block`: the disk has written all of it, so that what is stored
/// there later is written where it lies, and needs no change of the file's own description.
pub fn create_written(path: &Path, len: u64) -> Result<OwnedFd, MediaError> {
    create_whole(path, |file| {
        rustix::fs::fallocate(file, FallocateFlags::empty(), 0, len)
            .map_err(MediaError::system("allocate file"))?;
        called::write_zeros(file.as_fd(), 0, len)
    })
}

/// Gives a file that was cut short its length again, with zeros on the medium where it lacks them: who has it mapped finds them there.
/// Says whether it was short.
pub fn lengthen(file: impl AsFd, len: u64) -> Result<bool, MediaError> {
    let found = file_len(file.as_fd())?;
    if found >= len {
        return Ok(false);
    }
    called::write_zeros(file.as_fd(), found, len - found)?;
    rustix::fs::fsync(&file).map_err(MediaError::system("sync lengthened file"))?;
    recorder::on_set_len(file.as_fd(), len);
    Ok(true)
}

/// Creates a file (mode 0600) that is what `size` makes of it, whole and durably as [`create_allocated`].
pub fn create_whole(
    path: &Path,
    size: impl FnOnce(&OwnedFd) -> Result<(), MediaError>,
) -> Result<OwnedFd, MediaError> {
    let unfinished = path.with_extension(UNFINISHED_EXTENSION);
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC;
    let file = rustix::fs::open(&unfinished, flags, Mode::RUSR | Mode::WUSR)
        .map_err(MediaError::system("create file"))?;
    recorder::on_create(file.as_fd());
    let finished = size(&file)
        .and_then(|()| rustix::fs::fsync(&file).map_err(MediaError::system("sync new file")))
        .and_then(|()| {
            recorder::on_set_len(file.as_fd(), file_len(file.as_fd())?);
            rustix::fs::renameat_with(CWD, &unfinished, CWD, path, RenameFlags::NOREPLACE)
                .map_err(MediaError::system("create file"))
        });
    if let Err(error) = finished {
        // The error to report is the first one; a file left behind is replaced by the next one.
        let _ = remove(&unfinished);
        return Err(error);
    }
    recorder::on_rename(file.as_fd());
    if let Err(error) = sync_parent(path) {
        // Left behind, it would be in the way of the next one of that name.
        let _ = remove(path);
        return Err(error);
    }
    Ok(file)
}

/// Removes a file. What has it open or mapped keeps it; that it is gone is durable once its folder is synced.
pub fn remove(path: &Path) -> io::Result<()> {
    rustix::fs::unlink(path)?;
    recorder::on_remove(path);
    Ok(())
}

/// Gives a part of a file its room on the medium, durably. What had its room keeps it; no byte changes. A device has all of its.
fn allocate(file: impl AsFd, offset: u64, len: u64) -> Result<(), MediaError> {
    if device::is_of_bytes(file.as_fd())? {
        return Ok(());
    }
    rustix::fs::fallocate(&file, FallocateFlags::KEEP_SIZE, offset, len)
        .map_err(MediaError::system("allocate file"))?;
    rustix::fs::fsync(&file).map_err(MediaError::system("sync allocated file"))
}

/// Makes the name of a file durable.
pub(crate) fn sync_parent(path: &Path) -> Result<(), MediaError> {
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory =
        rustix::fs::open(parent, flags, Mode::empty()).map_err(MediaError::system("open directory"))?;
    rustix::fs::fsync(&directory).map_err(MediaError::system("sync directory"))
}

pub(crate) fn file_len(file: BorrowedFd<'_>) -> Result<u64, MediaError> {
    let stat = rustix::fs::fstat(file).map_err(MediaError::system("examine file"))?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::CharacterDevice => device::len(stat.st_rdev),
        _ => Ok(stat.st_size as u64),
    }
}

/// Mapping flags of a medium; on `pmem` the kernel must promise that flushed stores need no fsync (MAP_SYNC).
pub(crate) fn share_flags(medium: Medium) -> Result<MapFlags, MediaError> {
    match medium {
        Medium::Memory | Medium::Block => Ok(MapFlags::SHARED),
        Medium::Pmem if crate::arch::CAN_PERSIST => Ok(MapFlags::SHARED_VALIDATE | MapFlags::SYNC),
        Medium::Pmem => Err(MediaError::Unsupported(medium)),
    }
}

/// Touches every page, so that no later access pays for it.
///
/// # Safety
/// The range is mapped with `protection`, on page boundaries.
pub(crate) unsafe fn touch(base: *mut u8, len: usize, protection: Protection) -> Result<(), MediaError> {
    let advice = match protection {
        Protection::ReadOnly => Advice::LinuxPopulateRead,
        Protection::ReadWrite => Advice::LinuxPopulateWrite,
    };
    // SAFETY: populating changes no contents.
    unsafe { rustix::mm::madvise(base.cast::<c_void>(), len, advice) }
        .map_err(MediaError::system("touch mapped pages"))
}
