//! nginx: a master that opens one access log, two workers that append to it, and clients that fetch one page.
//!
//! The workers inherit the descriptor of the log by fork. They may also drop the ids of root, as nginx does by default.

use super::clock::{CallClock, timed_in_each};
use super::warm_up::operations;
use crate::error::{BenchError, Context};
use crate::figures::measure::Outcome;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const START_LIMIT: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Debian installs it where a user's `PATH` may not lead.
const PLACES: &str = "/usr/sbin:/usr/local/sbin";
const REQUEST: &[u8] = b"GET /page HTTP/1.1\r\nHost: bench\r\n\r\n";
/// What the access log says of a request that was answered.
const SERVED: &str = "\"GET /page HTTP/1.1\" 200";

/// Requests by so many clients, each of which waits for the answer before it asks again.
#[derive(Clone, Copy, Debug)]
pub struct Nginx {
    /// Processes that ask.
    pub clients: u32,
    /// Bytes of the page.
    pub page: u64,
    /// The workers become another user's processes.
    pub drops_ids: bool,
}

/// nginx's program, if it is installed.
pub fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders = std::env::split_paths(&path).chain(std::env::split_paths(PLACES));
    folders.find_map(|folder| Some(folder.join("nginx")).filter(|program| program.is_file()))
}

impl Nginx {
    /// Measures in `dir`.
    pub fn run(&self, dir: &Path, time: Duration) -> Result<Vec<Outcome>, BenchError> {
        std::fs::write(dir.join("page"), vec![b'p'; self.page as usize]).context("making the page")?;
        let server = Server::start(dir, self.drops_ids)?;
        let outcomes = timed_in_each(self.clients, time, |_| {
            let mut socket = server.connect().context("connecting to nginx")?;
            let mut answer = vec![0; self.page as usize + 4096];
            Ok(move |_, clock: &mut CallClock| {
                clock.returned(self.fetch(&mut socket, &mut answer)).context("fetching the page")
            })
        })?;
        server.stop()?;
        self.verify(dir, &outcomes)?;
        Ok(outcomes)
    }

    /// One request, and the answer to its end.
    fn fetch(&self, socket: &mut UnixStream, answer: &mut [u8]) -> io::Result<()> {
        socket.write_all(REQUEST)?;
        let mut length = 0;
        loop {
            length += match socket.read(&mut answer[length..])? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => count,
            };
            let Some(head) = answer[..length].windows(4).position(|end| end == b"\r\n\r\n") else { continue };
            if !answer.starts_with(b"HTTP/1.1 200") {
                return Err(io::Error::other(String::from_utf8_lossy(&answer[..head]).into_owned()));
            }
            if length >= head + 4 + self.page as usize {
                return Ok(());
            }
        }
    }

    /// Checks that the access log has one whole line for each answer.
    fn verify(&self, dir: &Path, outcomes: &[Outcome]) -> Result<(), BenchError> {
        let log = std::fs::read_to_string(dir.join("access.log")).context("reading the access log")?;
        let wanted: u64 = outcomes.iter().map(operations).sum();
        let is_whole = |line: &&str| line.matches(SERVED).count() == 1;
        let (lines, whole) = (log.lines().count() as u64, log.lines().filter(is_whole).count() as u64);
        if (lines, whole) == (wanted, wanted) {
            return Ok(());
        }
        Err(BenchError::Corrupt(format!("{lines} lines, {whole} of them whole, for {wanted} answers")))
    }
}

/// A server; it ends when this is dropped.
struct Server {
    /// A folder outside the file system under test: the socket and the configuration.
    outside: tempfile::TempDir,
    server: Child,
}

impl Server {
    /// Starts an nginx that serves the files of `dir`, and writes its log there.
    fn start(dir: &Path, drops_ids: bool) -> Result<Server, BenchError> {
        let program = program().ok_or_else(|| BenchError::Unusable("nginx is not installed".into()))?;
        let outside = tempfile::tempdir().context("making a folder for the socket")?;
        let (place, own) = (dir.display(), outside.path().display());
        let user = match (rustix::process::geteuid().is_root(), drops_ids) {
            (true, true) => "user nobody nogroup;",
            (true, false) => "user root;",
            (false, _) => "",
        };
        let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|name| format!("{name}_temp_path {place}/{name}; "))
            .concat();
        let configuration = format!(
            "{user} worker_processes 2; daemon off; pid {own}/pid; error_log {place}/error.log;\n\
             events {{ worker_connections 64; }}\n\
             http {{ access_log {place}/access.log; sendfile on; keepalive_requests 1000000000; {temporary}\n\
             server {{ listen unix:{own}/socket; root {place}; }} }}\n"
        );
        let file = outside.path().join("nginx.conf");
        std::fs::write(&file, configuration).context("writing nginx's configuration")?;
        let mut command = Command::new(program);
        command.arg("-p").arg(dir).arg("-c").arg(file).arg("-e").arg(dir.join("error.log"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let server = command.spawn().context("starting nginx")?;
        let mut server = Server { outside, server };
        server.wait_until_ready()?;
        Ok(server)
    }

    fn connect(&self) -> io::Result<UnixStream> {
        UnixStream::connect(self.outside.path().join("socket"))
    }

    fn wait_until_ready(&mut self) -> Result<(), BenchError> {
        let deadline = Instant::now() + START_LIMIT;
        while self.connect().is_err() {
            if let Some(status) = self.server.try_wait().context("watching nginx")? {
                let (what, words) = ("nginx".into(), String::new());
                return Err(BenchError::Child { what, status: status.to_string(), words });
            }
            if Instant::now() > deadline {
                return Err(BenchError::TimedOut { what: "nginx".into(), after: START_LIMIT });
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    /// Ends it once every request is logged.
    fn stop(mut self) -> Result<(), BenchError> {
        kill_process(Pid::from_child(&self.server), Signal::QUIT).context("stopping nginx")?;
        self.server.wait().context("waiting for nginx").map(drop)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if matches!(self.server.try_wait(), Ok(None)) {
            let _ = kill_process(Pid::from_child(&self.server), Signal::TERM);
            let _ = self.server.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn each_answer_has_its_line_in_the_log_and_a_lost_line_is_seen() {
        if program().is_none() {
            println!("skipped: nginx is not installed");
            return;
        }
        for drops_ids in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
            let nginx = Nginx { clients: 2, page: 5000, drops_ids };
            let outcomes = nginx.run(dir.path(), Duration::from_millis(10)).unwrap();
            let log = dir.path().join("access.log");
            let text = std::fs::read_to_string(&log).unwrap();
            std::fs::write(&log, &text[..text.len() - 2]).unwrap();
            nginx.verify(dir.path(), &outcomes).unwrap();
            std::fs::write(&log, &text[text.find('\n').unwrap() + 1..]).unwrap();
            assert!(matches!(nginx.verify(dir.path(), &outcomes), Err(BenchError::Corrupt(_))));
        }
    }
}
