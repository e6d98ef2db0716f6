//! Policy: on which memory node logs and content lie, on a machine with several: on that of the process that writes them. On a machine
//! with one node all lie on `None`.
//!
//! A log is of segments, each of one node:
//!
//! | a session on a node takes | when |
//! |---|---|
//! | a spare segment of its node | there is one |
//! | a new one, made there | there is none; if more lie on other nodes than are kept ready in all, one of those is removed for it |
//! | a spare one of another node | no more can be made |
//!
//! Ahead of them are made as many for each node that has sessions as its share is; while there are none, for each node a program
//! can run on.
//! Content is placed when a log is digested, into free blocks of the node its process is on, else into any
//! ([`crate::tiers::Allocator`]). The arenas' next step of memory is made on the node that lacks most of its share
//! of the blocks to be ready ([`lacking_memory`]). A node that gave none is asked again later, each time after
//! twice as long, so that memory elsewhere is not made without end. Where there is too little in all, it is made
//! wherever it comes from.

use crate::tiers::memory::StepNodes;
use cuesta_format::SegmentId;
use cuesta_media::Node;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

/// Segments without an owner, by the node they lie on.
#[derive(Debug, Default)]
pub struct SpareSegments {
    on: BTreeMap<Option<Node>, BTreeSet<SegmentId>>,
}

impl SpareSegments {
    /// One more.
    pub fn add(&mut self, id: SegmentId, node: Option<Node>) {
        self.on.entry(node).or_default().insert(id);
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.on.values().map(BTreeSet::len).sum()
    }

    fn count_on(&self, node: Node) -> usize {
        self.on.get(&Some(node)).map_or(0, BTreeSet::len)
    }

    /// One for a session on `node`. Where one can be made, that is better than one of another node.
    pub fn take(&mut self, node: Option<Node>, can_be_made: bool) -> Option<SegmentId> {
        match node {
            Some(own) if self.count_on(own) > 0 => self.on.get_mut(&node)?.pop_first(),
            Some(_) if can_be_made => None,
            _ => self.take_any(),
        }
    }

    /// One to remove, since there are more than `kept`: memory is not to be made anew for each node.
    pub fn take_surplus(&mut self, kept: usize) -> Option<SegmentId> {
        if self.count() > kept { self.take_any() } else { None }
    }

    fn take_any(&mut self) -> Option<SegmentId> {
        self.on.values_mut().max_by_key(|there| there.len())?.pop_first()
    }

    /// Where one is to be made, if `ready` are to be ready in all and sessions are on the nodes `in_use`. On a
    /// machine with one node there is none such. There are never more than `kept` by that: a new segment need
    /// not lie where it was wanted, and its node may be unknown.
    #[must_use]
    pub fn lacking(&self, in_use: &BTreeSet<Node>, ready: usize, kept: usize) -> Option<Option<Node>> {
        if in_use.is_empty() {
            return (self.count() < ready).then_some(None);
        }
        if self.count() >= kept {
            return None;
        }
        let share = ready.div_ceil(in_use.len());
        in_use.iter().find(|&&node| self.count_on(node) < share).map(|&node| Some(node))
    }
}

/// Where arenas are to have more memory, if `ready` free blocks are to be ready in all and sessions are on the
/// nodes `in_use`. On a machine with one node there is none such. `lacks`: there are fewer in all; `can_be_made`:
/// not all of the tier has its memory. The caller asks when blocks were taken, because no event says when a node
/// may be asked again.
#[must_use]
pub fn lacking_memory(
    in_use: &BTreeSet<Node>,
    nodes: &StepNodes,
    ready: u64,
    lacks: bool,
    can_be_made: bool,
    now: Instant,
) -> Option<Option<Node>> {
    let free = |node: &&Node| nodes.free().get(*node).copied().unwrap_or_default();
    let share = ready.div_ceil(in_use.len().max(1) as u64);
    let asked = || in_use.iter().filter(|&node| !nodes.is_full(*node, now));
    let in_need = asked().filter(|node| can_be_made && free(node) < share);
    match in_need.min_by_key(free) {
        Some(&node) => Some(Some(node)),
        None if lacks => Some(asked().min_by_key(free).copied()),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spare(on: &[(Option<u32>, u32)]) -> SpareSegments {
        let mut spare = SpareSegments::default();
        on.iter().for_each(|&(node, id)| spare.add(SegmentId(id), node.map(Node)));
        spare
    }

    fn nodes(of: &[u32]) -> BTreeSet<Node> {
        of.iter().map(|&node| Node(node)).collect()
    }

    #[test]
    fn with_one_node_the_first_is_taken_and_as_many_as_are_to_be_ready_are_made() {
        let mut spare = spare(&[(None, 5), (None, 3)]);
        assert_eq!(spare.lacking(&nodes(&[]), 3, 3), Some(None));
        assert_eq!(spare.lacking(&nodes(&[]), 2, 2), None);
        assert_eq!([true, false].map(|can| spare.take(None, can)), [Some(SegmentId(3)), Some(SegmentId(5))]);
        assert_eq!([true, false].map(|can| spare.take(None, can)), [None, None]);
        assert_eq!(spare.lacking(&nodes(&[]), 0, 0), None);
    }

    #[test]
    fn its_own_node_comes_first_then_a_new_one_then_any() {
        let mut spare = spare(&[(Some(0), 1), (Some(0), 2), (Some(1), 3)]);
        let one = Some(Node(1));
        assert_eq!(spare.take(one, true), Some(SegmentId(3)));
        assert_eq!(spare.take(one, true), None);
        assert_eq!(spare.take(one, false), Some(SegmentId(1)));
        // The node of the process is unknown.
        assert_eq!(spare.take(None, true), Some(SegmentId(2)));
        assert_eq!(spare.take(one, false), None);
    }

    #[test]
    fn a_new_segment_replaces_a_surplus_one() {
        let mut spare = spare(&[(Some(0), 1), (Some(1), 2), (Some(1), 3)]);
        assert_eq!(spare.take_surplus(3), None);
        assert_eq!(spare.take_surplus(2), Some(SegmentId(2)));
        assert_eq!(spare.take_surplus(2), None);
    }

    #[test]
    fn each_node_in_use_has_its_share() {
        let mut spare = spare(&[(Some(0), 1), (Some(0), 2), (Some(0), 3), (None, 4)]);
        assert_eq!(spare.lacking(&nodes(&[0]), 3, 6), None);
        assert_eq!(spare.lacking(&nodes(&[0]), 4, 8), Some(Some(Node(0))));
        assert_eq!(spare.lacking(&nodes(&[0, 1]), 3, 8), Some(Some(Node(1))));
        spare.add(SegmentId(5), Some(Node(1)));
        assert_eq!(spare.lacking(&nodes(&[0, 1]), 3, 8), Some(Some(Node(1))));
        spare.add(SegmentId(6), Some(Node(1)));
        assert_eq!(spare.lacking(&nodes(&[0, 1]), 3, 8), None);
        assert_eq!(spare.lacking(&nodes(&[0, 1]), 0, 8), None);
    }

    #[test]
    fn memory_is_made_where_most_of_a_share_is_lacking() {
        let mut steps = StepNodes::default();
        let now = Instant::now();
        let lacking = |in_use: &[u32], steps: &StepNodes, lacks| {
            let lacking = lacking_memory(&nodes(in_use), steps, 1000, lacks, true, now);
            lacking.map(|node| node.map(|node| node.0))
        };
        // One node.
        assert_eq!([true, false].map(|lacks| lacking(&[], &steps, lacks)), [Some(None), None]);
        for (arena, node, free) in [(0, 0, 400), (1, 1, 600)] {
            steps.set(arena, 0..512, Some(Node(node)));
            steps.add_free(arena, Some(Node(node)), free);
        }
        assert_eq!([true, false].map(|lacks| lacking(&[0, 1], &steps, lacks)), [Some(Some(0)); 2]);
        assert_eq!(lacking(&[0, 1, 2], &steps, false), Some(Some(2)));
        assert_eq!(lacking(&[1], &steps, false), Some(Some(1)));
        // Free blocks elsewhere are of no use here, unless no more can be had.
        assert_eq!(lacking_memory(&nodes(&[0, 1]), &steps, 1000, false, false, now), None);
        steps.note_growth(Some(Node(0)), Some(Node(1)), now);
        assert_eq!(lacking(&[0, 1], &steps, false), None);
        assert_eq!(lacking(&[0, 1], &steps, true), Some(Some(1)));
        steps.note_growth(Some(Node(1)), Some(Node(0)), now);
        assert_eq!(lacking(&[0, 1], &steps, true), Some(None), "from where there is some");
        steps.note_growth(Some(Node(1)), Some(Node(1)), now);
        steps.note_growth(Some(Node(0)), Some(Node(0)), now);
        steps.add_free(0, Some(Node(0)), 100);
        assert_eq!(lacking(&[0, 1], &steps, false), None);
        assert_eq!(lacking(&[0, 1], &steps, true), Some(Some(0)));
    }

    #[test]
    fn memory_on_other_nodes_is_not_made_without_end() {
        let mut spare = SpareSegments::default();
        let mut made = 0;
        while spare.lacking(&nodes(&[1]), 4, 8).is_some() {
            spare.add(SegmentId(made), if made % 2 == 0 { None } else { Some(Node(0)) });
            made += 1;
        }
        assert_eq!(made, 8);
    }
}
