//! Writing: one entry in the log, then the overlay of the cached content.
//!
//! A write takes set-id bits away first ([`crate::calls::data::take_rights`]). A file in mapped mode is
//! written in [`crate::mapped::read_write`], and a contended file by SharedFS ([`crate::sharing::send`]).

use crate::cache::file_content::Source;
use crate::cache::inode::State;
use crate::calls::data::limits::too_big;
use crate::calls::data::stage::Staged;
use crate::client::attempt::Attempt;
use crate::client::client::Client;
use crate::client::halt::Halt;
use crate::errno::Error;
use crate::log::cost;
use crate::mapped::file::MappedFile;
use crate::mapped::read_write::MappedWrite;
use crate::open_files::open_file::OpenFile;
use crate::steering::predictions::{Counts, Prediction};
use crate::steering::write_size::LargeSizes;
use crate::sync::{Arc, Ordering};
use cuesta_format::entry::HEADER_BYTES;
use cuesta_format::quota::Amounts;
use cuesta_format::{ArenaId, BLOCK_BYTES, BlockAddress, FileKind, TierNumber, WRITE_BYTES_MAX};
use cuesta_media::UserSlice;
use libc::O_DSYNC;
use std::ops::Range;

/// The outcome of one attempt to write.
enum WriteOutcome {
    Whole {
        end: u64,
    },
    /// The application's memory ended after this many bytes.
    Faulted {
        copied: usize,
    },
    /// Set-id bits and capabilities must go first.
    Rights,
    /// The file may grow by this many bytes only.
    Full {
        room: u64,
    },
    /// The file is in mapped mode.
    Mapped(Arc<MappedFile>),
    /// A block that is written in part lies in this arena of a lower tier, which may be missing.
    Arena(ArenaId),
}

impl Client {
    /// Writes at the file's offset (or at its end, if it was opened to append) and moves the offset. One
    /// write is one atomic entry of at most 16 MiB. A longer write is short.
    pub fn write(&self, file: &OpenFile, data: &[UserSlice<'_>]) -> Result<usize, Error> {
        self.write_appending(file, data, None, file.appends())
    }

    /// Writes at `offset`. Without one, writes at the file's offset and moves it. If it `appends`, writes at
    /// the end.
    #[inline]
    pub fn write_appending(
        &self,
        file: &OpenFile,
        data: &[UserSlice<'_>],
        offset: Option<i64>,
        appends: bool,
    ) -> Result<usize, Error> {
        file.check_writable()?;
        if let Some(offset) = offset {
            let offset = u64::try_from(offset).map_err(|_| Error::Invalid)?;
            let at = if appends { None } else { Some(offset) };
            let (bytes, _) = self.write_at(file, data, at)?;
            self.sync_if_asked(file)?;
            return Ok(bytes);
        }
        let mut offset = file.offset.lock();
        let at = if appends { None } else { Some(*offset) };
        let (bytes, end) = self.write_at(file, data, at)?;
        if bytes > 0 {
            *offset = end;
        }
        self.sync_if_asked(file)?;
        Ok(bytes)
    }

    /// Writes at `offset`; at the end, if the file was opened to append (as Linux does).
    pub fn pwrite(&self, file: &OpenFile, data: &[UserSlice<'_>], offset: i64) -> Result<usize, Error> {
        self.write_appending(file, data, Some(offset), file.appends())
    }

    /// Answers the bytes written, and the offset behind them.
    #[inline]
    fn write_at(
        &self,
        file: &OpenFile,
        data: &[UserSlice<'_>],
        at: Option<u64>,
    ) -> Result<(usize, u64), Error> {
        self.write_within(file, data, at, self.file_limit())
    }

    /// Like [`Client::write_at`], for a file that must not grow beyond `limit`.
    #[inline]
    pub(crate) fn write_within(
        &self,
        file: &OpenFile,
        data: &[UserSlice<'_>],
        at: Option<u64>,
        limit: u64,
    ) -> Result<(usize, u64), Error> {
        let mut ships = self.can_ship();
        if file.kind() != FileKind::File {
            return Err(Error::Invalid);
        }
        let wanted: usize = data.iter().map(UserSlice::len).sum();
        if wanted == 0 {
            self.check_alive()?;
            return Ok((0, 0));
        }
        let body_max = self.session.geometry().entry_bytes_max() as usize - HEADER_BYTES - self.tag_bytes();
        // The payload of a staged write may be longer than an entry, but then it may have to go by the log.
        let mut bytes = wanted.min(WRITE_BYTES_MAX).min(body_max);
        if let Some(at) = at {
            let room = limit.checked_sub(at).filter(|&room| room > 0);
            let room = room.ok_or_else(|| too_big(limit))?;
            bytes = bytes.min(usize::try_from(room).unwrap_or(usize::MAX));
        }
        loop {
            let cut;
            let data = if bytes == wanted {
                data
            } else {
                cut = cut_to(data, bytes);
                cut.as_slice()
            };
            let written = match self.known_mapped(file) {
                Some(mapped) => WriteOutcome::Mapped(mapped),
                None => {
                    let prediction = if self.steers { self.predict(file, at, bytes) } else { None };
                    let mut staged = self.stage(file, (data, bytes), at, prediction);
                    let is_synchronous = prediction.is_some_and(|prediction| prediction.is_synchronous);
                    match self.operate(|attempt| {
                        let (data, at) = ((data, bytes, is_synchronous), (at, limit));
                        self.write_once(attempt, file, data, at, ships, &mut staged)
                    }) {
                        Err(Error::Shipped(_)) => match self.ship_write(file, data, at) {
                            Err(Error::Shipped(_)) => {
                                ships = false;
                                continue;
                            }
                            written => return written,
                        },
                        written => written?,
                    }
                }
            };
            match written {
                WriteOutcome::Mapped(mapped) => {
                    file.was_mapped.store(true, Ordering::Relaxed);
                    match self.write_mapped(file, &mapped, (data, bytes), at, limit)? {
                        MappedWrite::Written(bytes, end) => return Ok((bytes, end)),
                        MappedWrite::Less(room) => bytes = room as usize,
                        MappedWrite::Ended => {}
                    }
                }
                WriteOutcome::Whole { end } => {
                    self.session.count(0, bytes as u64);
                    return Ok((bytes, end));
                }
                WriteOutcome::Faulted { copied: 0 } => return Err(Error::Fault),
                WriteOutcome::Faulted { copied } => bytes = copied,
                WriteOutcome::Rights => self.take_rights(file.inode_ref(), file.writer)?,
                WriteOutcome::Full { room } => bytes = room as usize,
                WriteOutcome::Arena(arena) => self.with_daemon(|| self.session.map_arena(arena))?,
            }
        }
    }

    #[inline]
    fn write_once(
        &self,
        attempt: &mut Attempt<'_>,
        file: &OpenFile,
        (data, bytes, is_synchronous): (&[UserSlice<'_>], usize, bool),
        (at, limit): (Option<u64>, u64),
        ships: bool,
        staged: &mut Option<Staged>,
    ) -> Result<WriteOutcome, Halt> {
        // The offset of an append is known only under the lock. Few appends touch a block more than a write
        // from a block's start. Debiting that block then is cheaper than giving back what most appends do not
        // need.
        match staged {
            None => attempt.prepare_effect(bytes, cost::of_write(at.unwrap_or(0), bytes as u64))?,
            Some(staged) => attempt.prepare_effect(staged.body.len(), staged.shape.cost())?,
        }
        let inode = file.inode_ref();
        let mut state = self.changing_or_ship(inode, ships)?;
        if state.loses_rights(file.writer) {
            return Ok(WriteOutcome::Rights);
        }
        if let Some(mapped) = state.mapped() {
            return Ok(WriteOutcome::Mapped(Arc::clone(mapped)));
        }
        let offset = at.unwrap_or(state.record.size);
        match limit.saturating_sub(offset) {
            0 => return Err(too_big(limit).into()),
            room if room < bytes as u64 => return Ok(WriteOutcome::Full { room }),
            _ => {}
        }
        if staged.as_ref().is_some_and(|staged| !staged.fits(offset, bytes)) {
            // The file's end moved: its blocks would lie elsewhere.
            *staged = None;
            return Err(Halt::Again);
        }
        if at.is_none() && staged.is_none() {
            attempt.adjust_debit(cost::of_write(offset, bytes as u64))?;
        }
        let payers = attempt.payers(&state.record, file.writer);
        if !payers.is_empty() {
            let Some(blocks) = state.missing(offset..offset + bytes as u64) else {
                drop(state);
                self.fetch_extents(inode)?;
                return Err(Halt::Again);
            };
            attempt.charge(payers, Amounts { blocks, inodes: 0 })?;
        }
        let end = offset + bytes as u64;
        if self.steers
            && let Some(arena) = self.unreached_edge(&state, offset..end)
        {
            return Ok(WriteOutcome::Arena(arena));
        }
        if let Some(staged) = staged {
            let appended = attempt.append_staged(inode.number, offset, &staged.body)?;
            if let Some(content) = state.file_mut() {
                staged.overlay(content, offset, appended.position, appended.body);
            }
            state.record.size = state.record.size.max(end);
            state.touch_content(attempt.now);
            state.logged = appended.end;
            return Ok(WriteOutcome::Whole { end });
        }
        let appended = match attempt.append_write(inode.number, offset, data, is_synchronous)? {
            Ok(appended) => appended,
            Err(fault) => return Ok(WriteOutcome::Faulted { copied: fault.copied }),
        };
        if let Some(content) = state.file_mut() {
            content.write(offset..end, appended.body);
        }
        state.record.size = state.record.size.max(end);
        state.touch_content(attempt.now);
        state.logged = appended.end;
        Ok(WriteOutcome::Whole { end })
    }
}

impl Client {
    /// The arena of a block that a write to `range` covers in part, if it is of a lower tier and not mapped. The
    /// rest of such a block must be there when the write is digested.
    #[cold]
    fn unreached_edge(&self, state: &State, range: Range<u64>) -> Option<ArenaId> {
        let content = state.file()?;
        let geometry = self.session.geometry();
        let edges = [range.start, range.end].into_iter().filter(|edge| !edge.is_multiple_of(BLOCK_BYTES));
        let blocks = edges.map(|edge| edge / BLOCK_BYTES * BLOCK_BYTES);
        let addresses = blocks.filter_map(|block| match content.find(block, block + BLOCK_BYTES) {
            (_, Source::Arena(address)) => Some(BlockAddress(address)),
            _ => None,
        });
        let arenas = addresses.map(|address| geometry.arena(address));
        let mut lower = arenas.filter(|arena| arena.tier() != TierNumber::FAST);
        lower.find(|&arena| self.session.arenas.get(arena).is_none())
    }

    /// Predicts a write, and counts it. `None`: the session does not know the file yet.
    #[cold]
    fn predict(&self, file: &OpenFile, at: Option<u64>, bytes: usize) -> Option<Prediction> {
        let inode = file.inode_ref();
        let mut state = inode.state.write();
        state.lease?;
        let start = at.unwrap_or(state.record.size);
        let synced = inode.synced.swap(false, Ordering::Relaxed);
        let waits = file.flags() & O_DSYNC != 0;
        let mut counts = Counts::default();
        let range = start..start + bytes as u64;
        let predictions = state.predictions.get_or_insert_default();
        let sizes = LargeSizes::of(self.session.welcome.stage_bytes);
        let prediction = predictions.note_write(range, (synced, waits), sizes, &self.sync_habit, &mut counts);
        drop(state);
        self.session.count_predictions(&counts, &self.sync_habit);
        Some(prediction)
    }
}

/// The first `bytes` of `data`.
fn cut_to<'d>(data: &[UserSlice<'d>], bytes: usize) -> Vec<UserSlice<'d>> {
    let mut left = bytes;
    data.iter()
        .map(|slice| {
            let (part, _) = slice.split_at(left);
            left -= part.len();
            part
        })
        // Parts that were empty before may lie between others.
        .filter(|part| !part.is_empty())
        .collect()
}
