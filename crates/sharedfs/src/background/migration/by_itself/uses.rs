//! What digests changed since the mover looked. The mover counts it later, so that no digest waits for it.

use cuesta_format::{InodeNumber, TierNumber};
use parking_lot::Mutex;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// So many changes are kept. Those beyond are forgotten: a look at all inodes finds what they wrote.
const KEPT_MAX: usize = 1 << 16;

/// One change of a file's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Blocks were written, and lie in a tier.
    Written { inode: InodeNumber, blocks: Range<u64>, tier: TierNumber },
    /// The file is gone.
    Removed(InodeNumber),
}

/// Changes, the oldest one first.
#[derive(Debug, Default)]
pub(crate) struct Uses {
    /// Somebody looks at them.
    is_wanted: AtomicBool,
    changes: Mutex<Vec<Change>>,
}

impl Uses {
    /// Whether anybody looks at changes.
    pub(crate) fn is_wanted(&self) -> bool {
        self.is_wanted.load(Ordering::Relaxed)
    }

    /// Keeps changes from now on.
    pub(super) fn want(&self) {
        self.is_wanted.store(true, Ordering::Relaxed);
    }

    /// Keeps changes. Neighbouring writes are one.
    pub(crate) fn note(&self, new: impl Iterator<Item = Change>) {
        let mut changes = self.changes.lock();
        for change in new {
            if let Some(Change::Written { inode, blocks, tier }) = changes.last_mut()
                && let Change::Written { inode: next, blocks: more, tier: their } = &change
                && (*inode, *tier) == (*next, *their)
                && (blocks.start..=blocks.end).contains(&more.start)
            {
                blocks.end = blocks.end.max(more.end);
                continue;
            }
            if changes.len() < KEPT_MAX {
                changes.push(change);
            }
        }
    }

    /// Takes all of them.
    pub(super) fn take(&self) -> Vec<Change> {
        std::mem::take(&mut *self.changes.lock())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_writes_are_one_change() {
        let written = |inode, blocks, tier| Change::Written {
            inode: InodeNumber(inode),
            blocks,
            tier: TierNumber(tier),
        };
        let uses = Uses::default();
        let new = [
            written(7, 0..4, 0),
            written(7, 4..6, 0),
            written(7, 2..3, 0),
            written(7, 9..10, 0),
            written(7, 10..11, 1),
            written(8, 11..12, 1),
            Change::Removed(InodeNumber(7)),
        ];
        uses.note(new.into_iter());
        let taken = [
            written(7, 0..6, 0),
            written(7, 9..10, 0),
            written(7, 10..11, 1),
            written(8, 11..12, 1),
            Change::Removed(InodeNumber(7)),
        ];
        assert_eq!(uses.take(), taken);
        assert_eq!(uses.take(), []);
    }
}
