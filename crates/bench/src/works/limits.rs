//! Policy: comparisons with the hardware alone, and with the digest beside a program
//! (docs/decisions/0031-how-far-from-the-limit.md).

use crate::figures::measure::Figure;
use crate::figures::units::{KIB, MIB};
use crate::workload::limits::digest::{Digest, Folded};
use crate::workload::limits::limit::{Limit, LimitWork};
use crate::workload::limits::mixed::Mixed;
use crate::works::goal::{self, Goal};
use crate::works::program::Program;
use crate::works::work::{BURSTS, Row, Work, row};

const fn limit(
    name: &'static str,
    work: LimitWork,
    size: u64,
    file_bytes: u64,
    rows: &'static [Row],
) -> Work {
    let burst_bytes = 16 * MIB;
    let program = Program::Limit(Limit { work, size, file_bytes, burst_bytes, bursts: BURSTS });
    Work { name, program, seconds: 0.5, seconds_quick: 0.2, rounds: 5, rows }
}

const fn digest(name: &'static str, folded: Folded, processes: u32, rows: &'static [Row]) -> Work {
    let program = Program::Digest(Digest { folded, processes, bytes_max: 768 * MIB });
    Work { name, program, seconds: 1.0, seconds_quick: 0.3, rounds: 5, rows }
}

/// The rows of a work that is compared with what the hardware does alone.
macro_rules! beside {
    ($what:literal, $goal:expr, $alone:literal) => {
        &[
            row($what, Figure::ToBareCopy, $goal),
            row("  the call", Figure::OneCall, Goal::Reported),
            row($alone, Figure::BareCopy, Goal::Reported),
        ]
    };
}
macro_rules! beside_a_copy {
    ($what:literal) => {
        beside!($what, goal::NEAR_A_COPY, "  the copy and a fence")
    };
}
macro_rules! beside_memcpy {
    ($what:literal) => {
        beside!($what, goal::NEAR_MEMCPY, "  memcpy")
    };
}

/// In the order of the table.
pub const WORKS: &[Work] = &[
    limit(
        "limit-append-128",
        LimitWork::AppendAndSync,
        128,
        64 * MIB,
        beside_a_copy!("append 128 B + fsync, to a bare copy"),
    ),
    limit(
        "limit-append-1k",
        LimitWork::AppendAndSync,
        KIB,
        64 * MIB,
        beside_a_copy!("append 1 KiB + fsync, to a bare copy"),
    ),
    limit(
        "limit-append-4k",
        LimitWork::AppendAndSync,
        4 * KIB,
        64 * MIB,
        beside_a_copy!("append 4 KiB + fsync, to a bare copy"),
    ),
    limit(
        "limit-append-16k",
        LimitWork::AppendAndSync,
        16 * KIB,
        64 * MIB,
        beside_a_copy!("append 16 KiB + fsync, to a bare copy"),
    ),
    limit(
        "limit-append-64k",
        LimitWork::AppendAndSync,
        64 * KIB,
        64 * MIB,
        beside_a_copy!("append 64 KiB + fsync, to a bare copy"),
    ),
    limit(
        "limit-read-4k",
        LimitWork::Read,
        4 * KIB,
        64 * MIB,
        beside_memcpy!("pread 4 KiB at random, to memcpy"),
    ),
    // In the processor's cache, where the copy takes least.
    limit(
        "limit-read-cached",
        LimitWork::Read,
        4 * KIB,
        4 * MIB,
        beside_memcpy!("pread 4 KiB of 4 MiB, to memcpy"),
    ),
    limit(
        "limit-read-64k",
        LimitWork::Read,
        64 * KIB,
        64 * MIB,
        beside_memcpy!("pread 64 KiB at random, to memcpy"),
    ),
    limit(
        "limit-read-1m",
        LimitWork::Read,
        MIB,
        64 * MIB,
        beside_memcpy!("pread 1 MiB at random, to memcpy"),
    ),
    Work {
        name: "mixed",
        program: Program::Mixed(Mixed { pace: 400_000, file_bytes: 64 * MIB }),
        seconds: 4.0,
        seconds_quick: 1.0,
        rounds: 5,
        rows: &[
            row("mixed load, 999 of 1,000 take at most", Figure::Percentile999, goal::TAIL),
            row("  99 of 100", Figure::Percentile99, Goal::Reported),
            row("  half of them", Figure::Median, Goal::Reported),
            row("  the longest", Figure::LongestStall, Goal::Reported),
            row("  999 of 1,000 come at most so late", Figure::Late999, Goal::Reported),
            row("  done", Figure::Rate, Goal::Reported),
        ],
    },
    digest(
        "digest-fresh",
        Folded::Fresh,
        2,
        &[row("digest, fresh data of two sessions", Figure::Bandwidth, goal::DIGESTED)],
    ),
    digest(
        "digest-temporary",
        Folded::Temporary,
        1,
        &[row("digest, files made, renamed, removed", Figure::Rate, goal::FOLDED)],
    ),
    digest(
        "digest-overwrites",
        Folded::Overwrites,
        1,
        &[row("digest, 128 B over the same places", Figure::Rate, goal::FOLDED)],
    ),
];
