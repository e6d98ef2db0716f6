//! What recovery makes of dependencies between logs: it reads every log once before it digests any.

use super::cut::{FoundLog, consistent_cut};
use super::log_reader::LogReader;
use crate::damage::BrokenLog;
use crate::sessions::{CommitFile, LogFiles, OccupiedSlot, Recorded, open_segment_padded};
use crate::{Error, SharedFs};
use cuesta_format::entry::Salt;
use cuesta_format::geometry::EPOCHS_FILE;
use cuesta_format::{Epoch, LogDependency, LogPosition, Medium, Operation, SessionId};
use cuesta_media::planted::{self, Bug};
use std::collections::BTreeMap;

/// A log and the files it lies in.
struct LogAtRest {
    slot: u32,
    files: LogFiles,
    commit_file: Option<CommitFile>,
    salt: Salt,
    from: LogPosition,
    found: FoundLog,
}

impl SharedFs {
    /// Where the logs end that must not be recovered to their ends: entries behind that depend on entries that
    /// other logs lost.
    pub(crate) fn cuts_of(
        &self,
        occupied: &[OccupiedSlot],
        lost_memory: bool,
    ) -> Result<BTreeMap<SessionId, LogPosition>, Error> {
        if self.superblock.medium != Medium::Block || planted::active(Bug::DependenciesForgotten) {
            return Ok(BTreeMap::new());
        }
        let logs = occupied.iter().filter(|(_, record)| !record.ended);
        let mut logs = logs.map(|slot| self.log_at_rest(slot)).collect::<Result<Vec<_>, _>>()?;
        let depends = logs.iter().any(|log| !log.found.dependencies.is_empty());
        if !depends {
            return Ok(BTreeMap::new());
        }
        for log in &mut logs {
            log.found.is_damaged = self.is_damaged(log)?;
            // A digest of one log commits what depends on another one, which may be in the kernel's pages only.
            log.files.sync(log.from, log.found.end)?;
            self.flush_staged(log.found.session)?;
        }
        let epochs = self.epochs_found(lost_memory)?;
        let found: Vec<FoundLog> = logs.into_iter().map(|log| log.found).chain([epochs]).collect();
        let cuts = consistent_cut(&found);
        let cut_off = found.iter().zip(cuts).filter(|(log, cut)| *cut < log.end);
        Ok(cut_off.map(|(log, cut)| (log.session, cut)).collect())
    }

    /// The epochs of the store that survive, as a log that others depend on.
    ///
    /// Without a loss of power the kernel has kept every log as its session left it. So all epochs survive, and the
    /// disk has all logs by now. That is recorded before a digest commits any of them.
    fn epochs_found(&self, lost_memory: bool) -> Result<FoundLog, Error> {
        let recorded = self.epochs.recorded()?;
        let end = match recorded {
            Recorded::Epoch(epoch) if lost_memory => epoch,
            Recorded::Epoch(_) => {
                self.epochs.record_all()?;
                Epoch(u64::MAX)
            }
            Recorded::Never => Epoch(u64::MAX),
            Recorded::Damaged => {
                tracing::error!("{EPOCHS_FILE} is damaged: logs are recovered to their ends");
                Epoch(u64::MAX)
            }
        };
        let LogDependency { session, generation, position } = LogDependency::on_epoch(end);
        Ok(FoundLog { session, generation, end: position, is_damaged: false, dependencies: Vec::new() })
    }

    fn log_at_rest(&self, (slot, record): &OccupiedSlot) -> Result<LogAtRest, Error> {
        let geometry = self.geometry();
        let open = |id| open_segment_padded(&self.parts, geometry.segment_bytes, id);
        let segments = record.segments.iter().map(|&id| open(id)).collect::<Result<Vec<_>, _>>()?;
        let commit_file = record.commit_file.map(open).transpose()?;
        let commit_file = commit_file.map(|segment| CommitFile { geometry, segment });
        let digested = self.metadata.read()?.session(record.session)?.unwrap_or_default().digested;
        let salt = Salt::new(self.superblock.store, record.session, record.log_generation);
        let files = LogFiles { geometry, segments, emulated: None };
        let from = digested.max(record.start);
        let mut dependencies = Vec::new();
        let reader = LogReader {
            files: &files,
            commit_file: commit_file.as_ref(),
            arenas: Some(&self.arenas),
            from,
            salt,
        };
        let end = reader.read(LogPosition(u64::MAX), |header, operation| {
            if let Operation::DependOn { dependency } = operation {
                dependencies.push((header.fields().position, dependency));
            }
        });
        let found = FoundLog {
            session: record.session,
            generation: record.log_generation,
            end: end.map_err(Error::io("read a log"))?,
            is_damaged: false,
            dependencies,
        };
        Ok(LogAtRest { slot: *slot, files, commit_file, salt, from, found })
    }

    fn is_damaged(&self, log: &LogAtRest) -> Result<bool, Error> {
        let broken = BrokenLog {
            session: log.found.session,
            slot: log.slot,
            files: &log.files,
            commit_file: log.commit_file.as_ref(),
            marks: &self.marks.read(),
            salt: log.salt,
            end: log.found.end,
        };
        Ok(broken.loss().map_err(Error::io("read a log"))?.is_some())
    }
}
