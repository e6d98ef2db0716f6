//! What the logs hold that is not digested. A log may end in any way a crash can end it; one that ends before its mark was damaged
//! ([`crate::log_losses`]).

use super::Problem;
use crate::Error;
use crate::log_losses::BrokenLog;
use crate::metadata::MetadataStore;
use crate::sessions::{CommitFile, LogFiles, MarksFile, TableRead, open_segment_padded};
use crate::tiers::Parts;
use cuesta_format::entry::Salt;
use cuesta_format::superblock::Superblock;
use cuesta_format::{Geometry, InodeNumber, LogPosition};
use cuesta_oplog::{ScanStep, Scanner};
use std::io;
use std::path::Path;

/// No inode has this number or a higher one.
pub(super) fn inode_limit(tier: &Path, superblock: &Superblock) -> Result<InodeNumber, Error> {
    Ok(TableRead::of(tier, superblock.geometry.ring_slots, superblock.store)?.head().inode_limit)
}

/// Looks through the logs of all sessions of the table: what recovery would lose.
pub(super) fn look(
    parts: &Parts,
    superblock: &Superblock,
    metadata: &MetadataStore,
) -> Result<Vec<Problem>, Error> {
    let geometry = superblock.geometry;
    let table = TableRead::of(parts.tier(), geometry.ring_slots, superblock.store)?;
    let snapshot = metadata.read()?;
    let marks = MarksFile::of(parts.tier()).read();
    let mut problems = Vec::new();
    match table.lost_by_the_first() {
        0 => {}
        records => problems.push(Problem::SessionTable { records }),
    }
    for (slot, record) in table.occupied().filter(|(_, record)| !record.ended) {
        let open = |id| open_segment_padded(parts, geometry.segment_bytes, id);
        let segments = record.segments.iter().map(|&id| open(id)).collect::<Result<Vec<_>, _>>()?;
        let commit_file = record.commit_file.map(open).transpose()?;
        let commit_file = commit_file.map(|segment| CommitFile { geometry, segment });
        let digested = snapshot.session(record.session)?.unwrap_or_default().digested;
        let salt = Salt::new(superblock.store, record.session, record.log_generation);
        let log = Log {
            geometry,
            files: LogFiles { geometry, segments, emulated: None },
            commit_file,
            from: digested.max(record.start),
            salt,
        };
        let end = log.end().map_err(Error::io("read a log"))?;
        let broken = BrokenLog {
            session: record.session,
            slot,
            files: &log.files,
            commit_file: log.commit_file.as_ref(),
            marks: &marks,
            salt,
            end,
        };
        match broken.loss().map_err(Error::io("read a log"))? {
            Some(loss) => problems.push(Problem::Log(loss)),
            None if log.files.is_short() => problems.push(Problem::CutLog { session: record.session }),
            None => {}
        }
    }
    Ok(problems)
}

/// A log at rest.
struct Log {
    geometry: Geometry,
    files: LogFiles,
    commit_file: Option<CommitFile>,
    from: LogPosition,
    salt: Salt,
}

impl Log {
    /// Where its valid entries end, those of its own pages and of its commit file together, as recovery digests them.
    fn end(&self) -> io::Result<LogPosition> {
        let mut log = Vec::new();
        self.files.copy_out(self.from, self.geometry.ring_bytes(), &mut log)?;
        let mut end = self.from;
        loop {
            let mut scanner =
                Scanner::new(&log[(end.0 - self.from.0) as usize..], end, self.salt, &self.geometry);
            while let ScanStep::Entry(..) = scanner.step() {}
            end = scanner.position();
            let entries =
                self.commit_file.as_ref().map_or(Ok(Vec::new()), |file| file.entries_from(end, self.salt))?;
            let at = (end.0 - self.from.0) as usize;
            match log.get_mut(at..at + entries.len()) {
                Some(lost) if !lost.is_empty() => lost.copy_from_slice(&entries),
                _ => return Ok(end),
            }
        }
    }
}
