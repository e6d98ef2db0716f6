//! Whether a log that breaks off was damaged, and what it lost: the judgement of recovery, of `cuesta fsck` and of a running daemon
//! (docs/decisions/0045).
//!
//! A crash leaves every acknowledged entry of a log, and anything of the rest. So a log that ends before its mark
//! was damaged. Marks lie behind the end, in entries of the log or its commit file, and in the file of marks. The
//! headers behind the end tell of the losses, as far as they are there. Nothing is replayed from behind a hole,
//! because the entries in it are unknown.

use crate::sessions::{CommitFile, LogFiles, MarksRead};
use cuesta_format::entry::{EntryKind, Salt, VerifiedHeader};
use cuesta_format::{InodeNumber, LogPosition, SessionId};
use cuesta_oplog::{Behind, LogSource, look_behind};
use std::collections::BTreeMap;
use std::fmt;
use std::io;

/// Files of a damaged log that are named.
const FILES_TOLD_MAX: usize = 64;
/// Bytes looked through at once.
const STEP_BYTES: u64 = 4 << 20;

/// A log behind whose valid entries something may be missing.
pub(crate) struct BrokenLog<'a> {
    /// Its session, and its slot of the session table.
    pub(crate) session: SessionId,
    pub(crate) slot: u32,
    /// Its bytes: of its own pages, of its commit file, and its mark.
    pub(crate) files: &'a LogFiles,
    pub(crate) commit_file: Option<&'a CommitFile>,
    pub(crate) marks: &'a MarksRead,
    pub(crate) salt: Salt,
    /// Where its valid entries end.
    pub(crate) end: LogPosition,
}

/// The losses of a damaged log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLoss {
    /// Its session.
    pub session: SessionId,
    /// It is whole up to here,
    pub end: LogPosition,
    /// and was acknowledged up to here.
    pub acknowledged: LogPosition,
    /// Entries in between whose headers are there.
    pub entries: u64,
    /// Bytes in between of which nothing is known.
    pub unknown_bytes: u64,
    /// Files whose content those entries changed, and how long they were at least.
    pub files: BTreeMap<InodeNumber, u64>,
    /// The log breaks off where its file does, and no mark says whether more was acknowledged.
    pub is_cut: bool,
}

impl fmt::Display for LogLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LogLoss { session, end, acknowledged, entries, unknown_bytes, files, is_cut } = self;
        if *is_cut && acknowledged <= end {
            return write!(
                f,
                "the log of session {session} is given up behind {end}, where a file of it is missing or was cut short: what was acknowledged \
                 behind that is lost, if anything was"
            );
        }
        let inodes: Vec<String> = files.keys().take(FILES_TOLD_MAX).map(InodeNumber::to_string).collect();
        let files = match inodes.len() {
            0 => "no file whose number is known".to_owned(),
            FILES_TOLD_MAX => format!("inodes {} and maybe more", inodes.join(", ")),
            _ => format!("inodes {}", inodes.join(", ")),
        };
        write!(
            f,
            "the log of session {session} was damaged: it was acknowledged up to {acknowledged} and is whole up to {end}. Lost are {entries} \
             entries and {unknown_bytes} bytes of which nothing is known, and so content of {files}"
        )
    }
}

impl BrokenLog<'_> {
    /// Headers and marks behind the end.
    fn behind(&self) -> io::Result<Behind> {
        let mut behind = Behind::default();
        behind.add_mark(self.marks, self.slot, self.salt);
        let geometry = &self.files.geometry;
        let gap_max = geometry.entry_bytes_max() + STEP_BYTES;
        let (mut at, mut left) = (self.end, self.files.readable(self.end));
        let mut last = behind.acknowledged.max(self.end);
        let mut bytes = Vec::new();
        while left > 0 && at.0 < last.0 + gap_max {
            bytes.resize(left.min(STEP_BYTES) as usize, 0);
            self.files.read_at(at, &mut bytes)?;
            let found = look_behind(&bytes, at, self.salt, geometry);
            last = found.headers.last().map_or(last, |header| last.max(header.fields().end()));
            behind.add(found);
            (at, left) = (at.plus(bytes.len() as u64), left - bytes.len() as u64);
        }
        if let Some(commit_file) = self.commit_file {
            behind.add(look_behind(&commit_file.bytes_from(self.end)?, self.end, self.salt, geometry));
        }
        Ok(behind)
    }

    /// How far it was acknowledged, as far as anything behind its end says so.
    pub(crate) fn acknowledged(&self) -> io::Result<LogPosition> {
        Ok(self.behind()?.acknowledged)
    }

    /// The losses, if it was damaged. A process that lives may go on with the log meanwhile: a caller that is
    /// told of a loss looks once more whether the log still ends where it did.
    pub(crate) fn loss(&self) -> io::Result<Option<LogLoss>> {
        let behind = self.behind()?;
        let is_cut = !behind.has_mark && self.files.lacks(self.end);
        if behind.acknowledged <= self.end && !is_cut {
            return Ok(None);
        }
        let mut loss = LogLoss {
            session: self.session,
            end: self.end,
            acknowledged: behind.acknowledged,
            entries: 0,
            unknown_bytes: 0,
            files: BTreeMap::new(),
            is_cut,
        };
        let mut at = self.end;
        for header in behind.headers.iter().map(VerifiedHeader::fields) {
            if header.position >= behind.acknowledged {
                break;
            }
            loss.entries += 1;
            loss.unknown_bytes += header.position.0.saturating_sub(at.0);
            at = at.max(header.end());
            let size = match header.kind {
                // Of a staged write it is the least that it can have stored.
                EntryKind::Write | EntryKind::WriteStaged => {
                    header.argument.saturating_add(header.content_bytes().into())
                }
                EntryKind::Truncate | EntryKind::Clear | EntryKind::Shift => 0,
                _ => continue,
            };
            let known = loss.files.entry(header.inode).or_default();
            *known = size.max(*known);
        }
        loss.unknown_bytes += behind.acknowledged.0.saturating_sub(at.0);
        Ok(Some(loss))
    }
}
