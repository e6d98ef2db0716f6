//! The blocks of one tier's arenas.
//!
//! | a block is | in the committed bitmap | may be allocated |
//! |---|---|---|
//! | free | clear | yes |
//! | reserved by the digest that runs | clear | no |
//! | used | set | no |
//! | in quarantine | clear | no: the session whose digest freed it may still read it |
//! | without memory | clear | no: its arena has not grown as far, or the disk has its room back ([`super::given_back`]) |
//! | bad | set, if a file had it | no, never again: the medium does not take it |
//!
//! The committed bitmap is what the metadata store holds. It changes in the transaction of the digest that
//! allocates or frees, so a crash finds exactly the blocks of committed files in use.
//!
//! Placement is sequential: a cursor moves through the arenas and wraps. So files written together lie together,
//! and long runs stay long. But small writes go back to where blocks became free ([`Freed`]). On a machine with
//! several memory nodes each has a cursor of its own. Content of a process is placed on its node as long as blocks
//! are free there.

use super::bitmap::Bitmap;
use super::freed::Freed;
use super::reservation::Run;
use crate::tiers::memory::{Grown, StepNodes};
use cuesta_format::{ArenaId, BlockAddress, Geometry, TierNumber};
use cuesta_media::Node;
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Instant;

#[derive(Debug)]
pub(super) struct Arena {
    committed: Bitmap,
    /// Committed, reserved, in quarantine, without memory or bad.
    pub(super) busy: Bitmap,
    /// Of a lower tier: blocks that held something since the disk last had their room back.
    pub(super) stale: Bitmap,
    /// Busy, because the disk may have their room back.
    pub(super) bare: Bitmap,
    /// Blocks that the medium does not take.
    bad: Bitmap,
    /// Some of it is not written down yet.
    has_new_bad: bool,
}

/// The state of every block of a tier.
#[derive(Debug)]
pub(super) struct TierBlocks {
    pub(super) tier: TierNumber,
    pub(super) geometry: Geometry,
    /// Nothing can be written: the tier is missing, or failed.
    refuses_writes: bool,
    pub(super) arenas: Vec<Arena>,
    /// Arena and block: the cursor of each node, and that of processes on none.
    cursors: BTreeMap<Option<Node>, (usize, u32)>,
    freed: Freed,
    nodes: StepNodes,
    /// Blocks that have their memory.
    pub(super) made: u64,
    free: u64,
}

impl TierBlocks {
    /// No arenas yet.
    pub(super) fn new(tier: TierNumber, geometry: Geometry) -> TierBlocks {
        TierBlocks {
            tier,
            geometry,
            refuses_writes: false,
            arenas: Vec::new(),
            cursors: BTreeMap::new(),
            freed: Freed::default(),
            nodes: StepNodes::default(),
            made: 0,
            free: 0,
        }
    }

    /// Adds the next arena with its bitmaps of used and of bad blocks. Its first `made` blocks have their
    /// memory, in steps that lie on `nodes`, where that is known.
    pub fn add_arena(&mut self, committed: Bitmap, bad: Bitmap, made: u32, nodes: &[(Range<u32>, Node)]) {
        let arena = self.arenas.len();
        let mut busy = committed.clone();
        busy.join(&bad);
        busy.set(made, self.geometry.arena_blocks() - made);
        self.made += u64::from(made);
        self.free += u64::from(busy.free());
        for (blocks, node) in nodes {
            self.nodes.set(arena, blocks.clone(), Some(*node));
            self.nodes.add_free(arena, Some(*node), busy.free_in(blocks.clone()));
        }
        let none = Bitmap::new(self.geometry.arena_blocks());
        let (stale, bare) = (none.clone(), none);
        self.arenas.push(Arena { busy, committed, stale, bare, bad, has_new_bad: false });
    }

    /// More blocks have their memory, of the last arena or a new one.
    pub fn grow(&mut self, grown: &Grown) {
        while self.arenas.len() <= grown.arena.index() as usize {
            let none = Bitmap::new(self.geometry.arena_blocks());
            self.add_arena(none.clone(), none, 0, &[]);
        }
        self.nodes.set(grown.arena.index() as usize, grown.blocks.clone(), grown.node);
        self.nodes.note_growth(grown.wanted, grown.node, Instant::now());
        let count = grown.blocks.end - grown.blocks.start;
        self.made += u64::from(count);
        let address = self.geometry.address(grown.arena, grown.blocks.start);
        self.release(Run { address, blocks: count });
        for &block in &grown.bad {
            self.set_aside(Run { address: self.geometry.address(grown.arena, block), blocks: 1 });
        }
    }

    /// Blocks that the medium does not take are never allocated again, as the next transaction writes down. A
    /// file that has them may keep them.
    pub fn set_aside(&mut self, run: Run) {
        let Some((arena, first)) = self.place(run) else { return };
        self.occupy(arena, first, run.blocks);
        let arena = &mut self.arenas[arena];
        arena.has_new_bad |= arena.bad.set(first, run.blocks) < run.blocks;
    }

    /// Blocks that are never allocated.
    #[must_use]
    pub fn bad_blocks(&self) -> u64 {
        self.arenas.iter().map(|arena| u64::from(arena.bad.used())).sum()
    }

    /// Nothing can be written any more.
    pub fn refuse_writes(&mut self) {
        self.refuses_writes = true;
    }

    /// Something can be written again.
    pub fn take_writes(&mut self) {
        self.refuses_writes = false;
    }

    /// Whether something can be written.
    pub fn takes_writes(&self) -> bool {
        !self.refuses_writes
    }

    /// Whether it has blocks that cannot be written.
    pub fn has_unwritable(&self) -> bool {
        (self.refuses_writes && !self.arenas.is_empty()) || self.bad_blocks() > 0
    }

    /// Whether a block is bad.
    #[must_use]
    pub fn is_bad(&self, address: BlockAddress) -> bool {
        if self.refuses_writes {
            return true;
        }
        let place = self.place(Run { address, blocks: 1 });
        place.is_some_and(|(arena, block)| self.arenas[arena].bad.is_used(block))
    }

    /// The arenas whose bad blocks are to be written down, with their bitmaps as they are kept.
    pub fn new_bad_blocks(&self) -> impl Iterator<Item = (ArenaId, Vec<u8>)> {
        let new = self.arenas.iter().enumerate().filter(|(_, arena)| arena.has_new_bad);
        new.map(|(number, arena)| {
            let mut bitmap = Vec::new();
            arena.bad.to_bytes(&mut bitmap);
            (ArenaId::new(self.tier, number as u64), bitmap)
        })
    }

    /// Blocks that have their memory.
    #[must_use]
    pub fn made_blocks(&self) -> u64 {
        self.made
    }

    /// Blocks that may be allocated now.
    #[must_use]
    pub fn free_blocks(&self) -> u64 {
        if self.refuses_writes { 0 } else { self.free }
    }

    /// Where the blocks lie that may be.
    #[must_use]
    pub fn nodes(&self) -> &StepNodes {
        &self.nodes
    }

    /// Blocks that committed files use.
    pub fn used_blocks(&self) -> u64 {
        self.arenas.iter().map(|arena| u64::from(arena.committed.used())).sum()
    }

    pub(super) fn place(&self, run: Run) -> Option<(usize, u32)> {
        let arena = self.geometry.arena(run.address).index() as usize;
        let first = (self.geometry.arena_offset(run.address) / cuesta_format::BLOCK_BYTES) as u32;
        let fits = u64::from(first) + u64::from(run.blocks) <= u64::from(self.geometry.arena_blocks());
        (fits && arena < self.arenas.len()).then_some((arena, first))
    }

    /// Whether all blocks of a run are in committed use.
    #[must_use]
    pub fn is_used(&self, run: Run) -> bool {
        self.place(run).is_some_and(|(arena, first)| {
            (first..first + run.blocks).all(|block| self.arenas[arena].committed.is_used(block))
        })
    }

    /// A run of at most `most` free blocks, reserved: on the memory node `near` if there are some, else anywhere. `None` when
    /// nothing is free.
    pub fn take(&mut self, most: u32, near: Option<Node>) -> Option<Run> {
        if self.free_blocks() == 0 {
            return None;
        }
        let TierBlocks { freed, arenas, nodes, .. } = self;
        let freed = freed.take(near, most, |arena, from| find_in(arenas, nodes, (arena, from), near, most));
        let (arena, first, blocks) = match freed {
            Some(found) => found,
            None => {
                let on_node = near.and_then(|node| Some((near, self.find(Some(node), most)?)));
                let (cursor, found) = on_node.or_else(|| Some((None, self.find(None, most)?)))?;
                self.cursors.insert(cursor, (found.0, found.1 + found.2));
                found
            }
        };
        self.occupy(arena, first, blocks);
        let address = self.geometry.address(ArenaId::new(self.tier, arena as u64), first);
        Some(Run { address, blocks })
    }

    /// Arena, block and length of the first run behind a cursor.
    fn find(&self, near: Option<Node>, most: u32) -> Option<(usize, u32, u32)> {
        let cursor = self.cursors.get(&near).copied().unwrap_or_default();
        let count = self.arenas.len();
        // The cursor's arena is looked at twice: behind the cursor first, before it at the end.
        (0..=count).find_map(|step| {
            let arena = (cursor.0 + step) % count;
            let from = if step == 0 { cursor.1 } else { 0 };
            let (first, blocks) = find_in(&self.arenas, &self.nodes, (arena, from), near, most)?;
            Some((arena, first, blocks))
        })
    }

    /// A run is not to be allocated.
    pub fn occupy_run(&mut self, run: Run) {
        if let Some((arena, first)) = self.place(run) {
            self.occupy(arena, first, run.blocks);
        }
    }

    pub(super) fn occupy(&mut self, arena: usize, first: u32, blocks: u32) {
        let mut rest = first..first + blocks;
        while !rest.is_empty() {
            let (end, node) = self.nodes.part(arena, rest.clone());
            let blocks = end - rest.start;
            let taken = blocks - self.arenas[arena].busy.set(rest.start, blocks);
            self.free -= u64::from(taken);
            self.nodes.take_free(arena, node, taken);
            rest.start = end;
        }
    }

    /// Has the committed bitmap say of a run whether it is in use. Answers the arena; none, if there is no such run.
    pub fn set_committed(&mut self, run: Run, used: bool) -> Option<ArenaId> {
        let (arena, first) = self.place(run)?;
        let bitmap = &mut self.arenas[arena].committed;
        if used {
            bitmap.set(first, run.blocks);
        } else {
            bitmap.clear(first, run.blocks);
        }
        Some(ArenaId::new(self.tier, arena as u64))
    }

    /// The bad blocks are written down.
    pub fn bad_blocks_written(&mut self) {
        self.arenas.iter_mut().for_each(|arena| arena.has_new_bad = false);
    }

    /// The committed bitmap of an arena, as it is kept.
    pub fn bitmap_bytes(&self, arena: ArenaId, out: &mut Vec<u8>) {
        self.arenas[arena.index() as usize].committed.to_bytes(out);
    }

    /// Blocks that were taken may be again.
    pub fn reuse(&mut self, run: Run) {
        let Some((arena, first)) = self.place(run) else { return };
        let (_, node) = self.nodes.part(arena, first..first + run.blocks);
        self.freed.note(node, (arena, first));
        if self.tier != TierNumber::FAST {
            self.arenas[arena].stale.set(first, run.blocks);
        }
        self.release(run);
    }

    /// Blocks are busy no more, unless they are bad.
    pub(super) fn release(&mut self, run: Run) {
        let Some((arena, first)) = self.place(run) else { return };
        let mut rest = first..first + run.blocks;
        while !rest.is_empty() {
            let (end, node) = self.nodes.part(arena, rest.clone());
            let Arena { busy, bad, .. } = &mut self.arenas[arena];
            let before = busy.free();
            busy.clear(rest.start, end - rest.start);
            if bad.used() > 0 {
                busy.join(bad);
            }
            let freed = busy.free() - before;
            self.free += u64::from(freed);
            self.nodes.add_free(arena, node, freed);
            rest.start = end;
        }
    }
}

/// First block and length of the first free run from a block of an arena on, of at most `most` blocks, and on a memory node if one is
/// named.
fn find_in(
    arenas: &[Arena],
    nodes: &StepNodes,
    (arena, from): (usize, u32),
    near: Option<Node>,
    most: u32,
) -> Option<(u32, u32)> {
    let busy = &arenas[arena].busy;
    let mut rest = from..busy.blocks();
    let Some(node) = near else {
        return if busy.free() == 0 { None } else { busy.find_free(rest, most) };
    };
    if !nodes.has_free(node, arena) {
        return None;
    }
    while let Some(part) = nodes.next_on(node, arena, rest.clone()) {
        if let Some(found) = busy.find_free(part.clone(), most) {
            return Some(found);
        }
        rest.start = part.end;
    }
    None
}
