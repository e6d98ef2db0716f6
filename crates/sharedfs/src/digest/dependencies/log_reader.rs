//! Reads the entries of one log that is not digested, as recovery finds them: in the log's own pages, and where these break off in its
//! commit file.

use crate::sessions::{CommitFile, LogFiles};
use crate::tiers::Arenas;
use cuesta_format::entry::{Salt, VerifiedHeader};
use cuesta_format::{LogPosition, Operation};
use cuesta_oplog::{ScanStep, Scanner};
use std::io;

/// Bytes read at once.
const STEP_BYTES: u64 = 1 << 20;

/// A log, or the rest of it.
pub(crate) struct LogReader<'a> {
    pub(crate) files: &'a LogFiles,
    pub(crate) commit_file: Option<&'a CommitFile>,
    /// If given, the log ends before a staged write whose blocks hold something else.
    pub(crate) arenas: Option<&'a Arenas>,
    /// Its first entry starts here.
    pub(crate) from: LogPosition,
    pub(crate) salt: Salt,
}

impl LogReader<'_> {
    /// Hands over every valid entry that starts below `until`. Answers where they end.
    pub(crate) fn read(
        &self,
        until: LogPosition,
        mut take: impl FnMut(&VerifiedHeader, Operation<'_>),
    ) -> io::Result<LogPosition> {
        let mut at = self.from;
        loop {
            let broke_off = self.read_pages(at, until, &mut take)?;
            let Some(commit_file) = self.commit_file.filter(|_| broke_off < until) else {
                return Ok(broke_off);
            };
            let entries = commit_file.entries_from(broke_off, self.salt)?;
            at = self.scan(&entries, broke_off, until, &mut take).0;
            if at == broke_off {
                return Ok(at);
            }
        }
    }

    /// The entries of the log's own pages.
    fn read_pages(
        &self,
        from: LogPosition,
        until: LogPosition,
        take: &mut impl FnMut(&VerifiedHeader, Operation<'_>),
    ) -> io::Result<LogPosition> {
        let mut at = from;
        let mut wanted = STEP_BYTES;
        let mut buffer = Vec::new();
        while at < until {
            // Not beyond a lap behind the first entry.
            let lap = self.files.readable(self.from).saturating_sub(at.0 - self.from.0);
            let copied = self.files.copy_out(at, wanted.min(lap), &mut buffer)?;
            let (end, cut) = self.scan(&buffer[..copied], at, until, take);
            match cut {
                Some(needed) if end > at => wanted = needed.max(STEP_BYTES),
                Some(needed) if needed > wanted && wanted < lap => wanted = needed,
                _ => return Ok(end),
            }
            at = end;
        }
        Ok(at)
    }

    /// Whether the blocks that an operation names hold what it says, as far as that can be seen.
    fn is_there(&self, operation: &Operation<'_>) -> bool {
        match (operation, self.arenas) {
            (Operation::WriteStaged { staged, .. }, Some(arenas)) => {
                arenas.hold_staged(staged).unwrap_or(true)
            }
            _ => true,
        }
    }

    /// The entries in `bytes`, which lie at `start`. Answers where they end, and how many bytes the next one takes if it is cut.
    fn scan(
        &self,
        bytes: &[u8],
        start: LogPosition,
        until: LogPosition,
        take: &mut impl FnMut(&VerifiedHeader, Operation<'_>),
    ) -> (LogPosition, Option<u64>) {
        let mut scanner = Scanner::new(bytes, start, self.salt, &self.files.geometry);
        while scanner.position() < until {
            match scanner.step() {
                ScanStep::Entry(header, body) => {
                    // An entry that cannot be read ends the digest, and depends on nothing.
                    let operation = Operation::decode(header.fields(), body).unwrap_or(Operation::Void);
                    if !self.is_there(&operation) {
                        return (header.fields().position, None);
                    }
                    take(&header, operation);
                }
                ScanStep::Cut { needed } => return (scanner.position(), Some(needed)),
                ScanStep::End(_) => break,
            }
        }
        (scanner.position(), None)
    }
}
