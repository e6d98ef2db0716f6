//! The figures of a disk, measured the way the store uses a lower tier: reads by a mapping of the page cache, writes by
//! calls, flushes. The cache is emptied of the scratch file before it is read.

use super::channel::transfer_ns;
use super::disk_time::{DiskTime, Span};
use super::emulated::Emulated;
use super::played_disk::{PlayedDisk, settle};
use crate::disk::called;
use crate::disk::gathered::flush_file;
use crate::error::{AccessError, MediaError};
use crate::memory::mapping::Mapping;
use crate::memory::pages::Protection;
use cuesta_format::disk_profile::DiskProfile;
use cuesta_format::{Medium, TierNumber};
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::fs::{Advice, Mode, OFlags};
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

/// Bytes of an access whose latency is measured.
const SMALL_BYTES: u64 = 4096;
/// Bytes of an access whose bandwidth is measured, and how far ahead of it the disk reads.
const PIECE_BYTES: u64 = 1 << 20;
const AHEAD_BYTES: u64 = 4 << 20;
/// How long a bandwidth and a latency are measured, and how many samples a latency takes at least.
const BANDWIDTH_TIME: Duration = Duration::from_secs(1);
const LATENCY_TIME: Duration = Duration::from_millis(500);
const SAMPLES_LEAST: usize = 8;
/// One of so many samples is faster than the latency that is told: others use the disk, too.
const FASTER_PART: usize = 4;
/// Pages that are read one behind the other lie so far from each other.
const STRIDE_PAGES: u64 = 7919;

/// The figures that a program gets of a disk. In figures that are asked for, 0 means: as the disk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskFigures {
    /// How long a read of 4 KiB at a random place takes, in nanoseconds.
    pub read_ns: u64,
    /// How long a write of 4 KiB at a random place takes, with the flush behind it, in nanoseconds.
    pub flushed_write_ns: u64,
    /// Millions of bytes a second that one reader gets from front to back.
    pub read_mb_s: u64,
    /// Millions of bytes a second that one writer gets from front to back, with the flush at the end.
    pub write_mb_s: u64,
}

impl DiskFigures {
    /// The figures that a profile asks for.
    #[must_use]
    pub fn of(profile: DiskProfile) -> DiskFigures {
        let words = [const { AtomicU64::new(0) }; 3];
        let [reads_until, writes_until, head] = &words;
        let disk = DiskTime { profile, reads_until, writes_until, head };
        let DiskProfile { read_ns, write_ns, seek_ns, flush_ns, read_mb_s, write_mb_s } = profile;
        let begins_ns = 1;
        let read = disk.read(begins_ns, Span { at: SMALL_BYTES, bytes: SMALL_BYTES }) - begins_ns;
        disk.write(begins_ns, Span { at: 1 << 40, bytes: SMALL_BYTES });
        let later_ns = begins_ns + read;
        let flushed = disk.flush(later_ns) - later_ns;
        DiskFigures {
            read_ns: if read_ns + seek_ns == 0 { 0 } else { read },
            flushed_write_ns: if write_ns + seek_ns + flush_ns == 0 { 0 } else { flushed },
            read_mb_s,
            write_mb_s,
        }
    }
}

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskRow {
    /// [`DiskFigures::read_ns`].
    RandomRead,
    /// [`DiskFigures::flushed_write_ns`].
    FlushedWrite,
    /// [`DiskFigures::read_mb_s`].
    SequentialRead,
    /// [`DiskFigures::write_mb_s`].
    SequentialWrite,
}

impl DiskRow {
    /// All there are.
    pub const ALL: [DiskRow; 4] =
        [DiskRow::RandomRead, DiskRow::FlushedWrite, DiskRow::SequentialRead, DiskRow::SequentialWrite];

    /// Its name for programs.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            DiskRow::RandomRead => "read_ns",
            DiskRow::FlushedWrite => "write_ns",
            DiskRow::SequentialRead => "read_mb_s",
            DiskRow::SequentialWrite => "write_mb_s",
        }
    }

    /// Its name for people.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            DiskRow::RandomRead => "random read of 4 KiB",
            DiskRow::FlushedWrite => "random write of 4 KiB and flush",
            DiskRow::SequentialRead => "sequential read",
            DiskRow::SequentialWrite => "sequential write",
        }
    }

    /// Whether less of it is faster.
    #[must_use]
    pub const fn is_latency(self) -> bool {
        matches!(self, DiskRow::RandomRead | DiskRow::FlushedWrite)
    }

    /// Its value.
    #[must_use]
    pub const fn of(self, figures: &DiskFigures) -> u64 {
        match self {
            DiskRow::RandomRead => figures.read_ns,
            DiskRow::FlushedWrite => figures.flushed_write_ns,
            DiskRow::SequentialRead => figures.read_mb_s,
            DiskRow::SequentialWrite => figures.write_mb_s,
        }
    }

    /// A value as people write it.
    #[must_use]
    pub fn written(self, value: u64) -> String {
        match (self.is_latency(), value) {
            (true, 0..1_000_000) => format!("{}.{} µs", value / 1000, value % 1000 / 100),
            (true, _) => format!("{}.{} ms", value / 1_000_000, value % 1_000_000 / 100_000),
            (false, 0..1000) => format!("{value} MB/s"),
            (false, _) => format!("{}.{} GB/s", value / 1000, value % 1000 / 100),
        }
    }
}

/// A file on a disk that only this process uses, gone when this is dropped.
#[derive(Debug)]
pub struct ScratchFile {
    file: OwnedFd,
    bytes: u64,
}

impl ScratchFile {
    /// Makes it in `folder`, of whole mebibytes.
    pub fn new(folder: &Path, bytes: u64) -> Result<ScratchFile, MediaError> {
        let fail = MediaError::system("make a scratch file");
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let file = rustix::fs::open(folder, flags, Mode::RUSR | Mode::WUSR).map_err(&fail)?;
        let scratch = ScratchFile { file, bytes: bytes / PIECE_BYTES * PIECE_BYTES };
        let piece = vec![0x5a; PIECE_BYTES as usize];
        for at in scratch.pieces() {
            called::write(scratch.file.as_fd(), at, &piece).1.map_err(&fail)?;
        }
        flush_file(scratch.file.as_fd()).map_err(&fail)?;
        Ok(scratch)
    }

    fn pieces(&self) -> impl Iterator<Item = u64> + use<> {
        (0..self.bytes).step_by(PIECE_BYTES as usize)
    }

    /// Places of small accesses, far from each other.
    fn places(&self) -> impl Iterator<Item = u64> + use<> {
        let pages = self.bytes / SMALL_BYTES;
        (1..pages).map(move |number| number * STRIDE_PAGES % pages * SMALL_BYTES)
    }

    /// How long it is.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The figures of the disk, while `profile` is played on it.
    pub fn measure(&self, profile: DiskProfile) -> Result<DiskFigures, AccessError> {
        let unwritten = |error: MediaError| AccessError::Unwritten(error.errno());
        let channels = Emulated::make_channels().map_err(unwritten)?;
        let disk = PlayedDisk::new(profile, TierNumber(1), channels).map_err(unwritten)?;
        Ok(DiskFigures {
            read_ns: self.read_latency(&disk)?,
            flushed_write_ns: self.write_latency(&disk)?,
            read_mb_s: self.read_bandwidth(&disk)?,
            write_mb_s: self.write_bandwidth(&disk)?,
        })
    }

    /// The file, of which nothing is in the page cache.
    fn uncached(&self) -> Result<Mapping, AccessError> {
        flush_file(self.file.as_fd()).map_err(AccessError::Unwritten)?;
        rustix::fs::fadvise(&self.file, 0, None, Advice::DontNeed).map_err(AccessError::Unwritten)?;
        let mapping = Mapping::of_file(&self.file, 0, self.bytes, Protection::ReadOnly, Medium::Block, false)
            .map_err(|error| AccessError::Unwritten(error.errno()))?;
        mapping.read_no_more_than_needed();
        Ok(mapping)
    }

    /// Whether the kernel lets go of pages of it, so that reads reach a disk.
    pub fn leaves_memory(&self) -> Result<bool, AccessError> {
        Ok(!self.uncached()?.missing(0, self.bytes).is_empty())
    }

    fn read_latency(&self, disk: &PlayedDisk) -> Result<u64, AccessError> {
        let mapping = self.uncached()?;
        latency(self.places(), |at| {
            disk.read(&mapping, 0, at, SMALL_BYTES);
            mapping.read(at, &mut [0; SMALL_BYTES as usize])
        })
    }

    fn write_latency(&self, disk: &PlayedDisk) -> Result<u64, AccessError> {
        latency(self.places(), |at| {
            let bytes = [at as u8; SMALL_BYTES as usize];
            called::write(self.file.as_fd(), at, &bytes).1.map_err(AccessError::Unwritten)?;
            disk.written(at, SMALL_BYTES);
            disk.flush();
            flush_file(self.file.as_fd()).map_err(AccessError::Unwritten)
        })
    }

    fn read_bandwidth(&self, disk: &PlayedDisk) -> Result<u64, AccessError> {
        let mapping = self.uncached()?;
        let mut piece = vec![0; PIECE_BYTES as usize];
        let began = Instant::now();
        let mut done = 0;
        for at in self.pieces().take_while(|_| began.elapsed() < BANDWIDTH_TIME) {
            let ahead = at + if at == 0 { 0 } else { AHEAD_BYTES - PIECE_BYTES };
            let bytes = if at == 0 { AHEAD_BYTES } else { PIECE_BYTES };
            disk.read_ahead(&mapping, 0, ahead, bytes.min(self.bytes.saturating_sub(ahead)));
            disk.read(&mapping, 0, at, PIECE_BYTES);
            mapping.read(at, &mut piece)?;
            settle();
            done += PIECE_BYTES;
        }
        Ok(bandwidth(done, began))
    }

    fn write_bandwidth(&self, disk: &PlayedDisk) -> Result<u64, AccessError> {
        let piece = vec![0xa5; PIECE_BYTES as usize];
        let began = Instant::now();
        let mut done = 0;
        for at in self.pieces().take_while(|_| began.elapsed() < BANDWIDTH_TIME) {
            called::write(self.file.as_fd(), at, &piece).1.map_err(AccessError::Unwritten)?;
            disk.written(at, PIECE_BYTES);
            settle();
            done += PIECE_BYTES;
        }
        disk.flush();
        flush_file(self.file.as_fd()).map_err(AccessError::Unwritten)?;
        settle();
        Ok(bandwidth(done, began))
    }
}

/// How long one access takes.
fn latency(
    places: impl Iterator<Item = u64>,
    mut access: impl FnMut(u64) -> Result<(), AccessError>,
) -> Result<u64, AccessError> {
    let mut samples: Vec<u64> = Vec::new();
    let began = Instant::now();
    for at in places {
        if samples.len() >= SAMPLES_LEAST && began.elapsed() >= LATENCY_TIME {
            break;
        }
        let started = Instant::now();
        access(at)?;
        settle();
        samples.push(started.elapsed().as_nanos() as u64);
    }
    samples.sort_unstable();
    Ok(samples.get(samples.len() / FASTER_PART).copied().unwrap_or_default())
}

fn bandwidth(bytes: u64, began: Instant) -> u64 {
    let ns = began.elapsed().as_nanos().max(1) as u64;
    // The same formula gives bandwidth for time, and time for bandwidth.
    transfer_ns(bytes, ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_comes_to_what_its_accesses_take() {
        let of = |text: &str| DiskFigures::of(text.parse().unwrap());
        let nvme = of("nvme");
        assert_eq!((nvme.read_ns, nvme.flushed_write_ns), (120_000, 30_000));
        let hdd = of("hdd");
        assert_eq!((hdd.read_ns, hdd.flushed_write_ns), (10_040_960, 10_040_960));
        assert_eq!((hdd.read_mb_s, hdd.write_mb_s), (100, 100));
        assert_eq!(of("flush_ns=5000,write_ns=1000").flushed_write_ns, 6000);
        let unasked = of("read_mb_s=100");
        assert_eq!((unasked.read_ns, unasked.flushed_write_ns, unasked.write_mb_s), (0, 0, 0));
    }

    #[test]
    fn a_disk_that_is_played_is_not_faster_than_asked() {
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let scratch = ScratchFile::new(folder.path(), 8 << 20).unwrap();
        assert!(scratch.leaves_memory().unwrap());
        let profile = "read_ns=3000000,write_ns=2000000,read_mb_s=80,write_mb_s=50".parse().unwrap();
        let found = scratch.measure(profile).unwrap();
        assert!(found.read_ns >= 3_000_000 && found.flushed_write_ns >= 2_000_000, "{found:?}");
        assert!(found.read_mb_s <= 81 && found.write_mb_s <= 51, "{found:?}");
    }
}
