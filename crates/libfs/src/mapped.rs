//! Files in mapped mode, whose content is a file of the kernel's that programs share mappings of (DESIGN §6).
//!
//! Nothing of their content is cached: reading, writing and cutting them is done to the kernel's file, and is seen by
//! everybody at once. A lease says only that a file is in this mode, and a pin keeps it there. A write that a killed
//! process could leave in part, because it lies on several pages, is logged as any other, and waits until SharedFS
//! has digested it into the file; on a medium that outlives the loss of power that is every write. So does one that appends: who holds the lease for writing has the end of the file to itself.
//! And so do zeros up to a new end; and a new page that may be beyond somebody's limits, because only of what is in the log it is
//! certain whether it came before others got that room.

use crate::allocate::Allocation;
use crate::client::{Client, Halt, Turn};
use crate::data::too_big;
use crate::debit;
use crate::errno::Error;
use crate::inode::{Content, Inode, State};
use crate::mapped_descriptors::{Kept, KeptFile};
use crate::open_file::OpenFile;
use crate::quotas::Payers;
use crate::session::unexpected;
use crate::sync::{Arc, AtomicU64, Mutex, Ordering};
use cuesta_format::quota::Amounts;
use cuesta_format::wire::{Request, Response};
use cuesta_format::{BLOCK_BYTES, InodeNumber, InodeRecord, Medium, Operation, Timestamp};
use cuesta_media::mapped_files::{self, Pin};
use cuesta_media::{UserSlice, UserSliceMut};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{SeekFrom, Stat, Timespec, Timestamps, UTIME_OMIT};
use rustix::io::Errno;
use std::ops::Range;

/// What the kernel writes whole: its page.
const PAGE_BYTES: usize = 4096;
/// Read at once, by way of memory of our own.
const READ_BYTES: usize = 16 << 10;
/// How often a file is asked for that goes out of the mode meanwhile.
const ATTEMPTS: usize = 100;
/// What `stat` counts blocks in.
pub(crate) const SECTOR_BYTES: u64 = 512;
/// Provided at once, while the inode is locked.
const PROVIDED_BYTES: u64 = 16 << 20;

/// A file that stays in mapped mode while this lives.
#[derive(Debug)]
pub(crate) struct MappedFile {
    inode: InodeNumber,
    _pin: Pin,
    descriptor: Option<Arc<Kept>>,
    /// Pages it may still get before it is asked again whether there is room.
    pub(crate) allowance: AtomicU64,
    /// Held from the moment an end of the file is taken until it is the file's.
    appending: Mutex<()>,
}

/// What became of a write.
pub(crate) enum MappedWrite {
    /// So many bytes were written, up to this offset.
    Written(usize, u64),
    /// It is in mapped mode no more.
    Ended,
    /// Nothing yet: so many bytes can be written and no more, as the file may not grow further or the rest cannot be read.
    Less(u64),
}

fn failed(errno: Errno) -> Error {
    match errno {
        Errno::NOSPC | Errno::NOMEM | Errno::DQUOT => Error::NoSpace,
        Errno::FBIG => Error::FileTooBig,
        Errno::INVAL => Error::Invalid,
        Errno::NXIO => Error::NoData,
        Errno::ACCESS | Errno::PERM => Error::Denied,
        Errno::MFILE | Errno::NFILE => Error::Descriptors,
        Errno::OPNOTSUPP => Error::Unsupported,
        errno => Error::Daemon(format!("a file in mapped mode: {errno}")),
    }
}

/// Does a call again that a signal interrupted.
pub(crate) fn whole<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Error> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            answer => return answer.map_err(failed),
        }
    }
}

/// The kernel's file, for one call.
pub(crate) enum Opened<'m> {
    Kept(KeptFile<'m>),
    Now(OwnedFd),
}

impl AsFd for Opened<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Opened::Kept(file) => file.as_fd(),
            Opened::Now(file) => file.as_fd(),
        }
    }
}

impl Client {
    /// A descriptor of what everybody maps who shares mappings of this file; mappings of it keep the file in mapped
    /// mode. `writes`: they may be written.
    pub fn map_shared(&self, file: &OpenFile, writes: bool) -> Result<OwnedFd, Error> {
        let inode = file.inode_ref();
        file.was_mapped.store(true, Ordering::Relaxed);
        for _ in 0..ATTEMPTS {
            self.operate(|_turn| {
                let state = self.reading(inode)?;
                let is_mapped = state.mapped().is_some();
                self.note_access(file.flags(), inode, &state);
                drop(state);
                if is_mapped { Ok(()) } else { self.begin_mapped(inode) }
            })?;
            let references = self.session.references.read();
            if let Some(found) = whole(|| mapped_files::open_marked(&*references, inode.number, writes))? {
                return Ok(found);
            }
        }
        Err(Error::Busy)
    }

    fn begin_mapped(&self, inode: &Inode) -> Result<(), Halt> {
        let mut state = inode.state.write();
        // What digests have still to report would be taken for what it holds when it comes out of that mode.
        if state.logged > self.session.retired() {
            return Err(Halt::Undigested);
        }
        let answer = self.session.ask(&Request::Map { inode: inode.number })?;
        let Response::Granted { grant, .. } = answer else {
            return Err(unexpected(&answer).into());
        };
        state.forget();
        if self.fill(inode, &mut state, *grant)? { Ok(()) } else { Err(Halt::Again) }
    }

    /// A file that was found in mapped mode was closed: unless it is open still, this session keeps it there no more. What
    /// the log says of it, it must remember.
    pub(crate) fn let_go_of_mapped(&self, inode: &Inode) {
        let mut state = inode.state.write();
        let is_open = inode.opens.load(Ordering::SeqCst) > 0;
        if !is_open && state.mapped().is_some() && state.logged <= self.session.retired() {
            state.forget();
        }
    }

    /// Has the mode end for what a mapped file cannot do. It stays while a process has the file mapped: then that is refused.
    pub(crate) fn leave_mapped(&self, inode: &Inode) -> Result<(), Error> {
        self.operate(|_turn| {
            let mut state = inode.state.write();
            if state.mapped().is_some() {
                if state.logged > self.session.retired() {
                    return Err(Halt::Undigested);
                }
                state.forget();
            }
            drop(state);
            // SharedFS ends the mode for the session that asks, once every other has let go and no mapping is left.
            match self.changing(inode)?.mapped() {
                None => Ok(()),
                Some(_) => Err(Error::Unsupported.into()),
            }
        })
    }

    /// Keeps the file of an inode in mapped mode; `None`: it is in that no more.
    pub(crate) fn pin(&self, inode: InodeNumber) -> Result<Option<Arc<MappedFile>>, Error> {
        let references = self.session.references.read();
        let Some(file) = whole(|| mapped_files::open_marked(&*references, inode, true))? else {
            return Ok(None);
        };
        let _pin = Pin::new(&file).map_err(failed)?;
        let descriptor = self.mapped_descriptors.keep(&file);
        let (allowance, appending) = (AtomicU64::new(0), Mutex::new(()));
        Ok(Some(Arc::new(MappedFile { inode, _pin, descriptor, allowance, appending })))
    }

    /// The file, if it was found in mapped mode before, is so as far as is known, and may be written as it is.
    #[inline]
    pub(crate) fn known_mapped(&self, file: &OpenFile) -> Option<Arc<MappedFile>> {
        if !file.was_mapped.load(Ordering::Relaxed) {
            return None;
        }
        let state = file.inode_ref().state.read();
        let mapped = state.lease.and_then(|_| state.mapped());
        mapped.filter(|_| !state.loses_rights(file.writer)).map(Arc::clone)
    }

    /// The file, if it is in mapped mode.
    pub(crate) fn mapped(&self, inode: &Inode) -> Result<Option<Arc<MappedFile>>, Error> {
        self.operate(|_turn| Ok(self.reading(inode)?.mapped().map(Arc::clone)))
    }

    pub(crate) fn open_mapped<'m>(&self, mapped: &'m MappedFile) -> Result<Opened<'m>, Error> {
        self.check_wanted()?;
        if let Some(kept) = mapped.descriptor.as_ref().and_then(|kept| kept.get()) {
            return Ok(Opened::Kept(kept));
        }
        let references = self.session.references.read();
        let found = whole(|| mapped_files::open(&*references, mapped.inode))?;
        let found = found.ok_or_else(|| Error::Daemon("a file in mapped mode is missing".into()))?;
        Ok(Opened::Now(found))
    }

    /// The attributes that are the kernel's to know.
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

    fn mapped_size(&self, mapped: &MappedFile) -> Result<u64, Error> {
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

    /// Writes `bytes` of `data` at `at`, or behind the end.
    pub(crate) fn write_mapped(
        &self,
        file: &OpenFile,
        mapped: &MappedFile,
        (data, bytes): (&[UserSlice<'_>], usize),
        at: Option<u64>,
        limit: u64,
    ) -> Result<MappedWrite, Error> {
        let within_page = at.filter(|&offset| offset as usize % PAGE_BYTES + bytes <= PAGE_BYTES);
        // What the kernel has begun when the power goes is there in part.
        let is_lost_with_power = self.session.welcome.medium == Medium::Memory;
        if let Some(offset) = within_page.filter(|_| is_lost_with_power) {
            match self.write_page(file, mapped, data, offset) {
                Ok(Some(written)) => return Ok(written),
                // By the log there is what was promised to the session.
                Ok(None) | Err(Error::NoSpace) => {}
                Err(error) => return Err(error),
            }
        }
        let _appending = mapped.appending.lock();
        match (self.log_mapped(file, data, bytes, at, limit), within_page) {
            // On a full store, what a file has can be written all the same.
            (Err(Error::NoSpace), Some(offset)) => {
                self.write_page(file, mapped, data, offset)?.ok_or(Error::NoSpace)
            }
            (logged, _) => {
                let written = logged?;
                self.asking(|| self.digest_own_log())?;
                Ok(written)
            }
        }
    }

    /// Writes what lies within one page, all of it or nothing; `None`: it is to go by the log.
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
        self.operate(|turn| {
            let blocks = match at {
                Some(offset) => debit::of_write(offset, bytes as u64),
                None => debit::of_append(bytes as u64),
            };
            turn.prepare_effect(bytes, blocks)?;
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
            let (payers, added) = self.check_mapped(turn, file, &state, mapped, &range)?;
            turn.charge(payers, added)?;
            let (bytes, appended) = match turn.append_write(inode.number, offset, data)? {
                Ok(appended) => (bytes, appended),
                Err(fault) if fault.copied > 0 => return Ok(MappedWrite::Less(fault.copied as u64)),
                Err(_) => return Err(Error::Fault.into()),
            };
            state.logged = appended.end;
            Ok(MappedWrite::Written(bytes, offset + bytes as u64))
        })
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

    /// Makes durable what was stored through mappings of the file.
    pub(crate) fn sync_mapped(&self, mapped: &MappedFile) -> Result<(), Error> {
        let file = self.open_mapped(mapped)?;
        self.settle_mapped(&file)
    }

    fn settle_mapped(&self, file: impl AsFd) -> Result<(), Error> {
        whole(|| mapped_files::settle(&file, self.session.welcome.medium))
    }

    /// `fallocate` on a range. Says whether it was done: not, if the file went out of mapped mode meanwhile.
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
            self.asking(|| self.digest_own_log())?;
            return Ok(is_logged);
        }
        match what {
            Allocation::Extend | Allocation::KeepSize => {
                self.provide_mapped(open_file, mapped, range, matches!(what, Allocation::KeepSize))
            }
            Allocation::Punch | Allocation::Zero => self.operate(|turn| {
                let state = self.reading(open_file.inode_ref())?;
                if state.mapped().is_none() {
                    return Ok(false);
                }
                if matches!(what, Allocation::Zero) {
                    self.check_mapped(turn, open_file, &state, mapped, range)?;
                }
                let file = self.open_mapped(mapped)?;
                whole(|| mapped_files::punch(&file, range.start, range.end - range.start))?;
                self.settle_mapped(&file)?;
                Ok(true)
            }),
            Allocation::Collapse | Allocation::Insert => Err(Error::Unsupported),
        }
    }

    /// Provides a range piece by piece: behind a fence that comes between, each is charged anew.
    fn provide_mapped(
        &self,
        open_file: &OpenFile,
        mapped: &MappedFile,
        range: &Range<u64>,
        keep_size: bool,
    ) -> Result<bool, Error> {
        let provide = |turn: &mut Turn<'_>, charged: Option<&State>, piece: Range<u64>| {
            // Behind the end nothing is kept.
            let end = if keep_size { piece.end.min(self.mapped_size(mapped)?) } else { piece.end };
            let piece = piece.start..end;
            if !piece.is_empty() {
                let file = self.open_mapped(mapped)?;
                if let Some(state) = charged {
                    let (payers, added) = self.check_mapped(turn, open_file, state, mapped, &piece)?;
                    turn.charge(payers, added)?;
                }
                whole(|| mapped_files::clear_behind_end(&file, end))?;
                whole(|| mapped_files::provide(&file, piece.clone(), keep_size))?;
                self.settle_mapped(&file)?;
                turn.keep_charge();
            }
            Ok(true)
        };
        let mut at = range.start;
        while at < range.end {
            let piece_end = range.end.min(at + PROVIDED_BYTES);
            let is_mapped = self.operate(|turn| {
                let inode = open_file.inode_ref();
                if !turn.is_charged() {
                    let is_mapped = self.reading(inode)?.mapped().is_some();
                    return if is_mapped { provide(turn, None, at..piece_end) } else { Ok(false) };
                }
                // Alone: what the file may get without a charge is not for two at a time.
                let state = self.changing(inode)?;
                if state.mapped().is_none() {
                    return Ok(false);
                }
                self.check_mapped(turn, open_file, &state, mapped, &(at..range.end))?;
                provide(turn, Some(&state), at..piece_end)
            })?;
            if !is_mapped {
                return Ok(false);
            }
            at = piece_end;
        }
        Ok(true)
    }

    /// What `range` wants that the file does not have, and whoever is charged for it, who must have room for that. Where it
    /// wants nothing, it is learnt all the same whether they have limits: who has none need not go by the log.
    fn check_mapped(
        &self,
        turn: &Turn<'_>,
        file: &OpenFile,
        state: &State,
        mapped: &MappedFile,
        range: &Range<u64>,
    ) -> Result<(Payers, Amounts), Halt> {
        let payers = turn.payers(&state.record, file.writer);
        if payers.is_empty() {
            return Ok((payers, Amounts::NONE));
        }
        let blocks = self.added_to_mapped(mapped, &state.record, range)?;
        turn.check_room(payers, blocks)?;
        Ok((payers, Amounts { blocks, inodes: 0 }))
    }

    /// Logs that a range becomes zeros, up to a new end of the file: to the kernel these are two things, between which
    /// the process may be killed.
    fn log_clearing(&self, file: &OpenFile, range: &Range<u64>) -> Result<bool, Error> {
        let inode = file.inode_ref();
        let (offset, length) = (range.start, range.end - range.start);
        let operation = Operation::Clear { inode: inode.number, offset, length, grow: true };
        self.operate(|turn| {
            turn.prepare_effect(operation.body_bytes(), debit::of_clearing(range))?;
            let mut state = self.changing(inode)?;
            let Some(mapped) = state.mapped() else { return Ok(false) };
            self.check_mapped(turn, file, &state, mapped, range)?;
            state.logged = turn.append(&operation)?.end;
            Ok(true)
        })
    }

    /// The first offset from `from` on with data, or in a hole.
    pub(crate) fn find_mapped(&self, mapped: &MappedFile, from: u64, data: bool) -> Result<u64, Error> {
        let file = self.open_mapped(mapped)?;
        let seek = if data { SeekFrom::Data(from) } else { SeekFrom::Hole(from) };
        whole(|| rustix::fs::seek(&file, seek))
    }
}

impl State {
    /// The file, if it is known to be in mapped mode.
    #[inline]
    pub(crate) fn mapped(&self) -> Option<&Arc<MappedFile>> {
        match &self.content {
            Content::Mapped(mapped) => Some(mapped),
            _ => None,
        }
    }
}
