//! Reading and writing content.

use crate::arenas;
use crate::client::{Client, Halt, Turn};
use crate::content::Source;
use crate::debit;
use crate::errno::Error;
use crate::inode::{Inode, State};
use crate::mapped::{MappedFile, MappedWrite};
use crate::open_file::OpenFile;
use crate::session::unexpected;
use crate::shipping::ShippedChange;
use crate::sync::{Arc, Ordering};
use cuesta_format::entry::HEADER_BYTES;
use cuesta_format::quota::Amounts;
use cuesta_format::wire::{Request, Response};
use cuesta_format::{
    ArenaId, BLOCK_BYTES, BlockAddress, FILE_BYTES_MAX, FileKind, InodeNumber, Operation, WRITE_BYTES_MAX,
};
use cuesta_media::planted::{self, Bug};
use cuesta_media::{AccessError, UserSlice, UserSliceMut};

/// A block is not found half written so often, one look after the other.
const DOUBTS_MAX: u32 = 1000;

/// Where `lseek` counts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Whence {
    /// The start.
    Set,
    /// The present offset.
    Current,
    /// The end of the file.
    End,
    /// The next data from an offset on.
    Data,
    /// The next hole from an offset on.
    Hole,
}

/// Why a read cannot go on under the lock.
enum Stop {
    Extents,
    Arena(ArenaId),
    Doubtful(BlockAddress),
    Failed(Error),
}

/// What became of a write.
enum Written {
    Whole {
        end: u64,
    },
    /// The application's memory ended after so many bytes.
    Faulted {
        copied: usize,
    },
    /// Set-id bits and capabilities must go first.
    Rights,
    /// A file may be so many bytes longer only.
    Full {
        room: u64,
    },
    /// It is in mapped mode.
    Mapped(Arc<MappedFile>),
}

impl Client {
    /// Reads at the file's offset and moves it.
    pub fn read(&self, file: &OpenFile, out: &mut [UserSliceMut<'_>]) -> Result<usize, Error> {
        file.check_readable()?;
        let mut offset = file.offset.lock();
        let bytes = self.read_at(file, out, *offset)?;
        *offset += bytes as u64;
        Ok(bytes)
    }

    /// Reads at `offset`.
    pub fn pread(&self, file: &OpenFile, out: &mut [UserSliceMut<'_>], offset: i64) -> Result<usize, Error> {
        file.check_readable()?;
        let offset = u64::try_from(offset).map_err(|_| Error::Invalid)?;
        self.read_at(file, out, offset)
    }

    #[inline]
    pub(crate) fn read_at(
        &self,
        file: &OpenFile,
        out: &mut [UserSliceMut<'_>],
        offset: u64,
    ) -> Result<usize, Error> {
        if file.kind() != FileKind::File {
            return Err(if file.kind() == FileKind::Directory { Error::IsDirectory } else { Error::Invalid });
        }
        let bytes = match self.read_quickly(file, out, offset) {
            Some(bytes) => bytes,
            None => match self.read_slowly(file, out, offset, self.can_ship()) {
                Err(Error::Shipped(_)) => match self.ship_read(file, out, offset) {
                    Err(Error::Shipped(_)) => self.read_slowly(file, out, offset, false)?,
                    read => read?,
                },
                read => read?,
            },
        };
        self.session.count(bytes as u64, 0);
        Ok(bytes)
    }

    /// The usual read: everything is known and mapped, the generation stands. It needs no gate: a resynchronisation
    /// takes the inode's lock before it throws anything away.
    #[inline]
    fn read_quickly(&self, file: &OpenFile, out: &mut [UserSliceMut<'_>], offset: u64) -> Option<usize> {
        self.check_alive().ok()?;
        let inode = file.inode_ref();
        let generation = self.session.generation.load(Ordering::Acquire);
        let state = inode.state.read();
        state.lease?;
        let bytes = self.read_locked(&state, out, offset).ok()?;
        std::sync::atomic::fence(Ordering::Acquire);
        if self.session.shown_generation() != generation && !planted::active(Bug::StaleRead) {
            return None;
        }
        self.note_access(file.flags(), inode, &state);
        Some(bytes)
    }

    #[cold]
    fn read_slowly(
        &self,
        file: &OpenFile,
        out: &mut [UserSliceMut<'_>],
        offset: u64,
        ships: bool,
    ) -> Result<usize, Error> {
        let inode = file.inode_ref();
        let mut doubts = 0;
        self.operate(|_turn| {
            loop {
                let state = self.reading_or_ship(inode, ships)?;
                if let Some(mapped) = state.mapped().map(Arc::clone) {
                    self.note_access(file.flags(), inode, &state);
                    drop(state);
                    return Ok(self.read_mapped(&mapped, out, offset)?);
                }
                match self.read_locked(&state, out, offset) {
                    Ok(bytes) => {
                        self.note_access(file.flags(), inode, &state);
                        return Ok(bytes);
                    }
                    Err(Stop::Failed(error)) => return Err(error.into()),
                    Err(Stop::Extents) => {
                        drop(state);
                        self.learn_extents(inode)?;
                    }
                    Err(Stop::Arena(arena)) => {
                        drop(state);
                        self.session.arenas.map(&self.session, arena)?;
                    }
                    Err(Stop::Doubtful(address)) => {
                        drop(state);
                        doubts += 1;
                        if doubts > DOUBTS_MAX || self.is_damaged(inode, address)? {
                            return Err(Error::Content(inode.number).into());
                        }
                    }
                }
            }
        })
    }

    #[inline]
    fn read_locked(&self, state: &State, out: &mut [UserSliceMut<'_>], offset: u64) -> Result<usize, Stop> {
        let size = state.record.size;
        let Some(content) = state.file() else {
            return Err(Stop::Failed(Error::Invalid));
        };
        let mut at = offset;
        for slice in out {
            let mut filled = 0;
            while filled < slice.len() && at < size {
                let end = size.min(at + (slice.len() - filled) as u64);
                let (bytes, source) = content.find(at, end);
                let part = slice.part(filled, bytes as usize);
                let copied = match source {
                    Source::Log(position) => {
                        self.session.appender.ring().read_user(position, part).map(|()| bytes)
                    }
                    Source::Arena(address) => self.read_arena(address, part)?,
                    Source::Hole => {
                        let mut part = part;
                        part.clear().map(|()| bytes).map_err(AccessError::Fault)
                    }
                    Source::Unknown => return Err(Stop::Extents),
                };
                match copied {
                    Ok(bytes) => {
                        at += bytes;
                        filled += bytes as usize;
                    }
                    Err(AccessError::Fault(fault)) => {
                        at += fault.copied as u64;
                        return if at > offset {
                            Ok((at - offset) as usize)
                        } else {
                            Err(self.why_faulted(source, state.record.inode))
                        };
                    }
                    Err(outside) => return Err(Stop::Failed(Error::Daemon(outside.to_string()))),
                }
            }
        }
        Ok((at - offset) as usize)
    }

    /// Why the first byte from there could not be copied: because of the program's memory, or of the medium.
    #[cold]
    fn why_faulted(&self, source: Source, inode: InodeNumber) -> Stop {
        let mut byte = [0];
        match source {
            Source::Log(position) if self.session.appender.ring().read(position, &mut byte).is_err() => {
                Stop::Failed(Error::Content(inode))
            }
            Source::Arena(address) => {
                let (geometry, address) = (self.session.geometry(), BlockAddress(address));
                let mapping = self.session.arenas.get(geometry.arena(address));
                let offset = geometry.arena_offset(address);
                match mapping.map(|mapping| mapping.read(offset, &mut byte)) {
                    Some(Err(_)) => Stop::Doubtful(address),
                    _ => Stop::Failed(Error::Fault),
                }
            }
            _ => Stop::Failed(Error::Fault),
        }
    }

    /// Copies out of one arena, as far as `out` and the arena reach.
    #[inline]
    fn read_arena(&self, address: u64, out: UserSliceMut<'_>) -> Result<Result<u64, AccessError>, Stop> {
        let geometry = self.session.geometry();
        let block = BlockAddress(address);
        let arena = geometry.arena(block);
        let offset = geometry.arena_offset(block);
        let bytes = (out.len() as u64).min(geometry.arena_bytes - offset);
        let mapping = self.session.arenas.get(arena).ok_or(Stop::Arena(arena))?;
        let (part, _) = out.split_at(bytes as usize);
        if geometry.checks_content
            && let Some(address) = arenas::doubtful(mapping, geometry, (block, bytes))
        {
            return Err(Stop::Doubtful(address));
        }
        Ok(mapping.read_user(offset, part).map(|()| bytes))
    }

    /// Whether a block whose checksum was found to be wrong is damaged.
    #[cold]
    fn is_damaged(&self, inode: &Inode, address: BlockAddress) -> Result<bool, Error> {
        match self.session.ask(&Request::Verify { inode: inode.number, address })? {
            Response::Verified { is_damaged } => Ok(is_damaged),
            other => Err(unexpected(&other)),
        }
    }

    /// Fetches extents that are not known yet.
    pub(crate) fn learn_extents(&self, inode: &Inode) -> Result<(), Error> {
        let mut state = inode.state.write();
        let Some(content) = state.file_mut() else {
            return Ok(());
        };
        let Some(from) = content.unknown_from() else {
            return Ok(());
        };
        let request = Request::Extents { inode: inode.number, from_block: from / BLOCK_BYTES };
        let answer = self.session.ask(&request)?;
        let Response::Extents { extents, complete } = answer else {
            return Err(unexpected(&answer));
        };
        let complete = complete || extents.is_empty();
        content.learn(extents, complete);
        Ok(())
    }

    /// Writes at the file's offset (its end, if it was opened to append) and moves it. At most 16 MiB, all of it
    /// one atomic entry; a longer write is short.
    pub fn write(&self, file: &OpenFile, data: &[UserSlice<'_>]) -> Result<usize, Error> {
        self.write_appending(file, data, None, file.appends())
    }

    /// Writes at `offset`, or else at the file's offset, which it moves; at the end, if it `appends`.
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

    /// Bytes written, and the offset behind them.
    #[inline]
    fn write_at(
        &self,
        file: &OpenFile,
        data: &[UserSlice<'_>],
        at: Option<u64>,
    ) -> Result<(usize, u64), Error> {
        self.write_within(file, data, at, self.file_limit())
    }

    /// The same to a file that is not to grow beyond `limit`.
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
                Some(mapped) => Written::Mapped(mapped),
                None => {
                    match self.operate(|turn| self.write_once(turn, file, (data, bytes), at, limit, ships)) {
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
                Written::Mapped(mapped) => {
                    file.was_mapped.store(true, Ordering::Relaxed);
                    match self.write_mapped(file, &mapped, (data, bytes), at, limit)? {
                        MappedWrite::Written(bytes, end) => return Ok((bytes, end)),
                        MappedWrite::Less(room) => bytes = room as usize,
                        MappedWrite::Ended => {}
                    }
                }
                Written::Whole { end } => {
                    self.session.count(0, bytes as u64);
                    return Ok((bytes, end));
                }
                Written::Faulted { copied: 0 } => return Err(Error::Fault),
                Written::Faulted { copied } => bytes = copied,
                Written::Rights => self.take_rights(file.inode_ref(), file.writer)?,
                Written::Full { room } => bytes = room as usize,
            }
        }
    }

    #[inline]
    fn write_once(
        &self,
        turn: &mut Turn<'_>,
        file: &OpenFile,
        (data, bytes): (&[UserSlice<'_>], usize),
        at: Option<u64>,
        limit: u64,
        ships: bool,
    ) -> Result<Written, Halt> {
        // Where an append goes is known under the lock. Few touch a block more than from a block's start: cheaper to debit that
        // then than to give back what most do not need.
        turn.prepare_effect(bytes, debit::of_write(at.unwrap_or(0), bytes as u64))?;
        let inode = file.inode_ref();
        let mut state = self.changing_or_ship(inode, ships)?;
        if state.loses_rights(file.writer) {
            return Ok(Written::Rights);
        }
        if let Some(mapped) = state.mapped() {
            return Ok(Written::Mapped(Arc::clone(mapped)));
        }
        let offset = at.unwrap_or(state.record.size);
        match limit.saturating_sub(offset) {
            0 => return Err(too_big(limit).into()),
            room if room < bytes as u64 => return Ok(Written::Full { room }),
            _ => {}
        }
        if at.is_none() {
            turn.settle(debit::of_write(offset, bytes as u64))?;
        }
        let payers = turn.payers(&state.record, file.writer);
        if !payers.is_empty() {
            let Some(blocks) = state.missing(offset..offset + bytes as u64) else {
                drop(state);
                self.learn_extents(inode)?;
                return Err(Halt::Again);
            };
            turn.charge(payers, Amounts { blocks, inodes: 0 })?;
        }
        let appended = match turn.append_write(inode.number, offset, data)? {
            Ok(appended) => appended,
            Err(fault) => return Ok(Written::Faulted { copied: fault.copied }),
        };
        let end = offset + bytes as u64;
        if let Some(content) = state.file_mut() {
            content.write(offset..end, appended.body);
        }
        state.record.size = state.record.size.max(end);
        state.touch_content(turn.now);
        state.logged = appended.end;
        Ok(Written::Whole { end })
    }

    /// Sets the size of an open file.
    pub fn truncate_open(&self, file: &OpenFile, size: i64) -> Result<(), Error> {
        file.check_not_path()?;
        file.check_writable().map_err(|_| Error::Invalid)?;
        let size = checked_size(size)?;
        if file.kind() != FileKind::File {
            return Err(Error::Invalid);
        }
        if !file.may_cut {
            return Err(Error::Denied);
        }
        if let Some(shipped) = self.ship_change(file, ShippedChange::Truncate { size: size as i64 }) {
            return shipped;
        }
        let inode = file.inode_ref();
        loop {
            let done = self.operate(|turn| {
                turn.prepare_effect(0, debit::of_truncation(size))?;
                let mut state = self.changing(inode)?;
                if state.loses_rights(file.writer) {
                    return Ok(false);
                }
                self.truncate_locked(turn, inode, &mut state, size)?;
                Ok(true)
            })?;
            if done {
                return Ok(());
            }
            self.take_rights(inode, file.writer)?;
        }
    }

    /// Appends a prepared truncation and applies it.
    pub(crate) fn truncate_locked(
        &self,
        turn: &mut Turn<'_>,
        inode: &Inode,
        state: &mut State,
        size: u64,
    ) -> Result<(), Halt> {
        if let Some(mapped) = state.mapped() {
            return Ok(self.truncate_mapped(mapped, size)?);
        }
        let old_size = state.record.size;
        if size > old_size {
            self.check_growth(size)?;
        }
        let appended = turn.append(&Operation::Truncate { inode: inode.number, size })?;
        if let Some(content) = state.file_mut()
            && content.truncate(old_size, size, appended.position)
        {
            self.truncations.lock().push_back((appended.position, inode.number));
        }
        state.record.size = size;
        state.touch_content(turn.now);
        state.logged = appended.end;
        Ok(())
    }

    /// Whether a file may grow to `size`.
    pub(crate) fn check_growth(&self, size: u64) -> Result<(), Error> {
        let limit = self.file_limit();
        if size > limit { Err(too_big(limit)) } else { Ok(()) }
    }

    /// Moves the file's offset.
    pub fn seek(&self, file: &OpenFile, offset: i64, whence: Whence) -> Result<u64, Error> {
        file.check_not_path()?;
        let mut present = file.offset.lock();
        let target = match whence {
            Whence::Set => u64::try_from(offset).map_err(|_| Error::Invalid)?,
            Whence::Current => offset_from(*present, offset)?,
            Whence::End => offset_from(self.end_of(file)?, offset)?,
            Whence::Data | Whence::Hole => self.find_boundary(file, offset, whence == Whence::Data)?,
        };
        *present = target;
        if target == 0 && file.kind() == FileKind::Directory {
            *file.listing.lock() = None;
        }
        Ok(target)
    }

    fn end_of(&self, file: &OpenFile) -> Result<u64, Error> {
        Ok(self.stat_open(file)?.record.size)
    }

    /// The first offset from `offset` on with data, or else in a hole. The file's own stays as it is.
    pub fn find_boundary(&self, file: &OpenFile, offset: i64, data: bool) -> Result<u64, Error> {
        let offset = u64::try_from(offset).map_err(|_| Error::NoData)?;
        let inode = file.inode_ref();
        self.operate(|_turn| {
            loop {
                let state = self.reading(inode)?;
                let size = state.record.size;
                if let Some(mapped) = state.mapped() {
                    return Ok(self.find_mapped(mapped, offset, data)?);
                }
                let Some(content) = state.file() else {
                    // A directory's positions go on for ever, as ext4 has it.
                    let is_directory = state.record.kind() == FileKind::Directory;
                    let found = if data { offset } else { i64::MAX as u64 };
                    return if is_directory { Ok(found) } else { Err(Error::Invalid.into()) };
                };
                if offset >= size {
                    return Err(Error::NoData.into());
                }
                let found = content.boundary(offset, size, data);
                drop(state);
                match found {
                    Ok(found) => return Ok(found.ok_or(Error::NoData)?),
                    Err(()) => self.learn_extents(inode)?,
                }
            }
        })
    }
}

/// Why nothing goes behind `limit`.
#[cold]
pub(crate) fn too_big(limit: u64) -> Error {
    if limit < FILE_BYTES_MAX { Error::OverLimit } else { Error::FileTooBig }
}

/// A size as an application gives it.
pub(crate) fn checked_size(size: i64) -> Result<u64, Error> {
    u64::try_from(size).map_err(|_| Error::Invalid)
}

fn offset_from(start: u64, offset: i64) -> Result<u64, Error> {
    let target = start.checked_add_signed(offset).filter(|target| i64::try_from(*target).is_ok());
    target.ok_or(Error::Invalid)
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
