//! A server of PostgreSQL with its data on the store. It ends with the power.

use super::machine::Machine;
use crate::kill::served::{ROOT, told};
use std::ffi::CString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Debian has a folder for each version here.
const VERSIONS: &str = "/usr/lib/postgresql";
/// The server refuses to run as root.
const USER: &str = "postgres";
/// It names the socket only: the server listens on no network.
const PORT: &str = "6543";
/// Checkpoints come often, and a segment of the log is soon full.
const OPTIONS: [&str; 6] = [
    "listen_addresses=",
    "shared_buffers=8MB",
    "min_wal_size=2MB",
    "max_wal_size=4MB",
    "max_connections=8",
    "checkpoint_timeout=30s",
];
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// The programs of PostgreSQL, and the user that runs them.
#[derive(Clone, Debug)]
pub(super) struct Postgres {
    programs: PathBuf,
    user: u32,
    group: u32,
}

impl Postgres {
    /// The newest version that is installed.
    pub(super) fn installed() -> Option<Postgres> {
        let versions = std::fs::read_dir(VERSIONS).ok()?.filter_map(|entry| {
            let path = entry.ok()?.path();
            let version: u32 = path.file_name()?.to_str()?.parse().ok()?;
            Some((version, path.join("bin")))
        });
        let has_all = |folder: &Path| ["initdb", "postgres", "psql"].iter().all(|n| folder.join(n).is_file());
        let (_, programs) = versions.filter(|(_, folder)| has_all(folder)).max()?;
        let (user, group) = user(USER)?;
        Some(Postgres { programs, user, group })
    }

    fn run(&self, machine: &Machine) -> Command {
        let mut command = machine.run(&[]);
        command.uid(self.user).gid(self.group);
        command
    }

    /// Makes a database on the store, with an empty table.
    pub(super) fn make(&self, machine: &Machine) -> io::Result<()> {
        std::fs::create_dir(machine.beside("socket"))?;
        std::os::unix::fs::chown(machine.beside("socket"), Some(self.user), Some(self.group))?;
        let mut folder = machine.run(&[]);
        let script = format!("mkdir -m 700 {ROOT}/pg && chown {}:{} {ROOT}/pg", self.user, self.group);
        folder.args(["sh", "-c", &script]);
        told(folder)?;
        let mut make = self.run(machine);
        make.arg(self.programs.join("initdb"));
        make.args(["-A", "trust", "-U", USER, "--wal-segsize=1", "-D"]).arg(format!("{ROOT}/pg"));
        told(make)?;
        let mut server = self.start(machine)?;
        self.ask(machine, "create table t(number integer primary key, content text)")?;
        let process = rustix::process::Pid::from_child(&server);
        rustix::process::kill_process(process, rustix::process::Signal::INT)?;
        server.wait().map(drop)
    }

    /// Starts the server; returns when it has recovered.
    pub(super) fn start(&self, machine: &Machine) -> io::Result<Child> {
        let mut command = self.run(machine);
        // The server of another boot is no server.
        let script = format!("rm -f {ROOT}/pg/postmaster.pid; exec \"$@\"");
        command.args(["sh", "-c", &script, "sh"]).arg(self.programs.join("postgres"));
        command
            .arg("-D")
            .arg(format!("{ROOT}/pg"))
            .arg("-k")
            .arg(machine.beside("socket"))
            .args(["-p", PORT]);
        command.args(OPTIONS.iter().flat_map(|option| ["-c", option]));
        let log = std::fs::File::create(machine.beside("postgres.log"))?;
        let mut server = command.stdout(log.try_clone()?).stderr(log).spawn()?;
        let deadline = Instant::now() + PATIENCE;
        while let Err(error) = self.ask(machine, "select 1") {
            if server.try_wait()?.is_some() || Instant::now() > deadline {
                let log = std::fs::read_to_string(machine.beside("postgres.log"))?;
                return Err(io::Error::other(format!("PostgreSQL does not start: {error}\n{log}")));
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(server)
    }

    fn client(&self, machine: &Machine) -> Command {
        let mut command = Command::new(self.programs.join("psql"));
        command.arg("-h").arg(machine.beside("socket")).args(["-p", PORT, "-U", USER, "-qAtX", USER]);
        command.current_dir("/").stdin(Stdio::null());
        command
    }

    fn ask(&self, machine: &Machine, statement: &str) -> io::Result<String> {
        let mut command = self.client(machine);
        command.args(["-c", statement]);
        told(command)
    }

    /// How many rows there are; they are the first ones.
    pub(super) fn count(&self, machine: &Machine) -> io::Result<u64> {
        let wrong = "count(*) filter (where length(content) <> number % 7 * 100)";
        // One way is by the table, and the other by its index.
        let said =
            self.ask(machine, &format!("select count(*), coalesce(max(number) + 1, 0), {wrong} from t"))?;
        let indexed = self.ask(
            machine,
            "set enable_seqscan = off; select count(*) from (select number from t where number >= 0) s",
        )?;
        let numbers: Vec<u64> = said.split('|').filter_map(|word| word.parse().ok()).collect();
        match numbers[..] {
            [count, next, 0] if count == next && indexed == count.to_string() => Ok(count),
            _ => Err(io::Error::other(format!(
                "rows, the next one, wrong ones: {said}; by the index {indexed}"
            ))),
        }
    }

    /// The program that inserts rows from `count` on.
    pub(super) fn insert(&self, machine: &Machine, count: u64) -> Command {
        let client = self.client(machine);
        let mut command = Command::new("python3");
        command.arg(machine.beside("jobs/insert.py")).arg(count.to_string());
        command.arg(client.get_program()).args(client.get_args()).current_dir("/").stdin(Stdio::null());
        command
    }
}

/// A user's number and group.
fn user(name: &str) -> Option<(u32, u32)> {
    let name = CString::new(name).ok()?;
    // SAFETY: the name ends with a zero byte; the answer is read before any other call of its kind.
    unsafe {
        let found = libc::getpwnam(name.as_ptr()).as_ref()?;
        Some((found.pw_uid, found.pw_gid))
    }
}
