//! A fenced session asks what became of its log.

use super::trouble::Trouble;
use crate::SharedFs;
use crate::sessions::lifecycle::Loses;
use crate::sessions::{Presence, Session};
use cuesta_format::SessionId;
use cuesta_format::wire::{Response, Resynced};

impl SharedFs {
    /// Tells a fenced session what became of its log; waits for the fence, if it is going on. Looked at and answered in one
    /// breath: a further fence that begins between the two would pass off the log's old end as its own.
    pub(super) fn resync(&self, session: SessionId) -> Result<Response, Trouble> {
        loop {
            let settled = self.with_session(session, |found| {
                (!found.is_unsettled())
                    .then(|| self.resynced(found))
                    .inspect(|_| found.presence = Presence::Here)
            })?;
            if let Some(resynced) = settled {
                return Ok(Response::Resynced(resynced));
            }
            self.settle_fence(&mut self.digester.lock(), session, Loses::Nothing)?;
        }
    }

    fn resynced(&self, found: &mut Session) -> Resynced {
        let revoked = std::mem::take(&mut found.revoked);
        let retired = found.retired(self.geometry().ring_bytes());
        Resynced {
            accepted: found.record.start,
            resume: found.record.start,
            log_generation: found.record.log_generation,
            lease_generation: found.lease_generation,
            versions: revoked.iter().filter_map(|(&inode, &version)| Some((inode, version?))).collect(),
            revoked: revoked.into_keys().collect(),
            revoked_all: std::mem::take(&mut found.revoked_all),
            report: found.report(retired, 0),
        }
    }
}
