//! Policy: stores of several tiers, optimistic mode, and what large writes cost.

use crate::figures::measure::Figure;
use crate::figures::units::{GIB, KIB, MIB};
use crate::workload::tiers::bulk::Bulk;
use crate::workload::tiers::commits::LogBesideTable;
use crate::workload::tiers::filebench::Filebench;
use crate::workload::tiers::first::FirstAppends;
use crate::workload::tiers::personalities::{FILESERVER, VARMAIL, WEBPROXY, WEBSERVER};
use crate::workload::tiers::rocksdb::{Phase, RocksDb};
use crate::workload::tiers::short::ShortPrograms;
use crate::workload::writes::append::Append;
use crate::workload::writes::sqlite::{JournalMode, Sqlite};
use crate::works::goal::{self, Goal};
use crate::works::program::Program;
use crate::works::work::{Row, Work, row};

const ROUNDS: u32 = 3;

/// So many seconds of 100,000 keys with 1,000 bytes are 2.5 GiB: the fast tier of the peer `spill` holds 5 % of them.
pub const SPILL_SECONDS: f64 = 26.4;

const fn bulk(name: &'static str, size: u64, rows: &'static [Row]) -> Work {
    let program = Program::Bulk(Bulk { size, file_bytes: GIB });
    Work { name, program, seconds: 0.0, seconds_quick: 0.0, rounds: ROUNDS, rows }
}

/// Far past the log, which takes 64 MiB at most.
const fn append(name: &'static str, size: u64, rows: &'static [Row]) -> Work {
    let program = Program::Append(Append { size, burst_bytes: 16 * MIB, bursts: 1, bytes_max: 2 * GIB });
    Work { name, program, seconds: 2.0, seconds_quick: 0.5, rounds: ROUNDS, rows }
}

const fn first(name: &'static str, size: u64, rows: &'static [Row]) -> Work {
    let program = Program::FirstAppends(FirstAppends { size, count: 100_000 });
    Work { name, program, seconds: 0.0, seconds_quick: 0.0, rounds: ROUNDS, rows }
}

const fn beside(name: &'static str, table_bytes: u64, is_apart: bool, rows: &'static [Row]) -> Work {
    let beside = LogBesideTable { commit_bytes: 512, write_bytes: MIB, table_bytes, is_apart };
    let program = Program::LogBesideTable(beside);
    Work { name, program, seconds: 10.0, seconds_quick: 3.0, rounds: ROUNDS, rows }
}

const fn filebench(name: &'static str, personality: Filebench, rows: &'static [Row]) -> Work {
    let program = Program::Filebench(personality);
    Work { name, program, seconds: 8.0, seconds_quick: 2.0, rounds: ROUNDS, rows }
}

const fn sqlite(name: &'static str, journal: JournalMode, rows: &'static [Row]) -> Work {
    let program = Program::Sqlite(Sqlite { journal, processes: 1 });
    Work { name, program, seconds: 3.0, seconds_quick: 1.0, rounds: ROUNDS, rows }
}

/// The rows of a load that the predictors are judged by.
const fn predicted(title: &'static str) -> [Row; 7] {
    [
        row(title, Figure::Rate, Goal::Reported),
        row("  predicted whether a program waits", Figure::SynchronicityRight, goal::PREDICTED),
        row("    right", Figure::SynchronicityHits, Goal::Reported),
        row("    wrong", Figure::SynchronicityMisses, Goal::Reported),
        row("  predicted that writes stay large", Figure::SizesRight, goal::PREDICTED),
        row("    right", Figure::SizesHits, Goal::Reported),
        row("    wrong", Figure::SizesMisses, Goal::Reported),
    ]
}

/// The rows of a bulk write.
const fn written(title: &'static str) -> [Row; 7] {
    [
        row(title, Figure::WrittenBandwidth, goal::BULK),
        row("  on a disk", Figure::WrittenBandwidth, goal::BULK_ON_DISK),
        row("  on a disk, and one fsync", Figure::SyncedBandwidth, goal::BULK_SYNCED),
        row("  program and daemon, to a bare copy", Figure::ToCopies, goal::ONE_COPY),
        row("    program", Figure::ProgramTime, Goal::Reported),
        row("    daemon", Figure::DaemonTime, Goal::Reported),
        row("    bare copy", Figure::CopyTime, Goal::Reported),
    ]
}

const fn sustained(title: &'static str) -> [Row; 2] {
    [
        row(title, Figure::Rate, Goal::TimesTmpfs(2.5)),
        row("  longest stall", Figure::LongestStall, goal::STALL),
    ]
}

const fn begun(title: &'static str, times: f64) -> [Row; 3] {
    [
        row(title, Figure::Rate, Goal::TimesTmpfs(times)),
        row("  99 of 100 take at most", Figure::Percentile99, Goal::Reported),
        row("  the longest", Figure::LongestWait, goal::FIRST_WAIT),
    ]
}

const fn committed(title: &'static str, tail: Goal) -> [Row; 4] {
    [
        row(title, Figure::Percentile99, tail),
        row("  commits", Figure::Rate, Goal::Reported),
        row("  the longest", Figure::LongestWait, Goal::Reported),
        row("  the table", Figure::Bandwidth, Goal::Reported),
    ]
}

/// In the order of the table.
pub const WORKS: &[Work] = &[
    bulk("bulk-1m", MIB, &written("one GiB by 1 MiB")),
    bulk("bulk-4k", 4 * KIB, &written("one GiB by 4 KiB")),
    append("append-sync-16k", 16 * KIB, &sustained("append 16 KiB + fsync, far past the log")),
    append("append-sync-64k", 64 * KIB, &sustained("append 64 KiB + fsync, far past the log")),
    first("first-128", 128, &begun("a process's first 100,000 of 128 B + fsync", 2.0)),
    first("first-4k", 4 * KIB, &begun("a process's first 100,000 of 4 KiB + fsync", 3.0)),
    first("first-16k", 16 * KIB, &begun("a process's first 100,000 of 16 KiB + fsync", 2.5)),
    Work {
        name: "rocksdb-sync",
        program: Program::RocksDb(RocksDb { value_bytes: 100, phase: Phase::Fill }),
        seconds: 5.0,
        seconds_quick: 1.0,
        rounds: ROUNDS,
        rows: &[
            row("RocksDB fillseq, sync, optimistic", Figure::Rate, goal::OPTIMISTIC),
            row("  and to eatmydata", Figure::Rate, goal::EAT_MY_DATA),
            row("  99 of 100 take at most", Figure::Percentile99, Goal::Reported),
            row("  the longest", Figure::LongestWait, Goal::Reported),
        ],
    },
    Work {
        name: "rocksdb-spill",
        program: Program::RocksDb(RocksDb { value_bytes: 1000, phase: Phase::Fill }),
        seconds: SPILL_SECONDS,
        seconds_quick: 5.0,
        rounds: ROUNDS,
        rows: &[
            row("RocksDB fillseq, sync, 5 % in memory", Figure::Rate, goal::SPILL),
            row("  and to ext4, which keeps each key", Figure::Rate, goal::SPILL_TO_DISK),
            row("  99 of 100 take at most", Figure::Percentile99, Goal::Reported),
            row("  the longest", Figure::LongestWait, Goal::Reported),
        ],
    },
    beside(
        "log-beside-table",
        GIB,
        false,
        &committed("a commit beside a table of the process, 99 of 100", goal::COMMIT_BESIDE),
    ),
    beside(
        "log-beside-table-two",
        GIB,
        true,
        &committed("a commit beside a table of another process, 99 of 100", goal::COMMIT_APART),
    ),
    filebench("predict-varmail", VARMAIL, &predicted("varmail")),
    filebench("predict-fileserver", FILESERVER, &predicted("fileserver")),
    filebench("predict-webproxy", WEBPROXY, &predicted("webproxy")),
    filebench("predict-webserver", WEBSERVER, &predicted("webserver")),
    Work {
        name: "predict-rocksdb",
        program: Program::RocksDb(RocksDb { value_bytes: 1000, phase: Phase::FillAndOverwrite }),
        seconds: 5.0,
        seconds_quick: 2.0,
        rounds: ROUNDS,
        rows: &predicted("RocksDB fillseq, sync, and overwrite"),
    },
    Work {
        name: "predict-short",
        program: Program::ShortPrograms(ShortPrograms { programs: 500 }),
        seconds: 0.0,
        seconds_quick: 0.0,
        rounds: ROUNDS,
        rows: &predicted("programs that sync one file each"),
    },
    sqlite("predict-sqlite-delete", JournalMode::Delete, &predicted("SQLite commit, FULL, DELETE")),
    sqlite("predict-sqlite-persist", JournalMode::Persist, &predicted("SQLite commit, FULL, PERSIST")),
    sqlite("predict-sqlite-wal", JournalMode::Wal, &predicted("SQLite commit, FULL, WAL")),
    beside("predict-table", 256 * MIB, false, &predicted("commits beside a table that is written over")),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::name::PeerName;

    #[test]
    fn each_is_run_where_its_goals_are_judged_and_nowhere_else() {
        let peers = |name: &str| {
            let work = WORKS.iter().find(|work| work.name == name).unwrap();
            let all = [
                PeerName::Cuesta,
                PeerName::Tmpfs,
                PeerName::Ext4Disk,
                PeerName::OnDisk,
                PeerName::Optimistic,
                PeerName::EatMyData,
                PeerName::Spill,
                PeerName::Ext4Ram,
                PeerName::Mount,
            ];
            all.into_iter().filter(|&peer| work.concerns(peer, true)).collect::<Vec<_>>()
        };
        use PeerName::{Cuesta, EatMyData, Ext4Disk, OnDisk, Optimistic, Spill, Tmpfs};
        assert_eq!(peers("bulk-1m"), [Cuesta, Tmpfs, Ext4Disk, OnDisk]);
        assert_eq!(peers("first-4k"), [Cuesta, Tmpfs]);
        assert_eq!(peers("rocksdb-sync"), [Tmpfs, Optimistic, EatMyData]);
        assert_eq!(peers("rocksdb-spill"), [Cuesta, Ext4Disk, Spill]);
        assert_eq!(peers("log-beside-table"), [Ext4Disk, OnDisk]);
        assert_eq!(peers("predict-varmail"), [Spill]);
    }
}
