//! All sessions lose all leases and stand still, while one transaction changes inodes that any of them may have cached.

use super::fences::Loses;
use crate::digest::{Digester, Until};
use crate::sessions::{Ending, Session};
use crate::store::Core;
use crate::{Error, SharedFs};
use cuesta_format::SessionId;

impl SharedFs {
    /// Fences all sessions and takes all their leases. Until [`SharedFs::let_go_on`] none does anything more,
    /// and no other may begin: for a change of inodes that any session may have cached.
    pub(crate) fn halt_all(&self, digester: &mut Digester) -> Result<(), Error> {
        let sessions: Vec<SessionId> = self.core.lock().sessions.keys().copied().collect();
        // All of them first, so that they wait at the same time.
        for &session in &sessions {
            self.move_generation(session);
        }
        for session in sessions {
            if self.digest_all(digester, session, Until::Break)?.rejected {
                self.end(digester, session, Ending::GivenUp)?;
                continue;
            }
            self.quotas.lock().forget(session);
            let mut core = self.core.lock();
            let Core { sessions, table, leases, .. } = &mut *core;
            let Some(found) = sessions.get_mut(&session) else { continue };
            // Entries behind that are void; and only the next move is one that it is told of.
            found.renew_log(table)?;
            found.move_generation();
            found.revoked_all = true;
            found.untold.clear();
            found.lingering.clear();
            let is_mounted = found.kernel.is_some();
            leases.revoke_all(session);
            if is_mounted {
                self.begin_doubt();
            }
        }
        Ok(())
    }

    /// Sessions that were halted go on. One for which that fails goes on by its own question.
    pub(crate) fn let_go_on(&self, digester: &mut Digester) -> Result<(), Error> {
        let sessions: Vec<SessionId> = self.core.lock().sessions.keys().copied().collect();
        let mut outcome = Ok(());
        for session in sessions {
            outcome = outcome.and(self.settle_halt(digester, session));
            self.note_fence(session);
        }
        outcome
    }

    fn settle_halt(&self, digester: &mut Digester, session: SessionId) -> Result<(), Error> {
        {
            let mut core = self.core.lock();
            let Core { sessions, table, .. } = &mut *core;
            let is_halted = |found: &&mut Session| found.revoked_all && found.is_unsettled();
            if let Some(found) = sessions.get_mut(&session).filter(is_halted) {
                // It was digested when it was halted, and nothing it appended since counts.
                return found.renew_log(table);
            }
        }
        self.settle_fence(digester, session, Loses::Nothing).map(drop)
    }
}
