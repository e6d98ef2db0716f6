//! `fallocate`, in terms of what the log knows: a file grows by a truncation, and is zeroed by writes of zeros.
//!
//! Committed blocks are never written in place, so a block set aside now could not be the one a later write needs:
//! space is checked, not kept. Up to 16 MiB are zeroed in one entry, whole or not at all; more in several.

use crate::client::Client;
use crate::debit;
use crate::errno::Error;
use crate::open_file::OpenFile;
use cuesta_format::{BLOCK_BYTES, FILE_BYTES_MAX, FileKind, WRITE_BYTES_MAX};
use cuesta_media::UserSlice;
use std::ops::Range;

/// What `fallocate` does to a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocation {
    /// Makes sure of space, and that the file reaches to the range's end.
    Extend,
    /// Makes sure of space; the size stays.
    KeepSize,
    /// What the file has there reads as zeros; the size stays.
    Punch,
    /// As `Punch`, and the file reaches to the range's end.
    Zero,
}

const ZEROS_BYTES: usize = 64 * 1024;
static ZEROS: [u8; ZEROS_BYTES] = [0; ZEROS_BYTES];

impl Client {
    /// `fallocate` on `length` bytes from `offset` on.
    pub fn allocate(&self, file: &OpenFile, what: Allocation, offset: i64, length: i64) -> Result<(), Error> {
        let offset = u64::try_from(offset).map_err(|_| Error::Invalid)?;
        let length = u64::try_from(length).ok().filter(|&length| length > 0).ok_or(Error::Invalid)?;
        file.check_writable()?;
        if file.kind() != FileKind::File {
            return Err(Error::Invalid);
        }
        let end = offset.checked_add(length).filter(|&end| end <= FILE_BYTES_MAX).ok_or(Error::FileTooBig)?;
        let grows = matches!(what, Allocation::Extend | Allocation::Zero);
        if grows && end > self.stat_open(file)?.record.size {
            self.check_growth(end)?;
        }
        match what {
            Allocation::Extend => {
                self.check_space(file, &(offset..end))?;
                self.extend(file, end)
            }
            Allocation::KeepSize => self.check_space(file, &(offset..end)),
            Allocation::Punch => self.clear(file, offset..end, false),
            Allocation::Zero => self.clear(file, offset..end, true),
        }
    }

    fn check_space(&self, file: &OpenFile, range: &Range<u64>) -> Result<(), Error> {
        let held = self.stat_open(file)?.record.blocks;
        let wanted = range.end.div_ceil(BLOCK_BYTES) - range.start / BLOCK_BYTES;
        if wanted > held.saturating_add(self.statfs()?.blocks_free) { Err(Error::NoSpace) } else { Ok(()) }
    }

    /// Makes the file reach to `end`, if it does not.
    fn extend(&self, file: &OpenFile, end: u64) -> Result<(), Error> {
        let inode = file.inode_ref();
        self.take_rights(inode, file.writer)?;
        self.operate(|turn| {
            turn.prepare(0, debit::of_truncation(end))?;
            let mut state = self.changing(inode)?;
            if state.record.size >= end {
                return Ok(());
            }
            self.truncate_locked(turn, inode, &mut state, end)
        })
    }

    /// Writes zeros over the range, up to the file's end only unless it may grow.
    fn clear(&self, file: &OpenFile, range: Range<u64>, may_grow: bool) -> Result<(), Error> {
        let mut at = range.start;
        while at < range.end {
            let bytes = (range.end - at).min(WRITE_BYTES_MAX as u64) as usize;
            let zeros: Vec<UserSlice<'_>> = (0..bytes)
                .step_by(ZEROS_BYTES)
                .map(|done| UserSlice::from(&ZEROS[..ZEROS_BYTES.min(bytes - done)]))
                .collect();
            match self.write_zeros(file, &zeros, at, may_grow)? {
                0 => return Ok(()),
                written => at += written as u64,
            }
        }
        Ok(())
    }
}
