//! Log segments: a pool of files whose memory is there already, so that a program starts without waiting for
//! it, and the reading end of a session's log.

use crate::Error;
use crate::placement::SpareSegments;
use cuesta_format::geometry::{LOGS_FOLDER, segment_path};
use cuesta_format::superblock::Medium;
use cuesta_format::{Geometry, LogPosition, SegmentId};
use cuesta_media::emulate::Emulated;
use cuesta_media::{
    Mapping, Node, Nodes, Protection, UNFINISHED_EXTENSION, create_sparse, create_written, recorder,
};
use cuesta_oplog::LogSource;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The medium gives so much or nothing.
const SECTOR_BYTES: u64 = 4096;

/// What `st_blocks` counts in.
const STAT_BLOCK_BYTES: u64 = 512;

/// A segment and its open file.
#[derive(Clone, Debug)]
pub struct Segment {
    /// Its number.
    pub id: SegmentId,
    /// Its file, open for reading and writing.
    pub file: Arc<OwnedFd>,
    /// The disk did not take it once. The kernel tells of that once, and nobody knows what is there.
    is_unwritten: Arc<AtomicBool>,
    /// The medium does not give some of it.
    is_unreadable: Arc<AtomicBool>,
}

impl Segment {
    fn new(id: SegmentId, file: OwnedFd) -> Segment {
        Segment { id, file: Arc::new(file), is_unwritten: Arc::default(), is_unreadable: Arc::default() }
    }

    /// Reads from `offset` on, which may be less than asked for. What the medium does not give is read as zeros, in which no
    /// entry is valid that held something else: a scan ends there. A medium that gives nothing of it has failed, and is an error.
    pub(super) fn read(&self, out: &mut [u8], offset: u64) -> Result<usize, Errno> {
        match rustix::io::pread(&self.file, &mut *out, offset) {
            Err(Errno::IO) => {}
            read => return read,
        }
        let page = (SECTOR_BYTES - offset % SECTOR_BYTES).min(out.len() as u64) as usize;
        let (page, _) = out.split_at_mut(page);
        match rustix::io::pread(&self.file, &mut *page, offset) {
            Err(Errno::IO) if self.gives_anything() => {
                if !self.is_unreadable.swap(true, Ordering::Relaxed) {
                    tracing::error!(
                        segment = self.id.0,
                        offset,
                        "a log cannot be read: the medium does not give it"
                    );
                }
                page.fill(0);
                Ok(page.len())
            }
            read => read,
        }
    }

    /// Whether the medium gives a page of it at its beginning, middle or end; if none, it is the medium that has failed.
    fn gives_anything(&self) -> bool {
        let bytes = rustix::fs::fstat(&self.file).map_or(0, |found| found.st_size.unsigned_abs());
        let pages = [0, bytes / 2, bytes.saturating_sub(SECTOR_BYTES)];
        pages.iter().any(|&page| rustix::io::pread(&self.file, &mut [0; 1], page) == Ok(1))
    }

    /// Has the disk take all of it.
    fn sync(&self) -> Result<(), Error> {
        let failed = Error::errno("write a log segment");
        if self.is_unwritten.load(Ordering::Acquire) {
            return Err(failed(Errno::IO));
        }
        rustix::fs::fdatasync(&self.file).map_err(|errno| {
            self.is_unwritten.store(true, Ordering::Release);
            failed(errno)
        })?;
        recorder::record_file_sync(self.file.as_fd());
        Ok(())
    }
}

/// Segments nobody owns.
#[derive(Debug)]
pub struct SegmentPool {
    tier: PathBuf,
    segment_bytes: u64,
    spare: SpareSegments,
    nodes: Arc<Nodes>,
    next: SegmentId,
}

impl SegmentPool {
    /// Takes stock of the segments on the tier; those in `owned` are not spare.
    pub fn open(
        tier: &Path,
        geometry: &Geometry,
        owned: &BTreeSet<SegmentId>,
        nodes: &Arc<Nodes>,
    ) -> Result<SegmentPool, Error> {
        let mut pool = SegmentPool {
            tier: tier.to_owned(),
            segment_bytes: geometry.segment_bytes,
            spare: SpareSegments::default(),
            nodes: Arc::clone(nodes),
            next: SegmentId(owned.last().map_or(0, |last| last.0 + 1)),
        };
        for entry in std::fs::read_dir(tier.join(LOGS_FOLDER)).map_err(Error::io("list log segments"))? {
            let entry = entry.map_err(Error::io("list log segments"))?;
            if entry.path().extension().is_some_and(|extension| extension == UNFINISHED_EXTENSION) {
                cuesta_media::remove(&entry.path()).map_err(Error::io("remove a log segment"))?;
                continue;
            }
            let Some(id) = segment_number(&entry.file_name()) else { continue };
            pool.next = pool.next.max(SegmentId(id.0 + 1));
            let found = entry.metadata().map_err(Error::io("examine a log segment"))?;
            if found.len() != geometry.segment_bytes || owned.contains(&id) {
                continue;
            }
            if found.blocks() * STAT_BLOCK_BYTES < found.len() {
                // Its maker died before it had all its memory.
                cuesta_media::remove(&entry.path()).map_err(Error::io("remove a log segment"))?;
            } else {
                let node =
                    if nodes.are_several() { nodes.of_file(&open_segment(tier, id)?.file) } else { None };
                pool.spare.add(id, node);
            }
        }
        Ok(pool)
    }

    /// The number of a segment to make with [`make_segment`], without the pool, and to add.
    pub fn next_id(&mut self) -> SegmentId {
        let id = self.next;
        self.next = SegmentId(id.0 + 1);
        id
    }

    /// Adds a segment that nobody has. Where it lies the kernel says, which need not have followed what was preferred.
    pub fn add(&mut self, segment: &Segment) {
        self.spare.add(segment.id, self.nodes.of_file(&segment.file));
    }

    /// Segments ready to be taken.
    #[must_use]
    pub fn spare(&self) -> &SpareSegments {
        &self.spare
    }

    /// A spare segment for a session on `node`, if there is one; where one can be made, none of another node. What it holds is
    /// another session's past, which no salt of the new one fits.
    pub fn take_spare(&mut self, node: Option<Node>, can_be_made: bool) -> Option<Result<Segment, Error>> {
        self.spare.take(node, can_be_made).map(|id| open_segment(&self.tier, id))
    }

    /// A spare segment to remove, for one made on `node`: there are more than `kept`.
    pub fn take_surplus(&mut self, node: Option<Node>, kept: usize) -> Option<SegmentId> {
        node.and_then(|_| self.spare.take_surplus(kept))
    }

    /// Takes a segment back from a session that does not write any more, if it is still whole and can be read.
    pub fn give_back(&mut self, segment: &Segment) -> Result<(), Error> {
        let bytes = rustix::fs::fstat(&segment.file).map_err(Error::errno("examine a log segment"))?.st_size;
        if bytes as u64 == self.segment_bytes && !segment.is_unreadable.load(Ordering::Relaxed) {
            self.add(segment);
            return Ok(());
        }
        self.destroy(segment)
    }

    /// Removes a segment whose last owner may still write to it: its pages live as long as it maps them.
    pub fn destroy(&mut self, segment: &Segment) -> Result<(), Error> {
        remove_segment(&self.tier, segment.id)
    }
}

/// Removes the file of a segment.
pub fn remove_segment(tier: &Path, id: SegmentId) -> Result<(), Error> {
    cuesta_media::remove(&tier.join(segment_path(id))).map_err(Error::io("remove a log segment"))
}

/// Makes a segment, on a node if one is named: 2 MiB take a quarter of a millisecond as a huge page, and one otherwise.
pub fn make_segment(
    tier: &Path,
    segment_bytes: u64,
    medium: Medium,
    id: SegmentId,
    node: Option<Node>,
) -> Result<Segment, Error> {
    let path = tier.join(segment_path(id));
    if medium == Medium::Block {
        // A log is written to the disk by those who wait for it, and then nothing but its bytes.
        return Ok(Segment::new(id, create_written(&path, segment_bytes)?));
    }
    let file = create_sparse(&path, segment_bytes)?;
    // Mapped once, so that the kernel clears its pages here and not under the program that gets it.
    let mapping = Mapping::of_file(&file, 0, segment_bytes, Protection::ReadWrite, medium, false)?;
    if let Some(node) = node {
        mapping.prefer(node);
    }
    if let Err(error) = mapping.provide(&file, 0, segment_bytes, true) {
        // The error to report is the first one; what is left behind is removed when the store is opened.
        let _ = cuesta_media::remove(&path);
        return Err(error.into());
    }
    Ok(Segment::new(id, file))
}

/// Opens a segment that exists.
pub fn open_segment(tier: &Path, id: SegmentId) -> Result<Segment, Error> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let file = rustix::fs::open(tier.join(segment_path(id)), flags, Mode::empty())
        .map_err(Error::errno("open a log segment"))?;
    Ok(Segment::new(id, file))
}

fn segment_number(name: &std::ffi::OsStr) -> Option<SegmentId> {
    let digits = name.to_str()?.strip_prefix("seg-")?;
    digits.parse().ok().map(SegmentId)
}

/// The reading end of one session's log: its segment files in slot order.
#[derive(Clone, Debug)]
pub struct LogFiles {
    /// Sizes of the ring.
    pub geometry: Geometry,
    /// The segments of the slots granted so far.
    pub segments: Vec<Segment>,
    /// The medium that is played where they lie.
    pub emulated: Option<Arc<Emulated>>,
}

impl LogFiles {
    /// Bytes that can be read from `from` on: to the end of what is granted, or one lap.
    fn readable(&self, from: LogPosition) -> u64 {
        let granted = self.segments.len() as u64 * self.geometry.segment_bytes;
        if granted < self.geometry.ring_bytes() { granted.saturating_sub(from.0) } else { granted }
    }

    /// Copies up to `bytes_max` bytes from `from` on to the start of `buffer`, which grows to hold them; answers how
    /// many there were.
    pub fn copy_out(&self, from: LogPosition, bytes_max: u64, buffer: &mut Vec<u8>) -> io::Result<usize> {
        let bytes = self.readable(from).min(bytes_max) as usize;
        if buffer.len() < bytes {
            buffer.resize(bytes, 0);
        }
        let read = |out: &mut [u8]| self.read_at(from, out);
        let out = &mut buffer[..bytes];
        match &self.emulated {
            None => read(out)?,
            Some(emulated) => {
                let mut outcome = Ok(());
                emulated.read(bytes, || {
                    outcome = read(out);
                    0
                });
                outcome?;
            }
        }
        Ok(bytes)
    }
}

impl LogFiles {
    /// Where a position lies: in which segment, where in it, and how much of that lies ahead.
    pub(super) fn place(&self, position: LogPosition) -> io::Result<(&Segment, u64, usize)> {
        let inside = position.0 % self.geometry.segment_bytes;
        let segment = self.segments.get(self.geometry.slot(position) as usize);
        let segment = segment.ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok((segment, inside, (self.geometry.segment_bytes - inside) as usize))
    }

    /// Has the disk take what lies between two positions.
    pub fn sync(&self, from: LogPosition, to: LogPosition) -> Result<(), Error> {
        let segment_bytes = self.geometry.segment_bytes;
        let mut at = from;
        while at < to {
            let Some(segment) = self.segments.get(self.geometry.slot(at) as usize) else { return Ok(()) };
            segment.sync()?;
            at = LogPosition((at.0 / segment_bytes + 1) * segment_bytes);
        }
        Ok(())
    }
}

impl LogSource for LogFiles {
    fn read_at(&self, position: LogPosition, out: &mut [u8]) -> io::Result<()> {
        let mut done = 0;
        while done < out.len() {
            let (segment, inside, ahead) = self.place(position.plus(done as u64))?;
            let take = ahead.min(out.len() - done);
            let got = segment.read(&mut out[done..done + take], inside)?;
            recorder::record_file_read(&segment.file, inside, got);
            if got == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            done += got;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_whose_maker_died_is_not_spare() {
        let folder = tempfile::tempdir().unwrap();
        let tier = folder.path();
        std::fs::create_dir(tier.join(LOGS_FOLDER)).unwrap();
        let geometry = Geometry { segment_bytes: 64 << 10, ..Geometry::default() };
        make_segment(tier, geometry.segment_bytes, Medium::Memory, SegmentId(0), None).unwrap();
        create_sparse(&tier.join(segment_path(SegmentId(1))), geometry.segment_bytes).unwrap();
        let nameless = tier.join(segment_path(SegmentId(7))).with_extension(UNFINISHED_EXTENSION);
        std::fs::write(&nameless, []).unwrap();
        let mut pool = SegmentPool::open(tier, &geometry, &BTreeSet::new(), &Arc::default()).unwrap();
        assert!(!nameless.exists());
        assert_eq!(pool.spare().count(), 1);
        assert_eq!(pool.take_spare(None, true).unwrap().unwrap().id, SegmentId(0));
        assert!(!tier.join(segment_path(SegmentId(1))).exists());
        assert_eq!(pool.next, SegmentId(2));
    }
}
