//! A session's commit file, on medium `block`. Entries that the session waited for are there, and may be missing
//! from the log's own pages where the power was lost. The file takes its session's log round and round
//! ([`commit_file_offset`]). The entries themselves say which are whole, and of this generation of the log.

use super::segments::{LogFiles, Segment};
use cuesta_format::entry::Salt;
use cuesta_format::{Geometry, LogPosition};
use cuesta_media::recorder;
use cuesta_oplog::{ScanStep, Scanner, commit_file_offset};
use rustix::io::Errno;
use std::io;
use std::os::fd::AsFd;

/// The reading end.
#[derive(Clone, Debug)]
pub struct CommitFile {
    /// Sizes of the log.
    pub geometry: Geometry,
    /// The segment that it is.
    pub segment: Segment,
}

/// The log is digested when it fills this part of the file: entries that are waited for while that goes on must
/// have room, too.
const DIGESTED_PART: u64 = 2;

impl CommitFile {
    /// How long the log may become before it is digested.
    pub(crate) fn digested_at_bytes(&self) -> u64 {
        self.geometry.segment_bytes / DIGESTED_PART
    }

    /// The whole entries that it holds from `position` on, one behind the other; none, if it was cut.
    pub fn entries_from(&self, position: LogPosition, salt: Salt) -> io::Result<Vec<u8>> {
        let mut bytes = self.bytes_from(position)?;
        let mut scanner = Scanner::new(&bytes, position, salt, &self.geometry);
        while let ScanStep::Entry(..) = scanner.step() {}
        bytes.truncate((scanner.position().0 - position.0) as usize);
        Ok(bytes)
    }

    /// The bytes in the places of the log's bytes from `position` on, those of a whole round; none, if it was
    /// cut.
    pub fn bytes_from(&self, position: LogPosition) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; self.geometry.segment_bytes as usize];
        let start = commit_file_offset(&self.geometry, position);
        let (first, second) = bytes.split_at_mut((self.geometry.segment_bytes - start) as usize);
        match self.read(start, first).and_then(|()| self.read(0, second)) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(Vec::new()),
            read => read.map(|()| bytes),
        }
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let mut done = 0;
        while done < out.len() {
            let at = offset + done as u64;
            let got = self.segment.read(&mut out[done..], at)?;
            recorder::record_file_read(&self.segment.part.file, at, got);
            if got == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            done += got;
        }
        Ok(())
    }

    /// Puts into the log what this holds from `position` on. Says whether that was anything: its session, which may have cut it,
    /// is the only one to lose by that.
    pub fn put_into(&self, log: &LogFiles, position: LogPosition, salt: Salt) -> io::Result<bool> {
        let entries = self.entries_from(position, salt)?;
        log.write_at(position, &entries)?;
        Ok(!entries.is_empty())
    }
}

impl LogFiles {
    /// Writes bytes of the log, which its session lost.
    fn write_at(&self, position: LogPosition, bytes: &[u8]) -> io::Result<()> {
        let mut done = 0;
        while done < bytes.len() {
            let (segment, inside, ahead) = self.place(position.plus(done as u64))?;
            let part = &bytes[done..bytes.len().min(done + ahead)];
            recorder::record_file_write(segment.part.file.as_fd(), inside, part);
            match rustix::io::pwrite(&segment.part.file, part, inside)? {
                0 => return Err(Errno::IO.into()),
                written => done += written,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::segments::make_segment;
    use super::*;
    use cuesta_format::entry::{EntryKind, HEADER_BYTES, Header, crc32c, entry_bytes};
    use cuesta_format::geometry::LOGS_FOLDER;
    use cuesta_format::superblock::Medium;
    use cuesta_format::{
        InodeNumber, LeaseGeneration, LogGeneration, SegmentId, SessionId, StoreId, Timestamp,
    };
    use cuesta_oplog::LogSource as _;
    use std::os::unix::fs::FileExt;

    const GEOMETRY: Geometry = Geometry {
        arena_bytes: 64 << 10,
        segment_bytes: 16 << 10,
        ring_slots: 4,
        nvm_bytes: 64 << 20,
        checks_content: false,
    };

    fn entry(position: u64, salt: Salt, body: &[u8]) -> Vec<u8> {
        let header = Header {
            kind: EntryKind::Write,
            flags: 0,
            body_bytes: body.len() as u32,
            debit_blocks: 0,
            position: LogPosition(position),
            lease_generation: LeaseGeneration(1),
            inode: InodeNumber(7),
            argument: 0,
            time: Timestamp::default(),
            acknowledged: LogPosition(0),
        };
        let mut bytes = header.seal(salt, crc32c(body)).to_vec();
        bytes.extend_from_slice(body);
        bytes.resize(entry_bytes(body.len()), 0);
        bytes
    }

    /// A gap in the log is closed, across the end of the commit file and that of a segment, and no entry of another generation
    /// counts.
    #[test]
    fn lost_entries_come_back_as_far_as_they_are_whole_and_of_this_generation() {
        let folder = tempfile::tempdir().unwrap();
        let tier = folder.path();
        std::fs::create_dir(tier.join(LOGS_FOLDER)).unwrap();
        let parts = crate::tiers::Parts::open(tier, StoreId([3; 16]), &GEOMETRY).unwrap();
        let make =
            |id| make_segment(&parts, GEOMETRY.segment_bytes, Medium::Block, SegmentId(id), None).unwrap();
        let log = LogFiles { geometry: GEOMETRY, segments: (0..4).map(make).collect(), emulated: None };
        let commit_file = CommitFile { geometry: GEOMETRY, segment: make(4) };
        let salt = |generation| Salt::new(StoreId([3; 16]), SessionId(1), LogGeneration(generation));
        let start = GEOMETRY.segment_bytes - 2 * (HEADER_BYTES + 64) as u64;
        let file = std::fs::File::from(commit_file.segment.part.file.try_clone().unwrap());
        let mut at = start;
        for number in 0..5 {
            let generation = if number == 4 { 1 } else { 2 };
            let bytes = entry(at, salt(generation), &[number; 64]);
            file.write_all_at(&bytes, commit_file_offset(&GEOMETRY, LogPosition(at))).unwrap();
            at += bytes.len() as u64;
        }
        let whole = 4 * (HEADER_BYTES + 64);
        assert!(commit_file.put_into(&log, LogPosition(start), salt(2)).unwrap());
        let mut bytes = vec![0; whole + HEADER_BYTES];
        log.read_at(LogPosition(start), &mut bytes).unwrap();
        assert_eq!(bytes[HEADER_BYTES], 0);
        assert_eq!(bytes[whole - 64..whole], [3; 64]);
        assert_eq!(bytes[whole..], [0; HEADER_BYTES]);
        assert!(!commit_file.put_into(&log, LogPosition(start + whole as u64), salt(2)).unwrap());
        assert!(!commit_file.put_into(&log, LogPosition(start), salt(3)).unwrap());
    }
}
