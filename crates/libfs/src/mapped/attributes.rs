//! Attributes of a file in mapped mode, which the kernel's file has, and making its content durable.

use crate::client::client::Client;
use crate::errno::Error;
use crate::mapped::file::{MappedFile, OpenMapped, SECTOR_BYTES, whole};
use cuesta_format::{BLOCK_BYTES, InodeRecord, Timestamp};
use cuesta_media::mapped_files;
use rustix::fd::AsFd;
use rustix::fs::{SeekFrom, Stat, Timespec, Timestamps, UTIME_OMIT};

impl Client {
    pub(crate) fn open_mapped<'m>(&self, mapped: &'m MappedFile) -> Result<OpenMapped<'m>, Error> {
        self.check_wanted()?;
        if let Some(kept) = mapped.descriptor.as_ref().and_then(|kept| kept.get()) {
            return Ok(OpenMapped::Kept(kept));
        }
        let references = self.session.references.read();
        let found = whole(|| mapped_files::open(&*references, mapped.inode))?;
        let found = found.ok_or_else(|| Error::Daemon("a file in mapped mode is missing".into()))?;
        Ok(OpenMapped::Now(found))
    }

    /// The record, with the attributes that only the kernel knows.
    pub(crate) fn mapped_record(
        &self,
        mapped: &MappedFile,
        record: &InodeRecord,
    ) -> Result<InodeRecord, Error> {
        let found = self.stat_mapped(mapped)?;
        let modified = Timestamp::new(found.st_mtime, found.st_mtime_nsec as u32);
        Ok(InodeRecord {
            size: found.st_size.unsigned_abs(),
            blocks: (found.st_blocks.unsigned_abs() * SECTOR_BYTES).div_ceil(BLOCK_BYTES),
            modified,
            changed: record.changed.max(modified),
            ..*record
        })
    }

    pub(super) fn mapped_size(&self, mapped: &MappedFile) -> Result<u64, Error> {
        Ok(self.stat_mapped(mapped)?.st_size.unsigned_abs())
    }

    fn stat_mapped(&self, mapped: &MappedFile) -> Result<Stat, Error> {
        if let Some(kept) = mapped.descriptor.as_ref().and_then(|kept| kept.get()) {
            return whole(|| rustix::fs::fstat(&kept));
        }
        let references = self.session.references.read();
        whole(|| mapped_files::stat(&*references, mapped.inode))
    }

    /// Sets the time of last change of content.
    pub(crate) fn set_mapped_time(&self, mapped: &MappedFile, time: Timestamp) -> Result<(), Error> {
        let omitted = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
        let modified = Timespec { tv_sec: time.seconds(), tv_nsec: time.nanoseconds().into() };
        let times = Timestamps { last_access: omitted, last_modification: modified };
        let file = self.open_mapped(mapped)?;
        whole(|| rustix::fs::futimens(&file, &times))?;
        self.settle_mapped(&file)
    }

    /// Sets the size.
    pub(crate) fn truncate_mapped(&self, mapped: &MappedFile, size: u64) -> Result<(), Error> {
        if size > self.mapped_size(mapped)? {
            self.check_growth(size)?;
        }
        let file = self.open_mapped(mapped)?;
        whole(|| mapped_files::clear_behind_end(&file, size))?;
        whole(|| mapped_files::set_size(&file, size))?;
        self.settle_mapped(&file)
    }

    /// Makes durable what programs stored through mappings of the file.
    pub(crate) fn sync_mapped(&self, mapped: &MappedFile) -> Result<(), Error> {
        let file = self.open_mapped(mapped)?;
        self.settle_mapped(&file)
    }

    pub(super) fn settle_mapped(&self, file: impl AsFd) -> Result<(), Error> {
        whole(|| mapped_files::settle(&file, self.session.welcome.medium))
    }

    /// The first offset from `from` on with data, or in a hole.
    pub(crate) fn find_mapped(&self, mapped: &MappedFile, from: u64, data: bool) -> Result<u64, Error> {
        let file = self.open_mapped(mapped)?;
        let seek = if data { SeekFrom::Data(from) } else { SeekFrom::Hole(from) };
        whole(|| rustix::fs::seek(&file, seek))
    }
}
