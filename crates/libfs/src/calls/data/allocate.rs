//! `fallocate`: changes a range of a file by one entry of the log, whole or not at all.
//!
//! A digest may need new blocks where a file has blocks already. So a block reserved now might not be the one
//! that a later write needs. Therefore the call checks space and quotas, and reserves nothing. Clearing a
//! range stores nothing. Shifting moves content where the digest put it, so SharedFS first digests the file's
//! part of the log.

use crate::cache::inode::State;
use crate::calls::data::allocation::Allocation;
use crate::calls::data::limits::too_big;
use crate::client::attempt::Attempt;
use crate::client::client::Client;
use crate::client::halt::Halt;
use crate::errno::Error;
use crate::log::cost;
use crate::open_files::open_file::OpenFile;
use crate::sharing::shipped::ShippedChange;
use crate::sync::RwLockWriteGuard;
use cuesta_format::{BLOCK_BYTES, FILE_BYTES_MAX, FileKind, Operation};
use std::ops::Range;

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
        let range = offset..end;
        let change = ShippedChange::Allocate { what, offset: offset as i64, length: length as i64 };
        if let Some(shipped) = self.ship_change(file, change) {
            return shipped;
        }
        loop {
            let is_done = match self.mapped(file.inode_ref())? {
                Some(mapped) if matches!(what, Allocation::Collapse | Allocation::Insert) => {
                    drop(mapped);
                    self.leave_mapped(file.inode_ref())?;
                    false
                }
                Some(mapped) => self.allocate_mapped(file, &mapped, what, &range)?,
                None => self.allocate_logged(file, what, &range)?,
            };
            if is_done {
                return Ok(());
            }
        }
    }

    /// Says whether it was done. `false`: the file was put into mapped mode meanwhile.
    fn allocate_logged(&self, file: &OpenFile, what: Allocation, range: &Range<u64>) -> Result<bool, Error> {
        match what {
            Allocation::Extend => {
                if range.end > self.stat_open(file)?.record.size {
                    self.check_growth(range.end)?;
                }
                self.check_space(file, range)?;
                self.extend(file, range, range.end)
            }
            Allocation::KeepSize => {
                self.check_space(file, range)?;
                self.extend(file, range, 0)
            }
            Allocation::Punch => self.clear(file, range, false),
            Allocation::Zero => {
                self.check_space(file, range)?;
                self.clear(file, range, true)
            }
            Allocation::Collapse => self.shift(file, range, false),
            Allocation::Insert => self.shift(file, range, true),
        }
    }

    fn check_space(&self, file: &OpenFile, range: &Range<u64>) -> Result<(), Error> {
        let held = self.stat_open(file)?.record.blocks;
        let wanted = range.end.div_ceil(BLOCK_BYTES) - range.start / BLOCK_BYTES;
        let totals = self.statfs()?;
        if wanted <= held.saturating_add(totals.blocks_unpromised()) {
            return Ok(());
        }
        // A range larger than the store is refused before it can take all credit.
        if wanted > held.saturating_add(totals.blocks) {
            return Err(Error::NoSpace);
        }
        // Credit of this session counts as space. Credit of other sessions may yet be freed. SharedFS gives
        // the credit that it has at hand, and may have more as long as it gives any.
        let missing = wanted - held;
        while self.session.credit_left() < missing {
            let limit = self.session.credit_limit();
            self.make_credit(missing)?;
            if self.session.credit_limit() == limit {
                return Err(Error::NoSpace);
            }
        }
        Ok(())
    }

    /// Extends the file to `end`, if its payers have room for `range`. A file that already reaches there is
    /// touched.
    fn extend(&self, file: &OpenFile, range: &Range<u64>, end: u64) -> Result<bool, Error> {
        let inode = file.inode_ref();
        self.take_rights(inode, file.writer)?;
        self.operate(|attempt| {
            attempt.prepare_effect(0, cost::of_truncation(end))?;
            let state = self.changing(inode)?;
            let size = state.record.size.max(end);
            if state.mapped().is_some() {
                return Ok(false);
            }
            let mut state = self.check_quotas(attempt, file, state, range)?;
            self.truncate_locked(attempt, inode, &mut state, size)?;
            Ok(true)
        })
    }

    fn clear(&self, file: &OpenFile, range: &Range<u64>, grow: bool) -> Result<bool, Error> {
        let inode = file.inode_ref();
        self.take_rights(inode, file.writer)?;
        self.operate(|attempt| {
            let (offset, length) = (range.start, range.end - range.start);
            let operation = Operation::Clear { inode: inode.number, offset, length, grow };
            attempt.prepare_effect(operation.body_bytes(), cost::of_clearing(range))?;
            let mut state = self.changing(inode)?;
            if state.mapped().is_some() {
                return Ok(false);
            }
            let size = state.record.size;
            if grow {
                if range.end > size {
                    self.check_growth(range.end)?;
                }
                state = self.check_quotas(attempt, file, state, range)?;
            }
            let appended = attempt.append(&operation)?;
            let held = if range.end < size { range.end } else { size.next_multiple_of(BLOCK_BYTES) };
            if let Some(content) = state.file_mut()
                && content.clear(range.start..held, appended.position)
            {
                self.truncations.lock().push_back((appended.position, inode.number));
            }
            if grow {
                state.record.size = size.max(range.end);
            }
            state.touch_content(attempt.now);
            state.logged = appended.end;
            Ok(true)
        })
    }

    /// Checks that the file's payers have room for what it does not have of `range`.
    fn check_quotas<'f>(
        &self,
        attempt: &Attempt<'_>,
        file: &'f OpenFile,
        state: RwLockWriteGuard<'f, State>,
        range: &Range<u64>,
    ) -> Result<RwLockWriteGuard<'f, State>, Halt> {
        let payers = attempt.payers(&state.record, file.writer);
        if payers.is_empty() {
            return Ok(state);
        }
        let Some(missing) = state.missing(range.clone()) else {
            drop(state);
            self.fetch_extents(file.inode_ref())?;
            return Err(Halt::Again);
        };
        attempt.check_room(payers, missing)?;
        Ok(state)
    }

    fn shift(&self, file: &OpenFile, range: &Range<u64>, insert: bool) -> Result<bool, Error> {
        let (offset, length) = (range.start, range.end - range.start);
        if !offset.is_multiple_of(BLOCK_BYTES) || !length.is_multiple_of(BLOCK_BYTES) {
            return Err(Error::Invalid);
        }
        let inode = file.inode_ref();
        self.take_rights(inode, file.writer)?;
        self.operate(|attempt| {
            let operation = Operation::Shift { inode: inode.number, offset, length, insert };
            attempt.prepare_effect(operation.body_bytes(), 0)?;
            let mut state = self.changing(inode)?;
            if state.mapped().is_some() {
                return Ok(false);
            }
            let size = state.record.size;
            let shifted = match insert {
                true => size.checked_add(length).filter(|&size| size <= FILE_BYTES_MAX),
                false => Some(size.saturating_sub(length)),
            };
            let shifted = shifted.ok_or_else(|| too_big(FILE_BYTES_MAX))?;
            if offset >= size || !insert && range.end >= size {
                return Err(Error::Invalid.into());
            }
            if state.logged > self.session.retired() {
                return Err(Halt::Undigested);
            }
            let Some(content) = state.file_mut() else { return Err(Halt::Again) };
            if !content.may_shift() {
                let is_clean = content.is_clean();
                drop(state);
                self.fetch_extents(inode)?;
                return Err(if is_clean { Halt::Again } else { Halt::Undigested });
            }
            let appended = attempt.append(&operation)?;
            content.shift(range.clone(), insert);
            state.record.size = shifted;
            state.touch_content(attempt.now);
            state.logged = appended.end;
            Ok(true)
        })
    }
}
