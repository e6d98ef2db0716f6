//! Mechanism: a slower disk, played on the disk of a lower tier, as a [`DiskProfile`] asks.
//!
//! Each access tells the disk that is played ([`DiskTime`]), which answers when the access is over there. The thread
//! notes the latest such time, and waits for it when it holds no lock ([`settle`]). The real disk does its work
//! meanwhile, so the tier is never faster than that.
//!
//! The kernel's page cache is the cache in memory, here as there: a page that is in the cache costs nothing, and
//! missing pages are read from the disk when a program or SharedFS first needs them. A played mapping has the kernel
//! read the missing pages and no others, so that each page is counted.
//!
//! | a program's or SharedFS's | is played |
//! |---|---|
//! | read | missing pages, and pages that were read ahead and would still be on their way |
//! | write by LibFS | when the kernel takes it; the writer waits only while too much is on its way |
//! | write by SharedFS | when it asks for write-back or a flush, or much has been written: in order, neighbours at once |
//! | flush | all writes before it, then the flush |

use super::channel::{CHANNELS_BYTES, Channels};
use super::disk_time::{DiskTime, Span};
use super::emulated::now_ns;
use super::unwritten::Unwritten;
use crate::error::MediaError;
use crate::memory::shared::SharedMemory;
use cuesta_format::TierNumber;
use cuesta_format::disk_profile::{DiskProfile, DiskUse};
use rustix::fd::AsFd;
use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, Timespec};
use std::cell::Cell;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The words of a tier begin at its number times that, in the page that the processes of a store share. Those of the
/// fast tier come first.
const TIER_WORDS_BYTES: u64 = 256;
const READS_OFFSET: u64 = 0;
const WRITES_OFFSET: u64 = 64;
const HEAD_OFFSET: u64 = 128;
/// Counts of reads, writes and flushes.
const COUNT_OFFSETS: [u64; 3] = [192, 200, 208];
/// Ranges that may be read ahead at a time.
const AHEAD_MAX: usize = 64;
/// The kernel wakes a thread so much late at most, if it is not told otherwise. The rest of a wait looks at the clock.
const WAKES_LATE_NS: u64 = 60_000;

thread_local! {
    /// When the accesses of this thread are over.
    static OVER_NS: Cell<u64> = const { Cell::new(0) };
}

fn note(until_ns: u64) {
    OVER_NS.set(OVER_NS.get().max(until_ns));
}

/// Waits until this thread's accesses of played disks are over. Call it without a lock that others need.
#[inline]
pub fn settle() {
    if OVER_NS.get() > 0 {
        wait_until(OVER_NS.take());
    }
}

#[cold]
fn wait_until(over_ns: u64) {
    loop {
        let now_ns = now_ns();
        if now_ns >= over_ns {
            return;
        }
        if over_ns - now_ns > WAKES_LATE_NS {
            let wake_ns = over_ns - WAKES_LATE_NS;
            let time = Timespec {
                tv_sec: (wake_ns / 1_000_000_000) as i64,
                tv_nsec: (wake_ns % 1_000_000_000) as i64,
            };
            // A signal may end it early.
            let _ = clock_nanosleep_absolute(ClockId::Monotonic, &time);
        }
    }
}

/// A disk that is played, as this process has it.
#[derive(Debug)]
pub struct PlayedDisk {
    profile: DiskProfile,
    channels: Channels,
    words: u64,
    /// Ranges of the tier that are read ahead, and until when.
    ahead: Mutex<Vec<(Range<u64>, u64)>>,
    unwritten: Mutex<Unwritten>,
    /// This process wrote since its last flush.
    is_dirty: AtomicBool,
}

impl PlayedDisk {
    /// The disk of a lower tier. Its processes share the words in `channels`, which holds [`CHANNELS_BYTES`].
    pub fn new(
        profile: DiskProfile,
        tier: TierNumber,
        channels: impl AsFd,
    ) -> Result<Arc<PlayedDisk>, MediaError> {
        let words = u64::from(tier.0) * TIER_WORDS_BYTES;
        if words + TIER_WORDS_BYTES > CHANNELS_BYTES {
            return Err(MediaError::Short { expected: words + TIER_WORDS_BYTES, found: CHANNELS_BYTES });
        }
        let channels = Channels::of_file(channels)?;
        Ok(Arc::new(PlayedDisk {
            profile,
            channels,
            words,
            ahead: Mutex::default(),
            unwritten: Mutex::default(),
            is_dirty: AtomicBool::new(false),
        }))
    }

    /// The profile that is played.
    #[must_use]
    pub fn profile(&self) -> DiskProfile {
        self.profile
    }

    fn word(&self, offset: u64) -> &AtomicU64 {
        self.channels.word(self.words + offset)
    }

    fn time(&self) -> DiskTime<'_> {
        DiskTime {
            profile: self.profile,
            reads_until: self.word(READS_OFFSET),
            writes_until: self.word(WRITES_OFFSET),
            head: self.word(HEAD_OFFSET),
        }
    }

    fn count(&self, offset: u64) {
        self.word(offset).fetch_add(1, Ordering::Relaxed);
    }

    /// Accesses of all processes.
    #[must_use]
    pub fn used(&self) -> DiskUse {
        let [reads, writes, flushes] = COUNT_OFFSETS.map(|offset| self.word(offset).load(Ordering::Relaxed));
        DiskUse { reads, writes, flushes }
    }

    /// A thread is about to read a part of mapped memory that begins at `begins` in the tier.
    pub fn read(&self, memory: &SharedMemory, begins: u64, offset: u64, bytes: u64) {
        note(self.fetch(memory, begins, offset, bytes));
        let now_ns = now_ns();
        let read = begins + offset..begins + offset + bytes;
        let mut ahead = self.ahead.lock().unwrap_or_else(PoisonError::into_inner);
        ahead.retain(|(_, until_ns)| *until_ns > now_ns);
        ahead
            .iter()
            .filter(|(range, _)| range.start < read.end && read.start < range.end)
            .for_each(|(_, until_ns)| note(*until_ns));
    }

    /// As [`PlayedDisk::read`], but no thread needs it yet.
    pub fn read_ahead(&self, memory: &SharedMemory, begins: u64, offset: u64, bytes: u64) {
        let until_ns = self.fetch(memory, begins, offset, bytes);
        if until_ns > 0 {
            let mut ahead = self.ahead.lock().unwrap_or_else(PoisonError::into_inner);
            if ahead.len() < AHEAD_MAX {
                ahead.push((begins + offset..begins + offset + bytes, until_ns));
            }
        }
    }

    /// Has the kernel read the missing pages. Answers when the disk that is played has them; 0: none is missing.
    fn fetch(&self, memory: &SharedMemory, begins: u64, offset: u64, bytes: u64) -> u64 {
        let missing = memory.missing(offset, bytes);
        missing.into_iter().fold(0, |over_ns, pages| {
            let bytes = pages.end - pages.start;
            self.count(COUNT_OFFSETS[0]);
            let until_ns = self.time().read(now_ns(), Span { at: begins + pages.start, bytes });
            memory.will_need(pages.start, bytes);
            over_ns.max(until_ns)
        })
    }

    /// The kernel took bytes that the disk is to write, now.
    pub fn written(&self, at: u64, bytes: u64) {
        self.count(COUNT_OFFSETS[1]);
        note(self.time().write(now_ns(), Span { at, bytes }));
    }

    /// The kernel took bytes that the disk is to write some time.
    pub fn dirtied(&self, at: u64, bytes: u64) {
        self.is_dirty.store(true, Ordering::Release);
        let is_much = self.unwritten().add(Span { at, bytes });
        if is_much {
            self.begin_writing();
        }
    }

    fn unwritten(&self) -> std::sync::MutexGuard<'_, Unwritten> {
        self.unwritten.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin_writing(&self) {
        let spans = self.unwritten().take();
        spans.for_each(|span| self.written(span.at, span.bytes));
    }

    /// The disk writes everything that waits.
    pub fn write_back(&self) {
        self.begin_writing();
        note(self.time().writes_end(now_ns()));
    }

    /// As [`PlayedDisk::flush`], if SharedFS wrote since the last one.
    pub fn flush_written(&self) {
        if self.is_dirty.load(Ordering::Acquire) {
            self.flush();
        }
    }

    /// The disk writes everything that waits, and makes it durable.
    pub fn flush(&self) {
        self.is_dirty.store(false, Ordering::Release);
        self.begin_writing();
        self.count(COUNT_OFFSETS[2]);
        note(self.time().flush(now_ns()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emulate::Emulated;
    use crate::{Mapping, Protection};
    use cuesta_format::Medium;
    use rustix::fs::Advice;
    use std::fs::File;

    const SECOND_NS: u64 = 1_000_000_000;

    fn played(text: &str, channels: impl AsFd) -> Arc<PlayedDisk> {
        PlayedDisk::new(text.parse().unwrap(), TierNumber(8), channels).unwrap()
    }

    /// When this thread's accesses are over, from now on; nothing waits.
    fn left_ns() -> u64 {
        OVER_NS.take().saturating_sub(now_ns())
    }

    #[test]
    fn pages_that_are_missing_are_paid_for_and_others_are_not() {
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, [7; 64 * 4096]).unwrap();
        let file = File::open(&path).unwrap();
        file.sync_all().unwrap();
        let memory = Mapping::open(&path, Protection::ReadOnly, Medium::Block).unwrap();
        memory.read_no_more_than_needed();
        let disk = played("read_ns=1000000000", Emulated::make_channels().unwrap());
        disk.read(&memory, 0, 0, 64 * 4096);
        assert_eq!(left_ns(), 0, "all is in the cache");
        rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        disk.read_ahead(&memory, 0, 0, 8192);
        assert_eq!(left_ns(), 0, "no thread needs it yet");
        memory.read(0, &mut [0; 8192]).unwrap();
        disk.read(&memory, 0, 4096, 4096);
        assert!(left_ns() > SECOND_NS / 2, "it would still be on its way");
        disk.read(&memory, 0, 16 * 4096, 4096);
        assert!(left_ns() > SECOND_NS / 2, "it was missing");
        memory.read(16 * 4096, &mut [0; 4096]).unwrap();
        disk.read(&memory, 0, 16 * 4096, 4096);
        assert_eq!(left_ns(), 0, "it was read");
        assert_eq!(disk.used(), DiskUse { reads: 2, writes: 0, flushes: 0 });
    }

    #[test]
    fn processes_share_a_disk_and_tiers_share_nothing() {
        let file = Emulated::make_channels().unwrap();
        let [one, other] = [(); 2].map(|()| played("write_mb_s=10", &file));
        let of_another_tier =
            PlayedDisk::new("write_mb_s=10".parse().unwrap(), TierNumber(7), &file).unwrap();
        one.written(0, 20_000_000);
        assert!(left_ns() > SECOND_NS, "two seconds of writes are on their way, a fifth of one may be");
        other.flush();
        assert!(left_ns() > SECOND_NS);
        of_another_tier.flush();
        assert_eq!(left_ns(), 0);
        assert!(PlayedDisk::new(DiskProfile::default(), TierNumber(16), &file).is_err());
    }

    #[test]
    fn what_is_written_some_time_is_paid_for_by_the_flush() {
        let disk = played("write_mb_s=10,seek_ns=1", Emulated::make_channels().unwrap());
        disk.dirtied(5_000_000, 5_000_000);
        disk.dirtied(0, 5_000_000);
        assert_eq!((left_ns(), disk.time().writes_until.load(Ordering::Relaxed)), (0, 0));
        disk.write_back();
        let left_of_write_back = left_ns();
        assert!(left_of_write_back > SECOND_NS / 2, "{left_of_write_back}");
        disk.flush_written();
        let left_of_flush = left_ns();
        assert!((1..=left_of_write_back).contains(&left_of_flush), "it is written once");
        disk.flush_written();
        assert_eq!(left_ns(), 0, "there is nothing to flush");
        assert_eq!(disk.used(), DiskUse { reads: 0, writes: 1, flushes: 1 }, "neighbours are one write");
        settle();
    }
}
