//! Leases granted by the block: one bit each.
//!
//! Most leases are granted ahead, to programs that go through a tree, and go all together as their session ends.
//! Such a lease is for writing, and no other session has anything of the inode. Once another session wants it, or
//! its holder gives it back, it becomes an entry of its own in the table.

use cuesta_format::{InodeNumber, SessionId};
use hashbrown::{HashMap, HashSet};

/// Numbers of a block.
pub(super) const NUMBERS: u64 = 64;

#[derive(Clone, Copy, Debug)]
struct HeldNumbers {
    session: SessionId,
    numbers: u64,
}

/// The leases.
#[derive(Clone, Debug, Default)]
pub(super) struct Blocks {
    /// By the number of the block; an inode is held by one session at most.
    held: HashMap<u64, Vec<HeldNumbers>>,
    of_session: HashMap<SessionId, HashSet<u64>>,
}

/// The block of an inode, and its bit in there.
pub(super) fn place(inode: InodeNumber) -> (u64, u64) {
    (inode.0 / NUMBERS, 1 << (inode.0 % NUMBERS))
}

impl Blocks {
    /// The session that holds the inode.
    pub(super) fn holder(&self, inode: InodeNumber) -> Option<SessionId> {
        let (block, bit) = place(inode);
        let held = self.held.get(&block)?.iter().find(|held| held.numbers & bit != 0)?;
        Some(held.session)
    }

    /// The numbers of a block that are held.
    pub(super) fn held_in(&self, block: u64) -> u64 {
        self.held.get(&block).into_iter().flatten().fold(0, |all, held| all | held.numbers)
    }

    /// The session holds these numbers of a block from now on. None of them was held.
    pub(super) fn grant_all(&mut self, session: SessionId, block: u64, numbers: u64) {
        if numbers == 0 {
            return;
        }
        debug_assert_eq!(self.held_in(block) & numbers, 0);
        let all = self.held.entry(block).or_default();
        match all.iter_mut().find(|held| held.session == session) {
            Some(held) => held.numbers |= numbers,
            None => {
                all.push(HeldNumbers { session, numbers });
                self.of_session.entry(session).or_default().insert(block);
            }
        }
    }

    /// No session holds the inode from now on. Answers the session that did.
    pub(super) fn take(&mut self, inode: InodeNumber) -> Option<SessionId> {
        let (block, bit) = place(inode);
        let all = self.held.get_mut(&block)?;
        let at = all.iter().position(|held| held.numbers & bit != 0)?;
        let held = &mut all[at];
        held.numbers &= !bit;
        let HeldNumbers { session, numbers } = *held;
        if numbers == 0 {
            all.swap_remove(at);
            if all.is_empty() {
                self.held.remove(&block);
            }
            if let Some(blocks) = self.of_session.get_mut(&session) {
                blocks.remove(&block);
            }
        }
        Some(session)
    }

    /// How many inodes the session holds.
    pub(super) fn count(&self, session: SessionId) -> u64 {
        let blocks = self.of_session.get(&session).into_iter().flatten();
        let held = blocks.filter_map(|block| self.held.get(block)).flatten();
        held.filter(|held| held.session == session).map(|held| u64::from(held.numbers.count_ones())).sum()
    }

    /// The session holds nothing any more.
    pub(super) fn end_session(&mut self, session: SessionId) {
        for block in self.of_session.remove(&session).unwrap_or_default() {
            if let Some(all) = self.held.get_mut(&block) {
                all.retain(|held| held.session != session);
                if all.is_empty() {
                    self.held.remove(&block);
                }
            }
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }
}
