//! Policy: small synchronous writes, databases, files put in place, large writes.

use crate::figures::measure::Figure;
use crate::figures::units::{GIB, KIB, MIB};
use crate::workload::writes::append::Append;
use crate::workload::writes::create::Create;
use crate::workload::writes::hand_over::HandOver;
use crate::workload::writes::pages::{PageWork, Pages};
use crate::workload::writes::sqlite::{JournalMode, Sqlite};
use crate::workload::writes::stream::Stream;
use crate::workload::writes::threads::Threads;
use crate::workload::writes::together::{OneDirectory, OwnDirectories};
use crate::works::goal::{self, Goal};
use crate::works::program::Program;
use crate::works::work::{BURSTS, Row, Work, row};

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

/// In the order of the table.
pub const WORKS: &[Work] = &[
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
            row("  on a disk, optimistic", Figure::Rate, goal::OPTIMISTIC),
            row("  and to eatmydata", Figure::Rate, goal::EAT_MY_DATA),
        ],
    ),
    sqlite(
        "sqlite-persist",
        JournalMode::Persist,
        &[
            row("SQLite commit, FULL, PERSIST", Figure::Rate, Goal::TimesTmpfs(1.2)),
            row("  on a disk", Figure::Rate, goal::disk(2.0)),
            row("  on a disk, optimistic", Figure::Rate, goal::OPTIMISTIC),
            row("  and to eatmydata", Figure::Rate, goal::EAT_MY_DATA),
        ],
    ),
    sqlite(
        "sqlite-wal",
        JournalMode::Wal,
        &[
            row("SQLite commit, FULL, WAL", Figure::Rate, Goal::Reported),
            row("  on a disk", Figure::Rate, goal::disk(1.2)),
            row("  on a disk, optimistic", Figure::Rate, goal::OPTIMISTIC),
            row("  and to eatmydata", Figure::Rate, goal::EAT_MY_DATA),
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
];
