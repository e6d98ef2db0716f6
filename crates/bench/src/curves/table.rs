//! Policy: which curves there are, at which points, and which peers are drawn together.

use std::sync::LazyLock;

use crate::figures::measure::Figure;
use crate::figures::units::{GIB, KIB, MIB};
use crate::peers::name::PeerName;
use crate::workload::writes::append::Append;
use crate::workload::writes::pages::{PageWork, Pages};
use crate::workload::writes::threads::Threads;
use crate::works::goal::Goal;
use crate::works::program::Program;
use crate::works::work::{Row, Work};

/// Bytes of a request.
const SIZES: &[u64] = &[64, 128, 256, 512, KIB, 4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB];
/// The same in a quick run.
const SIZES_QUICK: &[u64] = &[64, 4 * KIB, MIB];
/// The size where it is not what varies.
const PAGE: &[u64] = &[4 * KIB];

/// Which parts of the operations are asked how long they took at most.
pub const QUANTILES: &[(f64, &str)] =
    &[(0.5, "50 %"), (0.9, "90 %"), (0.99, "99 %"), (0.999, "99.9 %"), (0.9999, "99.99 %")];
const ROUNDS: u32 = 3;

/// Peers that are drawn together: what their files lie in is alike.
#[derive(Debug)]
pub struct Group {
    /// The medium of the files, as a word of a file's name,
    pub name: &'static str,
    /// and as people say it.
    pub title: &'static str,
    /// In the order of columns and legends.
    pub peers: &'static [PeerName],
}

/// All groups.
pub const GROUPS: &[Group] = &[
    Group {
        name: "memory",
        title: "in memory",
        peers: &[PeerName::Cuesta, PeerName::Tmpfs, PeerName::Ext4Ram, PeerName::XfsRam],
    },
    Group {
        name: "disk",
        title: "on a disk",
        peers: &[PeerName::OnDisk, PeerName::Ext4Disk, PeerName::XfsDisk],
    },
];

/// What varies from point to point of a curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Along {
    /// The size of a request. Each is a work of its own, measured in bursts that fit the log.
    Sizes,
    /// Part of the operations, of one work: sustained, and each operation timed.
    Percentiles,
    /// How many threads, of one work.
    Threads,
}

/// One curve, which every peer gives.
#[derive(Debug)]
pub struct Curve {
    /// What its files and its works are called.
    pub name: &'static str,
    /// The title: the operation.
    pub title: &'static str,
    /// What varies.
    pub along: Along,
    program: fn(u64) -> Program,
    /// How long a measured phase goes on.
    seconds: f64,
}

/// Every curve, in the order of the tables.
pub static CURVES: &[Curve] = &[
    Curve {
        name: "append",
        title: "append and fsync",
        along: Along::Sizes,
        program: |size| append(size, 3, 64 * MIB),
        seconds: 0.2,
    },
    Curve {
        name: "pread",
        title: "pread at random, hot",
        along: Along::Sizes,
        // Reads leave nothing in a log: time alone ends a burst.
        program: |size| pages(PageWork::Read, size, 3, GIB),
        seconds: 0.2,
    },
    Curve {
        name: "pwrite",
        title: "pwrite at random, without fsync",
        along: Along::Sizes,
        program: |size| pages(PageWork::Overwrite, size, 3, 16 * MIB),
        seconds: 0.2,
    },
    Curve {
        name: "append-latency",
        title: "append 4 KiB and fsync",
        along: Along::Percentiles,
        program: |size| append(size, 1, 512 * MIB),
        seconds: 2.0,
    },
    Curve {
        name: "pread-latency",
        title: "pread 4 KiB at random, hot",
        along: Along::Percentiles,
        program: |size| pages(PageWork::Read, size, 1, GIB),
        seconds: 1.0,
    },
    Curve {
        name: "append-threads",
        title: "append 4 KiB and fsync, each thread to a file of its own",
        along: Along::Threads,
        program: |size| Program::Threads(Threads { size, bytes_max: 512 * MIB }),
        seconds: 0.5,
    },
];

fn append(size: u64, bursts: u32, bytes_max: u64) -> Program {
    Program::Append(Append { size, burst_bytes: 16 * MIB, bursts, bytes_max })
}

fn pages(work: PageWork, size: u64, bursts: u32, burst_bytes: u64) -> Program {
    Program::Pages(Pages { work, size, file_bytes: 64 * MIB, burst_bytes, bursts })
}

/// The part of a curve that is measured at once: one of its points, or all of them.
#[derive(Debug)]
pub struct Step {
    /// The curve.
    pub curve: &'static Curve,
    /// Bytes of a request.
    pub size: u64,
    /// The work that is run.
    pub work: Work,
    is_quick: bool,
}

/// Every step, in the order of the tables.
static STEPS: LazyLock<Vec<Step>> = LazyLock::new(|| CURVES.iter().flat_map(Curve::steps).collect());

/// The steps of a run.
pub fn steps(is_quick: bool) -> impl Iterator<Item = &'static Step> {
    STEPS.iter().filter(move |step| step.is_quick || !is_quick)
}

/// The work of that name.
pub fn find(name: &str) -> Option<&'static Work> {
    STEPS.iter().map(|step| &step.work).find(|work| work.name == name)
}

impl Curve {
    fn steps(&'static self) -> impl Iterator<Item = Step> {
        let (sizes, quick, figure) = match self.along {
            Along::Sizes => (SIZES, SIZES_QUICK, Figure::BurstRate),
            Along::Percentiles | Along::Threads => (PAGE, PAGE, Figure::Rate),
        };
        sizes.iter().map(move |&size| {
            // Made once: they stay as long as the program does, like those of the other works.
            let title = format!("{}, {}", self.title, bytes(size)).leak();
            let work = Work {
                name: format!("curve-{}-{size}", self.name).leak(),
                program: (self.program)(size),
                seconds: self.seconds,
                seconds_quick: self.seconds / 4.0,
                rounds: ROUNDS,
                rows: vec![Row { title, figure, goal: Goal::Reported }].leak(),
            };
            Step { curve: self, size, work, is_quick: quick.contains(&size) }
        })
    }
}

/// A size as people write it.
pub fn bytes(size: u64) -> String {
    match size {
        size if size.is_multiple_of(MIB) => format!("{} MiB", size / MIB),
        size if size.is_multiple_of(KIB) => format!("{} KiB", size / KIB),
        size => format!("{size} B"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::works::all;

    #[test]
    fn every_step_is_a_work_that_a_child_finds() {
        let names: BTreeSet<_> = steps(false).map(|step| step.work.name).collect();
        assert_eq!(names.len(), 3 * SIZES.len() + 3);
        assert!(names.iter().all(|name| all::find(name).is_some_and(|work| work.name == *name)));
        assert_eq!(steps(true).count(), 3 * SIZES_QUICK.len() + 3);
    }

    #[test]
    fn sizes_fill_a_file_of_pages_exactly() {
        for step in steps(false) {
            if let Program::Pages(pages) = step.work.program {
                assert!(pages.file_bytes.is_multiple_of(pages.size));
            }
        }
    }

    #[test]
    fn a_peer_is_in_one_group() {
        let all: Vec<_> = GROUPS.iter().flat_map(|group| group.peers).collect();
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
    }

    #[test]
    fn sizes_are_written_in_their_largest_unit() {
        assert_eq!([64, KIB, 256 * KIB, MIB].map(bytes), ["64 B", "1 KiB", "256 KiB", "1 MiB"]);
    }
}
