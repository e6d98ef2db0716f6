//! Content that is not what was written, as its checksum says: looked for, and told in the daemon's log.
//!
//! Nobody decides that a block is damaged while it may be written: whoever finds one such asks here, and it is looked at
//! once more while no digest runs, if it is the file's block still.

use crate::check::Problem;
use crate::log_losses::LogLoss;
use crate::metadata::{Snapshot, StoredInode};
use crate::requests::Trouble;
use crate::tiers::split_at_arenas;
use crate::{Error, SharedFs, paths};
use cuesta_format::wire::{DamagedContent, Response, ScrubPlace, Scrubbed};
use cuesta_format::{BLOCK_BYTES, BlockAddress, Extent, FileKind, InodeNumber};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// How much is looked at before who asked is told how far it is.
const SCRUB_TIME: Duration = Duration::from_millis(200);
/// Blocks of a file that are looked at before the time is.
const BLOCKS_AT_ONCE: u64 = 4096;
/// Damaged blocks are looked at once more, one by one: no more than about so many for one answer.
const SUSPECTS_MAX: usize = 1000;
/// Files of a damaged log that are told by their paths, each of which costs a look at all names.
const FILES_TOLD_MAX: usize = 16;
/// Files that were told of are remembered up to so many.
const TOLD_MAX: usize = 4096;

/// Damaged files that the log was told of: a path costs a look at all names, and who reads one may do so again and again.
#[derive(Debug, Default)]
pub(crate) struct ToldDamage(Mutex<BTreeSet<InodeNumber>>);

impl ToldDamage {
    /// Whether this is news, which is noted.
    fn is_news(&self, inode: InodeNumber) -> bool {
        let mut told = self.0.lock();
        if told.len() >= TOLD_MAX {
            told.clear();
        }
        told.insert(inode)
    }
}

impl SharedFs {
    /// Fails if a file's blocks hold something else than what was written there. No digest runs, or none writes them.
    pub(crate) fn check_content(&self, inode: InodeNumber, extent: &Extent) -> Result<(), Error> {
        for block in 0..u64::from(extent.blocks) {
            let address = extent.address.plus(block * BLOCK_BYTES);
            if !self.arenas.is_intact(address)? {
                self.tell_damage(inode, extent.file_block + block);
                return Err(Error::Content(inode));
            }
        }
        Ok(())
    }

    /// A log lost what was acknowledged: that is told, and kept until somebody was told by `cuesta fsck --repair`.
    pub(crate) fn tell_log_loss(&self, loss: &LogLoss) -> Result<(), Error> {
        let paths: Vec<String> = loss
            .files
            .iter()
            .take(FILES_TOLD_MAX)
            .map(|(&inode, _)| format!("/{} (inode {inode})", String::from_utf8_lossy(&self.path_of(inode))))
            .collect();
        tracing::error!(
            session = loss.session.0,
            from = loss.end.0,
            to = loss.acknowledged.0,
            entries = loss.entries,
            unknown_bytes = loss.unknown_bytes,
            files = %paths.join(", "),
            "a log was damaged: what was acknowledged in it behind its last whole entry is lost"
        );
        let snapshot = self.metadata.read()?;
        let is_file = |stored: StoredInode| stored.record.kind() == FileKind::File;
        let exists = |inode| snapshot.inode(inode).is_ok_and(|stored| stored.is_some_and(is_file));
        self.lost.add(loss, Problem::Log(loss.clone()).to_string(), exists)
    }

    /// Blocks that digests wrote in part and found damaged, where they lay before.
    pub(crate) fn tell_damaged_blocks(&self, found: &[(InodeNumber, BlockAddress)]) {
        for &(inode, address) in found {
            tracing::error!(
                inode = inode.0,
                address = address.0,
                "a block that was written in part is damaged: its checksum is wrong"
            );
        }
    }

    /// Whether a block is damaged, of which a session said so.
    pub(crate) fn verify(&self, inode: InodeNumber, address: BlockAddress) -> Result<Response, Trouble> {
        let block = self.damaged_block(inode, address)?;
        if let Some(block) = block {
            self.tell_damage(inode, block);
        }
        Ok(Response::Verified { is_damaged: block.is_some() })
    }

    /// The block of the file that lies there, if it is one and damaged.
    fn damaged_block(&self, inode: InodeNumber, address: BlockAddress) -> Result<Option<u64>, Error> {
        let _no_digest = self.digester.lock();
        let snapshot = self.metadata.read()?;
        let is_arenas = snapshot.inode(inode)?.is_some_and(|stored| !stored.record.mapped);
        let extents = if is_arenas { snapshot.extents(inode, 0..u64::MAX)? } else { Vec::new() };
        let holds = |extent: &&Extent| {
            (extent.address.0..extent.address.plus(u64::from(extent.blocks) * BLOCK_BYTES).0)
                .contains(&address.0)
        };
        let Some(extent) = extents.iter().find(holds) else { return Ok(None) };
        let block = (address.0 - extent.address.0) / BLOCK_BYTES;
        let is_intact = self.arenas.is_intact(extent.address.plus(block * BLOCK_BYTES))?;
        Ok((!is_intact).then_some(extent.file_block + block))
    }

    fn tell_damage(&self, inode: InodeNumber, block: u64) {
        if !self.told_damage.is_news(inode) {
            return;
        }
        let path = self.path_of(inode);
        tracing::error!(
            inode = inode.0,
            path = %String::from_utf8_lossy(&path),
            offset = block * BLOCK_BYTES,
            "a file's content is damaged: its checksum is wrong"
        );
    }

    /// A path below the store's root, for people; empty: there is none, or it cannot be read.
    fn path_of(&self, inode: InodeNumber) -> Vec<u8> {
        let found = self.metadata.read().and_then(|snapshot| paths::of_file(&snapshot, inode));
        found.ok().flatten().unwrap_or_default()
    }

    /// Looks at content of files from a place on, for a while. What lies in logs is digested first.
    pub(crate) fn scrub(&self, from: ScrubPlace) -> Result<Response, Trouble> {
        if from == ScrubPlace::default() {
            self.digest_everything()?;
            self.scrub_copies()?;
        }
        let snapshot = self.metadata.read()?;
        let (began, end) = (Instant::now(), snapshot.inodes_end()?);
        let mut scrubbed = Scrubbed { checks_content: self.geometry().checks_content, ..Scrubbed::default() };
        let (mut place, mut suspects) = (from, Vec::new());
        while place.inode < end && began.elapsed() < SCRUB_TIME && suspects.len() < SUSPECTS_MAX {
            place = self.scrub_some(&snapshot, place, &mut scrubbed, &mut suspects)?;
        }
        scrubbed.next = (place.inode < end).then_some(place);
        scrubbed.bad_blocks = self.space.lock().allocator.bad_blocks();
        for (inode, address) in suspects {
            if let Some(block) = self.damaged_block(inode, address)? {
                self.add_damaged(inode, block * BLOCK_BYTES, &mut scrubbed);
            }
        }
        Ok(Response::Scrubbed(scrubbed))
    }

    /// Looks at both copies of the superblock and of the metadata, and mends one from the other.
    fn scrub_copies(&self) -> Result<(), Error> {
        let lost = self.metadata.scrub_copies()?;
        if lost > 0 {
            tracing::error!(
                pages = lost,
                "pages of the metadata are damaged in every copy: stop the store, and run cuesta fsck --repair"
            );
        }
        self.heal_superblocks()
    }

    fn add_damaged(&self, inode: InodeNumber, offset: u64, scrubbed: &mut Scrubbed) {
        if let Some(last) = scrubbed.damaged.last_mut()
            && (last.inode, last.offset + last.bytes) == (inode, offset)
        {
            last.bytes += BLOCK_BYTES;
            return;
        }
        self.tell_damage(inode, offset / BLOCK_BYTES);
        let path = self.path_of(inode);
        scrubbed.damaged.push(DamagedContent { inode, path, offset, bytes: BLOCK_BYTES });
    }

    /// Looks at some blocks of one file, and answers where to go on.
    fn scrub_some(
        &self,
        snapshot: &Snapshot,
        place: ScrubPlace,
        scrubbed: &mut Scrubbed,
        suspects: &mut Vec<(InodeNumber, BlockAddress)>,
    ) -> Result<ScrubPlace, Error> {
        let ScrubPlace { inode, block } = place;
        let next_file = ScrubPlace { inode: InodeNumber(inode.0 + 1), block: 0 };
        let is_in_arenas =
            |stored: &StoredInode| stored.record.kind() == FileKind::File && !stored.record.mapped;
        if !snapshot.inode(inode)?.as_ref().is_some_and(is_in_arenas) {
            return Ok(next_file);
        }
        scrubbed.files += u64::from(block == 0);
        let end = block.saturating_add(BLOCKS_AT_ONCE);
        let extents = snapshot.extents(inode, block..end)?;
        if extents.is_empty() {
            // A hole of any size, or the end.
            let behind = snapshot.extents(inode, end..u64::MAX)?;
            return Ok(behind.first().map_or(next_file, |next| ScrubPlace { inode, block: next.file_block }));
        }
        for extent in extents.iter().flat_map(|extent| split_at_arenas(&self.geometry(), extent)) {
            for file_block in extent.file_block.max(block)..extent.end_block().min(end) {
                let address = extent.address_of(file_block);
                if !self.arenas.is_intact(address)? {
                    suspects.push((inode, address));
                }
                scrubbed.blocks += 1;
            }
        }
        Ok(ScrubPlace { inode, block: end })
    }
}
