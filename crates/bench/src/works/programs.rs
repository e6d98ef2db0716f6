//! Policy: programs that are started, and jobs of many programs one after the other.

use crate::figures::measure::Figure;
use crate::workload::programs::job::{Job, Make, Task};
use crate::workload::programs::start::{Start, Started};
use crate::works::goal::{self, Goal};
use crate::works::program::Program;
use crate::works::work::{Row, Work, row};

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

/// In the order of the table.
pub const WORKS: &[Work] = &[
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
];
