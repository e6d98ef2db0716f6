//! Inodes without a name. Each is kept for the session that took its last name while it had the inode open: its log
//! says when it has closed it. Or it is kept for no session in particular, while the daemon can see that a program
//! has it open.

use cuesta_format::{InodeNumber, SessionId};
use hashbrown::HashMap;

/// The inodes without a name.
#[derive(Debug, Default)]
pub struct Orphans {
    holders: HashMap<InodeNumber, SessionId>,
    watched: usize,
}

impl Orphans {
    /// The session it is kept for.
    #[must_use]
    pub fn holder(&self, inode: InodeNumber) -> Option<SessionId> {
        self.holders.get(&inode).copied()
    }

    /// It is kept for `holder` from now on; `None`: it is gone, or has a name again.
    pub fn set(&mut self, inode: InodeNumber, holder: Option<SessionId>) {
        let before = match holder {
            Some(holder) => self.holders.insert(inode, holder),
            None => self.holders.remove(&inode),
        };
        self.watched += usize::from(holder == Some(SessionId::NOBODY));
        self.watched -= usize::from(before == Some(SessionId::NOBODY));
    }

    /// Those kept for a session, or for none in particular.
    #[must_use]
    pub fn of(&self, holder: SessionId) -> Vec<InodeNumber> {
        let kept = self.holders.iter().filter(|&(_, &other)| other == holder);
        kept.map(|(&inode, _)| inode).collect()
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = (InodeNumber, SessionId)> {
        self.holders.iter().map(|(&inode, &holder)| (inode, holder))
    }

    /// How many are kept for no session in particular.
    #[must_use]
    pub fn watched(&self) -> usize {
        self.watched
    }
}

impl FromIterator<(InodeNumber, SessionId)> for Orphans {
    fn from_iter<I: IntoIterator<Item = (InodeNumber, SessionId)>>(rows: I) -> Orphans {
        let mut orphans = Orphans::default();
        rows.into_iter().for_each(|(inode, holder)| orphans.set(inode, Some(holder)));
        orphans
    }
}
