//! A daemon leaves its store to the next one.

use super::core::SharedFs;
use crate::Error;
use crate::metadata::MetadataError;
use crate::sessions::Ending;
use cuesta_format::SessionId;

impl SharedFs {
    /// The daemon leaves: every log is digested to its end. Sessions of processes that may come back to the next daemon
    /// stay in the table, the others end.
    pub fn stop(&self) -> Result<(), Error> {
        let sessions: Vec<(SessionId, u32, Option<Ending>)> = {
            let core = self.core.lock();
            core.sessions.values().map(|found| (found.id, found.pid, found.ending)).collect()
        };
        // Those for which there is no room are found by the next daemon; others have what they need all the same.
        let mut full = Ok(());
        for (session, pid, ending) in sessions {
            let stopped = match ending {
                None if self.may_come_back(pid).is_some() => self.suspend(session),
                ending => self.end_session(session, ending.unwrap_or(Ending::GivenUp)),
            };
            match stopped {
                Err(Error::NoSpace) => full = Err(Error::NoSpace),
                stopped => stopped?,
            }
        }
        // Without room it stays where it is, which is as good; as it does where nothing is written any more.
        match self.metadata.write_out() {
            Err(MetadataError::NoSpace) => full,
            Err(_) if self.metadata.is_read_only() => full,
            written => full.and(written.map_err(Error::from)),
        }
    }

    /// Closes the store for good, behind the digest that there may be: it is the next daemon's. From then on
    /// this daemon changes nothing, and ends no session, because the next one may have it:
    /// [`MetadataError::Left`].
    pub fn leave(&self) {
        let _digester = self.digester.lock();
        if self.is_left() {
            return;
        }
        self.metadata.leave();
        self.events.close();
        self.core.lock().table.leave();
        if let Err(error) = self.say_closed() {
            tracing::warn!(%error, "that the store was left in order cannot be noted");
        }
    }
}
