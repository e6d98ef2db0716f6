//! Policy: how long a disk that is played takes for each access. No clock and no waiting here.
//!
//! All processes of a store share three words for each disk: until when it reads, until when it writes, and where its
//! last access ended.
//!
//! | access | takes |
//! |---|---|
//! | read | its bytes, one read behind the other; a seek before them, if the disk has an arm and that is elsewhere; meanwhile the latency runs |
//! | write | the same, one write behind the other. The writer does not wait, as the kernel's page cache takes the bytes |
//! | flush | all writes before it, a write's latency at least, and then its own time |
//!
//! Reads overtake writes, as the kernel's schedulers have them do. A disk with an arm writes later for it. A disk
//! without one reads and writes at once, each with its own bandwidth.
//!
//! A process may write anything to the words. A time that is impossible is taken for none.

use super::channel::{take, transfer_ns};
use cuesta_format::disk_profile::DiskProfile;
use std::sync::atomic::{AtomicU64, Ordering};

/// A disk that says it is busy for longer is taken for broken: the longest write of a call needs a fifth of that.
const BUSY_NS_MAX: u64 = 10_000_000_000;
/// Writes may be on their way for so long before their writers wait. The kernel makes a writer wait no longer at once
/// (`MAX_PAUSE`).
const UNWRITTEN_NS_MAX: u64 = 200_000_000;

/// Bytes of a tier, one arena behind the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) at: u64,
    pub(super) bytes: u64,
}

/// A disk and the words that its processes share. Times are those of the machine's monotonic clock.
pub(super) struct DiskTime<'w> {
    pub(super) profile: DiskProfile,
    pub(super) reads_until: &'w AtomicU64,
    pub(super) writes_until: &'w AtomicU64,
    pub(super) head: &'w AtomicU64,
}

/// Until when a disk is busy, from `now_ns` on.
fn until(word: &AtomicU64, now_ns: u64) -> u64 {
    let until_ns = word.load(Ordering::Relaxed);
    if until_ns > now_ns.saturating_add(BUSY_NS_MAX) { now_ns } else { until_ns.max(now_ns) }
}

impl DiskTime<'_> {
    /// How long an access keeps the disk from others of its kind.
    fn busy_ns(&self, span: Span, mb_s: u64) -> u64 {
        let transfer = if mb_s == 0 { 0 } else { transfer_ns(span.bytes, mb_s) };
        let follows = self.head.swap(span.at.saturating_add(span.bytes), Ordering::Relaxed) == span.at;
        transfer + if follows { 0 } else { self.profile.seek_ns }
    }

    /// A read that begins at `now_ns`. Answers when it is over.
    pub(super) fn read(&self, now_ns: u64, span: Span) -> u64 {
        let DiskProfile { read_ns, read_mb_s, seek_ns, .. } = self.profile;
        let busy_ns = self.busy_ns(span, read_mb_s);
        let until_ns = take(self.reads_until, now_ns, busy_ns, BUSY_NS_MAX);
        if seek_ns > 0 && self.writes_end(now_ns) > now_ns {
            take(self.writes_until, now_ns, busy_ns, BUSY_NS_MAX);
        }
        until_ns.max(now_ns.saturating_add(read_ns))
    }

    /// A write that the kernel took at `now_ns`. Answers until when its writer has to wait.
    pub(super) fn write(&self, now_ns: u64, span: Span) -> u64 {
        let busy_ns = self.busy_ns(span, self.profile.write_mb_s);
        let has_arm = self.profile.seek_ns > 0;
        let began_ns = if has_arm { until(self.reads_until, now_ns) } else { now_ns };
        let until_ns = take(self.writes_until, began_ns, busy_ns, BUSY_NS_MAX);
        until_ns.saturating_sub(UNWRITTEN_NS_MAX)
    }

    /// When the disk has everything that was written before `now_ns`.
    pub(super) fn writes_end(&self, now_ns: u64) -> u64 {
        until(self.writes_until, now_ns)
    }

    /// A flush that begins at `now_ns`. Answers when it is over.
    pub(super) fn flush(&self, now_ns: u64) -> u64 {
        let DiskProfile { write_ns, flush_ns, .. } = self.profile;
        let written_ns = self.writes_end(now_ns).max(now_ns.saturating_add(write_ns));
        written_ns.saturating_add(flush_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1_000_000;
    const MS: u64 = 1_000_000;

    #[derive(Default)]
    struct Disk {
        profile: DiskProfile,
        words: [AtomicU64; 3],
    }

    impl Disk {
        fn playing(text: &str) -> Disk {
            Disk { profile: text.parse().unwrap(), ..Disk::default() }
        }

        fn time(&self) -> DiskTime<'_> {
            let [reads_until, writes_until, head] = &self.words;
            DiskTime { profile: self.profile, reads_until, writes_until, head }
        }
    }

    fn span(at: u64, bytes: u64) -> Span {
        Span { at, bytes }
    }

    #[test]
    fn reads_of_a_disk_without_an_arm_share_its_bandwidth_and_not_its_latency() {
        let disk = Disk::playing("nvme");
        let disk = disk.time();
        let began = MS;
        // Ten small reads at once: each takes the latency, and none waits for another.
        for at in 0..10 {
            assert_eq!(disk.read(began, span(at << 20, 4096)), began + 120_000);
        }
        // 2 GB/s, behind the ten.
        assert_eq!(disk.read(began, span(0, MB)), began + 10 * 2048 + 500_000);
        assert_eq!(disk.read(began, span(0, MB)), began + 10 * 2048 + 1_000_000);
        assert_eq!(disk.flush(began), began + 30_000, "writes have a bandwidth of their own");
    }

    #[test]
    fn an_arm_moves_for_each_access_that_does_not_follow_the_last_one() {
        let disk = Disk::playing("hdd");
        let disk = disk.time();
        let (far, began) = (5 << 30, MS);
        let seek_and_one = 10 * MS + 10_000;
        assert_eq!(disk.read(began, span(far, 1000)), began + seek_and_one);
        // It follows.
        assert_eq!(disk.read(began, span(far + 1000, 2000)), began + seek_and_one + 20_000);
        // Two at once, at different places: one waits for the other.
        let later = began + 100 * MS;
        assert_eq!(disk.read(later, span(0, 1000)), later + seek_and_one);
        assert_eq!(disk.read(later, span(far, 1000)), later + 2 * seek_and_one);
    }

    #[test]
    fn a_writer_waits_for_a_flush_and_once_too_much_is_on_its_way() {
        let disk = Disk::playing("write_ns=85000,flush_ns=1000,write_mb_s=500");
        let disk = disk.time();
        let began = 1000 * MS;
        assert!(disk.write(began, span(0, 50 * MB)) < began, "100 ms are on their way");
        assert_eq!(disk.flush(began), began + 100 * MS + 1000);
        assert_eq!(disk.write(began, span(50 * MB, 100 * MB)), began + 100 * MS);
        let idle = began + 1000 * MS;
        assert_eq!(disk.flush(idle), idle + 85_000 + 1000, "a flush takes a write's latency at least");
    }

    #[test]
    fn reads_overtake_writes_and_the_arm_writes_later_for_them() {
        let disk = Disk::playing("seek_ns=10000000,read_mb_s=100,write_mb_s=100");
        let disk = disk.time();
        let began = 1000 * MS;
        disk.write(began, span(0, 10 * MB));
        assert_eq!(disk.writes_end(began), began + 100 * MS, "the arm was at the beginning");
        assert_eq!(disk.read(began, span(1 << 30, MB)), began + 20 * MS);
        assert_eq!(disk.writes_end(began), began + 120 * MS);
        // It is back at its writes only by a seek.
        disk.write(began, span(10 * MB, MB));
        assert_eq!(disk.writes_end(began), began + 140 * MS);
        // The arm that reads does not write.
        let later = began + 1000 * MS;
        disk.read(later, span(1 << 30, MB));
        disk.write(later, span(0, MB));
        assert_eq!(disk.writes_end(later), later + 40 * MS);
    }

    #[test]
    fn figures_that_are_not_asked_for_take_no_time_and_nonsense_is_none() {
        let disk = Disk::default();
        let disk = disk.time();
        assert_eq!(disk.read(MS, span(1 << 40, 1 << 30)), MS);
        disk.write(MS, span(0, 1 << 30));
        assert_eq!(disk.flush(MS), MS);
        disk.writes_until.store(u64::MAX, Ordering::Relaxed);
        disk.reads_until.store(u64::MAX, Ordering::Relaxed);
        assert_eq!((disk.flush(MS), disk.read(MS, span(0, 1))), (MS, MS));
    }
}
