//! What the logs hold that is not digested: told, never judged. A log may end in any way a crash can end it; whole
//! entries behind its end were either never acknowledged, or the medium lost one before them.

use super::Problem;
use crate::Error;
use crate::metadata::MetadataStore;
use crate::sessions::{CommitFile, LogFiles, SessionTable, open_segment};
use crate::tiers::{Parts, medium_of_files};
use cuesta_format::entry::{ENTRY_ALIGNMENT, HEADER_BYTES, Salt, VerifiedHeader};
use cuesta_format::geometry::SESSIONS_FILE;
use cuesta_format::session_table::SessionRecord;
use cuesta_format::superblock::Superblock;
use cuesta_format::{InodeNumber, LogPosition};
use cuesta_oplog::{ScanStep, Scanner};
use std::io::{self, ErrorKind};
use std::path::Path;

/// No inode has this number or a higher one.
pub(super) fn inode_limit(tier: &Path, superblock: &Superblock) -> Result<InodeNumber, Error> {
    let medium = medium_of_files(tier, superblock.medium);
    Ok(SessionTable::read_head(&tier.join(SESSIONS_FILE), medium)?.inode_limit)
}

/// Looks through the logs of all sessions of the table.
pub(super) fn look(
    parts: &Parts,
    superblock: &Superblock,
    metadata: &MetadataStore,
) -> Result<Vec<Problem>, Error> {
    let geometry = superblock.geometry;
    let path = parts.tier().join(SESSIONS_FILE);
    let medium = medium_of_files(parts.tier(), superblock.medium);
    let (_, occupied) = SessionTable::open(&path, geometry.ring_slots, medium)?;
    let snapshot = metadata.read()?;
    let mut problems = Vec::new();
    for (_, record) in occupied.into_iter().filter(|(_, record)| !record.ended) {
        let mut segments = Vec::new();
        for &segment in &record.segments {
            segments.push(open_segment(parts, geometry.segment_bytes, segment)?);
        }
        let digested = snapshot.session(record.session)?.unwrap_or_default().digested;
        let from = digested.max(record.start);
        let files = LogFiles { geometry, segments, emulated: None };
        let commit_file = match record.commit_file {
            Some(id) => {
                Some(CommitFile { geometry, segment: open_segment(parts, geometry.segment_bytes, id)? })
            }
            None => None,
        };
        let mut log = Vec::new();
        let looked = files
            .copy_out(from, geometry.ring_bytes(), &mut log)
            .and_then(|_| look_at(superblock, &record, from, &mut log, commit_file.as_ref()));
        match looked {
            Ok(problem) => problems.extend(problem),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                problems.push(Problem::CutLog { session: record.session });
            }
            Err(error) => return Err(Error::io("read a log")(error)),
        }
    }
    Ok(problems)
}

/// `log` is mended from the commit file where it breaks off, as recovery does with the log itself.
fn look_at(
    superblock: &Superblock,
    record: &SessionRecord,
    from: LogPosition,
    log: &mut [u8],
    commit_file: Option<&CommitFile>,
) -> io::Result<Option<Problem>> {
    let geometry = &superblock.geometry;
    let salt = Salt::new(superblock.store, record.session, record.log_generation);
    let mut end = from;
    loop {
        let mut scanner = Scanner::new(&log[(end.0 - from.0) as usize..], end, salt, geometry);
        while let ScanStep::Entry(..) = scanner.step() {}
        end = scanner.position();
        let entries = commit_file.map_or(Ok(Vec::new()), |file| file.entries_from(end, salt))?;
        let at = (end.0 - from.0) as usize;
        match log.get_mut(at..at + entries.len()) {
            Some(lost) if !lost.is_empty() => lost.copy_from_slice(&entries),
            _ => break,
        }
    }
    let behind = &log[((end.0 - from.0) as usize).min(log.len())..];
    let valid = |(index, bytes): (usize, &[u8])| {
        let position = end.plus((index * ENTRY_ALIGNMENT) as u64);
        let header: &[u8; HEADER_BYTES] = bytes.try_into().ok()?;
        VerifiedHeader::verify(header, salt, position, geometry.entry_bytes_max()).ok()
    };
    let entries = behind.chunks_exact(HEADER_BYTES).enumerate().skip(1).filter_map(valid).count() as u64;
    Ok((entries > 0).then_some(Problem::Log { session: record.session, end: end.0, entries }))
}
