//! Policy: the list of works, their sizes, and the goal each one has to meet.
//!
//! Everything that could be argued about is here and, where calls are compared with the hardware, in `limits`; nothing opens a
//! file. A work is one program run on every peer; a row is one of its figures in the table.
//!
//! Goals on the rate of small synchronous writes are judged on *bursts* that fit the log, each after it had time to drain; the
//! sustained rate, where the digest is the limit, has rows of its own, and so has the longest stall.

use crate::curves;
use crate::goal::{self, Goal};
use crate::limits;
use crate::measure::Figure;
use crate::peers::PeerName;
use crate::workload::append::Append;
use crate::workload::at_rest::AtRest;
use crate::workload::calls::Calls;
use crate::workload::create::Create;
use crate::workload::digest::{Digest, Folded};
use crate::workload::fill::Filling;
use crate::workload::foreign::Foreign;
use crate::workload::hand_over::HandOver;
use crate::workload::job::{Job, Make, Task};
use crate::workload::limit::Limit;
use crate::workload::mixed::Mixed;
use crate::workload::pages::{PageWork, Pages};
use crate::workload::sqlite::{JournalMode, Sqlite};
use crate::workload::start::{Start, Started};
use crate::workload::stream::Stream;
use crate::workload::threads::Threads;
use crate::workload::together::{OneDirectory, OwnDirectories};

/// Bytes in a KiB.
pub const KIB: u64 = 1 << 10;
/// Bytes in a MiB.
pub const MIB: u64 = 1 << 20;
/// Bytes in a GiB.
pub const GIB: u64 = 1 << 30;

/// The program of a work.
#[derive(Clone, Copy, Debug)]
pub enum Program {
    /// Append and fsync.
    Append(Append),
    /// Append and fsync by several threads at once.
    Threads(Threads),
    /// 4 KiB pages of one file, in random order.
    Pages(Pages),
    /// Single-row commits.
    Sqlite(Sqlite),
    /// New files put in place by rename.
    Create(Create),
    /// The same by several processes at once in one directory.
    OneDirectory(OneDirectory),
    /// The same by one, two, four and eight processes, each in its own directory.
    OwnDirectories(OwnDirectories),
    /// Two processes that write one file.
    HandOver(HandOver),
    /// Calls compared with bare copies.
    Limit(Limit),
    /// Calls of all kinds at a steady pace.
    Mixed(Mixed),
    /// Logs that are digested.
    Digest(Digest),
    /// Large sustained writes.
    Stream(Stream),
    /// Calls that are not ours.
    Foreign(Foreign),
    /// Single calls on few files.
    Calls(Calls),
    /// Starting programs from a program that is already accelerated.
    Start(Start),
    /// A job of many programs in a tree of files.
    Job(Job),
    /// Starting one program from outside: all of `cuesta run`.
    Launch {
        /// How many times.
        count: u32,
    },
    /// Killing everything with a full log, and starting the daemon again.
    Recovery(Filling),
    /// A store full of files, and programs that do nothing: what the daemon takes and does.
    AtRest(AtRest),
}

/// One line of the table.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// What the line is called.
    pub title: &'static str,
    /// Which figure it shows.
    pub figure: Figure,
    /// What Cuesta has to reach.
    pub goal: Goal,
}

/// One work.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// Its name on the command line.
    pub name: &'static str,
    /// The program.
    pub program: Program,
    /// How long its measured phases go on, in seconds, in a full run.
    pub seconds: f64,
    /// The same in a quick run.
    pub seconds_quick: f64,
    /// Rounds in a full run.
    pub rounds: u32,
    /// The lines it gives.
    pub rows: &'static [Row],
}

/// Bursts of one run.
pub const BURSTS: u32 = 5;

/// Rounds of every work in a quick run.
pub const ROUNDS_QUICK: u32 = 3;

/// A line of the table.
pub const fn row(title: &'static str, figure: Figure, goal: Goal) -> Row {
    Row { title, figure, goal }
}

const fn append(name: &'static str, size: u64, rows: &'static [Row]) -> Work {
    let program =
        Program::Append(Append { size, burst_bytes: 16 * MIB, bursts: BURSTS, bytes_max: 512 * MIB });
    Work { name, program, seconds: 0.5, seconds_quick: 0.2, rounds: 5, rows }
}

const fn pages(name: &'static str, work: PageWork, rows: &'static [Row]) -> Work {
    let program = Program::Pages(Pages {
        work,
        size: 4 * KIB,
        file_bytes: 64 * MIB,
        burst_bytes: 16 * MIB,
        bursts: BURSTS,
    });
    Work { name, program, seconds: 0.5, seconds_quick: 0.2, rounds: 5, rows }
}

const fn sqlite(name: &'static str, journal: JournalMode, rows: &'static [Row]) -> Work {
    let program = Program::Sqlite(Sqlite { journal, processes: 1 });
    Work { name, program, seconds: 1.0, seconds_quick: 0.3, rounds: 5, rows }
}

const fn stream(name: &'static str, size: u64, rows: &'static [Row]) -> Work {
    let program = Program::Stream(Stream { size, file_bytes: GIB });
    Work { name, program, seconds: 4.0, seconds_quick: 1.0, rounds: 3, rows }
}

const fn start(name: &'static str, what: Started, rows: &'static [Row]) -> Work {
    let program = Program::Start(Start { what, count: 200 });
    Work { name, program, seconds: 0.0, seconds_quick: 0.0, rounds: 5, rows }
}

const fn job(name: &'static str, task: Task, repeats: u32, rows: &'static [Row]) -> Work {
    Work {
        name,
        program: Program::Job(Job { task, repeats }),
        seconds: 0.0,
        seconds_quick: 0.0,
        rounds: 3,
        rows,
    }
}

const fn at_rest(name: &'static str, rest: AtRest, rows: &'static [Row]) -> Work {
    let program = Program::AtRest(rest);
    Work { name, program, seconds: 5.0, seconds_quick: 2.0, rounds: 1, rows }
}

const fn recovery(name: &'static str, filling: Filling, rows: &'static [Row]) -> Work {
    let program = Program::Recovery(filling);
    Work { name, program, seconds: 1.0, seconds_quick: 0.5, rounds: 3, rows }
}

/// Works that are compared with tmpfs or another peer, or stand for themselves.
const WORKS: &[Work] = &[
    append(
        "append-128",
        128,
        &[
            row("append 128 B + fsync", Figure::BurstRate, Goal::TimesTmpfs(2.0)),
            row("  on a disk", Figure::BurstRate, goal::disk(1.0)),
            row("  sustained", Figure::Rate, Goal::Reported),
        ],
    ),
    append(
        "append-4k",
        4 * KIB,
        &[
            row("append 4 KiB + fsync", Figure::BurstRate, Goal::TimesTmpfs(4.0)),
            row("  on a mounted store", Figure::BurstRate, goal::MOUNTED_RATE),
            row("  on a disk", Figure::BurstRate, goal::disk(1.3)),
            row("  sustained", Figure::Rate, Goal::Reported),
        ],
    ),
    append(
        "append-16k",
        16 * KIB,
        &[
            row("append 16 KiB + fsync", Figure::BurstRate, Goal::TimesTmpfs(5.0)),
            row("  sustained", Figure::Rate, Goal::Reported),
        ],
    ),
    Work {
        name: "append-threads",
        program: Program::Threads(Threads { size: 4 * KIB, bytes_max: 512 * MIB }),
        seconds: 0.5,
        seconds_quick: 0.2,
        rounds: 5,
        rows: &[
            row("append 4 KiB + fsync, one thread", Figure::Rate, Goal::Reported),
            row("  on a disk", Figure::Rate, goal::disk(1.3)),
            row("  two threads: to one", Figure::Two, Goal::Reported),
            row("  four", Figure::Four, Goal::Reported),
            row("  eight", Figure::Eight, Goal::Reported),
        ],
    },
    pages(
        "overwrite-4k",
        PageWork::OverwriteAndSync,
        &[
            row("overwrite 4 KiB at random + fsync", Figure::BurstRate, Goal::TimesTmpfs(2.0)),
            row("  on a disk", Figure::BurstRate, goal::disk(1.0)),
            row("  sustained", Figure::Rate, Goal::Reported),
        ],
    ),
    pages(
        "pread-4k",
        PageWork::Read,
        &[row("pread 4 KiB at random, hot", Figure::BurstRate, Goal::TimesTmpfs(2.0))],
    ),
    sqlite(
        "sqlite-delete",
        JournalMode::Delete,
        &[
            row("SQLite commit, FULL, DELETE", Figure::Rate, Goal::TimesTmpfs(1.2)),
            row("  on a mounted store", Figure::Rate, goal::MOUNTED_RATE),
            row("  on a disk", Figure::Rate, goal::disk(2.0)),
        ],
    ),
    sqlite(
        "sqlite-persist",
        JournalMode::Persist,
        &[
            row("SQLite commit, FULL, PERSIST", Figure::Rate, Goal::TimesTmpfs(1.2)),
            row("  on a disk", Figure::Rate, goal::disk(2.0)),
        ],
    ),
    sqlite(
        "sqlite-wal",
        JournalMode::Wal,
        &[
            row("SQLite commit, FULL, WAL", Figure::Rate, Goal::Reported),
            row("  on a disk", Figure::Rate, goal::disk(1.2)),
        ],
    ),
    Work {
        name: "create",
        // As many live files as fit a store of 4 GiB; then names are replaced, which is a rename over
        // an existing file.
        program: Program::Create(Create { size: 4 * KIB, live_files: 400_000 }),
        seconds: 10.0,
        seconds_quick: 2.0,
        rounds: 3,
        rows: &[
            row("create 4 KiB + fsync + rename", Figure::Rate, Goal::TimesTmpfs(2.0)),
            row("  on a disk", Figure::Rate, goal::disk(2.0)),
            row("  longest stall", Figure::LongestStall, goal::STALL),
        ],
    },
    Work {
        name: "create-two",
        program: Program::OneDirectory(OneDirectory {
            create: Create { size: 4 * KIB, live_files: 100_000 },
            processes: 2,
        }),
        seconds: 3.0,
        seconds_quick: 0.5,
        rounds: 5,
        rows: &[
            row("the same, two processes, one directory", Figure::Rate, Goal::TimesTmpfs(1.5)),
            row("  99 of 100 take at most", Figure::Percentile99, Goal::Reported),
            row("  longest stall", Figure::LongestStall, goal::STALL),
        ],
    },
    Work {
        name: "create-apart",
        program: Program::OwnDirectories(OwnDirectories {
            create: Create { size: 4 * KIB, live_files: 20_000 },
        }),
        seconds: 1.0,
        seconds_quick: 0.2,
        rounds: 5,
        rows: &[
            row("the same, one process", Figure::Rate, Goal::Reported),
            row("  two, own directories: to one", Figure::Two, goal::SCALE),
            row("  four", Figure::Four, goal::SCALE),
            row("  eight", Figure::Eight, goal::SCALE),
        ],
    },
    Work {
        name: "sqlite-wal-two",
        program: Program::Sqlite(Sqlite { journal: JournalMode::Wal, processes: 2 }),
        seconds: 1.0,
        seconds_quick: 0.3,
        rounds: 5,
        rows: &[
            row("SQLite commit, FULL, WAL, two processes", Figure::Rate, Goal::TimesTmpfs(1.0)),
            row("  99 of 100 take at most", Figure::Percentile99, Goal::Reported),
        ],
    },
    Work {
        name: "hand-over",
        program: Program::HandOver(HandOver { size: 64 }),
        seconds: 1.0,
        seconds_quick: 0.3,
        rounds: 5,
        rows: &[
            row("two write one file: a hand-over, median", Figure::Median, Goal::Below(50.0)),
            row("  99 of 100 take at most", Figure::Percentile99, Goal::Reported),
        ],
    },
    stream(
        "stream-1m",
        MIB,
        &[
            row("write 1 MiB, far past the log", Figure::Bandwidth, Goal::Reported),
            row("  longest stall", Figure::LongestStall, goal::STALL),
        ],
    ),
    stream(
        "stream-4k",
        4 * KIB,
        &[
            row("write 4 KiB, far past the log", Figure::Bandwidth, Goal::Reported),
            row("  longest stall", Figure::LongestStall, goal::STALL),
        ],
    ),
    Work {
        name: "foreign",
        program: Program::Foreign(Foreign { calls: 20_000 }),
        seconds: 0.0,
        seconds_quick: 0.0,
        // What is looked for is less than the clock of one processor varies from second to second.
        rounds: 21,
        rows: &[
            row("not ours: pread (interposed)", Figure::PreadCall, Goal::AddedBelow(10.0)),
            row("not ours: fstat (interposed)", Figure::FstatCall, Goal::AddedBelow(10.0)),
            row("not ours: write /dev/null (interposed)", Figure::WriteCall, Goal::AddedBelow(10.0)),
            row("not ours: syscall(SYS_pread64)", Figure::SyscallCall, Goal::AddedBelow(100.0)),
            row("not ours: read inside stdio (patched)", Figure::StdioCall, Goal::AddedBelow(100.0)),
        ],
    },
    Work {
        name: "calls",
        program: Program::Calls(Calls),
        seconds: 2.4,
        seconds_quick: 0.8,
        rounds: 9,
        rows: &[
            row("stat, once more", Figure::StatAgain, goal::KEPT),
            row("read 4 KiB, once more", Figure::ReadAgain, goal::KEPT),
            row("stat, of nothing that is kept", Figure::StatAnew, goal::CALL),
            row("look for a name that is not there", Figure::LookForNone, goal::CALL),
            row("open and close", Figure::OpenClose, goal::CALL),
            row("read 4 KiB, past the cache", Figure::ReadAnew, goal::CALL),
            row("write 4 KiB", Figure::WritePage, goal::CALL),
            row("append 4 KiB", Figure::AppendPage, goal::CALL),
            row("write 4 KiB and fsync", Figure::WriteSync, goal::CALL),
            row("ftruncate", Figure::Cut, goal::CALL),
            row("chmod", Figure::ChangeMode, goal::CALL),
            row("make and remove a file", Figure::MakeRemove, goal::CALL),
            row("make and remove a directory", Figure::MakeRemoveDirectory, goal::CALL),
            row("rename a file", Figure::Rename, goal::CALL),
            row("link and remove a file", Figure::LinkRemove, goal::CALL),
            row("list 100 names", Figure::List, goal::CALL),
        ],
    },
    start(
        "start-true",
        Started::True,
        &[row("start /bin/true, in a loop", Figure::Start, Goal::BelowTimesTmpfs(1.5))],
    ),
    start(
        "start-reader",
        Started::Reader,
        &[row("start a program that reads a file", Figure::Start, Goal::AddedBelow(5.0))],
    ),
    start(
        "start-writer",
        Started::Writer,
        &[row("start a program that makes a file", Figure::Start, Goal::AddedBelow(5.0))],
    ),
    Work {
        name: "launch",
        program: Program::Launch { count: 20 },
        seconds: 0.0,
        seconds_quick: 0.0,
        rounds: 5,
        rows: &[row("start /bin/true by `cuesta run`", Figure::Start, Goal::AddedBelow(5.0))],
    },
    job(
        "script",
        Task::Script { programs: 1000 },
        1,
        &[
            row("a script of 1,000 programs on the store", Figure::Elapsed, goal::JOB),
            row("  mounted", Figure::Elapsed, goal::MOUNTED_TIME),
        ],
    ),
    job(
        "git-status",
        Task::GitStatus { files: 10_000 },
        3,
        &[row("git status, 10,000 files", Figure::Elapsed, goal::JOB)],
    ),
    job(
        "untar",
        Task::Untar { files: 20_000 },
        1,
        &[
            row("untar 20,000 files", Figure::Elapsed, goal::JOB),
            row("  on a disk", Figure::Elapsed, goal::DISK_TREE),
            row("  by the mount", Figure::Elapsed, goal::TREE),
            row("  on a mounted store", Figure::Elapsed, goal::MOUNTED_TIME),
        ],
    ),
    job(
        "remove",
        Task::Remove { files: 20_000 },
        1,
        &[
            row("rm -r of 20,000 files", Figure::Elapsed, Goal::Reported),
            row("  on a disk", Figure::Elapsed, goal::DISK_TREE),
            row("  by the mount", Figure::Elapsed, goal::TREE),
            row("  on a mounted store", Figure::Elapsed, goal::MOUNTED_TIME),
        ],
    ),
    job("make", Task::Make(Make::AsItComes), 1, &[row("make of LuaJIT", Figure::Elapsed, goal::JOB)]),
    job(
        "make-o0",
        Task::Make(Make::Unoptimised),
        1,
        &[row("  static, and not optimised", Figure::Elapsed, Goal::Reported)],
    ),
    recovery(
        "recovery-appends",
        Filling::Appends,
        &[row("recovery, log full of 128 B appends", Figure::Recovery, Goal::Below(2.0))],
    ),
    recovery(
        "recovery-creates",
        Filling::Creates,
        &[row("recovery, log full of new files", Figure::Recovery, Goal::Below(2.0))],
    ),
    recovery(
        "recovery-large",
        Filling::Large,
        &[row("recovery, log full of 1 MiB writes", Figure::Recovery, Goal::Below(2.0))],
    ),
    recovery(
        "recovery-moves",
        Filling::Moves,
        &[row("recovery, log full of moved directories", Figure::Recovery, Goal::Below(2.0))],
    ),
    at_rest(
        "idle",
        AtRest { files: 20_000, sessions: 50, have_written: true },
        &[
            row("SharedFS at rest, 50 sessions that wrote", Figure::Processor, goal::NO_TIME),
            row("  wake-ups", Figure::WakeUps, goal::NO_WAKE_UPS),
            row("  memory", Figure::Memory, Goal::Reported),
        ],
    ),
    at_rest(
        "footprint",
        AtRest { files: 1_000_000, sessions: 1000, have_written: false },
        &[
            row("SharedFS, 1,000,000 files, 1,000 sessions", Figure::Memory, goal::MEMORY),
            row("  of the store mapped", Figure::MappedStorage, Goal::Reported),
            row("  processor", Figure::Processor, goal::NO_TIME),
            row("  wake-ups", Figure::WakeUps, goal::NO_WAKE_UPS),
        ],
    ),
];

/// Every work, in the order of the table.
pub fn all() -> impl Iterator<Item = &'static Work> {
    WORKS.iter().chain(limits::WORKS)
}

/// The work of that name, here or of a curve.
pub fn find(name: &str) -> Option<&'static Work> {
    all().find(|work| work.name == name).or_else(|| curves::table::find(name))
}

impl Program {
    /// Whether the files it works on are the peer's own; if not, every peer works on the same tmpfs.
    pub fn works_on_peer(&self) -> bool {
        !matches!(self, Program::Foreign(_))
    }

    /// The most memory its files take on a file system in memory, with some room for metadata.
    pub fn memory_max(&self) -> u64 {
        match self {
            Program::Append(append) => append.bytes_max + 2 * u64::from(append.bursts) * append.burst_bytes,
            Program::Threads(threads) => threads.bytes_max,
            Program::Pages(pages) => 2 * pages.file_bytes,
            Program::Create(create) => create.live_files * (create.size + 2 * KIB),
            Program::OneDirectory(together) => {
                u64::from(together.processes) * together.create.live_files * (together.create.size + 2 * KIB)
            }
            Program::OwnDirectories(apart) => 8 * apart.create.live_files * (apart.create.size + 2 * KIB),
            Program::Limit(limit) => 2 * limit.file_bytes + u64::from(limit.bursts) * limit.burst_bytes,
            Program::Mixed(mixed) => 3 * mixed.file_bytes,
            Program::Digest(digest) if digest.folded == Folded::Fresh => {
                u64::from(digest.processes) * digest.bytes_max
            }
            Program::Stream(stream) => stream.file_bytes + stream.file_bytes / 8,
            Program::Sqlite(_) => 64 * MIB,
            Program::Job(_) => 256 * MIB,
            Program::Foreign(_)
            | Program::Calls(_)
            | Program::Digest(_)
            | Program::HandOver(_)
            | Program::Start(_)
            | Program::Launch { .. }
            | Program::Recovery(_)
            | Program::AtRest(_) => 0,
        }
    }

    /// Whether it is several processes at once, which need more than one CPU.
    pub fn is_of_several(&self) -> bool {
        match self {
            Program::OneDirectory(_)
            | Program::OwnDirectories(_)
            | Program::HandOver(_)
            | Program::Threads(_)
            | Program::Digest(_)
            | Program::AtRest(_) => true,
            Program::Sqlite(sqlite) => sqlite.processes > 1,
            _ => false,
        }
    }
}

impl Work {
    /// Whether it says something about that peer. What is done by a mount, or beside one, is what a goal is about, and whatever is
    /// asked for by its name; nothing that looks at contents is done where there are none.
    pub fn concerns(&self, peer: PeerName, is_named: bool) -> bool {
        match peer {
            PeerName::Cuesta | PeerName::Tmpfs => true,
            PeerName::Ext4Ram | PeerName::Ext4Disk | PeerName::XfsRam | PeerName::XfsDisk => !matches!(
                self.program,
                Program::Foreign(_)
                    | Program::Start(_)
                    | Program::Launch { .. }
                    | Program::Limit(_)
                    | Program::Mixed(_)
                    | Program::Digest(_)
            ),
            PeerName::Null => matches!(self.program, Program::Calls(_)),
            PeerName::Mount | PeerName::Bindfs | PeerName::OnMount | PeerName::OnDisk => {
                is_named || self.rows.iter().any(|row| row.goal.is_about(peer))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_found() {
        let names: BTreeSet<_> = all().map(|work| work.name).collect();
        assert_eq!(names.len(), all().count());
        assert!(all().all(|work| find(work.name).is_some()));
        assert!(find("nothing").is_none());
    }

    #[test]
    fn mounts_do_what_has_goals_on_them_or_is_asked_for() {
        let concerned = |name: &str, peer, is_named| find(name).unwrap().concerns(peer, is_named);
        assert!(concerned("calls", PeerName::Null, false) && concerned("untar", PeerName::Bindfs, false));
        assert!(
            !concerned("stream-1m", PeerName::Mount, false) && concerned("stream-1m", PeerName::Mount, true)
        );
        assert!(!concerned("untar", PeerName::Null, true), "it keeps no contents");
    }

    #[test]
    fn every_work_has_rounds_and_rows() {
        assert!(all().all(|work| work.rounds > 0 && !work.rows.is_empty()));
    }
}
