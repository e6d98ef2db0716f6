//! Running children: pinned to one CPU, in a process group of their own, with a time limit, and gone when the
//! user interrupts, or when we are killed.
//!
//! Pinning: an application gets the first CPU we may use, a daemon the second (the same if there is only
//! one); several applications at once get all, and so does the daemon then: one CPU of theirs would be half its own. The calling thread takes on the CPU mask before it spawns and drops it again; the child inherits it.

use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group, set_parent_process_death_signal};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::error::{BenchError, Context};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);
static GROUPS: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

/// From now on SIGINT, SIGTERM and SIGHUP kill the running children and make `check_interrupted` fail, so
/// that everything set up is torn down on the ordinary way out.
pub fn catch_interrupts() -> Result<(), BenchError> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context("catching signals")?;
    std::thread::spawn(move || {
        for _ in signals.forever() {
            let groups = GROUPS.lock().expect("no panic under this lock");
            INTERRUPTED.store(true, Ordering::SeqCst);
            groups.iter().for_each(|&group| kill_group(group));
        }
    });
    Ok(())
}

/// An error if the user asked us to end.
pub fn check_interrupted() -> Result<(), BenchError> {
    if INTERRUPTED.load(Ordering::SeqCst) { Err(BenchError::Interrupted) } else { Ok(()) }
}

fn kill_group(group: Pid) {
    // A group that is gone already is what was wanted.
    let _ = kill_process_group(group, Signal::KILL);
}

/// The user of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The program measured.
    Application,
    /// A program measured that is several processes; or a daemon that serves them.
    Applications,
    /// A daemon that serves it.
    Daemon,
}

fn cpu_of(role: Role, allowed: &CpuSet) -> Option<usize> {
    let mut cpus = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu));
    let first = cpus.next();
    match role {
        Role::Applications => None,
        Role::Application => first,
        Role::Daemon => cpus.next().or(first),
    }
}

/// A child in a group of its own, killed with the whole group when dropped.
#[derive(Debug)]
pub struct Guarded {
    child: Child,
    group: Pid,
    reaped: bool,
}

impl Guarded {
    /// Starts `command` on the CPU of `role`.
    pub fn spawn(command: &mut Command, role: Role) -> Result<Self, BenchError> {
        let what = format!("starting {}", program_name(command));
        let allowed = sched_getaffinity(None).context("reading the CPU mask")?;
        if let Some(cpu) = cpu_of(role, &allowed) {
            let mut one = CpuSet::new();
            one.set(cpu);
            sched_setaffinity(None, &one).context("pinning")?;
        }
        let die_with_us = || Ok(set_parent_process_death_signal(Some(Signal::KILL))?);
        // SAFETY: between fork and exec the closure makes one system call and touches no memory.
        unsafe { command.pre_exec(die_with_us) };
        let spawned = command.process_group(0).spawn();
        sched_setaffinity(None, &allowed).context("unpinning")?;
        let child = spawned.context(what)?;
        let group = Pid::from_child(&child);
        let guarded = Guarded { child, group, reaped: false };
        GROUPS.lock().expect("no panic under this lock").push(group);
        check_interrupted()?;
        Ok(guarded)
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills the whole group with SIGKILL and waits for the child.
    pub fn kill(&mut self) {
        if !self.reaped {
            kill_group(self.group);
            // The only failure is "no such child", and then there is nothing to wait for.
            let _ = self.wait();
        }
    }

    /// Waits for its end.
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait();
        self.forget();
        status
    }

    /// Its status, if it ended.
    pub fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        let status = self.child.try_wait()?;
        if status.is_some() {
            self.forget();
        }
        Ok(status)
    }

    /// Its standard output, once.
    pub fn take_stdout(&mut self) -> impl Read + Send + 'static {
        self.child.stdout.take().expect("taken once, of a child with a pipe")
    }

    fn forget(&mut self) {
        self.reaped = true;
        GROUPS.lock().expect("no panic under this lock").retain(|&group| group != self.group);
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Runs `command` to its end and returns what it printed.
pub fn run(command: &mut Command, what: &str, limit: Duration) -> Result<String, BenchError> {
    run_as(Role::Application, command, what, limit)
}

/// The same, on the CPU of `role`.
pub fn run_as(role: Role, command: &mut Command, what: &str, limit: Duration) -> Result<String, BenchError> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = Guarded::spawn(command, role)?;
    let (ended, end) = mpsc::channel();
    let errors = child.child.stderr.take().expect("a pipe was asked for");
    let errors = read_all(errors, ended.clone());
    let output = read_all(child.take_stdout(), ended);
    for _ in 0..2 {
        match end.recv_timeout(limit) {
            Ok(()) => {}
            Err(mpsc::RecvTimeoutError::Timeout) => {
                child.kill();
                return Err(BenchError::TimedOut { what: what.to_owned(), after: limit });
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
        }
    }
    let status = child.wait().context(format!("waiting for {what}"))?;
    check_interrupted()?;
    let output = output.join().expect("reading does not panic");
    if status.success() {
        return Ok(output);
    }
    let errors = errors.join().expect("reading does not panic");
    let words = errors.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("(said nothing)").to_owned();
    Err(BenchError::Child { what: what.to_owned(), status: status.to_string(), words })
}

/// Reads everything, as text; says so on `ended`.
fn read_all(mut from: impl Read + Send + 'static, ended: mpsc::Sender<()>) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // The bytes before an error are still worth having.
        let _ = from.read_to_end(&mut bytes);
        // Nobody listens any more after a time-out.
        let _ = ended.send(());
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Waits until the child prints the line `wanted`.
pub fn wait_for_line(child: &mut Guarded, wanted: &'static str, limit: Duration) -> Result<(), BenchError> {
    let (found, answer) = mpsc::channel();
    let output = child.take_stdout();
    std::thread::spawn(move || {
        let seen = BufReader::new(output).lines().map_while(Result::ok).any(|line| line == wanted);
        // Nobody listens any more after a time-out.
        let _ = found.send(seen);
    });
    match answer.recv_timeout(limit) {
        Ok(true) => Ok(()),
        Ok(false) => {
            check_interrupted()?;
            Err(BenchError::Unusable(format!("a child ended before it said {wanted:?}")))
        }
        Err(_) => {
            Err(BenchError::TimedOut { what: format!("a child that should say {wanted:?}"), after: limit })
        }
    }
}

fn program_name(command: &Command) -> String {
    let path = std::path::Path::new(command.get_program());
    path.file_name().unwrap_or(command.get_program()).to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn shell(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn output_is_returned_and_failures_keep_the_last_words() {
        assert_eq!(run(&mut shell("echo out; echo err >&2"), "it", MINUTE).unwrap(), "out\n");
        let failed = run(&mut shell("echo first >&2; echo last >&2; exit 3"), "it", MINUTE).unwrap_err();
        let BenchError::Child { status, words, .. } = failed else { panic!("{failed}") };
        assert_eq!(words, "last");
        assert!(status.contains('3'), "{status}");
    }

    #[test]
    fn a_child_that_does_not_end_is_killed_with_its_own_children() {
        let ended = run(&mut shell("sleep 1000 & wait"), "it", Duration::from_millis(50));
        assert!(matches!(ended, Err(BenchError::TimedOut { .. })));
    }

    #[test]
    fn a_line_is_waited_for() {
        let mut command = shell("echo one; echo two; sleep 1000");
        let mut child = Guarded::spawn(command.stdout(Stdio::piped()), Role::Application).unwrap();
        wait_for_line(&mut child, "two", MINUTE).unwrap();
        let mut silent = Guarded::spawn(shell("true").stdout(Stdio::piped()), Role::Daemon).unwrap();
        assert!(matches!(wait_for_line(&mut silent, "two", MINUTE), Err(BenchError::Unusable(_))));
    }

    #[test]
    fn application_and_daemon_share_a_cpu_only_if_they_must() {
        let mut allowed = CpuSet::new();
        allowed.set(3);
        assert_eq!(cpu_of(Role::Daemon, &allowed), Some(3));
        allowed.set(5);
        assert_eq!(cpu_of(Role::Application, &allowed), Some(3));
        assert_eq!(cpu_of(Role::Daemon, &allowed), Some(5));
        assert_eq!(cpu_of(Role::Applications, &allowed), None);
    }
}
