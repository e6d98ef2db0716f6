//! Times of last access that sessions noted ([`Request::Accessed`](cuesta_format::wire::Request)): they move the
//! committed record, and every other session that reads the inode asks anew.
//!
//! Nothing depends on them, so they need no lease: a session that has the inode and writes to it is committed on
//! top. A time is moved only over an older one, so that no session takes back a time set since. Whether a read
//! moves it is up to the session: its mount may have options.

use crate::{Error, SharedFs};
use cuesta_format::wire::ACCESSES_MAX;
use cuesta_format::{InodeNumber, InodeRecord, SessionId, Timestamp};
use cuesta_media::clock;

impl SharedFs {
    /// Moves the times of what a session read.
    pub(super) fn move_accesses(
        &self,
        session: SessionId,
        accesses: &[(InodeNumber, Timestamp)],
    ) -> Result<(), Error> {
        let accesses = &accesses[..accesses.len().min(ACCESSES_MAX)];
        let snapshot = self.metadata.read()?;
        for &(inode, _) in accesses {
            if snapshot.inode(inode)?.is_none() {
                // It is new, and in the session's log.
                self.digest_completed(session)?;
                break;
            }
        }
        drop(snapshot);
        for inode in self.commit_accesses(accesses)? {
            let holders = self.core.lock().leases.holders(inode);
            for (holder, _) in holders.into_iter().filter(|&(holder, _)| holder != session) {
                self.have_read_anew(holder, inode)?;
            }
        }
        Ok(())
    }

    /// Answers those that moved.
    fn commit_accesses(&self, accesses: &[(InodeNumber, Timestamp)]) -> Result<Vec<InodeNumber>, Error> {
        let _no_digest = self.digester.lock();
        let now = clock::now();
        let mut transaction = self.metadata.begin()?;
        let mut moved = Vec::new();
        for &(inode, accessed) in accesses {
            let Some(stored) = transaction.inode(inode)? else { continue };
            if moves(&stored.record, accessed, now) {
                transaction.put_inode(&InodeRecord { accessed, ..stored.record })?;
                moved.push(inode);
            }
        }
        if !moved.is_empty() {
            transaction.commit()?;
        }
        Ok(moved)
    }

    /// Another session's copy of the inode is out of date, though no session takes it.
    fn have_read_anew(&self, session: SessionId, inode: InodeNumber) -> Result<(), Error> {
        let inodes = [inode];
        let _wanted = self.await_names(session, &inodes);
        let mut digester = self.digester.lock();
        if self.core.lock().leases.held(session, inode).is_none() {
            return Ok(());
        }
        self.take_closed(&mut digester, session, &inodes)
    }
}

/// Whether the time moves still: not over what was changed or set since, and not into the future.
fn moves(record: &InodeRecord, accessed: Timestamp, now: Timestamp) -> bool {
    let is_later = accessed > record.accessed || record.accessed > now;
    is_later && record.changed <= accessed && accessed <= now
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_moves_forward_once_and_never_over_a_later_change() {
        let at = |seconds: i64| Timestamp::new(seconds, 0);
        let made = InodeRecord::new(InodeNumber(7), 0o100644, 0, 0, at(100));
        assert!(moves(&made, at(110), at(120)) && moves(&made, at(120), at(120)));
        // Not what is yet to come, nor what was before it was made, nor what says nothing new.
        assert!(
            !moves(&made, at(121), at(120))
                && !moves(&made, at(99), at(120))
                && !moves(&made, at(100), at(120))
        );
        // Another session read it later.
        let read = InodeRecord { accessed: at(116), ..made };
        assert!(!moves(&read, at(115), at(120)) && moves(&read, at(117), at(120)));
        // It was set to what is yet to come.
        assert!(moves(&InodeRecord { accessed: at(500), ..made }, at(115), at(120)));
        // Another session set the time after that read.
        let set = InodeRecord { accessed: at(50), changed: at(118), ..made };
        assert!(!moves(&set, at(115), at(120)) && moves(&set, at(119), at(120)));
    }
}
