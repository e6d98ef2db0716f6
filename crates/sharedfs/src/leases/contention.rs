//! Which inodes several sessions want: remembered for a while after the last fence.

use cuesta_format::InodeNumber;
use hashbrown::HashMap;
use std::time::Duration;

/// So long after the last fence an inode counts as contended. All it costs a session that comes later is one more
/// question; forgetting too early costs a fence.
const MEMORY: Duration = Duration::from_secs(10);

/// More inodes are not remembered: when there are as many, those whose time is over are forgotten, or else all.
const INODES_MAX: usize = 1 << 16;

#[derive(Clone, Copy, Debug)]
struct Contended {
    /// When somebody was last fenced for it.
    fenced: Duration,
    /// Until when those who hold it may keep it.
    held_until: Duration,
}

/// The contended inodes.
#[derive(Clone, Debug, Default)]
pub(super) struct Contention {
    hold: Duration,
    inodes: HashMap<InodeNumber, Contended>,
}

impl Contention {
    pub(super) fn new(hold: Duration) -> Contention {
        Contention { hold, inodes: HashMap::new() }
    }

    /// Somebody was fenced for the inode.
    pub(super) fn note(&mut self, inode: InodeNumber, now: Duration) {
        if self.inodes.len() >= INODES_MAX {
            self.inodes.retain(|_, contended| now < contended.fenced + MEMORY);
            if self.inodes.len() >= INODES_MAX {
                self.inodes.clear();
            }
        }
        self.inodes.insert(inode, Contended { fenced: now, held_until: now });
    }

    /// Whether somebody was fenced for it not long ago.
    pub(super) fn is_remembered(&self, inode: InodeNumber, now: Duration) -> bool {
        self.inodes.get(&inode).is_some_and(|contended| now < contended.fenced + MEMORY)
    }

    /// Whoever was granted the inode now may keep it for a moment.
    pub(super) fn hold(&mut self, inode: InodeNumber, now: Duration) {
        self.hold_until(inode, now + self.hold);
    }

    /// Whoever has the inode may keep it until then.
    pub(super) fn hold_until(&mut self, inode: InodeNumber, until: Duration) {
        if let Some(contended) = self.inodes.get_mut(&inode) {
            contended.held_until = until;
        }
    }

    /// How much longer those who hold the inode may keep it.
    pub(super) fn held_for(&self, inode: InodeNumber, now: Duration) -> Option<Duration> {
        let left = self.inodes.get(&inode)?.held_until.saturating_sub(now);
        (!left.is_zero()).then_some(left)
    }
}
