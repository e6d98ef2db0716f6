//! Reading and writing the kernel's file of a file in mapped mode.
//!
//! | write | path | reason |
//! |---|---|---|
//! | within one page, medium `memory` | straight to the kernel's file | the kernel writes a page whole |
//! | on several pages, or on a medium that survives a loss of power | the log, then a digest | a killed process or a loss of power could leave it in part |
//! | at the end (append) | the log, then a digest | the holder of the write lease owns the end of the file |
//! | a new page that may be beyond a quota | the log, then a digest | only the log orders it against room that others got |

use crate::calls::data::limits::too_big;
use crate::client::client::Client;
use crate::errno::Error;
use crate::log::cost;
use crate::mapped::file::{MappedFile, whole};
use crate::open_files::open_file::OpenFile;
use cuesta_format::Medium;
use cuesta_media::{UserSlice, UserSliceMut, mapped_files};

/// The kernel writes a page whole.
const PAGE_BYTES: usize = 4096;

/// Bytes read at once, through a buffer of our own.
const READ_BYTES: usize = 16 << 10;

/// The outcome of a write.
pub(crate) enum MappedWrite {
    /// This many bytes were written, up to this offset.
    Written(usize, u64),
    /// The file has left mapped mode.
    Ended,
    /// Nothing was written. This many bytes can be written: the file may not grow further, or the rest of the
    /// program's memory cannot be read.
    Less(u64),
}

impl Client {
    /// Reads at `offset`.
    pub(crate) fn read_mapped(
        &self,
        mapped: &MappedFile,
        out: &mut [UserSliceMut<'_>],
        offset: u64,
    ) -> Result<usize, Error> {
        let file = self.open_mapped(mapped)?;
        let mut buffer = [0; READ_BYTES];
        let mut done = 0;
        for slice in out {
            let mut filled = 0;
            while filled < slice.len() {
                let wanted = READ_BYTES.min(slice.len() - filled);
                let count = whole(|| mapped_files::read(&file, &mut buffer[..wanted], offset + done as u64))?;
                if count == 0 {
                    return Ok(done);
                }
                if let Err(fault) = slice.part(filled, count).copy_out(&buffer[..count]) {
                    done += fault.copied;
                    return if done > 0 { Ok(done) } else { Err(Error::Fault) };
                }
                filled += count;
                done += count;
            }
        }
        Ok(done)
    }

    /// Writes `bytes` of `data` at `at`, or at the end.
    pub(crate) fn write_mapped(
        &self,
        file: &OpenFile,
        mapped: &MappedFile,
        (data, bytes): (&[UserSlice<'_>], usize),
        at: Option<u64>,
        limit: u64,
    ) -> Result<MappedWrite, Error> {
        let within_page = at.filter(|&offset| offset as usize % PAGE_BYTES + bytes <= PAGE_BYTES);
        // A write that the kernel has begun when the power fails survives in part.
        let is_lost_with_power = self.session.welcome.medium == Medium::Memory;
        if let Some(offset) = within_page.filter(|_| is_lost_with_power) {
            match self.write_page(file, mapped, data, offset) {
                Ok(Some(written)) => return Ok(written),
                // The log can use the credit of this session.
                Ok(None) | Err(Error::NoSpace) => {}
                Err(error) => return Err(error),
            }
        }
        let _appending = mapped.appending.lock();
        match (self.log_mapped(file, data, bytes, at, limit), within_page) {
            // On a full store, pages that the file has can still be written.
            (Err(Error::NoSpace), Some(offset)) => {
                self.write_page(file, mapped, data, offset)?.ok_or(Error::NoSpace)
            }
            (logged, _) => {
                let written = logged?;
                self.with_daemon(|| self.digest_own_log())?;
                Ok(written)
            }
        }
    }

    /// Writes within one page, all or nothing. `None`: the write must go by the log.
    fn write_page(
        &self,
        open_file: &OpenFile,
        mapped: &MappedFile,
        data: &[UserSlice<'_>],
        offset: u64,
    ) -> Result<Option<MappedWrite>, Error> {
        let file = self.open_mapped(mapped)?;
        let is_new = !whole(|| mapped_files::has_page(&file, offset))?;
        if is_new && self.may_be_limited(&open_file.inode_ref().state.read().record, open_file.writer) {
            return Ok(None);
        }
        let mut page = [0; PAGE_BYTES];
        let mut filled = 0;
        for slice in data {
            match slice.copy_in(&mut page[filled..filled + slice.len()]) {
                Ok(()) => filled += slice.len(),
                Err(fault) if filled + fault.copied == 0 => return Err(Error::Fault),
                Err(fault) => {
                    filled += fault.copied;
                    break;
                }
            }
        }
        if is_new {
            self.take_room(mapped)?;
        }
        whole(|| mapped_files::clear_behind_end(&file, offset))?;
        let written = whole(|| mapped_files::write(&file, &page[..filled], offset))?;
        self.settle_mapped(&file)?;
        Ok(Some(MappedWrite::Written(written, offset + written as u64)))
    }

    fn log_mapped(
        &self,
        file: &OpenFile,
        data: &[UserSlice<'_>],
        bytes: usize,
        at: Option<u64>,
        limit: u64,
    ) -> Result<MappedWrite, Error> {
        let inode = file.inode_ref();
        self.operate(|attempt| {
            let blocks = match at {
                Some(offset) => cost::of_write(offset, bytes as u64),
                None => cost::of_append(bytes as u64),
            };
            attempt.prepare_effect(bytes, blocks)?;
            let mut state = self.changing(inode)?;
            let Some(mapped) = state.mapped() else { return Ok(MappedWrite::Ended) };
            let offset = match at {
                Some(offset) => offset,
                None => self.mapped_size(mapped)?,
            };
            match limit.saturating_sub(offset) {
                0 => return Err(too_big(limit).into()),
                room if room < bytes as u64 => return Ok(MappedWrite::Less(room)),
                _ => {}
            }
            let range = offset..offset + bytes as u64;
            let (payers, added) = self.check_mapped(attempt, file, &state, mapped, &range)?;
            attempt.charge(payers, added)?;
            let (bytes, appended) = match attempt.append_write(inode.number, offset, data, false)? {
                Ok(appended) => (bytes, appended),
                Err(fault) if fault.copied > 0 => return Ok(MappedWrite::Less(fault.copied as u64)),
                Err(_) => return Err(Error::Fault.into()),
            };
            state.logged = appended.end;
            Ok(MappedWrite::Written(bytes, offset + bytes as u64))
        })
    }
}
