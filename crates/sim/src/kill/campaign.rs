//! The killer and its oracle.

use super::history::{History, Round};
use super::writer::{ACKNOWLEDGED, DISAGREED, ISSUED};
use crate::random::Random;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, Signal};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

/// Where the store shows up in the writer.
const ROOT: &str = "/cuesta";
/// A program that says nothing for so long after the daemon was killed is waiting for it.
const SILENCE_SECONDS: i64 = 2;

/// The programs a campaign is made of.
#[derive(Clone, Debug)]
pub struct Programs {
    /// The command under test.
    pub cuesta: PathBuf,
    /// The writer and verifier.
    pub writer: PathBuf,
}

/// What is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victim {
    /// The writer.
    Program,
    /// The daemon; the writer goes on as far as it gets.
    Daemon,
    /// The writer, then at once the daemon.
    Both,
}

/// Something survived that must not, or did not that must.
#[derive(Debug, thiserror::Error)]
#[error(
    "seed {seed}, round {round}, {victim:?} killed after {acknowledged} of {issued} operations: {reason}"
)]
pub struct KillFailure {
    /// Repeats the campaign.
    pub seed: u64,
    /// The round, from 0.
    pub round: u64,
    /// The seed of its operations.
    pub round_seed: u64,
    /// What was killed in it.
    pub victim: Victim,
    /// Operations that had returned.
    pub acknowledged: u64,
    /// Operations that had been issued.
    pub issued: u64,
    /// What is wrong.
    pub reason: String,
}

/// A store that is written, killed and checked, round after round.
pub struct Campaign {
    programs: Programs,
    directory: tempfile::TempDir,
    daemon: Option<Child>,
    history: History,
    random: Random,
    seed: u64,
    round: u64,
    operations_max: u64,
}

/// How far a writer had come.
#[derive(Default)]
struct Steps {
    issued: u64,
    acknowledged: u64,
    disagreement: Option<String>,
}

impl Campaign {
    /// A campaign on a new store; a writer is killed after at most `operations_max` operations.
    pub fn new(programs: Programs, seed: u64, operations_max: u64) -> io::Result<Campaign> {
        let builder = |parent: &Path| tempfile::Builder::new().prefix("cuesta-kill-").tempdir_in(parent);
        let directory = builder(Path::new("/dev/shm")).or_else(|_| builder(&std::env::temp_dir()))?;
        let campaign = Campaign {
            programs,
            directory,
            daemon: None,
            history: History::default(),
            random: Random::new(seed),
            seed,
            round: 0,
            operations_max,
        };
        campaign.history.save(&campaign.history_path())?;
        let output = Command::new(&campaign.programs.cuesta)
            .args(["mkfs", "--medium", "memory", "--nvm", "256M"])
            .arg(campaign.store())
            .output()?;
        if !output.status.success() {
            return Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()));
        }
        Ok(campaign)
    }

    /// One round: write, kill, recover, verify.
    pub fn round(&mut self) -> Result<(), KillFailure> {
        let victim = *self.random.pick(&[Victim::Program, Victim::Program, Victim::Daemon, Victim::Both]);
        let seed = self.random.next();
        let kill_after = self.random.below(self.operations_max);
        let mut steps = Steps::default();
        let outcome =
            self.write_and_kill(victim, seed, kill_after, &mut steps).map_err(|error| error.to_string());
        let verdict = outcome.and_then(|()| match &steps.disagreement {
            Some(reason) if victim == Victim::Program => Err(reason.clone()),
            _ => self.verify(seed, &steps),
        });
        match verdict {
            Ok(survived) => {
                self.history.push(Round { seed, survived });
                self.round += 1;
                self.history.save(&self.history_path()).expect("the history can be written");
                Ok(())
            }
            Err(reason) => Err(KillFailure {
                seed: self.seed,
                round: self.round,
                round_seed: seed,
                victim,
                acknowledged: steps.acknowledged,
                issued: steps.issued,
                reason,
            }),
        }
    }

    fn write_and_kill(
        &mut self,
        victim: Victim,
        seed: u64,
        kill_after: u64,
        steps: &mut Steps,
    ) -> io::Result<()> {
        self.ensure_daemon()?;
        let mut command = self.on_store("write");
        command.args(["--seed", &seed.to_string(), "--operations", &(self.operations_max * 2).to_string()]);
        let mut run = command.stdout(Stdio::piped()).spawn()?;
        let mut report = run.stdout.take().expect("stdout is a pipe");
        let writer = read_pid(&mut report)?;
        while steps.acknowledged < kill_after && steps.read(&mut report)? {}
        if victim != Victim::Daemon {
            kill(writer)?;
        }
        if victim != Victim::Program {
            self.kill_daemon()?;
        }
        if victim == Victim::Daemon {
            let more = self.random.below(20);
            while steps.acknowledged < kill_after + more && speaks(&report)? && steps.read(&mut report)? {}
            kill(writer)?;
        }
        while steps.read(&mut report)? {}
        run.wait()?;
        Ok(())
    }

    fn verify(&mut self, seed: u64, steps: &Steps) -> Result<u64, String> {
        self.ensure_daemon().map_err(|error| error.to_string())?;
        let mut command = self.on_store("verify");
        command.args(["--seed", &seed.to_string()]);
        command.args(["--acknowledged", &steps.acknowledged.to_string()]);
        command.args(["--issued", &steps.issued.to_string()]);
        let output = command.output().map_err(|error| error.to_string())?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        if !output.status.success() {
            return Err(format!("{}: {} {}", output.status, text(&output.stdout), text(&output.stderr)));
        }
        text(&output.stdout).parse().map_err(|_| format!("the verifier said {:?}", text(&output.stdout)))
    }

    /// `cuesta run -- WRITER ACTION …`
    fn on_store(&self, action: &str) -> Command {
        let mut command = Command::new(&self.programs.cuesta);
        command.arg("run").arg("--store").arg(self.store()).args(["--at", ROOT, "--"]);
        command.arg(&self.programs.writer).arg(action).args(["--root", ROOT]);
        command.arg("--history").arg(self.history_path());
        command
    }

    fn ensure_daemon(&mut self) -> io::Result<()> {
        if self.daemon.is_none() {
            let log = std::fs::File::options()
                .create(true)
                .append(true)
                .open(self.directory.path().join("serve.log"))?;
            let mut command = Command::new(&self.programs.cuesta);
            command.arg("serve").arg(self.store()).stdin(Stdio::null());
            self.daemon = Some(command.stdout(log.try_clone()?).stderr(log).spawn()?);
            self.await_daemon()?;
        }
        Ok(())
    }

    /// Returns when the daemon answers, or has died.
    fn await_daemon(&mut self) -> io::Result<()> {
        let daemon = self.daemon.as_mut().expect("just started");
        while daemon.try_wait()?.is_none() {
            let mut status = Command::new(&self.programs.cuesta);
            status.arg("status").arg(self.directory.path().join("store"));
            if status.output()?.status.success() {
                return Ok(());
            }
        }
        let log = std::fs::read_to_string(self.directory.path().join("serve.log"))?;
        Err(io::Error::other(format!("the daemon does not start: {log}")))
    }

    fn kill_daemon(&mut self) -> io::Result<()> {
        if let Some(mut daemon) = self.daemon.take() {
            daemon.kill()?;
            daemon.wait()?;
        }
        Ok(())
    }

    fn store(&self) -> PathBuf {
        self.directory.path().join("store")
    }

    fn history_path(&self) -> PathBuf {
        self.directory.path().join("history.json")
    }

    /// Leaves the store and its history where they are, for somebody to look at.
    pub fn keep(mut self) -> io::Result<PathBuf> {
        self.kill_daemon()?;
        self.directory.disable_cleanup(true);
        Ok(self.directory.path().to_path_buf())
    }
}

impl Drop for Campaign {
    fn drop(&mut self) {
        // A daemon that cannot be killed is gone already.
        let _ = self.kill_daemon();
    }
}

impl Steps {
    /// Takes in what the writer says next; false at its end.
    fn read(&mut self, report: &mut ChildStdout) -> io::Result<bool> {
        let mut byte = [0];
        if report.read(&mut byte)? == 0 {
            return Ok(false);
        }
        match byte[0] {
            ISSUED => self.issued += 1,
            ACKNOWLEDGED => self.acknowledged += 1,
            DISAGREED => {
                let mut text = String::new();
                report.read_to_string(&mut text)?;
                self.disagreement = Some(text);
            }
            other => return Err(io::Error::other(format!("the writer said {other:#x}"))),
        }
        Ok(true)
    }
}

/// The line a writer begins with.
fn read_pid(report: &mut ChildStdout) -> io::Result<Pid> {
    let mut line = String::new();
    let mut byte = [0];
    while report.read(&mut byte)? == 1 && byte[0] != b'\n' {
        line.push(byte[0] as char);
    }
    line.parse()
        .ok()
        .and_then(Pid::from_raw)
        .ok_or_else(|| io::Error::other(format!("no writer came up: {line:?}")))
}

/// Whether the writer says something, or ends, before it counts as stuck.
fn speaks(report: &ChildStdout) -> io::Result<bool> {
    let patience = Timespec { tv_sec: SILENCE_SECONDS, tv_nsec: 0 };
    let ready = rustix::event::poll(&mut [PollFd::new(report, PollFlags::IN)], Some(&patience))?;
    Ok(ready > 0)
}

fn kill(process: Pid) -> io::Result<()> {
    match rustix::process::kill_process(process, Signal::KILL) {
        Err(rustix::io::Errno::SRCH) => Ok(()),
        other => Ok(other?),
    }
}
