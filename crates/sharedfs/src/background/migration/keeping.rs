//! Copies in the fast tier. The mover makes them of blocks whose home is a lower tier, and drops them again.
//!
//! [`FastCopies`](crate::tiers::Allocator::copies) says why no crash leaves anything of them. A digest that frees or writes blocks drops
//! their copies.

use super::copying::Copied;
use super::moving::{Moving, Task, lie_as_copied};
use super::part::{PART_BLOCKS, Place};
use crate::requests::Trouble;
use crate::tiers::{ContentWriter, Run, runs_of};
use crate::{Error, SharedFs};
use cuesta_format::event::Step;
use cuesta_format::{BLOCK_BYTES, BlockAddress, Extent, InodeNumber, TierNumber};
use std::ops::Range;
use std::sync::atomic::Ordering;

impl SharedFs {
    /// The blocks of extents that have no copy.
    pub(super) fn without_copies(&self, extents: &[Extent]) -> Vec<Extent> {
        let space = self.space.lock();
        let shown = extents.iter().flat_map(|extent| space.allocator.copies().shown(extent));
        shown.filter(|extent| extent.address.tier() != TierNumber::FAST).collect()
    }

    /// Keeps the copies of files that have not changed.
    pub(super) fn keep_copies(&self, unchanged: Vec<&mut Moving>) -> Result<(), Error> {
        let snapshot = self.metadata.read()?;
        for moving in unchanged {
            let mut lies_as_copied =
                snapshot.inode(moving.inode)?.is_some_and(|stored| !stored.record.mapped);
            for Copied { from, .. } in &moving.copies.runs {
                let blocks = from.file_block..from.end_block();
                lies_as_copied =
                    lies_as_copied && lie_as_copied(&snapshot.extents(moving.inode, blocks)?, from);
            }
            if !lies_as_copied {
                continue;
            }
            let allocator = &mut self.space.lock().allocator;
            for copied in &moving.copies.runs {
                // Both lie in one arena each: a part's extents do, and so do runs that are taken.
                let home = Run { address: copied.from.address, blocks: copied.from.blocks };
                allocator.add_copy(moving.inode, home, copied.to.address);
            }
            moving.copies.keep(allocator);
            moving.is_done = true;
            self.migration.has_copied.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Drops the copies of blocks of a file. Answers how many there were.
    pub(super) fn drop_copies(&self, inode: InodeNumber, ranges: &[Range<u64>]) -> Result<u64, Trouble> {
        if !self.migration.may_have_copies() {
            return Ok(0);
        }
        let homes = || -> Result<Vec<Run>, Error> {
            let snapshot = self.metadata.read()?;
            let mut homes = Vec::new();
            if snapshot.inode(inode)?.is_none() {
                return Ok(homes);
            }
            for range in ranges {
                let extents = snapshot.extents(inode, range.clone())?;
                let below = extents.iter().filter(|extent| extent.address.tier() != TierNumber::FAST);
                let inside = below.filter_map(|extent| super::part::inside(extent, range));
                homes.extend(inside.flat_map(|extent| runs_of(&self.geometry(), &extent)));
            }
            Ok(homes)
        };
        let has_copies = |homes: &[Run]| {
            let space = self.space.lock();
            let copies = space.allocator.copies();
            homes.iter().any(|&home| copies.has_any(home))
        };
        if !has_copies(&homes()?) {
            return Ok(0);
        }
        let blocks = self.alone_with(&[inode], |held| {
            if held != [true] {
                return Ok(0);
            }
            let homes = homes()?;
            let allocator = &mut self.space.lock().allocator;
            Ok(homes.into_iter().map(|home| allocator.drop_copies(home)).sum())
        })?;
        if blocks > 0 {
            self.events.record(Step::DropCopies { inode, blocks });
        }
        Ok(blocks)
    }

    /// Drops the copies of files whose homes come to the fast tier, and of others if these homes have no room there.
    pub(super) fn make_copies_yield(&self, files: &[Task<'_>]) -> Result<(), Trouble> {
        if !self.migration.may_have_copies() {
            return Ok(());
        }
        for &Task { inode, place, .. } in files {
            match place {
                Place::In(ranges) => self.drop_copies(inode, ranges)?,
                Place::From(block) => self
                    .drop_copies(inode, std::slice::from_ref(&(block..block.saturating_add(PART_BLOCKS))))?,
            };
        }
        loop {
            let beyond = self.mapped.beyond();
            let owner = {
                let space = self.space.lock();
                let fast = space.allocator.free_blocks_in(TierNumber::FAST) + self.unmade_fast(&space);
                let free = self.room_at_most(&space, beyond).min(fast);
                if free >= PART_BLOCKS { None } else { space.allocator.copies().any_owner() }
            };
            let Some(inode) = owner else { return Ok(()) };
            if self.drop_copies(inode, std::slice::from_ref(&(0..u64::MAX)))? == 0 {
                return Ok(());
            }
        }
    }

    /// The home of a block that a session knows by the address of its copy. A copy that is damaged is written again. The caller holds the
    /// digester.
    pub(crate) fn home_of(&self, address: BlockAddress) -> Result<BlockAddress, Error> {
        let block = BlockAddress(address.0 - address.0 % BLOCK_BYTES);
        let Some(home) = self.space.lock().allocator.copies().home_of(block) else { return Ok(address) };
        if !self.arenas.is_intact(block)? {
            let mut content = [0; BLOCK_BYTES as usize];
            if self.arenas.read_intact(home, &mut content)? == 1 {
                tracing::error!(address = block.0, "a copy in the fast tier is damaged: it is written again");
                ContentWriter::new(&self.arenas).put(block, &content)?;
            }
        }
        Ok(home)
    }
}
