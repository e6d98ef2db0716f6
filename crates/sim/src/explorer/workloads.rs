//! The workloads a campaign is made of: each mutating call, all pairs of them, with a digest at
//! every position, and runs long enough for the log to wrap.

use super::store::{Step, Workload};
use crate::generate::{Generator, Repertoire};
use crate::operation::{OpenFlags, Operation, PathText, Pattern, Timestamp};

/// Where a digest comes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DigestAt {
    /// Nowhere: everything comes from the log.
    Never,
    /// Before the steps: everything before them comes from the shared area.
    First,
    /// Behind the first step.
    Between,
    /// Behind the last step.
    Last,
}

impl DigestAt {
    /// Every position.
    pub const ALL: [DigestAt; 4] = [DigestAt::Never, DigestAt::First, DigestAt::Between, DigestAt::Last];
}

/// The calls to crash in, on the tree that [`population`] makes.
pub fn calls() -> Vec<Operation> {
    use Operation::*;
    let data = |seed, length| Pattern { seed, length };
    let write = OpenFlags { read: true, write: true, ..OpenFlags::default() };
    vec![
        Open { slot: 2, path: path("/new"), flags: OpenFlags { create: true, ..write }, mode: 0o640 },
        Open { slot: 2, path: path("/g"), flags: OpenFlags { truncate: true, ..write }, mode: 0 },
        Write { slot: 0, data: data(1, 700) },
        Write { slot: 1, data: data(2, 5000) },
        Pwrite { slot: 0, offset: 4000, data: data(3, 200) },
        Pwrite { slot: 0, offset: 4096, data: data(4, 4096) },
        Pwrite { slot: 0, offset: 20_001, data: data(5, 37) },
        Truncate { path: path("/f"), length: 100 },
        Ftruncate { slot: 0, length: 9000 },
        Mkdir { path: path("/d/sub"), mode: 0o750 },
        Rmdir { path: path("/empty") },
        Link { existing: path("/f"), new: path("/d/linked") },
        Symlink { target: path("d/x"), path: path("/sym") },
        Unlink { path: path("/d/x") },
        Unlink { path: path("/f") },
        Unlink { path: path("/hard") },
        Rename { from: path("/g"), to: path("/renamed") },
        Rename { from: path("/f"), to: path("/d/x") },
        Rename { from: path("/d/x"), to: path("/g") },
        Rename { from: path("/d"), to: path("/empty") },
        Rename { from: path("/empty"), to: path("/d/moved") },
        Chmod { path: path("/f"), mode: 0o4711 },
        Lchown { path: path("/g"), uid: 12, gid: 34 },
        Utimens { path: path("/d"), modified: Timestamp { seconds: 1_000_000, nanoseconds: 7 } },
        Close { slot: 1 },
    ]
}

/// What is there before: files with content, open ones among them, a hard link, directories.
pub fn population() -> Vec<Step> {
    use Operation::*;
    let write = OpenFlags { read: true, write: true, create: true, ..OpenFlags::default() };
    let append = OpenFlags { append: true, ..write };
    let calls = [
        Mkdir { path: path("/d"), mode: 0o755 },
        Mkdir { path: path("/empty"), mode: 0o755 },
        Open { slot: 0, path: path("/f"), flags: write, mode: 0o644 },
        Write { slot: 0, data: Pattern { seed: 90, length: 6000 } },
        Open { slot: 1, path: path("/g"), flags: append, mode: 0o644 },
        Write { slot: 1, data: Pattern { seed: 91, length: 3000 } },
        Open { slot: 3, path: path("/d/x"), flags: write, mode: 0o600 },
        Write { slot: 3, data: Pattern { seed: 92, length: 100 } },
        Link { existing: path("/d/x"), new: path("/hard") },
        Close { slot: 3 },
    ];
    calls.map(Step::Call).into()
}

/// One workload: `calls` on the population, with a digest somewhere.
pub fn workload(calls: &[Operation], digest: DigestAt) -> Workload {
    let mut steps: Vec<Step> = calls.iter().cloned().map(Step::Call).collect();
    match digest {
        DigestAt::Never => {}
        DigestAt::First => steps.insert(0, Step::Digest),
        DigestAt::Between => steps.insert(1, Step::Digest),
        DigestAt::Last => steps.push(Step::Digest),
    }
    Workload { setup: population(), steps }
}

/// A seeded run that goes around the log at least once, digested when it is full and now and then.
pub fn wrapping(seed: u64, calls: usize) -> Workload {
    let repertoire = Repertoire {
        offset_max: 20_000,
        write_bytes_max: 8000,
        climbing: false,
        fallocate: false,
        hostile: false,
        hostile_pairs: false,
        empty_chown: false,
        ..Repertoire::default()
    };
    let mut generator = Generator::new(repertoire, seed);
    let mut steps = Vec::new();
    let mutations = std::iter::from_fn(|| Some(generator.next_operation())).filter(Operation::is_mutation);
    for (number, operation) in mutations.take(calls).enumerate() {
        if number % 17 == 16 {
            steps.push(Step::Digest);
        }
        steps.push(Step::Call(operation));
    }
    Workload { setup: population(), steps }
}

fn path(text: &str) -> PathText {
    PathText::from(text)
}
