//! Reading: the overlay in the log first, then the arenas. A read of known content takes one shared lock and
//! no message.

use crate::cache::file_content::Source;
use crate::cache::inode::{Inode, State};
use crate::client::client::Client;
use crate::client::halt::Halt;
use crate::errno::{Error, unexpected};
use crate::open_files::open_file::OpenFile;
use crate::session::arenas::doubtful;
use crate::sync::{Arc, Ordering};
use cuesta_format::seen_reads::SeenRead;
use cuesta_format::wire::{Request, Response};
use cuesta_format::{ArenaId, BLOCK_BYTES, BlockAddress, FileKind, InodeNumber, TierNumber};
use cuesta_media::emulate::settle;
use cuesta_media::planted::Bug;
use cuesta_media::{AccessError, Mapping, UserSliceMut, planted};
use std::ops::Range;

/// After this many wrong checksums in a row, a block is damaged rather than half written.
const DOUBTS_MAX: u32 = 1000;

/// Why a read cannot continue under the lock.
enum ReadStop {
    Extents,
    /// It is not mapped. `is_staged`: no digest has taken what lies there, as far as this session knows.
    Arena {
        arena: ArenaId,
        is_staged: bool,
    },
    Doubtful(BlockAddress),
    Failed(Error),
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
            None => match self.read_slowly(file, out, offset, self.ships_reads()) {
                Err(Error::Shipped(_)) => match self.ship_read(file, out, offset) {
                    Err(Error::Shipped(_)) => self.read_slowly(file, out, offset, false)?,
                    read => read?,
                },
                read => read?,
            },
        };
        if self.session.arenas.plays_disks {
            settle();
        }
        self.session.count(bytes as u64, 0);
        Ok(bytes)
    }

    /// The fast path: the content is known and mapped, and the generation stands. It needs no gate, because a
    /// resynchronisation takes the inode's lock before it drops anything.
    #[inline]
    fn read_quickly(&self, file: &OpenFile, out: &mut [UserSliceMut<'_>], offset: u64) -> Option<usize> {
        self.check_alive().ok()?;
        let inode = file.inode_ref();
        let generation = self.session.generation.load(Ordering::Acquire);
        let state = inode.state.read();
        state.lease?;
        let bytes = self.read_locked(&state, out, offset).ok()?;
        if self.steers
            && let Some(ahead) = file.read_ahead.note(offset..offset + bytes as u64)
        {
            self.read_ahead(&state, ahead);
        }
        if self.steers && self.session.tells_read() {
            self.tell_read(&state, offset..offset + bytes as u64);
        }
        std::sync::atomic::fence(Ordering::Acquire);
        if self.session.shown_generation() != generation && !planted::active(Bug::StaleRead) {
            return None;
        }
        self.note_access(file.flags(), inode, &state);
        Some(bytes)
    }

    /// Asks the kernel to read a range of a file, as far as it lies on lower tiers, in arenas that are mapped.
    #[cold]
    fn read_ahead(&self, state: &State, ahead: Range<u64>) {
        let Some(content) = state.file() else { return };
        let end = ahead.end.min(state.record.size);
        let mut at = ahead.start;
        while at < end {
            let (bytes, source) = content.find(at, end);
            if source == Source::Unknown {
                return;
            }
            if let Source::Arena(address) = source
                && BlockAddress(address).tier() != TierNumber::FAST
            {
                let (geometry, address) = (self.session.geometry(), BlockAddress(address));
                let offset = geometry.arena_offset(address);
                if let Some(mapping) = self.session.arenas.get(geometry.arena(address)) {
                    let bytes = bytes.min(geometry.arena_bytes - offset);
                    match self.session.arenas.played(address.tier()) {
                        None => mapping.will_need(offset, bytes),
                        Some(disk) => {
                            let begins = geometry.place_in_tier(geometry.arena(address));
                            disk.read_ahead(mapping, begins, offset, bytes);
                        }
                    }
                }
            }
            at += bytes;
        }
    }

    /// Tells SharedFS that a range of a file was read, unless that lies in the log.
    #[cold]
    fn tell_read(&self, state: &State, range: Range<u64>) {
        let Some(content) = state.file().filter(|_| !range.is_empty()) else { return };
        if let (_, Source::Arena(address)) = content.find(range.start, range.end) {
            let (block, end) = (range.start / BLOCK_BYTES, range.end.div_ceil(BLOCK_BYTES));
            let read = SeenRead::new(state.record.inode, block, end - block, BlockAddress(address));
            self.session.tell_read(read);
        }
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
        let mut has_digested = false;
        self.operate(|_attempt| {
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
                    Err(ReadStop::Failed(error)) => return Err(error.into()),
                    Err(ReadStop::Extents) => {
                        drop(state);
                        self.fetch_extents(inode)?;
                    }
                    Err(ReadStop::Arena { arena, is_staged }) => {
                        drop(state);
                        match self.session.map_arena(arena) {
                            Ok(()) => {}
                            // Its disk failed. A digest puts what this session staged there elsewhere.
                            Err(_) if is_staged && !has_digested => {
                                has_digested = true;
                                return Err(Halt::Undigested);
                            }
                            Err(error) => return Err(error.into()),
                        }
                    }
                    Err(ReadStop::Doubtful(address)) => {
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
    fn read_locked(
        &self,
        state: &State,
        out: &mut [UserSliceMut<'_>],
        offset: u64,
    ) -> Result<usize, ReadStop> {
        let size = state.record.size;
        let Some(content) = state.file() else {
            return Err(ReadStop::Failed(Error::Invalid));
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
                    Source::Arena(address) => self.read_arena(address, part, true)?,
                    // Its checksums come with the digest, and this session wrote it.
                    Source::Staged(address) => self.read_arena(address, part, false)?,
                    Source::Hole => {
                        let mut part = part;
                        part.clear().map(|()| bytes).map_err(AccessError::Fault)
                    }
                    Source::Unknown => return Err(ReadStop::Extents),
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
                    Err(outside) => return Err(ReadStop::Failed(Error::Daemon(outside.to_string()))),
                }
            }
        }
        Ok((at - offset) as usize)
    }

    /// Why the first byte at `source` could not be copied: because of the program's memory, or because of the
    /// medium.
    #[cold]
    fn why_faulted(&self, source: Source, inode: InodeNumber) -> ReadStop {
        let mut byte = [0];
        match source {
            Source::Log(position) if self.session.appender.ring().read(position, &mut byte).is_err() => {
                ReadStop::Failed(Error::Content(inode))
            }
            Source::Arena(address) | Source::Staged(address) => {
                let (geometry, address) = (self.session.geometry(), BlockAddress(address));
                let mapping = self.session.arenas.get(geometry.arena(address));
                let offset = geometry.arena_offset(address);
                match mapping.map(|mapping| mapping.read(offset, &mut byte)) {
                    Some(Err(_)) => ReadStop::Doubtful(address),
                    _ => ReadStop::Failed(Error::Fault),
                }
            }
            _ => ReadStop::Failed(Error::Fault),
        }
    }

    /// Copies from one arena, as far as `out` and the arena reach.
    #[inline]
    fn read_arena(
        &self,
        address: u64,
        out: UserSliceMut<'_>,
        has_sums: bool,
    ) -> Result<Result<u64, AccessError>, ReadStop> {
        let geometry = self.session.geometry();
        let block = BlockAddress(address);
        let arena = geometry.arena(block);
        let offset = geometry.arena_offset(block);
        let bytes = (out.len() as u64).min(geometry.arena_bytes - offset);
        let mapping =
            self.session.arenas.get(arena).ok_or(ReadStop::Arena { arena, is_staged: !has_sums })?;
        let (part, _) = out.split_at(bytes as usize);
        if self.session.arenas.plays_disks {
            self.play_read(mapping, block, bytes);
        }
        if has_sums
            && geometry.of_tier(arena.tier()).checks_content
            && let Some(address) = doubtful(mapping, geometry, (block, bytes))
        {
            return Err(ReadStop::Doubtful(address));
        }
        Ok(mapping.read_user(offset, part).map(|()| bytes))
    }

    /// Tells the disk that the tier plays, if it plays one, of a read of blocks and their checksums. The thread waits for it
    /// when it holds no lock.
    #[cold]
    fn play_read(&self, mapping: &Mapping, address: BlockAddress, bytes: u64) {
        let geometry = self.session.geometry();
        let arena = geometry.arena(address);
        let Some(disk) = self.session.arenas.played(arena.tier()) else { return };
        let begins = geometry.place_in_tier(arena);
        let blocks = (address.0 % BLOCK_BYTES + bytes).div_ceil(BLOCK_BYTES);
        disk.read(mapping, begins, geometry.arena_offset(address), bytes);
        disk.read(mapping, begins, geometry.sum_offset(address), blocks * size_of::<u32>() as u64);
    }

    /// Asks SharedFS whether a block with a wrong checksum is damaged.
    #[cold]
    fn is_damaged(&self, inode: &Inode, address: BlockAddress) -> Result<bool, Error> {
        match self.session.ask(&Request::Verify { inode: inode.number, address })? {
            Response::Verified { is_damaged } => Ok(is_damaged),
            other => Err(unexpected(&other)),
        }
    }

    /// Fetches extents that are not known yet.
    pub(crate) fn fetch_extents(&self, inode: &Inode) -> Result<(), Error> {
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
}
