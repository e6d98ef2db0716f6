//! Policy: several processes that share files and directories. In memory they do as much as on tmpfs, on a disk more than on ext4,
//! and no single call waits long for the others.

use crate::figures::measure::Figure;
use crate::figures::units::{KIB, MIB};
use crate::workload::sharing::append::{AccessLog, Append};
use crate::workload::sharing::job::{Job, Task};
use crate::workload::sharing::mail::Mail;
use crate::workload::sharing::nginx::Nginx;
use crate::workload::sharing::pages::Pages;
use crate::workload::sharing::pgbench::PgBench;
use crate::workload::sharing::rename::ServedRename;
use crate::workload::sharing::shared::Shared;
use crate::works::goal::{self, Goal};
use crate::works::program::Program;
use crate::works::work::{Row, Work, row};

const ROUNDS: u32 = 3;
/// Of works that take long: all of them together shall take six minutes.
const LONG_ROUNDS: u32 = 2;

/// What tells how much is done, what 99 of 100 take, and what the longest takes.
type Figures = [Figure; 3];

const RATE: Figures = [Figure::Rate, Figure::Percentile99, Figure::LongestWait];
const TIME: Figures = [Figure::Elapsed, Figure::Percentile99, Figure::LongestWait];
const FOUR_CLIENTS: Figures = [Figure::FourRate, Figure::FourPercentile99, Figure::FourLongestWait];
const EIGHT_CLIENTS: Figures = [Figure::EightRate, Figure::EightPercentile99, Figure::EightLongestWait];

/// The rows of a work, with its goals in memory and on a disk.
const fn rows(title: &'static str, figures: Figures, memory: Goal, disk: Goal) -> [Row; 6] {
    let [done, tail, longest] = figures;
    [
        row(title, done, memory),
        row("  on a disk", done, disk),
        row("  99 of 100 take at most", tail, goal::SHARED_TAIL),
        row("    on a disk", tail, goal::SHARED_TAIL_ON_DISK),
        row("  the longest wait", longest, goal::STALL),
        row("    on a disk", longest, goal::WAIT_ON_DISK),
    ]
}

/// The same, and how much is done by a mount on a disk: so many times what ext4 does.
const fn rows_with_mount(title: &'static str, memory: Goal, disk: Goal, mount: f64) -> [Row; 7] {
    let [done, on_disk, rest @ ..] = rows(title, RATE, memory, disk);
    let by_mount = row("  by the mount on a disk", Figure::Rate, goal::mount_on_disk(mount));
    let [tail, tail_on_disk, longest, longest_on_disk] = rest;
    [done, on_disk, by_mount, tail, tail_on_disk, longest, longest_on_disk]
}

const fn shared(name: &'static str, shared: Shared, rows: &'static [Row]) -> Work {
    let program = Program::Shared(shared);
    Work { name, program, seconds: 0.5, seconds_quick: 0.2, rounds: ROUNDS, rows }
}

const fn mail(processes: u32) -> Shared {
    Shared::Mail(Mail { processes, size: 4 * KIB })
}

const fn append(syncs: bool) -> Shared {
    Shared::Append(Append { processes: 4, size: 100, syncs })
}

const fn pages(writers: u32, readers: u32, syncs: bool) -> Shared {
    let (size, read_size, file_bytes) = (8 * KIB, 4 * KIB, 64 * MIB);
    Shared::Pages(Pages { writers, readers, size, read_size, file_bytes, syncs })
}

const fn nginx(drops_ids: bool) -> Shared {
    Shared::Nginx(Nginx { clients: 4, page: 4 * KIB, drops_ids })
}

const fn job(name: &'static str, rounds: u32, task: Task, rows: &'static [Row]) -> Work {
    let program = Program::ParallelJob(Job { task });
    Work { name, program, seconds: 0.0, seconds_quick: 0.0, rounds, rows }
}

const AS_TMPFS: Goal = Goal::TimesTmpfs(1.0);

/// In the order of the table.
pub const WORKS: &[Work] = &[
    shared("mail-2", mail(2), &rows("Maildir, 2 processes", RATE, AS_TMPFS, goal::disk(2.0))),
    shared("mail-4", mail(4), &rows_with_mount("Maildir, 4 processes", AS_TMPFS, goal::disk(2.0), 1.5)),
    shared("mail-8", mail(8), &rows("Maildir, 8 processes", RATE, AS_TMPFS, goal::disk(2.0))),
    shared(
        "append-shared",
        append(false),
        &rows("4 append 100 B to one file", RATE, AS_TMPFS, goal::disk(1.0)),
    ),
    shared(
        "append-shared-sync",
        append(true),
        &rows_with_mount("4 append 100 B + fdatasync", AS_TMPFS, goal::disk(1.2), 1.5),
    ),
    shared(
        "pages-shared",
        pages(4, 0, false),
        &rows("4 overwrite pages of one file", RATE, AS_TMPFS, goal::disk(1.0)),
    ),
    shared(
        "pages-shared-sync",
        pages(4, 0, true),
        &rows_with_mount("4 overwrite pages + fdatasync", AS_TMPFS, goal::disk(1.0), 1.0),
    ),
    shared(
        "readers",
        pages(1, 2, false),
        &rows("1 overwrites pages, 2 read them", RATE, AS_TMPFS, goal::disk(1.0)),
    ),
    shared(
        "access-log",
        Shared::AccessLog(AccessLog { workers: 2, page: 4 * KIB, line: 180 }),
        &rows("2 serve a page, one access log", RATE, AS_TMPFS, goal::disk(1.0)),
    ),
    shared("nginx", nginx(false), &rows("nginx, 2 workers, one access log", RATE, AS_TMPFS, goal::disk(1.0))),
    shared(
        "nginx-dropped",
        nginx(true),
        &rows("nginx, 2 workers of another user", RATE, AS_TMPFS, goal::disk(1.0)),
    ),
    Work {
        name: "pgbench",
        program: Program::PgBench(PgBench { scale: 5 }),
        seconds: 2.0,
        seconds_quick: 1.0,
        rounds: LONG_ROUNDS,
        rows: &joined([
            rows("PostgreSQL, pgbench -N, 1 client", RATE, AS_TMPFS, goal::disk(1.3)),
            rows("PostgreSQL, pgbench -N, 4 clients", FOUR_CLIENTS, AS_TMPFS, goal::disk(1.3)),
            rows("PostgreSQL, pgbench -N, 8 clients", EIGHT_CLIENTS, AS_TMPFS, goal::disk(1.3)),
        ]),
    },
    job(
        "make-parallel",
        LONG_ROUNDS,
        Task::Make { files: 200 },
        &rows("make -j4 of 200 C files", TIME, goal::SHARED_JOB, goal::DISK_TREE),
    ),
    job(
        "touch-parallel",
        ROUNDS,
        Task::Touch { names: 4000 },
        &rows("xargs -P4 touch, 4,000 names", TIME, goal::SHARED_JOB, goal::DISK_TREE),
    ),
    job(
        "remove-parallel",
        ROUNDS,
        Task::Remove { names: 4000 },
        &rows("xargs -P4 rm, 4,000 names", TIME, goal::SHARED_JOB, goal::DISK_TREE),
    ),
    job(
        "shells",
        ROUNDS,
        Task::Shells { files: 200 },
        &rows("4 shells write and mv 200 files each", TIME, goal::SHARED_JOB, goal::DISK_TREE),
    ),
    job(
        "git-two",
        ROUNDS,
        Task::Git { commits: 10 },
        &rows("2 git status, commit and gc", TIME, goal::SHARED_GIT, goal::DISK_TREE),
    ),
    Work {
        name: "rename-served",
        program: Program::ServedRename(ServedRename),
        seconds: 0.5,
        seconds_quick: 0.2,
        rounds: 5,
        rows: &[
            row("rename, shipped: median, idle CPU beside", Figure::RenameBesideIdle, Goal::Below(6.0)),
            row("  busy CPU beside", Figure::RenameBesideBusy, Goal::Below(12.0)),
        ],
    },
];

const fn joined(parts: [[Row; 6]; 3]) -> [Row; 18] {
    let mut all = [parts[0][0]; 18];
    let mut at = 0;
    while at < all.len() {
        all[at] = parts[at / 6][at % 6];
        at += 1;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::name::PeerName;

    fn goals(name: &str, figure: Figure) -> Vec<Goal> {
        let work = WORKS.iter().find(|work| work.name == name).unwrap();
        work.rows.iter().filter(|row| row.figure == figure).map(|row| row.goal).collect()
    }

    #[test]
    fn each_is_judged_in_memory_and_on_a_disk_and_so_is_its_longest_wait() {
        for work in WORKS.iter().filter(|work| work.name != "rename-served") {
            let is_about = |figures: &[Figure], peer| {
                let mut goals = work.rows.iter().filter(|row| figures.contains(&row.figure));
                goals.any(|row| row.goal.is_about(peer))
            };
            assert!(goals(work.name, Figure::LongestWait).contains(&Goal::Below(50.0)), "{}", work.name);
            for figures in
                [&[Figure::Rate, Figure::Elapsed][..], &[Figure::Percentile99], &[Figure::LongestWait]]
            {
                assert!(is_about(figures, PeerName::OnDisk), "{}", work.name);
                assert!(is_about(figures, PeerName::Ext4Disk), "{}", work.name);
            }
        }
    }

    #[test]
    fn the_mount_on_a_disk_has_goals_where_four_processes_wait_for_it() {
        let mounted: Vec<&str> = WORKS
            .iter()
            .filter(|work| work.concerns(PeerName::MountDisk, false))
            .map(|work| work.name)
            .collect();
        assert_eq!(mounted, ["mail-4", "append-shared-sync", "pages-shared-sync"]);
    }

    #[test]
    fn the_rows_of_each_number_of_clients_follow_one_another() {
        assert_eq!(goals("pgbench", Figure::FourRate), goals("pgbench", Figure::Rate));
        assert_eq!(goals("pgbench", Figure::EightLongestWait), goals("pgbench", Figure::LongestWait));
        assert_eq!(WORKS.iter().find(|work| work.name == "pgbench").unwrap().rows.len(), 18);
    }
}
