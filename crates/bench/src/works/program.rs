//! The programs of works, and what each asks of the peers and the machine.

use crate::figures::units::{GIB, KIB, MIB};
use crate::processes::user::User;
use crate::workload::daemons::at_rest::AtRest;
use crate::workload::daemons::fill::Filling;
use crate::workload::limits::digest::{Digest, Folded};
use crate::workload::limits::limit::Limit;
use crate::workload::limits::mixed::Mixed;
use crate::workload::programs::job::Job;
use crate::workload::programs::start::Start;
use crate::workload::sharing::pgbench::PgBench;
use crate::workload::sharing::rename::ServedRename;
use crate::workload::sharing::shared::Shared;
use crate::workload::sharing::{self, nginx, postgres};
use crate::workload::single::calls::Calls;
use crate::workload::single::foreign::Foreign;
use crate::workload::tiers::bulk::Bulk;
use crate::workload::tiers::commits::LogBesideTable;
use crate::workload::tiers::filebench::Filebench;
use crate::workload::tiers::first::FirstAppends;
use crate::workload::tiers::rocksdb::{self, RocksDb};
use crate::workload::tiers::short::ShortPrograms;
use crate::workload::writes::append::Append;
use crate::workload::writes::create::Create;
use crate::workload::writes::hand_over::HandOver;
use crate::workload::writes::pages::Pages;
use crate::workload::writes::sqlite::Sqlite;
use crate::workload::writes::stream::Stream;
use crate::workload::writes::threads::Threads;
use crate::workload::writes::together::{OneDirectory, OwnDirectories};

/// The user that PostgreSQL is installed with.
const POSTGRES: &str = "postgres";

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
    /// A store full of files, and programs that do nothing: the daemon's memory, time and wake-ups.
    AtRest(AtRest),
    /// Processes that share files and directories.
    Shared(Shared),
    /// The same, with programs of every day.
    ParallelJob(sharing::job::Job),
    /// The same, with those of a database server.
    PgBench(PgBench),
    /// A call that SharedFS performs for a process.
    ServedRename(ServedRename),
    /// One large file.
    Bulk(Bulk),
    /// The first appends of a process.
    FirstAppends(FirstAppends),
    /// A log that is synced, beside a table that is written.
    LogBesideTable(LogBesideTable),
    /// A Filebench personality.
    Filebench(Filebench),
    /// RocksDB.
    RocksDb(RocksDb),
    /// Programs that write one file each.
    ShortPrograms(ShortPrograms),
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
            Program::Job(_) | Program::Shared(_) => 256 * MIB,
            Program::PgBench(_) => 512 * MIB,
            // The bare copy's as well.
            Program::Bulk(bulk) => 2 * bulk.file_bytes,
            Program::FirstAppends(first) => first.size * first.count,
            Program::LogBesideTable(beside) => beside.table_bytes,
            Program::Filebench(_) | Program::RocksDb(_) => GIB,
            Program::Foreign(_)
            | Program::Calls(_)
            | Program::Digest(_)
            | Program::HandOver(_)
            | Program::Start(_)
            | Program::Launch { .. }
            | Program::Recovery(_)
            | Program::AtRest(_)
            | Program::ParallelJob(_)
            | Program::ShortPrograms(_)
            | Program::ServedRename(_) => 0,
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
            | Program::AtRest(_)
            | Program::Shared(_)
            | Program::ParallelJob(_)
            | Program::PgBench(_)
            | Program::ServedRename(_)
            | Program::LogBesideTable(_)
            | Program::Filebench(_)
            | Program::RocksDb(_) => true,
            Program::Sqlite(sqlite) => sqlite.processes > 1,
            _ => false,
        }
    }

    /// Whether it is about what processes share.
    pub fn is_of_sharing(&self) -> bool {
        matches!(
            self,
            Program::Shared(_) | Program::ParallelJob(_) | Program::PgBench(_) | Program::ServedRename(_)
        )
    }

    /// Whether it is about tiers, optimistic mode or large writes.
    pub fn is_of_tiers(&self) -> bool {
        matches!(
            self,
            Program::Bulk(_)
                | Program::FirstAppends(_)
                | Program::LogBesideTable(_)
                | Program::Filebench(_)
                | Program::RocksDb(_)
                | Program::ShortPrograms(_)
        )
    }

    /// A program that the work needs and that is not installed: the work is skipped then.
    pub fn lacks(&self) -> Option<String> {
        match self {
            Program::ParallelJob(job) => {
                let missing = job.task.programs().iter().find(|name| !is_installed(name));
                missing.map(|name| format!("{name} is not installed"))
            }
            Program::Shared(Shared::Nginx(_)) if nginx::program().is_none() => {
                Some("nginx is not installed".into())
            }
            Program::Shared(Shared::Nginx(nginx)) if nginx.drops_ids && !is_root() => {
                Some("needs root, to have workers that drop its ids".into())
            }
            Program::RocksDb(_) if !is_installed(rocksdb::PROGRAM) => {
                Some(format!("{} is not installed", rocksdb::PROGRAM))
            }
            Program::PgBench(_) if postgres::programs().is_none() => {
                Some("PostgreSQL is not installed".into())
            }
            Program::PgBench(_) if is_root() && User::named(POSTGRES).is_none() => {
                Some(format!("there is no user {POSTGRES}"))
            }
            Program::ServedRename(_) if !is_root() => {
                Some("needs root, to have a process of another user".into())
            }
            _ => None,
        }
    }

    /// The user whose processes it has to be, if we are root and its programs refuse to be; the file system is that user's, too.
    pub fn user(&self) -> Option<User> {
        let refuses_root = matches!(self, Program::PgBench(_));
        (refuses_root && is_root()).then(|| User::named(POSTGRES)).flatten()
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}
