//! Undigested entries of the logs. A log may end in any way a crash can end it; one that ends before its mark was
//! damaged ([`crate::damage::BrokenLog`]).

use super::problem::Problem;
use crate::Error;
use crate::damage::BrokenLog;
use crate::digest::dependencies::LogReader;
use crate::metadata::MetadataStore;
use crate::sessions::{CommitFile, LogFiles, MarksFile, TableRead, open_segment_padded};
use crate::tiers::Parts;
use cuesta_format::entry::Salt;
use cuesta_format::superblock::Superblock;
use cuesta_format::{InodeNumber, LogPosition};
use std::path::Path;

/// No inode has this number or a higher one.
pub(crate) fn inode_limit(tier: &Path, superblock: &Superblock) -> Result<InodeNumber, Error> {
    Ok(TableRead::of(tier, superblock.geometry.ring_slots, superblock.store)?.head().inode_limit)
}

/// Looks through the logs of all sessions of the table: what recovery would lose.
pub(crate) fn look(
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
        let files = LogFiles { geometry, segments, emulated: None };
        let from = digested.max(record.start);
        let reader = LogReader { files: &files, commit_file: commit_file.as_ref(), arenas: None, from, salt };
        let end = reader.read(LogPosition(u64::MAX), |_, _| {}).map_err(Error::io("read a log"))?;
        let broken = BrokenLog {
            session: record.session,
            slot,
            files: &files,
            commit_file: commit_file.as_ref(),
            marks: &marks,
            salt,
            end,
        };
        match broken.loss().map_err(Error::io("read a log"))? {
            Some(loss) => problems.push(Problem::Log(loss)),
            None if files.is_short() => problems.push(Problem::CutLog { session: record.session }),
            None => {}
        }
    }
    Ok(problems)
}
