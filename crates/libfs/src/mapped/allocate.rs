//! `fallocate` on a file in mapped mode.
//!
//! Zeros up to a new end of the file go by the log. For the kernel they are two steps, between which the
//! process may be killed.

use crate::cache::inode::State;
use crate::calls::data::allocation::Allocation;
use crate::client::attempt::Attempt;
use crate::client::client::Client;
use crate::client::halt::Halt;
use crate::errno::Error;
use crate::log::cost;
use crate::mapped::file::{MappedFile, whole};
use crate::open_files::open_file::OpenFile;
use crate::session::quotas::Payers;
use cuesta_format::Operation;
use cuesta_format::quota::Amounts;
use cuesta_media::mapped_files;
use std::ops::Range;

/// Bytes provided in one step, while the inode is locked.
const PROVIDED_BYTES: u64 = 16 << 20;

impl Client {
    /// `fallocate` on a range. Says whether it was done. `false`: the file left mapped mode meanwhile.
    pub(crate) fn allocate_mapped(
        &self,
        open_file: &OpenFile,
        mapped: &MappedFile,
        what: Allocation,
        range: &Range<u64>,
    ) -> Result<bool, Error> {
        let may_grow = matches!(what, Allocation::Extend | Allocation::Zero);
        let size = self.mapped_size(mapped)?;
        let grows = may_grow && range.end > size;
        if grows {
            self.check_growth(range.end)?;
        }
        if matches!(what, Allocation::Extend | Allocation::KeepSize | Allocation::Zero) {
            self.check_room(self.open_mapped(mapped)?, range)?;
        }
        if grows && matches!(what, Allocation::Zero) {
            let _appending = mapped.appending.lock();
            let is_logged = self.log_clearing(open_file, range)?;
            self.with_daemon(|| self.digest_own_log())?;
            return Ok(is_logged);
        }
        match what {
            Allocation::Extend | Allocation::KeepSize => {
                self.provide_mapped(open_file, mapped, range, matches!(what, Allocation::KeepSize))
            }
            Allocation::Punch | Allocation::Zero => self.operate(|attempt| {
                let state = self.reading(open_file.inode_ref())?;
                if state.mapped().is_none() {
                    return Ok(false);
                }
                if matches!(what, Allocation::Zero) {
                    self.check_mapped(attempt, open_file, &state, mapped, range)?;
                }
                let file = self.open_mapped(mapped)?;
                whole(|| mapped_files::punch(&file, range.start, range.end - range.start))?;
                self.settle_mapped(&file)?;
                Ok(true)
            }),
            Allocation::Collapse | Allocation::Insert => Err(Error::Unsupported),
        }
    }

    /// Provides a range piece by piece. After a fence between two pieces, the next piece is charged anew.
    fn provide_mapped(
        &self,
        open_file: &OpenFile,
        mapped: &MappedFile,
        range: &Range<u64>,
        keep_size: bool,
    ) -> Result<bool, Error> {
        let provide = |attempt: &mut Attempt<'_>, charged: Option<&State>, piece: Range<u64>| {
            // The kernel keeps no pages behind the end.
            let end = if keep_size { piece.end.min(self.mapped_size(mapped)?) } else { piece.end };
            let piece = piece.start..end;
            if !piece.is_empty() {
                let file = self.open_mapped(mapped)?;
                if let Some(state) = charged {
                    let (payers, added) = self.check_mapped(attempt, open_file, state, mapped, &piece)?;
                    attempt.charge(payers, added)?;
                }
                whole(|| mapped_files::clear_behind_end(&file, end))?;
                whole(|| mapped_files::provide(&file, piece.clone(), keep_size))?;
                self.settle_mapped(&file)?;
                attempt.keep_charge();
            }
            Ok(true)
        };
        let mut at = range.start;
        while at < range.end {
            let piece_end = range.end.min(at + PROVIDED_BYTES);
            let is_mapped = self.operate(|attempt| {
                let inode = open_file.inode_ref();
                if !attempt.is_charged() {
                    let is_mapped = self.reading(inode)?.mapped().is_some();
                    return if is_mapped { provide(attempt, None, at..piece_end) } else { Ok(false) };
                }
                // Under the write lock: two threads must not use the same uncharged allowance.
                let state = self.changing(inode)?;
                if state.mapped().is_none() {
                    return Ok(false);
                }
                self.check_mapped(attempt, open_file, &state, mapped, &(at..range.end))?;
                provide(attempt, Some(&state), at..piece_end)
            })?;
            if !is_mapped {
                return Ok(false);
            }
            at = piece_end;
        }
        Ok(true)
    }

    /// The blocks of `range` that the file does not have, and their payers, which must have room for them. If
    /// it needs none, the session still learns whether the payers have limits: without limits a write need
    /// not go by the log.
    pub(super) fn check_mapped(
        &self,
        attempt: &Attempt<'_>,
        file: &OpenFile,
        state: &State,
        mapped: &MappedFile,
        range: &Range<u64>,
    ) -> Result<(Payers, Amounts), Halt> {
        let payers = attempt.payers(&state.record, file.writer);
        if payers.is_empty() {
            return Ok((payers, Amounts::NONE));
        }
        let blocks = self.added_to_mapped(mapped, &state.record, range)?;
        attempt.check_room(payers, blocks)?;
        Ok((payers, Amounts { blocks, inodes: 0 }))
    }

    /// Logs that a range becomes zeros, up to a new end of the file.
    fn log_clearing(&self, file: &OpenFile, range: &Range<u64>) -> Result<bool, Error> {
        let inode = file.inode_ref();
        let (offset, length) = (range.start, range.end - range.start);
        let operation = Operation::Clear { inode: inode.number, offset, length, grow: true };
        self.operate(|attempt| {
            attempt.prepare_effect(operation.body_bytes(), cost::of_clearing(range))?;
            let mut state = self.changing(inode)?;
            let Some(mapped) = state.mapped() else { return Ok(false) };
            self.check_mapped(attempt, file, &state, mapped, range)?;
            state.logged = attempt.append(&operation)?.end;
            Ok(true)
        })
    }
}
