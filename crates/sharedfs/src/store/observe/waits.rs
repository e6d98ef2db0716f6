//! How long requests waited for their answers, by kind: where a program's pauses come from, for `cuesta status`.
//!
//! Each kind has a count, a longest wait, and a histogram whose buckets double; adding to them takes no lock.

use cuesta_format::wire::{Request, RequestWaits};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Waits of up to 1 µs, 2 µs, 4 µs, …; the last bucket takes all that are longer.
const BUCKETS: usize = 32;
const NAMES: [&str; 23] = [
    "attach",
    "grow log",
    "acquire",
    "lookup",
    "list",
    "extents",
    "give back",
    "inode numbers",
    "credit",
    "report",
    "arenas",
    "digest",
    "resync",
    "statfs",
    "detach",
    "extended attributes",
    "is written",
    "pass",
    "acquire ahead",
    "map",
    "make durable",
    "dsync",
    "other",
];

const ATTACH: usize = 0;
/// The kinds from "grow log" to "arenas".
const FOREGROUND: Range<usize> = 1..11;

fn kind(request: &Request) -> usize {
    match request {
        Request::Attach { .. } => ATTACH,
        Request::GrowLog { .. } | Request::CommitFile | Request::Marks => 1,
        Request::Acquire { .. } => 2,
        Request::Lookup { .. } => 3,
        Request::List { .. } => 4,
        Request::Extents { .. } => 5,
        Request::GiveBack { .. } => 6,
        Request::InodeNumbers { .. } => 7,
        Request::Credit { .. } | Request::Room { .. } | Request::Window { .. } => 8,
        Request::Report { .. } => 9,
        Request::Arenas { .. } => 10,
        Request::Digest => 11,
        Request::Resync => 12,
        Request::Statfs { .. } => 13,
        Request::Detach => 14,
        Request::Extended { .. } => 15,
        Request::IsWritten { .. } => 16,
        Request::Pass { .. } | Request::Passed { .. } => 17,
        Request::Ahead { .. } => 18,
        Request::Map { .. } => 19,
        Request::MakeDurable { .. } => 20,
        Request::Dsync => 21,
        Request::Status
        | Request::Quotas
        | Request::SetQuota { .. }
        | Request::KeepInKernel
        | Request::NothingInKernel
        | Request::Explain { .. }
        | Request::Scrub { .. }
        | Request::Migrate { .. }
        | Request::Drain { .. }
        | Request::ForgetTier { .. }
        | Request::TierStats
        | Request::CheckPin { .. }
        | Request::Pin { .. }
        | Request::Verify { .. }
        | Request::TakeLoss { .. }
        | Request::Trace { .. }
        | Request::Stop
        | Request::Stands
        | Request::Accessed { .. }
        | Request::Call { .. }
        | Request::Unheard => 22,
    }
}

#[derive(Debug, Default)]
struct Waits {
    total_us: AtomicU64,
    longest_us: AtomicU64,
    buckets: [AtomicU64; BUCKETS],
}

/// The waits of all requests since the daemon started.
#[derive(Debug, Default)]
pub struct RequestTimes {
    kinds: [Waits; NAMES.len()],
}

impl RequestTimes {
    /// Notes that a request was answered after `waited`.
    pub fn note(&self, request: &Request, waited: Duration) {
        self.kinds[kind(request)].note(waited);
    }

    /// Notes that a session began after `waited`.
    pub fn note_attach(&self, waited: Duration) {
        self.kinds[ATTACH].note(waited);
    }

    /// How many answers programs waited for that no disk gives, and how many of these they waited for longer than `long`.
    #[must_use]
    pub fn waited(&self, long: Duration) -> (u64, u64) {
        let first_long = bucket_of(long) + 1;
        FOREGROUND.fold((0, 0), |(all, longer), kind| {
            let buckets = self.kinds[kind].buckets.each_ref().map(|bucket| bucket.load(Ordering::Relaxed));
            let count = |buckets: &[u64]| buckets.iter().sum::<u64>();
            (all + count(&buckets), longer + count(&buckets[first_long.min(BUCKETS)..]))
        })
    }

    /// The kinds that were asked, with their waits.
    #[must_use]
    pub fn summary(&self) -> Vec<RequestWaits> {
        let all = NAMES.iter().zip(&self.kinds).map(|(&name, waits)| waits.summary(name));
        all.filter(|waits| waits.count > 0).collect()
    }
}

/// The bucket of waits that are as long.
fn bucket_of(waited: Duration) -> usize {
    let us = waited.as_micros() as u64;
    ((u64::BITS - us.saturating_sub(1).leading_zeros()) as usize).min(BUCKETS - 1)
}

impl Waits {
    fn note(&self, waited: Duration) {
        let us = waited.as_micros() as u64;
        self.total_us.fetch_add(us, Ordering::Relaxed);
        self.longest_us.fetch_max(us, Ordering::Relaxed);
        self.buckets[bucket_of(waited)].fetch_add(1, Ordering::Relaxed);
    }

    fn summary(&self, kind: &str) -> RequestWaits {
        let buckets = self.buckets.each_ref().map(|bucket| bucket.load(Ordering::Relaxed));
        let count: u64 = buckets.iter().sum();
        let longest_us = self.longest_us.load(Ordering::Relaxed);
        let mut beyond = count;
        let p99 = buckets.iter().position(|&bucket| {
            beyond -= bucket;
            beyond * 100 <= count
        });
        RequestWaits {
            kind: kind.to_owned(),
            count,
            total_us: self.total_us.load(Ordering::Relaxed),
            p99_us: (1u64 << p99.unwrap_or(0)).min(longest_us),
            longest_us,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuesta_format::InodeNumber;

    #[test]
    fn waits_are_counted_by_kind_and_length() {
        let times = RequestTimes::default();
        assert_eq!(times.summary(), []);
        for _ in 0..990 {
            times.note(&Request::Statfs { tree: InodeNumber::NONE }, Duration::from_micros(5));
        }
        for _ in 0..10 {
            times.note(&Request::Statfs { tree: InodeNumber::NONE }, Duration::from_millis(3));
        }
        times.note(&Request::Digest, Duration::from_nanos(10));
        let [digest, statfs] = &times.summary()[..] else { panic!("two kinds") };
        assert_eq!((digest.count, digest.total_us, digest.p99_us, digest.longest_us), (1, 0, 0, 0));
        assert_eq!((statfs.kind.as_str(), statfs.count, statfs.total_us), ("statfs", 1000, 34_950));
        assert_eq!((statfs.p99_us, statfs.longest_us), (8, 3000));
        times.note(&Request::Statfs { tree: InodeNumber::NONE }, Duration::from_secs(1 << 40));
        assert_eq!(times.summary()[1].count, 1001);
    }
}
