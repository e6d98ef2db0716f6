//! Programs that no process writes, as far as SharedFS has said, and how a door tells whether a program runs.
//!
//! This is a leaf; [`crate::calls::programs`] uses it.

use crate::cache::version::Version;
use crate::sync::Mutex;
use cuesta_format::InodeNumber;
use std::sync::OnceLock;

/// Programs that are remembered as not written. A process seldom starts more of them in turn.
const UNWRITTEN_MAX: usize = 16;

/// The programs of a session, as far as it knows them.
#[derive(Default)]
pub(crate) struct Programs {
    pub(crate) is_running: OnceLock<fn(InodeNumber) -> bool>,
    /// Programs at the version for which SharedFS said that no process writes them. The latest is last.
    pub(crate) unwritten: Mutex<Vec<Version>>,
}

impl Programs {
    pub(crate) fn remember(&self, version: Version) {
        let mut unwritten = self.unwritten.lock();
        unwritten.retain(|other| other.inode() != version.inode());
        if unwritten.len() >= UNWRITTEN_MAX {
            unwritten.remove(0);
        }
        unwritten.push(version);
    }
}
