//! Log segments: a pool of files whose memory is there already, so that a program starts without waiting for
//! it, and the reading end of a session's log.

use crate::Error;
use crate::tiers::SpareSegments;
use crate::tiers::{Part, Parts};
use cuesta_format::geometry::{LOGS_FOLDER, segment_path};
use cuesta_format::superblock::Medium;
use cuesta_format::{Geometry, LogPosition, SegmentId};
use cuesta_media::emulate::Emulated;
use cuesta_media::{Mapping, Node, Nodes, Protection, UNFINISHED_EXTENSION, create_written, recorder};
use cuesta_oplog::LogSource;
use rustix::fs::{MemfdFlags, OFlags, memfd_create};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
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
    /// Where it lies, open for reading and writing.
    pub part: Part,
    /// Where it can only be mapped: its memory.
    mapped: Option<Arc<Mapping>>,
    /// The disk did not take it once. The kernel tells of that once, and the content is unknown.
    is_unwritten: Arc<AtomicBool>,
    /// The medium does not give some of it.
    is_unreadable: Arc<AtomicBool>,
    /// What its file lacks is read as zeros.
    is_padded: bool,
}

impl Segment {
    fn new(id: SegmentId, part: Part, mapped: Option<Arc<Mapping>>) -> Segment {
        Segment {
            id,
            part,
            mapped,
            is_unwritten: Arc::default(),
            is_unreadable: Arc::default(),
            is_padded: false,
        }
    }

    /// Reads the bytes that the medium gives, by a call or in its memory.
    fn read_some(&self, out: &mut [u8], offset: u64) -> Result<usize, Errno> {
        let Some(mapped) = &self.mapped else { return rustix::io::pread(&self.part.file, out, offset) };
        let bytes = out.len().min(self.part.bytes.saturating_sub(offset) as usize);
        mapped.read(offset, &mut out[..bytes]).map_err(|_| Errno::IO)?;
        Ok(bytes)
    }

    /// Reads from `offset` on, which may be less than asked for. Bytes that the medium does not give are read
    /// as zeros. No entry that held something else is valid in them: a scan ends there. A medium that gives
    /// nothing of it has failed, and is an error.
    pub(super) fn read(&self, out: &mut [u8], offset: u64) -> Result<usize, Errno> {
        match self.read_some(out, offset) {
            Err(Errno::IO) => {}
            Ok(0) if self.is_padded => {
                let bytes = out.len().min(self.part.bytes.saturating_sub(offset) as usize);
                out[..bytes].fill(0);
                return Ok(bytes);
            }
            read => return read,
        }
        let page = (SECTOR_BYTES - offset % SECTOR_BYTES).min(out.len() as u64) as usize;
        let (page, _) = out.split_at_mut(page);
        match self.read_some(page, offset) {
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
        let bytes = self.len().unwrap_or(0);
        let pages = [0, bytes / 2, bytes.saturating_sub(SECTOR_BYTES)];
        pages.iter().any(|&page| self.read_some(&mut [0; 1], page) == Ok(1))
    }

    /// Whether its file is missing, or was cut.
    #[must_use]
    pub fn is_short(&self) -> bool {
        self.len().is_ok_and(|bytes| bytes < self.part.bytes)
    }

    /// How long it is now: its session may have cut it.
    fn len(&self) -> Result<u64, Errno> {
        match &self.mapped {
            Some(mapped) => Ok(mapped.len()),
            None => Ok(rustix::fs::fstat(&self.part.file)?.st_size.unsigned_abs()),
        }
    }

    /// Has the disk take all of it.
    fn sync(&self) -> Result<(), Error> {
        let failed = Error::errno("write a log segment");
        if self.is_unwritten.load(Ordering::Acquire) {
            return Err(failed(Errno::IO));
        }
        rustix::fs::fdatasync(&self.part.file).map_err(|errno| {
            self.is_unwritten.store(true, Ordering::Release);
            failed(errno)
        })?;
        recorder::record_file_sync(self.part.file.as_fd());
        Ok(())
    }
}

/// Segments without an owner.
#[derive(Debug)]
pub struct SegmentPool {
    parts: Arc<Parts>,
    segment_bytes: u64,
    spare: SpareSegments,
    nodes: Arc<Nodes>,
    next: SegmentId,
}

impl SegmentPool {
    /// Takes stock of the segments on the tier; those in `owned` are not spare.
    pub fn open(
        parts: &Arc<Parts>,
        geometry: &Geometry,
        owned: &BTreeSet<SegmentId>,
        nodes: &Arc<Nodes>,
    ) -> Result<SegmentPool, Error> {
        let mut pool = SegmentPool {
            parts: Arc::clone(parts),
            segment_bytes: geometry.segment_bytes,
            spare: SpareSegments::default(),
            nodes: Arc::clone(nodes),
            next: SegmentId(owned.last().map_or(0, |last| last.0 + 1)),
        };
        for entry in
            std::fs::read_dir(parts.tier().join(LOGS_FOLDER)).map_err(Error::io("list log segments"))?
        {
            let entry = entry.map_err(Error::io("list log segments"))?;
            if entry.path().extension().is_some_and(|extension| extension == UNFINISHED_EXTENSION) {
                cuesta_media::remove(&entry.path()).map_err(Error::io("remove a log segment"))?;
                continue;
            }
            let is_left = parts.is_left(&entry.path()).map_err(Error::io("remove a log segment"))?;
            let name = if is_left {
                entry.path().file_stem().map(ToOwned::to_owned)
            } else {
                Some(entry.file_name())
            };
            let Some(id) = name.as_deref().and_then(segment_number) else { continue };
            pool.next = pool.next.max(SegmentId(id.0 + 1));
            if is_left {
                continue;
            }
            if parts.is_device() {
                // It had its memory before it had its file.
                if !owned.contains(&id) {
                    pool.spare.add(id, None);
                }
                continue;
            }
            let found = entry.metadata().map_err(Error::io("examine a log segment"))?;
            if found.len() != geometry.segment_bytes || owned.contains(&id) {
                continue;
            }
            if found.blocks() * STAT_BLOCK_BYTES < found.len() {
                // Its maker died before it had all its memory.
                cuesta_media::remove(&entry.path()).map_err(Error::io("remove a log segment"))?;
            } else {
                let segment = || open_segment(parts, geometry.segment_bytes, id);
                let node = if nodes.are_several() { nodes.of_file(&segment()?.part.file) } else { None };
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

    /// Adds a segment without an owner. The kernel says where it lies, which need not have followed the
    /// preferred node.
    pub fn add(&mut self, segment: &Segment) {
        self.spare.add(segment.id, self.nodes.of_file(&segment.part.file));
    }

    /// Segments ready to be taken.
    #[must_use]
    pub fn spare(&self) -> &SpareSegments {
        &self.spare
    }

    /// A spare segment for a session on `node`, if there is one; where one can be made, none of another node.
    /// It holds another session's past, which no salt of the new one fits.
    pub fn take_spare(&mut self, node: Option<Node>, can_be_made: bool) -> Option<Result<Segment, Error>> {
        self.spare.take(node, can_be_made).map(|id| open_segment(&self.parts, self.segment_bytes, id))
    }

    /// A spare segment to remove, for one made on `node`: there are more than `kept`.
    pub fn take_surplus(&mut self, node: Option<Node>, kept: usize) -> Option<SegmentId> {
        node.and_then(|_| self.spare.take_surplus(kept))
    }

    /// Takes a segment back from a session that does not write any more, if it is still whole and can be read.
    pub fn give_back(&mut self, segment: &Segment) -> Result<(), Error> {
        let bytes = segment.len().map_err(Error::errno("examine a log segment"))?;
        if bytes == self.segment_bytes && !segment.is_unreadable.load(Ordering::Relaxed) {
            self.add(segment);
            return Ok(());
        }
        self.destroy(segment)
    }

    /// Removes a segment whose last owner may still write to it.
    pub fn destroy(&mut self, segment: &Segment) -> Result<(), Error> {
        remove_segment(&self.parts, segment.id)
    }
}

/// Removes a segment, see [`Parts::remove`]. One that is missing was to go.
pub fn remove_segment(parts: &Parts, id: SegmentId) -> Result<(), Error> {
    match parts.remove(&segment_path(id)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.map_err(Error::io("remove a log segment")),
    }
}

/// Makes a segment, on a node if one is named: 2 MiB take a quarter of a millisecond as a huge page, and one otherwise.
pub fn make_segment(
    parts: &Parts,
    segment_bytes: u64,
    medium: Medium,
    id: SegmentId,
    node: Option<Node>,
) -> Result<Segment, Error> {
    let path = segment_path(id);
    if medium == Medium::Block {
        // Sessions that wait write a log to the disk, and then nothing but its bytes.
        let file = Arc::new(create_written(&parts.tier().join(path), segment_bytes)?);
        return Ok(Segment::new(id, Part { file, offset: 0, bytes: segment_bytes }, None));
    }
    let part = parts.make(&path, segment_bytes)?;
    // Mapped once, so that the kernel clears its pages here and not under the program that gets it.
    let mapping = part.map(Protection::ReadWrite, medium)?;
    if let Some(node) = node {
        mapping.prefer(node);
    }
    if let Err(error) = mapping.provide(&*part.file, 0, segment_bytes, true) {
        // The error to report is the first one; a segment left behind is removed when the store is opened.
        let _ = parts.remove(&path);
        return Err(error.into());
    }
    let mapped = parts.is_device().then(|| Arc::new(mapping));
    Ok(Segment::new(id, part, mapped))
}

/// Opens a segment that exists.
pub fn open_segment(parts: &Parts, segment_bytes: u64, id: SegmentId) -> Result<Segment, Error> {
    let part = parts.part(&segment_path(id), segment_bytes, OFlags::RDWR)?;
    let mapped =
        if parts.is_device() { Some(Arc::new(part.map(Protection::ReadWrite, Medium::Pmem)?)) } else { None };
    Ok(Segment::new(id, part, mapped))
}

/// Opens a segment of a log that is recovered or checked. One that is missing, or was cut, has zeros where it lacks
/// bytes: the rest of the log is read all the same.
pub fn open_segment_padded(parts: &Parts, segment_bytes: u64, id: SegmentId) -> Result<Segment, Error> {
    match open_segment(parts, segment_bytes, id) {
        Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound && !parts.is_device() => {
            let stand_in = memfd_create("cuesta-missing", MemfdFlags::CLOEXEC);
            let stand_in = stand_in.map_err(Error::errno("make a stand-in for a log segment"))?;
            let part = Part { file: Arc::new(stand_in), offset: 0, bytes: segment_bytes };
            Ok(Segment { is_padded: true, ..Segment::new(id, part, None) })
        }
        opened => Ok(Segment { is_padded: true, ..opened? }),
    }
}

/// Descriptors of segments, to send.
pub fn copies(segments: &[Segment]) -> Result<Vec<OwnedFd>, Error> {
    let files = segments.iter().map(|segment| segment.part.file.try_clone());
    files.collect::<Result<_, _>>().map_err(Error::io("copy a descriptor"))
}

/// Where in their files they begin.
pub fn offsets(segments: &[Segment]) -> Vec<u64> {
    segments.iter().map(|segment| segment.part.offset).collect()
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
    /// Bytes that can be read from `from` on: to the end of the granted segments, or one lap.
    pub fn readable(&self, from: LogPosition) -> u64 {
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
    /// Whether a segment of it is missing, or was cut.
    #[must_use]
    pub fn is_short(&self) -> bool {
        self.segments.iter().any(Segment::is_short)
    }

    /// Whether the file that holds a position is missing, or ends before it.
    #[must_use]
    pub fn lacks(&self, position: LogPosition) -> bool {
        let Ok((segment, inside, _)) = self.place(position) else { return false };
        segment.len().is_ok_and(|bytes| bytes < segment.part.bytes && bytes <= inside)
    }

    /// Where a position lies: in which segment, where in it, and how much of that lies ahead.
    pub(super) fn place(&self, position: LogPosition) -> io::Result<(&Segment, u64, usize)> {
        let inside = position.0 % self.geometry.segment_bytes;
        let segment = self.segments.get(self.geometry.slot(position) as usize);
        let segment = segment.ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok((segment, inside, (self.geometry.segment_bytes - inside) as usize))
    }

    /// Has the disk take the bytes between two positions.
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
            recorder::record_file_read(&segment.part.file, inside, got);
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
    use cuesta_format::StoreId;

    #[test]
    fn a_segment_whose_maker_died_is_not_spare() {
        let folder = tempfile::tempdir().unwrap();
        let tier = folder.path();
        std::fs::create_dir(tier.join(LOGS_FOLDER)).unwrap();
        let geometry = Geometry { segment_bytes: 64 << 10, ..Geometry::default() };
        let parts = Parts::open(tier, StoreId([0; 16]), &geometry).unwrap();
        make_segment(&parts, geometry.segment_bytes, Medium::Memory, SegmentId(0), None).unwrap();
        cuesta_media::create_sparse(&tier.join(segment_path(SegmentId(1))), geometry.segment_bytes).unwrap();
        let nameless = tier.join(segment_path(SegmentId(7))).with_extension(UNFINISHED_EXTENSION);
        std::fs::write(&nameless, []).unwrap();
        let mut pool = SegmentPool::open(&parts, &geometry, &BTreeSet::new(), &Arc::default()).unwrap();
        assert!(!nameless.exists());
        assert_eq!(pool.spare().count(), 1);
        assert_eq!(pool.take_spare(None, true).unwrap().unwrap().id, SegmentId(0));
        assert!(!tier.join(segment_path(SegmentId(1))).exists());
        assert_eq!(pool.next, SegmentId(2));
    }
}
