//! Policy: single calls, those of a store by the mount and those that are not of a store.

use crate::figures::measure::Figure;
use crate::workload::single::calls::Calls;
use crate::workload::single::foreign::Foreign;
use crate::works::goal::{self, Goal};
use crate::works::program::Program;
use crate::works::work::{Work, row};

/// In the order of the table.
pub const WORKS: &[Work] = &[
    Work {
        name: "foreign",
        program: Program::Foreign(Foreign { calls: 20_000 }),
        seconds: 0.0,
        seconds_quick: 0.0,
        // The difference is smaller than the variation of a processor's clock from second to second.
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
];
