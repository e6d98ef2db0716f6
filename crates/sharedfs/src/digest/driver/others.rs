//! Answers the digest's questions about sessions other than the one whose log it digests.

use crate::digest::Others;
use crate::leases::LoggedChange;
use crate::namespace::View;
use crate::sessions::{Openers, Presence};
use crate::{Error, SharedFs};
use cuesta_format::{InodeNumber, LogPosition, SessionId};
use hashbrown::HashSet;
use std::sync::Arc;

/// Leases looked up before others may come between.
const LOOKED_UP_AT_ONCE: usize = 1024;

impl Others for SharedFs {
    fn openers(&self, session: SessionId) -> Openers<'_> {
        let core = self.core.lock();
        let others = core.sessions.values().filter(|other| other.id != session);
        let (mut controls, mut unseen_below) = (Vec::new(), InodeNumber::NONE);
        for other in others {
            controls.push(Arc::clone(&other.control));
            unseen_below = unseen_below.max(match other.presence {
                Presence::Here => InodeNumber::NONE,
                Presence::Away(_) if other.record.away_below != InodeNumber::NONE => other.record.away_below,
                Presence::Away(_) | Presence::Returning => InodeNumber(u64::MAX),
            });
        }
        drop(core);
        Openers::look(&controls, unseen_below, &self.references)
    }

    fn have_lease(&self, inode: InodeNumber, session: SessionId) -> bool {
        self.core.lock().leases.involved(inode).any(|other| other != session)
    }

    fn is_acknowledged(&self, session: SessionId, position: LogPosition) -> Result<bool, Error> {
        Ok(self.acknowledged_of(session)? >= position)
    }

    fn make_durable(&self, batch: &View) -> Result<(), Error> {
        SharedFs::make_durable(self, batch.dependencies.iter())
    }

    fn add_foreign(
        &self,
        session: SessionId,
        changes: &mut dyn Iterator<Item = LoggedChange>,
        foreign: &mut HashSet<InodeNumber>,
    ) {
        loop {
            let mut some = changes.take(LOOKED_UP_AT_ONCE).peekable();
            if some.peek().is_none() {
                return;
            }
            self.core.lock().leases.add_foreign(session, some, foreign);
        }
    }
}
