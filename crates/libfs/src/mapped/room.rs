//! The room that files in mapped mode take. No digest gives it to them, so the session counts it, and asks
//! before it takes any.

use crate::client::client::Client;
use crate::errno::Error;
use crate::mapped::file::{MappedFile, SECTOR_BYTES, whole};
use crate::sync::Ordering;
use cuesta_format::{BLOCK_BYTES, InodeRecord};
use cuesta_media::mapped_files;
use rustix::fd::AsFd;
use std::ops::Range;

/// Pages that a file may get before the session asks again whether there is room: a part of the free blocks,
/// and at most.
const ALLOWANCE_PART: u64 = 64;
const ALLOWANCE_MAX: u64 = 256;

impl Client {
    /// Takes the room of one more page.
    pub(crate) fn take_room(&self, mapped: &MappedFile) -> Result<(), Error> {
        let take = |left: u64| left.checked_sub(1);
        if mapped.allowance.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok() {
            return Ok(());
        }
        let mut free = self.statfs()?.blocks_unpromised();
        if free == 0 {
            // Other sessions may give unused credit back.
            self.make_credit(1)?;
            free = self.statfs()?.blocks_unpromised();
        }
        if free == 0 {
            return Err(Error::NoSpace);
        }
        let allowance = (free / ALLOWANCE_PART).clamp(1, ALLOWANCE_MAX);
        mapped.allowance.store(allowance - 1, Ordering::Relaxed);
        Ok(())
    }

    /// Checks that there is room for what `range` needs and the file does not have.
    pub(crate) fn check_room(&self, file: impl AsFd, range: &Range<u64>) -> Result<(), Error> {
        let held = whole(|| rustix::fs::fstat(&file))?.st_blocks.unsigned_abs() * SECTOR_BYTES / BLOCK_BYTES;
        let wanted = range.end.div_ceil(BLOCK_BYTES) - range.start / BLOCK_BYTES;
        if wanted <= held.saturating_add(self.statfs()?.blocks_unpromised()) {
            Ok(())
        } else {
            Err(Error::NoSpace)
        }
    }

    /// Pages of a range that the file does not have.
    pub(crate) fn missing_in_mapped(&self, mapped: &MappedFile, range: &Range<u64>) -> Result<u64, Error> {
        let file = self.open_mapped(mapped)?;
        let (mut at, end) = (range.start / BLOCK_BYTES, range.end.div_ceil(BLOCK_BYTES));
        let mut missing = 0;
        while at < end {
            let data = whole(|| mapped_files::next_data(&file, at * BLOCK_BYTES))?;
            let (start, stop) =
                data.map_or((end, end), |data| (data.start / BLOCK_BYTES, data.end.div_ceil(BLOCK_BYTES)));
            missing += start.clamp(at, end) - at;
            at = stop.max(at + 1);
        }
        Ok(missing)
    }

    /// Blocks that count for the file: those it has, and at least as many as it had in the arenas.
    pub(crate) fn mapped_blocks(&self, mapped: &MappedFile, record: &InodeRecord) -> Result<u64, Error> {
        Ok(self.mapped_record(mapped, record)?.blocks.max(record.blocks))
    }

    /// Blocks that would count in addition if the file had all of a range.
    pub(crate) fn added_to_mapped(
        &self,
        mapped: &MappedFile,
        record: &InodeRecord,
        range: &Range<u64>,
    ) -> Result<u64, Error> {
        let has = self.mapped_record(mapped, record)?.blocks;
        let will_have = has + self.missing_in_mapped(mapped, range)?;
        Ok(will_have.saturating_sub(has.max(record.blocks)))
    }
}
