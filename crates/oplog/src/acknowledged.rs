//! Marks: how far a log was acknowledged (docs/decisions/0045).
//!
//! A log that breaks off may have been cut by a crash, or damaged by its medium: a mark behind the break tells the second from the
//! first. Each entry has one, of the moment it was sealed; on medium `block` the session also stores one in a file of marks
//! ([`cuesta_format::acknowledged`]) behind each wait for the disk, for nothing need stand behind the last entries.

use cuesta_format::acknowledged::{MARK_BYTES, MARK_COPIES, MARKS_BYTES, decode, encode, mark_offset};
use cuesta_format::entry::{ENTRY_ALIGNMENT, HEADER_BYTES, Salt, VerifiedHeader};
use cuesta_format::{Geometry, LogPosition, Medium};
use cuesta_media::{Mapping, MediaError, Protection};
use rustix::fd::AsFd;
use std::io;

/// The writing end of one session's mark.
#[derive(Debug)]
pub struct Marks {
    file: Mapping,
    slot: u32,
}

impl Marks {
    /// The mark of the slot `slot`, in the file of marks.
    pub fn new(file: impl AsFd, slot: u32) -> Result<Marks, MediaError> {
        let file = Mapping::of_file(file, 0, MARKS_BYTES, Protection::ReadWrite, Medium::Block, false)?;
        Ok(Marks { file, slot })
    }

    /// Says that the log with this salt is acknowledged up to a position, one copy behind the other: a process that dies in between leaves
    /// one whole. Nothing waits for it. A file that was cut says nothing, which only a second loss would show.
    pub(crate) fn store(&self, salt: Salt, acknowledged: LogPosition) {
        let mark = encode(salt, acknowledged);
        for copy in 0..MARK_COPIES {
            let _ = self.file.write(mark_offset(self.slot, copy), &mark);
        }
    }
}

/// Where the bytes of the file of marks come from.
pub trait MarkSource {
    /// Copies the bytes at `offset` out; an error where there are none.
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()>;
}

/// Whole entries of a log behind its break.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Behind {
    /// The log was acknowledged that far, as what lies behind the break says.
    pub acknowledged: LogPosition,
    /// The file of marks has one of the log.
    pub has_mark: bool,
    /// Headers of entries there, in the order of their places.
    pub headers: Vec<VerifiedHeader>,
}

impl Behind {
    /// The mark of a session, from the file of marks, counts too.
    pub fn add_mark<S: MarkSource>(&mut self, marks: &S, slot: u32, salt: Salt) {
        for copy in 0..MARK_COPIES {
            let mut bytes = [0; MARK_BYTES];
            if marks.read_at(mark_offset(slot, copy), &mut bytes).is_ok()
                && let Some(acknowledged) = decode(&bytes, salt)
            {
                self.acknowledged = self.acknowledged.max(acknowledged);
                self.has_mark = true;
            }
        }
    }

    /// Takes up what is found in one more place.
    pub fn add(&mut self, more: Behind) {
        self.acknowledged = self.acknowledged.max(more.acknowledged);
        let known = |header: &VerifiedHeader| header.fields().position;
        for header in more.headers {
            if let Err(at) = self.headers.binary_search_by_key(&known(&header), known) {
                self.headers.insert(at, header);
            }
        }
    }
}

/// Looks for headers in a log's bytes from `start` on, where a scan broke off. A header says of itself whether it is one, and what it
/// says was true when it was sealed, also where the body is lost.
#[must_use]
pub fn look_behind(bytes: &[u8], start: LogPosition, salt: Salt, geometry: &Geometry) -> Behind {
    let mut behind = Behind::default();
    for (index, unit) in bytes.as_chunks::<HEADER_BYTES>().0.iter().enumerate() {
        let position = start.plus((index * ENTRY_ALIGNMENT) as u64);
        if let Ok(header) = VerifiedHeader::verify(unit, salt, position, geometry.entry_bytes_max()) {
            behind.acknowledged = behind.acknowledged.max(header.fields().acknowledged);
            behind.headers.push(header);
        }
    }
    behind
}

const _: () = assert!(HEADER_BYTES == ENTRY_ALIGNMENT);
