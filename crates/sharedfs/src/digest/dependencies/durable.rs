//! Before a digest commits, the disk takes the parts of other logs that the batch depends on.

use super::log_reader::LogReader;
use super::parts::Dependencies;
use crate::sessions::LogFiles;
use crate::{Error, SharedFs};
use cuesta_format::entry::Salt;
use cuesta_format::{LogDependency, LogPosition, Medium, Operation, SessionId};
use std::collections::BTreeMap;

/// The part of a log that the disk may lack.
struct Undurable {
    files: LogFiles,
    salt: Salt,
    from: LogPosition,
    to: LogPosition,
}

impl SharedFs {
    /// The disk has these parts of logs, and all they depend on, when this returns.
    ///
    /// A session's log that is durable up to a position needs no look at its own dependencies. The session of
    /// SharedFS makes the dependencies of its log durable first. Other sessions depend on nothing but that log, on
    /// parts of it that lie before their dependents.
    pub(crate) fn make_durable(&self, parts: impl IntoIterator<Item = LogDependency>) -> Result<(), Error> {
        if self.superblock.medium != Medium::Block {
            return Ok(());
        }
        let mut wanted: Vec<LogDependency> = parts.into_iter().collect();
        let mut written = BTreeMap::<SessionId, LogPosition>::new();
        while let Some(part) = wanted.pop() {
            if let Some(epoch) = part.epoch() {
                self.make_epoch_durable(epoch)?;
                continue;
            }
            let mut read_from = None;
            while let Some(log) = self.undurable(&part, written.get(&part.session).copied()) {
                let reader = LogReader {
                    files: &log.files,
                    commit_file: None,
                    arenas: None,
                    from: log.from,
                    salt: log.salt,
                };
                let mut found = Dependencies::default();
                let end = reader.read(log.to, |_, operation| {
                    if let Operation::DependOn { dependency } = operation {
                        found.add(dependency);
                    }
                });
                let end = end.map_err(Error::io("read a log"))?;
                wanted.extend(found.iter());
                log.files.sync(log.from, log.to)?;
                self.flush_staged(part.session)?;
                // A log that ends earlier was digested meanwhile and has other entries there, or is wrong.
                if end >= log.to || read_from == Some(log.from) {
                    written.insert(part.session, log.to);
                    break;
                }
                read_from = Some(log.from);
            }
        }
        Ok(())
    }

    /// The disks have all blocks that a session wrote and no digest has taken when this returns, but for those of tiers
    /// that failed: see [`SharedFs::save_staged`].
    pub(crate) fn flush_staged(&self, session: SessionId) -> Result<(), Error> {
        let granted = self.space.lock().windows.granted_to(session);
        loop {
            match self.arenas.flush(granted.iter().map(|run| self.geometry().arena(run.address))) {
                Err(Error::TierFailed { tier, why }) => self.storage().fail_tier(tier, &why),
                flushed => return flushed,
            }
        }
    }

    /// Digests the logs of sessions that may have staged content on a tier that failed: the digest puts it elsewhere,
    /// durably. Call without the digester.
    pub(crate) fn save_staged(&self) -> Result<(), Error> {
        if self.arenas.failures() == 0 {
            return Ok(());
        }
        let sessions: Vec<SessionId> = self.core.lock().sessions.keys().copied().collect();
        for session in sessions {
            let granted = self.space.lock().windows.granted_to(session);
            if granted.iter().any(|run| !self.arenas.takes_writes(run.address.tier())) {
                self.digest_completed(session)?;
            }
        }
        Ok(())
    }

    /// The entries that the disk may lack of a part of a log that was written to `written`, if there are any.
    fn undurable(&self, part: &LogDependency, written: Option<LogPosition>) -> Option<Undurable> {
        let core = self.core.lock();
        let session = core.sessions.get(&part.session)?;
        if session.record.log_generation != part.generation {
            return None;
        }
        let to = part.position.min(session.completed());
        let from = session.digested.max(written.unwrap_or_default());
        if to <= from || to <= session.durable() {
            return None;
        }
        let files =
            LogFiles { geometry: self.geometry(), segments: session.segments.clone(), emulated: None };
        Some(Undurable { files, salt: session.salt(self.superblock.store), from, to })
    }
}
