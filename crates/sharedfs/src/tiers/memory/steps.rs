//! On which memory node each step of the arenas' memory lies, on a machine with several, and how many free blocks are on each.
//! On a machine with one node nothing is known, and nothing counted.

use super::tier_arenas::STEP_BYTES;
use cuesta_format::BLOCK_BYTES;
use cuesta_media::Node;
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::{Duration, Instant};

const STEP_BLOCKS: u32 = (STEP_BYTES / BLOCK_BYTES) as u32;
/// A node that gave no memory is left alone for so long, and each time it gives none again for twice as long.
const PAUSE: Duration = Duration::from_millis(100);
/// At most so often twice as long: a day.
const DOUBLINGS_MAX: u32 = 20;

#[derive(Debug, Default)]
struct OfArena {
    /// Steps behind the last one lie on unknown nodes.
    steps: Vec<Option<Node>>,
    free: BTreeMap<Node, u32>,
}

/// The nodes of all arenas' steps.
#[derive(Debug, Default)]
pub struct StepNodes {
    arenas: Vec<OfArena>,
    free: BTreeMap<Node, u64>,
    /// Nodes that memory was wanted from last without coming from there.
    refusals: BTreeMap<Node, Refusals>,
}

/// In a row.
#[derive(Debug)]
struct Refusals {
    doublings: u32,
    last: Instant,
}

impl StepNodes {
    /// Where the steps that begin in `blocks` lie, none of which is counted as free yet.
    pub fn set(&mut self, arena: usize, blocks: Range<u32>, node: Option<Node>) {
        if node.is_none() {
            return;
        }
        if self.arenas.len() <= arena {
            self.arenas.resize_with(arena + 1, OfArena::default);
        }
        let steps = &mut self.arenas[arena].steps;
        for step in blocks.start.div_ceil(STEP_BLOCKS)..blocks.end.div_ceil(STEP_BLOCKS) {
            if steps.len() <= step as usize {
                steps.resize(step as usize + 1, None);
            }
            steps[step as usize] = node;
        }
    }

    /// Memory was wanted from one node, and came from another or from there.
    pub fn note_growth(&mut self, wanted: Option<Node>, got: Option<Node>, now: Instant) {
        let Some(wanted) = wanted else { return };
        if got == Some(wanted) {
            self.refusals.remove(&wanted);
        } else {
            let before = self.refusals.get(&wanted);
            let doublings = before.map_or(0, |before| DOUBLINGS_MAX.min(before.doublings + 1));
            self.refusals.insert(wanted, Refusals { doublings, last: now });
        }
    }

    /// The node of the first of some blocks, and behind how many of them another one may begin.
    pub fn part(&self, arena: usize, blocks: Range<u32>) -> (u32, Option<Node>) {
        let steps = self.arenas.get(arena).map_or(&[][..], |arena| &arena.steps);
        let at = |step: u32| steps.get(step as usize).copied().flatten();
        let node = at(blocks.start / STEP_BLOCKS);
        let behind = blocks.start / STEP_BLOCKS + 1..steps.len() as u32;
        let other = behind.clone().find(|&step| at(step) != node);
        let end = match other {
            Some(step) => step * STEP_BLOCKS,
            None if node.is_some() => behind.start.max(behind.end) * STEP_BLOCKS,
            None => u32::MAX,
        };
        (end.min(blocks.end), node)
    }

    /// The first of some blocks that lie on a node, as far as they lie there together.
    pub fn next_on(&self, node: Node, arena: usize, mut blocks: Range<u32>) -> Option<Range<u32>> {
        while blocks.start < blocks.end {
            let (end, found) = self.part(arena, blocks.clone());
            if found == Some(node) {
                return Some(blocks.start..end);
            }
            blocks.start = end;
        }
        None
    }

    /// So many blocks of an arena became free on a node.
    pub fn add_free(&mut self, arena: usize, node: Option<Node>, blocks: u32) {
        let Some(node) = node else { return };
        *self.arenas[arena].free.entry(node).or_default() += blocks;
        *self.free.entry(node).or_default() += u64::from(blocks);
    }

    /// So many free blocks of an arena on a node are free no more.
    pub fn take_free(&mut self, arena: usize, node: Option<Node>, blocks: u32) {
        let Some(node) = node else { return };
        *self.arenas[arena].free.entry(node).or_default() -= blocks;
        *self.free.entry(node).or_default() -= u64::from(blocks);
    }

    /// Whether an arena has free blocks on a node.
    #[must_use]
    pub fn has_free(&self, node: Node, arena: usize) -> bool {
        self.arenas.get(arena).and_then(|arena| arena.free.get(&node)).is_some_and(|&free| free > 0)
    }

    /// Free blocks on each node.
    #[must_use]
    pub fn free(&self) -> &BTreeMap<Node, u64> {
        &self.free
    }

    /// Whether a node gave no memory when it was last wanted from there, and is not to be asked yet. Memory
    /// that came from elsewhere instead is of no use there, and is not made without end.
    #[must_use]
    pub fn is_full(&self, node: Node, now: Instant) -> bool {
        let refusals = self.refusals.get(&node);
        refusals.is_some_and(|refusals| now < refusals.last + PAUSE * (1 << refusals.doublings))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_end_where_another_node_begins() {
        let mut nodes = StepNodes::default();
        assert_eq!(nodes.part(3, 5..5000), (5000, None));
        for (step, node) in [(0, 0), (1, 0), (2, 1), (4, 1)] {
            nodes.set(1, step * STEP_BLOCKS..(step + 1) * STEP_BLOCKS, Some(Node(node)));
        }
        let end = 9 * STEP_BLOCKS;
        let mut parts = Vec::new();
        let mut at = 7;
        while at < end {
            let (until, node) = nodes.part(1, at..end);
            parts.push((until, node.map(|node| node.0)));
            at = until;
        }
        let steps = |steps: u32| steps * STEP_BLOCKS;
        let expected = [(2, Some(0)), (3, Some(1)), (4, None), (5, Some(1)), (9, None)];
        assert_eq!(parts, expected.map(|(step, node)| (steps(step), node)));
        assert_eq!(nodes.part(1, 0..9), (9, Some(Node(0))));
        assert_eq!(nodes.next_on(Node(1), 1, 0..end), Some(steps(2)..steps(3)));
        assert_eq!(nodes.next_on(Node(1), 1, steps(3)..end), Some(steps(4)..steps(5)));
        assert_eq!(nodes.next_on(Node(1), 1, steps(5)..end), None);
        assert_eq!(nodes.next_on(Node(1), 0, 0..end), None);
    }

    #[test]
    fn a_step_keeps_the_node_of_its_first_block() {
        let mut nodes = StepNodes::default();
        nodes.set(0, 0..STEP_BLOCKS / 2, Some(Node(1)));
        nodes.set(0, STEP_BLOCKS / 2..STEP_BLOCKS, Some(Node(0)));
        nodes.set(0, STEP_BLOCKS..2 * STEP_BLOCKS, Some(Node(0)));
        assert_eq!(nodes.next_on(Node(1), 0, 0..2 * STEP_BLOCKS), Some(0..STEP_BLOCKS));
        assert_eq!(nodes.next_on(Node(0), 0, 0..2 * STEP_BLOCKS), Some(STEP_BLOCKS..2 * STEP_BLOCKS));
    }

    #[test]
    fn a_node_that_gives_no_memory_is_asked_again_later_and_later_until_it_does() {
        let mut nodes = StepNodes::default();
        let mut now = Instant::now();
        nodes.note_growth(None, Some(Node(0)), now);
        assert!(!nodes.is_full(Node(0), now));
        let mut asked = 0;
        let end = now + Duration::from_hours(24);
        while now < end {
            if !nodes.is_full(Node(1), now) {
                let elsewhere = (asked % 2 == 0).then_some(Node(0));
                nodes.note_growth(Some(Node(1)), elsewhere, now);
                asked += 1;
            }
            now += PAUSE / 2;
        }
        assert_eq!(asked, 20, "in a day");
        now += Duration::from_hours(48);
        assert!(!nodes.is_full(Node(1), now) && !nodes.is_full(Node(2), now));
        nodes.note_growth(Some(Node(1)), Some(Node(1)), now);
        nodes.note_growth(Some(Node(1)), None, now);
        assert!(nodes.is_full(Node(1), now + PAUSE / 2) && !nodes.is_full(Node(1), now + PAUSE));
    }
}
