//! Several inodes locked at once, in the order of their numbers.

use crate::cache::inode::{Inode, State};
use crate::client::client::Client;
use crate::client::halt::Halt;
use crate::sync::{Arc, RwLockWriteGuard};
use cuesta_format::InodeNumber;
use cuesta_format::wire::LeaseMode;

/// Most inodes one operation changes: two directories and two inodes (a rename).
const LOCKED_MAX: usize = 4;

/// Locked inodes, each held under a write lease.
pub(crate) struct Locked<'i> {
    states: [Option<(InodeNumber, RwLockWriteGuard<'i, State>)>; LOCKED_MAX],
}

impl Client {
    /// Locks `inodes`, some of which may be the same. Call within an attempt, with no inode locked.
    pub(crate) fn lock_all<'i>(
        &self,
        inodes: [Option<&'i Arc<Inode>>; LOCKED_MAX],
    ) -> Result<Locked<'i>, Halt> {
        let mut inodes = inodes;
        inodes.sort_unstable_by_key(|inode| inode.map(|inode| inode.number));
        for inode in inodes.iter().flatten() {
            if inode.state.read().lease != Some(LeaseMode::Write) {
                self.acquire(inode, LeaseMode::Write)?;
            }
        }
        let mut states = [None, None, None, None];
        let mut last = InodeNumber::NONE;
        for (place, inode) in states.iter_mut().zip(inodes) {
            let Some(inode) = inode.filter(|inode| inode.number != last) else { continue };
            last = inode.number;
            let state = inode.state.write();
            if state.lease != Some(LeaseMode::Write) {
                return Err(Halt::Again);
            }
            *place = Some((inode.number, state));
        }
        Ok(Locked { states })
    }
}

impl Locked<'_> {
    /// The state of a locked inode.
    pub(crate) fn of(&mut self, inode: &Inode) -> Result<&mut State, Halt> {
        self.states
            .iter_mut()
            .flatten()
            .find(|(number, _)| *number == inode.number)
            .map(|(_, state)| &mut **state)
            .ok_or(Halt::Again)
    }
}
