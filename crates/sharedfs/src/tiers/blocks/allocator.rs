//! Blocks of the arenas: found for digests, freed by digests, never reused while a session may read them.
//!
//! | a block is | in the committed bitmap | may be allocated |
//! |---|---|---|
//! | free | clear | yes |
//! | reserved by the digest that runs | clear | no |
//! | used | set | no |
//! | in quarantine | clear | no: the session whose digest freed it may still read it |
//! | without memory | clear | no: its arena has not grown as far |
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
use super::reservation::{Reservation, Run};
use crate::tiers::memory::{Grown, StepNodes};
use cuesta_format::{ArenaId, BlockAddress, Geometry, LogPosition, SessionId};
use cuesta_media::Node;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ops::Range;
use std::time::Instant;

#[derive(Debug)]
struct Arena {
    committed: Bitmap,
    /// Committed, reserved, in quarantine, without memory or bad.
    busy: Bitmap,
    /// Blocks that the medium does not take.
    bad: Bitmap,
    /// Some of it is not written down yet.
    has_new_bad: bool,
}

/// The state of every block.
#[derive(Debug)]
pub struct Allocator {
    geometry: Geometry,
    arenas: Vec<Arena>,
    /// Arena and block: the cursor of each node, and that of processes on none.
    cursors: BTreeMap<Option<Node>, (usize, u32)>,
    freed: Freed,
    nodes: StepNodes,
    /// Blocks that have their memory.
    made: u64,
    free: u64,
    quarantine: HashMap<SessionId, VecDeque<(LogPosition, Vec<Run>)>>,
}

impl Allocator {
    /// No arenas yet.
    #[must_use]
    pub fn new(geometry: Geometry) -> Allocator {
        Allocator {
            geometry,
            arenas: Vec::new(),
            cursors: BTreeMap::new(),
            freed: Freed::default(),
            nodes: StepNodes::default(),
            made: 0,
            free: 0,
            quarantine: HashMap::new(),
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
        self.arenas.push(Arena { busy, committed, bad, has_new_bad: false });
    }

    /// More blocks have their memory, of the last arena or a new one.
    pub fn grow(&mut self, grown: &Grown) {
        while self.arenas.len() <= grown.arena.0 as usize {
            let none = Bitmap::new(self.geometry.arena_blocks());
            self.add_arena(none.clone(), none, 0, &[]);
        }
        self.nodes.set(grown.arena.0 as usize, grown.blocks.clone(), grown.node);
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

    /// Whether a block is bad.
    #[must_use]
    pub fn is_bad(&self, address: BlockAddress) -> bool {
        let place = self.place(Run { address, blocks: 1 });
        place.is_some_and(|(arena, block)| self.arenas[arena].bad.is_used(block))
    }

    /// The arenas whose bad blocks are to be written down, with their bitmaps as they are kept.
    pub fn new_bad_blocks(&self) -> impl Iterator<Item = (ArenaId, Vec<u8>)> {
        let new = self.arenas.iter().enumerate().filter(|(_, arena)| arena.has_new_bad);
        new.map(|(number, arena)| {
            let mut bitmap = Vec::new();
            arena.bad.to_bytes(&mut bitmap);
            (ArenaId(number as u32), bitmap)
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
        self.free
    }

    /// Where the blocks lie that may be.
    #[must_use]
    pub fn nodes(&self) -> &StepNodes {
        &self.nodes
    }

    /// Blocks that committed files use.
    #[cfg(test)]
    pub fn used_blocks(&self) -> u64 {
        self.arenas.iter().map(|arena| u64::from(arena.committed.used())).sum()
    }

    fn place(&self, run: Run) -> Option<(usize, u32)> {
        let arena = self.geometry.arena(run.address).0 as usize;
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
    pub fn take(&mut self, most: u32, near: Option<Node>, reservation: &mut Reservation) -> Option<Run> {
        if self.free == 0 {
            return None;
        }
        let Allocator { freed, arenas, nodes, .. } = self;
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
        let run = Run { address: self.geometry.address(ArenaId(arena as u32), first), blocks };
        reservation.taken.push(run);
        Some(run)
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

    fn occupy(&mut self, arena: usize, first: u32, blocks: u32) {
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

    /// Applies a reservation to the committed bitmaps and names the arenas whose bitmaps must be written in
    /// the same transaction. A run that is not in use, or does not exist, is damage: its address is returned.
    pub fn stage(&mut self, reservation: &Reservation) -> Result<BTreeSet<ArenaId>, BlockAddress> {
        let mut changed = BTreeSet::new();
        if let Some(damaged) = reservation.freed.iter().find(|&&run| !self.is_used(run)) {
            return Err(damaged.address);
        }
        let Reservation { taken, adopted, freed, .. } = reservation;
        for (runs, used) in [(taken, true), (adopted, true), (freed, false)] {
            for &run in runs {
                let (arena, first) = self.place(run).ok_or(run.address)?;
                let bitmap = &mut self.arenas[arena].committed;
                if used {
                    bitmap.set(first, run.blocks);
                } else {
                    bitmap.clear(first, run.blocks);
                }
                changed.insert(ArenaId(arena as u32));
            }
        }
        Ok(changed)
    }

    /// Takes a staged reservation back: its transaction failed.
    pub fn unstage(&mut self, reservation: &Reservation) {
        let Reservation { taken, adopted, freed, .. } = reservation;
        for (runs, used) in [(taken, false), (adopted, false), (freed, true)] {
            for &run in runs {
                let Some((arena, first)) = self.place(run) else { continue };
                let bitmap = &mut self.arenas[arena].committed;
                if used {
                    bitmap.set(first, run.blocks);
                } else {
                    bitmap.clear(first, run.blocks);
                }
            }
        }
    }

    /// The committed bitmap of an arena, as it is kept.
    pub fn bitmap_bytes(&self, arena: ArenaId, out: &mut Vec<u8>) {
        self.arenas[arena.0 as usize].committed.to_bytes(out);
    }

    /// Gives reserved blocks back: the digest was abandoned.
    pub fn abandon(&mut self, reservation: &mut Reservation) {
        for &run in &reservation.taken {
            self.reuse(run);
        }
        reservation.clear();
    }

    /// The staged reservation is committed: the blocks it freed wait until `session` has retired `until`.
    pub fn committed(&mut self, reservation: &mut Reservation, session: SessionId, until: LogPosition) {
        self.arenas.iter_mut().for_each(|arena| arena.has_new_bad = false);
        let mut freed = std::mem::take(&mut reservation.freed);
        freed.append(&mut reservation.returned);
        if !freed.is_empty() {
            self.quarantine.entry(session).or_default().push_back((until, freed));
        }
        reservation.clear();
    }

    /// The session reads nothing any more that was freed by digests up to `retired`.
    pub fn retired(&mut self, session: SessionId, retired: LogPosition) {
        let Some(waiting) = self.quarantine.get_mut(&session) else { return };
        let mut passed = Vec::new();
        while waiting.front().is_some_and(|&(until, _)| until <= retired) {
            passed.extend(waiting.pop_front().into_iter().flat_map(|(_, runs)| runs));
        }
        for run in passed {
            self.reuse(run);
        }
    }

    /// Sessions that may still read what their digests freed.
    #[must_use]
    pub fn keeping(&self) -> Vec<SessionId> {
        self.quarantine
            .iter()
            .filter(|(_, waiting)| !waiting.is_empty())
            .map(|(&session, _)| session)
            .collect()
    }

    /// The session reads nothing any more.
    pub fn end_session(&mut self, session: SessionId) {
        for (_, runs) in self.quarantine.remove(&session).unwrap_or_default() {
            for run in runs {
                self.reuse(run);
            }
        }
    }

    /// Blocks of windows are not to be allocated.
    pub fn occupy_window(&mut self, run: Run) {
        if let Some((arena, first)) = self.place(run) {
            self.occupy(arena, first, run.blocks);
        }
    }

    /// Blocks of windows that no log will name may be allocated again.
    pub fn release_window(&mut self, runs: impl IntoIterator<Item = Run>) {
        runs.into_iter().for_each(|run| self.reuse(run));
    }

    /// Blocks that were taken may be again.
    fn reuse(&mut self, run: Run) {
        let Some((arena, first)) = self.place(run) else { return };
        let (_, node) = self.nodes.part(arena, first..first + run.blocks);
        self.freed.note(node, (arena, first));
        self.release(run);
    }

    /// Blocks are busy no more, unless they are bad.
    fn release(&mut self, run: Run) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use cuesta_format::BLOCK_BYTES;

    const S: SessionId = SessionId(1);

    fn allocator(arenas: u32) -> Allocator {
        let geometry = Geometry { arena_bytes: 64 << 10, nvm_bytes: 1 << 20, ..Geometry::default() };
        let mut allocator = Allocator::new(geometry);
        for _ in 0..arenas {
            allocator.add_arena(Bitmap::new(16), Bitmap::new(16), 16, &[]);
        }
        allocator
    }

    fn commit(allocator: &mut Allocator, reservation: &mut Reservation, until: u64) {
        allocator.stage(reservation).unwrap();
        allocator.committed(reservation, S, LogPosition(until));
    }

    #[test]
    fn placement_is_sequential_and_crosses_arenas_in_runs() {
        let mut allocator = allocator(2);
        let mut reservation = Reservation::default();
        let block = |n: u64| BlockAddress(n * BLOCK_BYTES);
        let run = |first, blocks| Some(Run { address: block(first), blocks });
        assert_eq!(allocator.take(10, None, &mut reservation), run(0, 10));
        assert_eq!(allocator.take(10, None, &mut reservation), run(10, 6));
        assert_eq!(allocator.take(4, None, &mut reservation), run(16, 4));
        assert_eq!(allocator.take(40, None, &mut reservation), run(20, 12));
        assert_eq!(allocator.take(1, None, &mut reservation), None);
        assert_eq!((reservation.taken.len(), allocator.free_blocks()), (4, 0));
        allocator.abandon(&mut reservation);
        assert_eq!((allocator.free_blocks(), allocator.used_blocks()), (32, 0));
    }

    #[test]
    fn only_blocks_with_memory_are_taken() {
        let mut allocator = allocator(0);
        let mut reservation = Reservation::default();
        assert_eq!(allocator.take(1, None, &mut reservation), None);
        for (arena, blocks, taken) in [(0, 0..6, 6), (0, 6..16, 10), (1, 0..4, 4)] {
            allocator.grow(&Grown {
                arena: ArenaId(arena),
                blocks,
                bad: Vec::new(),
                wanted: None,
                node: None,
            });
            assert_eq!(allocator.take(16, None, &mut reservation).map(|run| run.blocks), Some(taken));
            assert_eq!(allocator.take(1, None, &mut reservation), None);
        }
        assert_eq!((allocator.made_blocks(), allocator.free_blocks()), (20, 0));
        allocator.abandon(&mut reservation);
        assert_eq!(allocator.free_blocks(), 20);
    }

    #[test]
    fn a_small_write_goes_back_to_where_all_of_it_has_room() {
        let mut allocator = allocator(2);
        let mut reservation = Reservation::default();
        let place = |run: Run| ((run.address.0 / BLOCK_BYTES) as u32, run.blocks);
        let takes: Vec<Run> =
            [3, 2, 4, 3, 2].map(|most| allocator.take(most, None, &mut reservation).unwrap()).into();
        assert_eq!(
            takes.iter().map(|&run| place(run)).collect::<Vec<_>>(),
            [(0, 3), (3, 2), (5, 4), (9, 3), (12, 2)]
        );
        commit(&mut allocator, &mut reservation, 64);
        for freed in [1, 3] {
            reservation.free(takes[freed]);
        }
        commit(&mut allocator, &mut reservation, 128);
        let mut take =
            |allocator: &mut Allocator, most| place(allocator.take(most, None, &mut reservation).unwrap());
        assert_eq!(take(&mut allocator, 2), (14, 2), "a session may still read the free blocks there");
        allocator.retired(S, LogPosition(128));
        assert_eq!(take(&mut allocator, 3), (9, 3));
        assert_eq!(
            take(&mut allocator, 1),
            (16, 1),
            "a run that was too small before is not looked at again"
        );
        reservation.free(takes[2]);
        commit(&mut allocator, &mut reservation, 192);
        allocator.retired(S, LogPosition(192));
        let mut take =
            |allocator: &mut Allocator, most| place(allocator.take(most, None, &mut reservation).unwrap());
        assert_eq!(take(&mut allocator, 17), (17, 15), "a large one goes on");
        assert_eq!(take(&mut allocator, 1), (5, 1));
        assert_eq!(take(&mut allocator, 3), (6, 3));
    }

    #[test]
    fn freed_blocks_wait_for_their_readers() {
        let mut allocator = allocator(1);
        let mut reservation = Reservation::default();
        let run = allocator.take(16, None, &mut reservation).unwrap();
        commit(&mut allocator, &mut reservation, 64);
        assert_eq!((allocator.free_blocks(), allocator.used_blocks()), (0, 16));
        reservation.free(run);
        commit(&mut allocator, &mut reservation, 128);
        assert_eq!((allocator.free_blocks(), allocator.used_blocks()), (0, 0));
        allocator.retired(S, LogPosition(64));
        assert_eq!(allocator.take(1, None, &mut reservation), None);
        allocator.retired(S, LogPosition(128));
        assert_eq!(allocator.free_blocks(), 16);
        assert_eq!(allocator.take(3, None, &mut reservation).map(|run| run.blocks), Some(3));
    }

    #[test]
    fn content_goes_to_its_node_while_that_has_free_blocks() {
        const STEP: u32 = 512;
        let geometry = Geometry { arena_bytes: 8 << 20, nvm_bytes: 16 << 20, ..Geometry::default() };
        let mut allocator = Allocator::new(geometry);
        let none = Bitmap::new(4 * STEP);
        let node = |number| Some(Node(number));
        // The first arena is there, the second one comes, of one step on each node.
        let found = [(0..STEP, Node(0)), (STEP..2 * STEP, Node(1)), (2 * STEP..3 * STEP, Node(0))];
        allocator.add_arena(none.clone(), none, 4 * STEP, &found);
        for (step, on) in [(0, 1), (1, 0)] {
            let blocks = step * STEP..(step + 1) * STEP;
            let grown =
                Grown { arena: ArenaId(1), blocks, bad: vec![step * STEP], wanted: None, node: node(on) };
            allocator.grow(&grown);
        }
        let free = |allocator: &Allocator| allocator.nodes().free().values().copied().collect::<Vec<_>>();
        assert_eq!(free(&allocator), [1535, 1023]);
        let mut reservation = Reservation::default();
        let mut take = |allocator: &mut Allocator, most, near| {
            let run = allocator.take(most, near, &mut reservation)?;
            Some(((run.address.0 / BLOCK_BYTES) as u32, run.blocks))
        };
        assert_eq!(take(&mut allocator, 100, node(1)), Some((512, 100)));
        assert_eq!(take(&mut allocator, 400, node(0)), Some((0, 400)));
        assert_eq!(take(&mut allocator, 1000, node(1)), Some((612, 412)));
        assert_eq!(take(&mut allocator, 1000, node(1)), Some((2049, 511)));
        assert_eq!(take(&mut allocator, 1000, node(0)), Some((400, 112)));
        assert_eq!((free(&allocator), allocator.free_blocks()), (vec![1023, 0], 1535));
        // It has no more: anywhere, also where the node is unknown.
        assert_eq!(take(&mut allocator, 1024, node(1)), Some((1024, 1024)));
        assert_eq!(free(&allocator), [511, 0]);
        assert_eq!(take(&mut allocator, 1024, node(1)), Some((2561, 511)));
        assert_eq!(take(&mut allocator, 1, node(0)), None);
        allocator.abandon(&mut reservation);
        assert_eq!((free(&allocator), allocator.free_blocks()), (vec![1535, 1023], 3070));
    }

    #[test]
    fn the_end_of_a_session_ends_its_quarantine() {
        let mut allocator = allocator(1);
        let mut reservation = Reservation::default();
        let run = allocator.take(8, None, &mut reservation).unwrap();
        commit(&mut allocator, &mut reservation, 64);
        reservation.free(run);
        commit(&mut allocator, &mut reservation, 128);
        allocator.end_session(S);
        assert_eq!(allocator.free_blocks(), 16);
    }

    #[test]
    fn blocks_set_aside_are_never_taken_again() {
        let mut allocator = allocator(1);
        let mut reservation = Reservation::default();
        let block = |n: u64| BlockAddress(n * BLOCK_BYTES);
        // One that is reserved, one that a file has, one that is free; twice.
        let used = allocator.take(4, None, &mut reservation).unwrap();
        commit(&mut allocator, &mut reservation, 64);
        allocator.take(4, None, &mut reservation).unwrap();
        for at in [1, 5, 9, 9] {
            allocator.set_aside(Run { address: block(at), blocks: 1 });
        }
        assert_eq!((allocator.bad_blocks(), allocator.free_blocks()), (3, 7));
        allocator.abandon(&mut reservation);
        assert_eq!(allocator.free_blocks(), 10);
        reservation.free(used);
        let written: Vec<ArenaId> = allocator.new_bad_blocks().map(|(arena, _)| arena).collect();
        assert_eq!(written, [ArenaId(0)]);
        let bad = allocator.new_bad_blocks().next().unwrap().1;
        commit(&mut allocator, &mut reservation, 128);
        assert_eq!(allocator.new_bad_blocks().count(), 0);
        allocator.end_session(S);
        let again = Allocator::new(allocator.geometry);
        let mut committed = Vec::new();
        allocator.bitmap_bytes(ArenaId(0), &mut committed);
        for mut allocator in [allocator, again] {
            if allocator.arenas.is_empty() {
                let [committed, bad] = [&committed, &bad].map(|bytes| Bitmap::from_bytes(16, bytes));
                allocator.add_arena(committed, bad, 16, &[]);
            }
            assert_eq!(allocator.free_blocks(), 13);
            while let Some(run) = allocator.take(16, None, &mut reservation) {
                assert!(
                    (0..run.blocks)
                        .all(|at| !allocator.is_bad(run.address.plus(u64::from(at) * BLOCK_BYTES)))
                );
            }
            let taken: u32 = reservation.taken.iter().map(|run| run.blocks).sum();
            assert_eq!(taken, 13);
            reservation.clear();
        }
    }

    #[test]
    fn a_failed_commit_leaves_no_trace() {
        let mut allocator = allocator(1);
        let mut reservation = Reservation::default();
        let run = allocator.take(8, None, &mut reservation).unwrap();
        commit(&mut allocator, &mut reservation, 64);
        let mut before = Vec::new();
        allocator.bitmap_bytes(ArenaId(0), &mut before);
        allocator.take(2, None, &mut reservation).unwrap();
        reservation.free(run);
        allocator.stage(&reservation).unwrap();
        allocator.unstage(&reservation);
        allocator.abandon(&mut reservation);
        let mut after = Vec::new();
        allocator.bitmap_bytes(ArenaId(0), &mut after);
        assert_eq!((before, 8), (after, allocator.free_blocks()));
    }

    #[test]
    fn freeing_unused_blocks_is_damage() {
        let mut allocator = allocator(1);
        let mut reservation = Reservation::default();
        let nowhere = Run { address: BlockAddress(1 << 40), blocks: 1 };
        reservation.free(nowhere);
        assert_eq!(allocator.stage(&reservation), Err(nowhere.address));
    }
}
