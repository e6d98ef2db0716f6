//! Blocks of a lower tier of which the disk has its room back.
//!
//! ```text
//!   free, held something ──► taken out, while the disk takes the room back ──► bare ──► room is made again ──► free
//! ```
//!
//! A block without room is not free. Its room is made again before it is, because a disk may be full by then. It counts like the
//! blocks that an arena has not grown to.
//!
//! Nothing of this is kept. When a store is opened, each free run of a lower tier may have room or not.

use super::reservation::Run;
use super::tier_blocks::{Arena, TierBlocks};
use cuesta_format::ArenaId;
use std::ops::Range;

/// The disk gets the room of so many neighbours at least: 64 KiB.
const UNIT_BLOCKS: u32 = 16;

/// The units of an arena.
fn units(blocks: u32) -> impl Iterator<Item = Range<u32>> {
    (0..blocks / UNIT_BLOCKS).map(|unit| unit * UNIT_BLOCKS..(unit + 1) * UNIT_BLOCKS)
}

impl Arena {
    /// How many blocks are free of a unit that the disk can have back, if it can.
    fn free_in_stale(&self, unit: Range<u32>) -> Option<u32> {
        let bare = UNIT_BLOCKS - self.bare.free_in(unit.clone());
        let free = self.busy.free_in(unit.clone());
        (free + bare == UNIT_BLOCKS && self.stale.free_in(unit) < UNIT_BLOCKS).then_some(free)
    }
}

impl TierBlocks {
    /// The store is opened: whole free units may have no room, and the disk can have it back.
    pub fn doubt_room(&mut self) {
        for number in 0..self.arenas.len() {
            for unit in units(self.geometry.arena_blocks()) {
                if self.arenas[number].busy.free_in(unit.clone()) == UNIT_BLOCKS {
                    self.occupy(number, unit.start, UNIT_BLOCKS);
                    self.made -= u64::from(UNIT_BLOCKS);
                    self.arenas[number].bare.set(unit.start, UNIT_BLOCKS);
                    self.arenas[number].stale.set(unit.start, UNIT_BLOCKS);
                }
            }
        }
    }

    /// Takes out a run of which the disk is to have the room back: at most `most` blocks, of which at most `free_most` are free.
    pub fn take_stale(&mut self, most: u32, free_most: u64) -> Option<Run> {
        if !self.takes_writes() {
            return None;
        }
        let (number, blocks) = self.arenas.iter().enumerate().find_map(|(number, arena)| {
            let mut run: Option<(Range<u32>, u64)> = None;
            for unit in units(self.geometry.arena_blocks()).filter(|_| arena.stale.used() > 0) {
                let before = run.as_ref().map_or(0, |(_, free)| *free);
                let free = arena.free_in_stale(unit.clone()).map(|free| before + u64::from(free));
                let fits = |blocks: &Range<u32>| unit.end - blocks.start <= most;
                match (free.filter(|free| *free <= free_most), &mut run) {
                    (Some(free), None) => run = Some((unit, free)),
                    (Some(free), Some((blocks, total))) if fits(blocks) => {
                        (blocks.end, *total) = (unit.end, free);
                    }
                    (_, Some(_)) => break,
                    (None, None) => {}
                }
            }
            Some((number, run?.0))
        })?;
        let count = blocks.end - blocks.start;
        let arena = &mut self.arenas[number];
        let bare = arena.bare.clear(blocks.start, count);
        let bare = count - bare;
        arena.stale.clear(blocks.start, count);
        self.made -= u64::from(count - bare);
        self.occupy(number, blocks.start, count);
        let address = self.geometry.address(ArenaId::new(self.tier, number as u64), blocks.start);
        Some(Run { address, blocks: count })
    }

    /// The disk has the room of a run that was taken out, or may have it.
    pub fn set_bare(&mut self, run: Run) {
        if let Some((arena, first)) = self.place(run) {
            self.arenas[arena].bare.set(first, run.blocks);
        }
    }

    /// Takes out a run of at most `most` blocks for which room is to be made.
    pub fn take_bare(&mut self, most: u32) -> Option<Run> {
        let (number, (first, blocks)) = self.arenas.iter().enumerate().find_map(|(number, arena)| {
            let is_some = arena.bare.used() > 0;
            Some((number, is_some.then(|| arena.bare.find_used(0..arena.bare.blocks(), most))??))
        })?;
        self.arenas[number].bare.clear(first, blocks);
        let address = self.geometry.address(ArenaId::new(self.tier, number as u64), first);
        Some(Run { address, blocks })
    }

    /// A run that was taken out has room, and is free.
    pub fn set_free(&mut self, run: Run) {
        self.made += u64::from(run.blocks);
        self.release(run);
    }
}
