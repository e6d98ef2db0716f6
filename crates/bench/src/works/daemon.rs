//! Policy: the daemon after a crash and at rest.

use crate::figures::measure::Figure;
use crate::workload::daemons::at_rest::AtRest;
use crate::workload::daemons::fill::Filling;
use crate::works::goal::{self, Goal};
use crate::works::program::Program;
use crate::works::work::{Row, Work, row};

const fn recovery(name: &'static str, filling: Filling, rows: &'static [Row]) -> Work {
    let program = Program::Recovery(filling);
    Work { name, program, seconds: 1.0, seconds_quick: 0.5, rounds: 3, rows }
}

const fn at_rest(name: &'static str, rest: AtRest, rows: &'static [Row]) -> Work {
    let program = Program::AtRest(rest);
    Work { name, program, seconds: 5.0, seconds_quick: 2.0, rounds: 1, rows }
}

/// In the order of the table.
pub const WORKS: &[Work] = &[
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
