//! Copies in the fast tier stay beside the blocks of a file, whose home is a lower tier, or are dropped.
//!
//! [`FastCopies`](crate::tiers::Allocator::copies) says why no crash leaves anything of them. A digest that frees or writes blocks drops
//! their copies.

use super::copying::Copies;
use super::moving::lie_as_copied;
use crate::requests::Trouble;
use crate::tiers::{ContentWriter, Run, runs_of};
use crate::{Error, SharedFs};
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

    /// Keeps copies of a file that has not changed. Says whether it could.
    pub(super) fn keep_copies(&self, inode: InodeNumber, copies: &mut Copies) -> Result<bool, Error> {
        let snapshot = self.metadata.read()?;
        if snapshot.inode(inode)?.is_none_or(|stored| stored.record.mapped) {
            return Ok(false);
        }
        for copied in &copies.runs {
            let blocks = copied.from.file_block..copied.from.end_block();
            if !lie_as_copied(&snapshot.extents(inode, blocks)?, &copied.from) {
                return Ok(false);
            }
        }
        let allocator = &mut self.space.lock().allocator;
        for copied in &copies.runs {
            // Both lie in one arena each: a part's extents do, and so do runs that are taken.
            allocator.add_copy(
                Run { address: copied.from.address, blocks: copied.from.blocks },
                copied.to.address,
            );
        }
        copies.keep(allocator);
        self.migration.has_copied.store(true, Ordering::Release);
        Ok(true)
    }

    /// Drops the copies of blocks of a file. Answers how many there were.
    pub(super) fn drop_copies(&self, inode: InodeNumber, ranges: &[Range<u64>]) -> Result<u64, Trouble> {
        if !self.migration.may_have_copies() {
            return Ok(0);
        }
        let homes = || -> Result<Vec<Run>, Error> {
            let snapshot = self.metadata.read()?;
            let mut homes = Vec::new();
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
        let dropped = self.alone_with(inode, || {
            let homes = homes()?;
            let allocator = &mut self.space.lock().allocator;
            Ok(homes.into_iter().map(|home| allocator.drop_copies(home)).sum())
        })?;
        Ok(dropped.unwrap_or(0))
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
