//! PostgreSQL: where its programs are, and a server of our own that ends with us.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::error::{BenchError, Context};

const START_LIMIT: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Where Debian keeps what belongs to one version.
const VERSIONS: &str = "/usr/lib/postgresql";
/// It names the socket only: the server listens on no network.
const PORT: &str = "6543";
/// The database that initdb makes.
const DATABASE: &str = "postgres";

/// The folder that has `initdb`, `postgres` and the clients, of the newest version there is.
pub fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir(VERSIONS).into_iter().flatten().filter_map(|entry| {
        let path = entry.ok()?.path();
        let version: u32 = path.file_name()?.to_str()?.parse().ok()?;
        Some((version, path.join("bin")))
    });
    let on_path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&on_path).map(|folder| (u32::MAX, folder));
    let has_all = |folder: &Path| ["initdb", "postgres", "pgbench"].iter().all(|n| folder.join(n).is_file());
    let found = versions.chain(on_path).filter(|(_, folder)| has_all(folder));
    found.max_by_key(|(version, _)| *version).map(|(_, folder)| folder)
}

/// A server; it ends when this is dropped.
pub struct Server {
    programs: PathBuf,
    /// A folder outside the file system under test: the server's socket and the programs' output.
    outside: tempfile::TempDir,
    server: Child,
}

impl Server {
    /// Makes a cluster in `data` and serves it.
    pub fn start(data: &Path) -> Result<Server, BenchError> {
        let programs =
            programs().ok_or_else(|| BenchError::Unusable("PostgreSQL is not installed".into()))?;
        let outside = tempfile::tempdir().context("making a folder for the socket")?;
        let mut initdb = Command::new(programs.join("initdb"));
        initdb.args(["--no-sync", "-A", "trust", "-U", DATABASE, "-D"]).arg(data);
        run(&mut initdb)?;
        let mut server = Command::new(programs.join("postgres"));
        server.arg("-D").arg(data).arg("-k").arg(outside.path()).args(["-p", PORT]);
        server.args(["-c", "listen_addresses=", "-c", "shared_buffers=256MB"]);
        server.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let server = server.spawn().context("starting postgres")?;
        let mut server = Server { programs, outside, server };
        server.wait_until_ready()?;
        Ok(server)
    }

    fn wait_until_ready(&mut self) -> Result<(), BenchError> {
        let deadline = Instant::now() + START_LIMIT;
        while run(self.client("pg_isready").arg("-q")).is_err() {
            if let Some(status) = self.server.try_wait().context("watching postgres")? {
                return Err(BenchError::Child {
                    what: "postgres".into(),
                    status: status.to_string(),
                    words: String::new(),
                });
            }
            if Instant::now() > deadline {
                return Err(BenchError::TimedOut { what: "postgres".into(), after: START_LIMIT });
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    /// A client of this server; further arguments have to follow.
    pub fn client(&self, name: &str) -> Command {
        let mut command = Command::new(self.programs.join(name));
        command.arg("-h").arg(self.outside.path()).args(["-p", PORT, "-U", DATABASE]);
        command.current_dir(self.outside.path());
        command
    }

    /// A folder for files that are not measured.
    pub fn outside(&self) -> &Path {
        self.outside.path()
    }

    /// The database that clients use.
    pub fn database(&self) -> &'static str {
        DATABASE
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // "Fast": it hangs up on its clients, writes what has to be written, and ends.
        let _ = kill_process(Pid::from_child(&self.server), Signal::INT);
        let _ = self.server.wait();
    }
}

/// Runs a program to its end.
pub fn run(command: &mut Command) -> Result<(), BenchError> {
    let what =
        Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().context(format!("running {what}"))?;
    if output.status.success() {
        return Ok(());
    }
    let words = String::from_utf8_lossy(&output.stderr);
    let words = words.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default().to_owned();
    Err(BenchError::Child { what, status: output.status.to_string(), words })
}
