//! Damaged files that the daemon's log told of already.

use cuesta_format::InodeNumber;
use parking_lot::Mutex;
use std::collections::BTreeSet;

/// Files that were told of are remembered up to so many.
const TOLD_MAX: usize = 4096;

/// Damaged files that the daemon's log was told of: a path costs a look at all names, and a program may read such a
/// file again and again.
#[derive(Debug, Default)]
pub(crate) struct ToldDamage(Mutex<BTreeSet<InodeNumber>>);

impl ToldDamage {
    /// Whether this is news, which is noted.
    pub(super) fn is_news(&self, inode: InodeNumber) -> bool {
        let mut told = self.0.lock();
        if told.len() >= TOLD_MAX {
            told.clear();
        }
        told.insert(inode)
    }
}
