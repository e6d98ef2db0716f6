//! A file goes into mapped mode, and out of it.
//!
//! Going in copies the content to the kernel's file ([`super::mapped_files`]), coming back copies it to the blocks the file has and to
//! new ones. Either way one transaction of the metadata store makes the switch.

use super::mapped_files::{PIECE_BYTES, data_blocks, failed, read_all, write_all};
use crate::digest::put_bitmaps;
use crate::metadata::{ExtentWrite, Snapshot};
use crate::requests::Trouble;
use crate::tiers::{ContentWriter, Reservation, Run, runs_of, split_at_arenas};
use crate::{Error, SharedFs};
use cuesta_format::wire::Refusal;
use cuesta_format::{
    BLOCK_BYTES, Extent, FileKind, InodeNumber, InodeRecord, LogPosition, SessionId, TierNumber, Timestamp,
};
use cuesta_media::mapped_files;
use cuesta_media::planted::{self, Bug};
use rustix::fd::OwnedFd;
use rustix::fs::{Timespec, Timestamps, UTIME_OMIT, fstat, futimens};
use rustix::io::Errno;
use std::ops::Range;

/// What becomes of the file's blocks when the mode ends.
#[derive(Default)]
struct Plan {
    /// In order: ranges that hold nothing, and those that got these new extents.
    changes: Vec<(Range<u64>, Vec<Extent>)>,
}

impl SharedFs {
    /// Puts a file in mapped mode. Only the session that asks has a lease on it, and no log holds anything of
    /// it.
    pub(crate) fn begin_mapped(&self, inode: InodeNumber) -> Result<(), Trouble> {
        let _no_digest = self.digester.lock();
        let mut transaction = self.metadata.begin()?;
        let stored = transaction.inode(inode)?.ok_or(Trouble::Refused(Refusal::NotFound))?;
        if stored.record.mapped {
            return Ok(());
        }
        if stored.record.kind() != FileKind::File {
            return Err(Trouble::Refused(Refusal::Invalid("only files can be mapped".into())));
        }
        let references = &self.mapped.references;
        let file = mapped_files::create(references, inode).map_err(failed)?;
        if let Err(error) = self.copy_out(transaction.base(), &stored.record, &file) {
            let _ = mapped_files::remove(references, inode);
            return Err(error.into());
        }
        transaction.put_inode(&InodeRecord { mapped: true, ..stored.record })?;
        self.migration.watched.note_change(inode, &(0..u64::MAX));
        // It is unknown what a commit that fails did: the file stays, and is swept away if nothing says that
        // it counts.
        transaction.commit()?;
        self.mapped.count(&stored.record);
        Ok(())
    }

    fn copy_out(&self, snapshot: &Snapshot, record: &InodeRecord, file: &OwnedFd) -> Result<(), Error> {
        if self.lost.size_of(record.inode).is_some() {
            return Err(Error::Content(record.inode));
        }
        let mut buffer = vec![0; PIECE_BYTES as usize];
        let extents = snapshot.extents(record.inode, 0..u64::MAX)?;
        for extent in extents.iter().flat_map(|extent| split_at_arenas(&self.geometry(), extent)) {
            let start = extent.file_block * BLOCK_BYTES;
            let end = (extent.end_block() * BLOCK_BYTES).min(record.size);
            self.check_content(record.inode, &extent)?;
            let mut at = start;
            while at < end {
                let piece = &mut buffer[..(end - at).min(PIECE_BYTES) as usize];
                self.arenas.read(extent.address, at - start, piece)?;
                write_all(file, at, piece)?;
                at += piece.len() as u64;
            }
        }
        mapped_files::set_size(file, record.size).map_err(failed)?;
        let time = |time: Timestamp| Timespec { tv_sec: time.seconds(), tv_nsec: time.nanoseconds().into() };
        let omitted = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
        let times = Timestamps { last_access: omitted, last_modification: time(record.modified) };
        futimens(file, &times).map_err(failed)?;
        self.mapped.settle_new(file)
    }

    /// Ends mapped mode if no program has the file mapped and there is room for it. No log holds anything of
    /// it: a session that might have logged something had it mapped, or was fenced.
    pub(crate) fn end_mapped(&self, inode: InodeNumber) -> Result<(), Error> {
        let _no_digest = self.digester.lock();
        let Some(stored) = self.metadata.read()?.inode(inode)?.filter(|stored| stored.record.mapped) else {
            return Ok(());
        };
        let references = &self.mapped.references;
        let file = match mapped_files::claim(references, inode) {
            Ok(Some(file)) => file,
            Ok(None) => return Ok(()),
            Err(Errno::NOENT) => {
                let what = format!("the content of inode {} is missing", inode.0);
                return Err(Error::Damaged(what));
            }
            Err(errno) => return Err(failed(errno)),
        };
        let found = fstat(&file).map_err(failed)?;
        let modified = Timestamp::new(found.st_mtime, found.st_mtime_nsec as u32);
        let record = InodeRecord {
            mapped: false,
            size: found.st_size.unsigned_abs(),
            modified,
            changed: stored.record.changed.max(modified),
            ..stored.record
        };
        let mut reservation = Reservation::default();
        // Its blocks beyond those in the arenas are the blocks it is about to get.
        self.mapped.count_as_ending(inode);
        let plan = loop {
            match self.copy_back(&file, inode, &mut reservation) {
                Err(Error::Unwritable(run)) if !self.space.lock().allocator.is_bad(run.address) => {
                    let allocator = &mut self.space.lock().allocator;
                    allocator.abandon(&mut reservation);
                    allocator.set_aside(run);
                }
                Err(Error::TierFailed { tier, why }) => {
                    self.space.lock().allocator.abandon(&mut reservation);
                    self.storage().fail_tier(tier, &why);
                }
                plan => break plan,
            }
        };
        if planted::active(Bug::MappedEndsEarly) {
            mapped_files::remove(references, inode).map_err(failed)?;
        }
        let ended = plan.and_then(|plan| match plan {
            Some(plan) => self.commit_end(&record, &plan, &mut reservation).map(|()| true),
            None => Ok(false),
        });
        // A count by the last commit but one still needs the file.
        let _nobody_counts = self.quotas.lock();
        self.mapped.counted.lock().ending = None;
        if !matches!(ended, Ok(true)) {
            self.mapped.count(&stored.record);
            self.space.lock().allocator.abandon(&mut reservation);
        }
        if ended? {
            mapped_files::remove(references, inode).map_err(failed)?;
        }
        Ok(())
    }

    /// Copies the content to the blocks the file has, and to new ones; `None`: there are not enough.
    fn copy_back(
        &self,
        file: &OwnedFd,
        inode: InodeNumber,
        reservation: &mut Reservation,
    ) -> Result<Option<Plan>, Error> {
        let snapshot = self.metadata.read()?;
        let failures = self.arenas.failures();
        let mut plan = Plan::default();
        let mut at = 0;
        while let Some(blocks) = data_blocks(file, at)? {
            if at < blocks.start {
                plan.changes.push((at..blocks.start, Vec::new()));
            }
            at = blocks.start;
            for extent in self.without_bad(snapshot.extents(inode, blocks.clone())?) {
                let (start, end) = (extent.file_block.max(blocks.start), extent.end_block().min(blocks.end));
                if !self.fill_gap(file, at..start, reservation, &mut plan)? {
                    return Ok(None);
                }
                let kept = Extent {
                    file_block: start,
                    blocks: (end - start) as u32,
                    address: extent.address_of(start),
                };
                self.copy_in(file, &kept)?;
                at = end;
            }
            if !self.fill_gap(file, at..blocks.end, reservation, &mut plan)? {
                return Ok(None);
            }
            at = blocks.end;
        }
        plan.changes.push((at..u64::MAX, Vec::new()));
        self.arenas.fence()?;
        self.arenas.check_failures(failures)?;
        Ok(Some(plan))
    }

    /// Extents less the blocks that the medium does not take.
    fn without_bad(&self, extents: Vec<Extent>) -> Vec<Extent> {
        let allocator = &self.space.lock().allocator;
        if !allocator.has_unwritable() {
            return extents;
        }
        let mut good: Vec<Extent> = Vec::new();
        for extent in &extents {
            let mut goes_on = false;
            for file_block in extent.file_block..extent.end_block() {
                let address = extent.address_of(file_block);
                match good.last_mut().filter(|_| goes_on) {
                    _ if allocator.is_bad(address) => goes_on = false,
                    Some(last) => last.blocks += 1,
                    None => {
                        good.push(Extent { file_block, blocks: 1, address });
                        goes_on = true;
                    }
                }
            }
        }
        good
    }

    /// Gives `blocks` new ones, and their content. Says whether there were enough.
    fn fill_gap(
        &self,
        file: &OwnedFd,
        blocks: Range<u64>,
        reservation: &mut Reservation,
        plan: &mut Plan,
    ) -> Result<bool, Error> {
        let (mut at, mut extents) = (blocks.start, Vec::new());
        while at < blocks.end {
            let Some(run) = self.take_blocks(blocks.end - at, reservation)? else { return Ok(false) };
            let extent = Extent { file_block: at, blocks: run.blocks, address: run.address };
            self.copy_in(file, &extent)?;
            at = extent.end_block();
            extents.push(extent);
        }
        if !extents.is_empty() {
            plan.changes.push((blocks, extents));
        }
        Ok(true)
    }

    /// Some of `wanted` blocks that are promised to no session.
    fn take_blocks(&self, wanted: u64, reservation: &mut Reservation) -> Result<Option<Run>, Error> {
        while self.room() < wanted {
            if !self.grow(None, || self.room() >= wanted)? {
                return Ok(None);
            }
        }
        let most = u32::try_from(wanted).unwrap_or(u32::MAX);
        let allocator = &mut self.space.lock().allocator;
        let mut tiers = (0..allocator.tiers()).map(TierNumber);
        Ok(tiers.find_map(|tier| allocator.take(tier, most, None, reservation)))
    }

    fn copy_in(&self, file: &OwnedFd, extent: &Extent) -> Result<(), Error> {
        let mut buffer = vec![0; PIECE_BYTES.min(u64::from(extent.blocks) * BLOCK_BYTES) as usize];
        let writer = ContentWriter::new(&self.arenas);
        for extent in split_at_arenas(&self.geometry(), extent) {
            let (mut from, end) = (extent.file_block * BLOCK_BYTES, extent.end_block() * BLOCK_BYTES);
            let mut to = extent.address;
            while from < end {
                let piece = &mut buffer[..(end - from).min(PIECE_BYTES) as usize];
                read_all(file, from, piece)?;
                match planted::active(Bug::MappedUnflushed) {
                    true => writer.put_unflushed(to, piece)?,
                    false => writer.put(to, piece)?,
                }
                from += piece.len() as u64;
                to = to.plus(piece.len() as u64);
            }
        }
        Ok(())
    }

    fn commit_end(
        &self,
        record: &InodeRecord,
        plan: &Plan,
        reservation: &mut Reservation,
    ) -> Result<(), Error> {
        let mut transaction = self.metadata.begin()?;
        transaction.put_inode(record)?;
        let changes = plan.changes.iter();
        let writes: Vec<_> =
            changes.map(|(blocks, new)| ExtentWrite { blocks: blocks.clone(), new }).collect();
        for freed in transaction.write_all_extents(record.inode, &writes)? {
            runs_of(&self.geometry(), &freed).for_each(|run| reservation.free(run));
        }
        put_bitmaps(&mut transaction, &mut self.space.lock().allocator, reservation)?;
        let committed = transaction.commit();
        let mut space = self.space.lock();
        if let Err(error) = committed {
            space.allocator.unstage(reservation);
            return Err(error.into());
        }
        // No session has read them since the mode began.
        space.allocator.committed(reservation, SessionId::NOBODY, LogPosition(0));
        space.allocator.end_session(SessionId::NOBODY);
        Ok(())
    }
}
