//! Policy: stores whose fast tier holds a small part of the data, beside memory alone and a disk alone (Ziggurat, §6.2 to §6.4).

use crate::figures::measure::Figure;
use crate::peers::name::PeerName;
use crate::workload::tiers::filebench::Filebench;
use crate::workload::tiers::personalities::{FILESERVER, VARMAIL, WEBPROXY, WEBSERVER};
use crate::workload::tiers::rocksdb::{Phase, RocksDb};
use crate::workload::writes::sqlite::{JournalMode, Sqlite};
use crate::works::goal::Goal;
use crate::works::program::Program;
use crate::works::tiers::SPILL_SECONDS;
use crate::works::work::{Row, Work, row};

const ROUNDS: u32 = 3;

/// At least so many times the rate of the same store in memory alone.
const fn to_memory(times: f64) -> Goal {
    Goal::AtLeast { peer: PeerName::Spill, times, of: PeerName::Cuesta }
}

/// At least so many times the rate of the kernel's file system on the same disk.
const fn to_disk(times: f64) -> Goal {
    Goal::AtLeast { peer: PeerName::Spill, times, of: PeerName::Ext4Disk }
}

const fn rows(title: &'static str, memory: f64, disk: f64) -> [Row; 4] {
    [
        row(title, Figure::Rate, to_memory(memory)),
        row("  and to ext4 on the disk", Figure::Rate, to_disk(disk)),
        row("  99 of 100 take at most", Figure::Percentile99, Goal::Reported),
        row("  the longest", Figure::LongestWait, Goal::Reported),
    ]
}

const fn rates(title: &'static str, memory: f64, disk: f64) -> [Row; 2] {
    [
        row(title, Figure::Rate, to_memory(memory)),
        row("  and to ext4 on the disk", Figure::Rate, to_disk(disk)),
    ]
}

const fn rocksdb(name: &'static str, phase: Phase, rows: &'static [Row]) -> Work {
    let program = Program::RocksDb(RocksDb { value_bytes: 1000, phase });
    Work { name, program, seconds: SPILL_SECONDS, seconds_quick: 5.0, rounds: ROUNDS, rows }
}

const fn sqlite(name: &'static str, journal: JournalMode, rows: &'static [Row]) -> Work {
    let program = Program::Sqlite(Sqlite { journal, processes: 1 });
    Work { name, program, seconds: 3.0, seconds_quick: 1.0, rounds: ROUNDS, rows }
}

const fn filebench(name: &'static str, personality: Filebench, rows: &'static [Row]) -> Work {
    let program = Program::Filebench(personality);
    Work { name, program, seconds: 8.0, seconds_quick: 2.0, rounds: ROUNDS, rows }
}

/// In the order of the table.
pub const WORKS: &[Work] = &[
    rocksdb("tiered-rocksdb-fill", Phase::Fill, &rows("RocksDB fillseq, sync, 5 % in memory", 0.95, 40.0)),
    rocksdb(
        "tiered-rocksdb-unique",
        Phase::FillInRandomOrder,
        &rows("RocksDB filluniquerandom, sync, 5 % in memory", 0.85, 9.0),
    ),
    rocksdb("tiered-rocksdb-read", Phase::ReadInOrder, &rows("RocksDB readseq, 5 % in memory", 0.85, 1.4)),
    sqlite("tiered-sqlite-delete", JournalMode::Delete, &rates("SQLite commit, FULL, DELETE", 0.9, 10.0)),
    sqlite("tiered-sqlite-persist", JournalMode::Persist, &rates("SQLite commit, FULL, PERSIST", 0.9, 10.0)),
    sqlite("tiered-sqlite-wal", JournalMode::Wal, &rates("SQLite commit, FULL, WAL", 0.9, 10.0)),
    filebench(
        "tiered-varmail-one",
        Filebench { threads: 1, ..VARMAIL },
        &rates("varmail, one thread", 0.95, 5.0),
    ),
    filebench("tiered-varmail", VARMAIL, &rates("varmail", 0.95, 5.0)),
    filebench("tiered-fileserver", FILESERVER, &rates("fileserver", 0.85, 1.0)),
    filebench("tiered-webproxy", WEBPROXY, &rates("webproxy", 0.85, 1.0)),
    filebench("tiered-webserver", WEBSERVER, &rates("webserver", 0.85, 1.0)),
];
