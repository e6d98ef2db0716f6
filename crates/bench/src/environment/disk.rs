//! The requests of a file system to the disk below it, as the kernel counts them for the block device. Unlike times, they are
//! the same from run to run.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::error::{BenchError, Context};
use crate::figures::measure::{Figure, Outcome};

/// Where in the device's `stat` the writes that came to an end are counted (Documentation/block/stat.rst), those without bytes
/// with them, which are flushes;
const WRITES: usize = 4;
/// and the flushes.
const FLUSHES: usize = 15;

/// The counters of the block device that `path` lies on, if it lies on one.
pub fn counters(path: &Path) -> Option<PathBuf> {
    let device = std::fs::metadata(path).ok()?.dev();
    let counters = format!("/sys/dev/block/{}:{}/stat", rustix::fs::major(device), rustix::fs::minor(device));
    Some(PathBuf::from(counters)).filter(|counters| counters.exists())
}

/// The requests to a device so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    writes: u64,
    flushes: u64,
}

impl Asked {
    /// Reads the device's counters.
    pub fn so_far(counters: &Path) -> Result<Asked, BenchError> {
        let text = std::fs::read_to_string(counters).context("reading what a disk counts")?;
        Asked::parse(&text).ok_or_else(|| BenchError::Unusable("the kernel does not count flushes".into()))
    }

    fn parse(text: &str) -> Option<Asked> {
        let field = |at| text.split_ascii_whitespace().nth(at)?.parse().ok();
        Some(Asked { writes: field(WRITES)?, flushes: field(FLUSHES)? })
    }

    /// The outcome with what each of `operations` asked for, between `before` and this.
    pub fn told_in(self, outcome: Outcome, before: Asked, operations: u64) -> Outcome {
        let each = |now: u64, then: u64| now.saturating_sub(then) as f64 / operations.max(1) as f64;
        outcome
            .with(Figure::DiskWrites, each(self.writes, before.writes))
            .with(Figure::DiskFlushes, each(self.flushes, before.flushes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_asked_is_told_by_operation() {
        let before = "  3 0 24 1  50 7 400 9 0 1 10 0 0 0 0 20 5\n";
        let behind = "  3 0 24 1 110 9 999 9 0 1 10 0 0 0 0 50 5\n";
        let (before, behind) = (Asked::parse(before).unwrap(), Asked::parse(behind).unwrap());
        let outcome = behind.told_in(Outcome::default(), before, 10);
        assert_eq!((outcome.figures[&Figure::DiskWrites], outcome.figures[&Figure::DiskFlushes]), (6.0, 3.0));
        assert_eq!(Asked::parse("1 2 3 4 5 6 7 8 9 10 11"), None, "of a kernel that counts no flushes");
    }

    #[test]
    fn what_lies_in_memory_lies_on_no_disk() {
        assert_eq!(counters(Path::new("/proc")), None);
    }
}
