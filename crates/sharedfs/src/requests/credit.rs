//! Credit: blocks that a session is promised before it writes.
//!
//! Where the free blocks do not suffice, the daemon digests what is logged, then takes back what other sessions do not use.

use super::trouble::Trouble;
use crate::SharedFs;
use crate::sessions::Session;
use cuesta_format::SessionId;
use cuesta_format::wire::{Refusal, Response};

/// Fewer blocks than these are only promised to a session that asks for no more: 2 MiB, one step of an arena.
const CREDIT_LEAST_BLOCKS: u64 = 512;

impl SharedFs {
    /// Promises more blocks, as many as asked for or, rather than let the caller wait, those there are: it asks
    /// again. When there is no room otherwise, it digests what logs hold. Then it takes back promises that others do
    /// not use, and freed blocks they have not let go of: a session that does nothing never would.
    pub(super) fn credit(&self, session: SessionId, blocks: u64) -> Result<Response, Trouble> {
        self.check_medium()?;
        self.reclaim_all();
        if self.promise(session, blocks)? {
            return Ok(Response::Done);
        }
        self.digest_everything()?;
        self.look_for_closed()?;
        if self.promise(session, blocks)? {
            return Ok(Response::Done);
        }
        let keeping = self.space.lock().allocator.keeping();
        let others: Vec<SessionId> = {
            let core = self.core.lock();
            let has_some = |found: &&Session| found.promised() > 0 || keeping.contains(&found.id);
            core.sessions
                .values()
                .filter(has_some)
                .map(|found| found.id)
                .filter(|&other| other != session)
                .collect()
        };
        for other in others {
            self.take_back_space(other)?;
        }
        if self.promise(session, blocks)? {
            return Ok(Response::Done);
        }
        Err(Trouble::Refused(Refusal::NoSpace))
    }

    /// Promises blocks if they can be had.
    fn promise(&self, session: SessionId, blocks: u64) -> Result<bool, Trouble> {
        let least = blocks.min(CREDIT_LEAST_BLOCKS);
        while self.room() < least {
            let node = self.with_session(session, |found| found.node)?;
            if !self.grow(node, || self.room() >= least)? {
                return Ok(false);
            }
        }
        let beyond = self.mapped.beyond();
        let mut core = self.core.lock();
        let found = core.sessions.get_mut(&session).ok_or(Trouble::Refused(Refusal::SessionEnded))?;
        let mut space = self.space.lock();
        let available = self.room_in(&space, beyond);
        if available < least {
            return Ok(false);
        }
        let granted = blocks.min(available);
        space.credits.grant(granted);
        found.credit_limit += granted;
        found.control.publish_credit(found.credit_limit);
        Ok(true)
    }

    pub(crate) fn reclaim_all(&self) {
        let mut core = self.core.lock();
        for session in core.sessions.values_mut() {
            self.reclaim(session, None);
        }
    }
}
