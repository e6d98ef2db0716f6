//! Scanning: reading a log that its writer may still change, tear or forge.
//!
//! Bytes are first copied out of the log into memory of our own, then checked there; nothing is ever parsed where a
//! session could still write (docs/design/data-path.md).

use cuesta_format::entry::{EntryBreak, HEADER_BYTES, Salt, VerifiedHeader};
use cuesta_format::{Geometry, LogPosition};
use std::io;

/// Where a log's bytes come from. A source fills `out` whole or fails: a truncated file is an error.
pub trait LogSource {
    /// Copies the bytes at `position` out; the range may cross segments and the end of the ring.
    fn read_at(&self, position: LogPosition, out: &mut [u8]) -> io::Result<()>;
}

/// Copies up to `bytes_max` bytes from `from` on into `batch` (whose content is replaced), clipped to the end of
/// the granted part and to one lap.
pub fn read_batch<S: LogSource>(
    source: &S,
    geometry: &Geometry,
    granted_slots: u32,
    from: LogPosition,
    bytes_max: u64,
    batch: &mut Vec<u8>,
) -> io::Result<()> {
    let readable = if granted_slots < geometry.ring_slots {
        (u64::from(granted_slots) * geometry.segment_bytes).saturating_sub(from.0)
    } else {
        geometry.ring_bytes()
    };
    batch.clear();
    batch.resize(readable.min(bytes_max) as usize, 0);
    source.read_at(from, batch)
}

/// The outcome of a scan at its position.
#[derive(Debug, PartialEq, Eq)]
pub enum ScanStep<'a> {
    /// A valid entry and its body (empty for a void one).
    Entry(VerifiedHeader, &'a [u8]),
    /// The log's valid prefix ends here.
    End(EntryBreak),
    /// The batch ends here; a valid header, if one was seen whole, says how many bytes its entry takes.
    Cut {
        /// Bytes the entry at this position takes, or at least one header.
        needed: u64,
    },
}

/// Walks the entries of a copied batch.
#[derive(Debug)]
pub struct Scanner<'a> {
    batch: &'a [u8],
    start: LogPosition,
    position: LogPosition,
    salt: Salt,
    entry_bytes_max: u64,
}

impl<'a> Scanner<'a> {
    /// `batch` holds the log's bytes from `start` on.
    #[must_use]
    pub fn new(batch: &'a [u8], start: LogPosition, salt: Salt, geometry: &Geometry) -> Scanner<'a> {
        Scanner { batch, start, position: start, salt, entry_bytes_max: geometry.entry_bytes_max() }
    }

    /// Where the next step looks: the end of the valid prefix so far.
    #[must_use]
    pub fn position(&self) -> LogPosition {
        self.position
    }

    /// Checks the entry here and, where it is valid, moves behind it.
    pub fn step(&mut self) -> ScanStep<'a> {
        let at = (self.position.0 - self.start.0) as usize;
        let Some(bytes) = self.batch.get(at..).and_then(|rest| rest.first_chunk::<HEADER_BYTES>()) else {
            return ScanStep::Cut { needed: HEADER_BYTES as u64 };
        };
        let header = match VerifiedHeader::verify(bytes, self.salt, self.position, self.entry_bytes_max) {
            Ok(header) => header,
            Err(end) => return ScanStep::End(end),
        };
        let fields = header.fields();
        let body = at + HEADER_BYTES..at + HEADER_BYTES + fields.body_bytes as usize;
        let Some(body) =
            self.batch.get(body).filter(|_| self.batch.len() as u64 >= at as u64 + fields.entry_bytes())
        else {
            return ScanStep::Cut { needed: fields.entry_bytes() };
        };
        if let Err(end) = header.verify_body(body) {
            return ScanStep::End(end);
        }
        self.position = fields.end();
        ScanStep::Entry(header, body)
    }
}
