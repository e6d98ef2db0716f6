//! Scrub: a running daemon reads content and metadata against their checksums, a part at a time.
//!
//! A block that seems damaged is looked at once more while no digest runs ([`super::telling`]).

use crate::metadata::{Snapshot, StoredInode};
use crate::requests::Trouble;
use crate::tiers::split_at_arenas;
use crate::{Error, SharedFs};
use cuesta_format::wire::{DamagedContent, Response, ScrubPlace, Scrubbed};
use cuesta_format::{BLOCK_BYTES, BlockAddress, Extent, FileKind, InodeNumber};
use cuesta_media::emulate::settle;
use std::time::{Duration, Instant};

/// How long content is looked at before the client is told how far it is.
const SCRUB_TIME: Duration = Duration::from_millis(200);
/// Blocks of a file that are looked at before the time is.
const BLOCKS_AT_ONCE: u64 = 4096;
/// Damaged blocks are looked at once more, one by one: no more than about so many for one answer.
const SUSPECTS_MAX: usize = 1000;

impl SharedFs {
    /// Looks at content of files from a place on, for a while. All logs are digested first.
    pub(crate) fn scrub(&self, from: ScrubPlace) -> Result<Response, Trouble> {
        if from == ScrubPlace::default() {
            self.digest_everything()?;
            self.scrub_copies()?;
        }
        let snapshot = self.metadata.read()?;
        let (began, end) = (Instant::now(), snapshot.inodes_end()?);
        let checks_content = self.geometry().checks_content || self.arenas.tiers_count() > 1;
        let mut scrubbed = Scrubbed { checks_content, ..Scrubbed::default() };
        let (mut place, mut suspects) = (from, Vec::new());
        while place.inode < end && began.elapsed() < SCRUB_TIME && suspects.len() < SUSPECTS_MAX {
            place = self.scrub_some(&snapshot, place, &mut scrubbed, &mut suspects)?;
            settle();
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
        // Content on a missing tier is told with the tier.
        let is_there = |extent: &&Extent| self.arenas.tier(extent.address.tier()).is_ok();
        let there = extents.iter().filter(is_there);
        for extent in there.flat_map(|extent| split_at_arenas(&self.geometry(), extent)) {
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
