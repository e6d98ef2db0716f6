//! Policy: a small write goes back to where blocks became free, if one run of them takes all of it. So a file that
//! a program writes and removes again and again (a journal, a message) lies in the same blocks. A cache still has
//! them. A file system below has nothing to note, because they are written already (docs/decisions/0037).

use cuesta_media::Node;
use std::collections::BTreeMap;

/// No more is small.
const SMALL_BLOCKS: u32 = 16;
/// Free runs that are looked at each time; behind them things are as they are everywhere.
const RUNS_TRIED: u32 = 16;

/// Arena and block.
type BlockPosition = (usize, u32);

/// Where blocks became free, on each memory node.
#[derive(Debug, Default)]
pub(crate) struct Freed {
    /// Behind the first of them; none, where nothing became free since a run found no room there.
    first: BTreeMap<Option<Node>, BlockPosition>,
}

impl Freed {
    /// Blocks became free.
    pub(crate) fn note(&mut self, node: Option<Node>, place: BlockPosition) {
        let first = self.first.entry(node).or_insert(place);
        *first = place.min(*first);
    }

    /// Arena, first block and length of a run for all of something small. `find` names first block and length of the first free run behind
    /// a block of an arena, which is cut to what is asked for.
    pub(crate) fn take(
        &mut self,
        node: Option<Node>,
        blocks: u32,
        find: impl Fn(usize, u32) -> Option<(u32, u32)>,
    ) -> Option<(usize, u32, u32)> {
        if blocks > SMALL_BLOCKS {
            return None;
        }
        let (arena, mut from) = self.first.remove(&node)?;
        for _ in 0..RUNS_TRIED {
            let (first, found) = find(arena, from)?;
            from = first + found;
            if found == blocks {
                self.first.insert(node, (arena, from));
                return Some((arena, first, blocks));
            }
        }
        None
    }
}
