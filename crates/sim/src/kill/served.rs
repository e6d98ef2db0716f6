//! A store of a kill test, its daemon, and the programs run on it.

use super::writer::{ACKNOWLEDGED, CUT_OFF, DISAGREED, ISSUED, SHARED_ACKNOWLEDGED, SHARED_ISSUED};
use crate::programs::doors::{Door, Doors};
use crate::programs::processes::{end, server_of_mount};
use crate::programs::stores;
use cuesta_format::geometry::CONFIGURATION_FILE;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, Signal};
use std::fs::OpenOptions;
use std::io::{self, Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

/// Where the store shows up in the programs.
pub const ROOT: &str = "/cuesta";
/// A program that says nothing for so long after the daemon was killed is waiting for it.
const SILENCE_SECONDS: i64 = 2;

/// The programs a campaign is made of.
#[derive(Clone, Debug)]
pub struct Programs {
    /// The command under test.
    pub cuesta: PathBuf,
    /// The writer and verifier.
    pub writer: PathBuf,
    /// Where stores are made, if not in memory.
    pub stores: Option<PathBuf>,
    /// A device of bytes that each store takes from the one before.
    pub device: Option<PathBuf>,
}

/// A store in a folder of its own.
pub(crate) struct Served {
    programs: Programs,
    directory: tempfile::TempDir,
    daemon: Option<Child>,
    /// The process that serves the mount.
    mount: Option<Pid>,
}

/// How far a writer had come.
#[derive(Clone, Debug, Default)]
pub(super) struct Steps {
    pub(super) issued: u64,
    pub(super) acknowledged: u64,
    pub(super) shared_issued: u64,
    pub(super) shared_acknowledged: u64,
    pub(super) disagreement: Option<Disagreement>,
}

/// A wrong answer a writer had, its last.
#[derive(Clone, Debug)]
pub(super) struct Disagreement {
    text: String,
    /// It is what a mount answers whose process died, and came when that may have been.
    was_cut_off: bool,
}

/// A writer at work.
pub(super) struct Writer {
    run: Child,
    report: ChildStdout,
    pid: Pid,
    pub(super) steps: Steps,
    /// Its complaints from now on may come of a kill.
    may_be_cut_off: bool,
}

impl Steps {
    /// The fault in the answers, where the server of the writer's mount was killed or not.
    pub(super) fn wrong(&self, lost_mount: bool) -> Option<&str> {
        let disagreement = self.disagreement.as_ref();
        disagreement.filter(|found| !(lost_mount && found.was_cut_off)).map(|found| found.text.as_str())
    }
}

impl Served {
    /// A new store, on the medium that the place is: persistent memory in the guest of `make test-pmem`, or a disk.
    pub(crate) fn new(programs: Programs) -> io::Result<Served> {
        let directory = stores::folder(programs.stores.as_deref(), "cuesta-kill-")?;
        let served = Served { programs, directory, daemon: None, mount: None };
        let mut command = Command::new(&served.programs.cuesta);
        command.args(["mkfs", "--nvm", "256M"]).arg(served.store());
        if let Some(device) = &served.programs.device {
            command.arg("--overwrite-device").arg("--nvm-path").arg(device);
        }
        told(command)?;
        Ok(served)
    }

    /// Has the daemon perform the operations on files that programs share, as `seed` has it: on some for a moment and then on others, on
    /// all, on those that the daemon chooses, or on none.
    pub(crate) fn ship_by(&self, seed: u64) -> io::Result<()> {
        let which = ["random", "always", "auto", "never"][seed as usize % 4];
        let mut configuration =
            OpenOptions::new().append(true).open(self.store().join(CONFIGURATION_FILE))?;
        writeln!(configuration, "ship = \"{which}\"")
    }

    /// A file beside the store.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn store(&self) -> PathBuf {
        self.beside("store")
    }

    /// Where the store is mounted, if it is.
    fn mountpoint(&self) -> PathBuf {
        self.beside("files")
    }

    /// Where the store shows up at a door.
    pub(crate) fn root(&self, door: Door) -> String {
        match door {
            Door::Run => ROOT.to_owned(),
            Door::Mount => self.mountpoint().to_string_lossy().into_owned(),
        }
    }

    /// `WRITER ACTION …` by a door.
    pub(crate) fn writer(&self, door: Door, action: &str) -> Command {
        let writer = &self.programs.writer;
        let mut command = match door {
            Door::Run => self.run(writer),
            Door::Mount => Command::new(writer),
        };
        command.arg(action);
        command
    }

    /// `cuesta run -- PROGRAM …`
    pub(super) fn run(&self, program: &Path) -> Command {
        let mut command = Command::new(&self.programs.cuesta);
        command.arg("run").arg("--store").arg(self.store()).args(["--at", ROOT, "--"]).arg(program);
        command
    }

    pub(crate) fn ensure_daemon(&mut self) -> io::Result<()> {
        if self.daemon.is_none() {
            let log = std::fs::File::options().create(true).append(true).open(self.beside("serve.log"))?;
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
        let log = std::fs::read_to_string(self.beside("serve.log"))?;
        Err(io::Error::other(format!("the daemon does not start: {log}")))
    }

    pub(crate) fn kill_daemon(&mut self) -> io::Result<()> {
        if let Some(mut daemon) = self.daemon.take() {
            daemon.kill()?;
            daemon.wait()?;
        }
        Ok(())
    }

    /// The daemon leaves in order.
    pub(crate) fn stop_daemon(&mut self) -> io::Result<()> {
        if let Some(mut daemon) = self.daemon.take() {
            let mut command = Command::new(&self.programs.cuesta);
            command.arg("stop").arg(self.store());
            told(command)?;
            daemon.wait()?;
        }
        Ok(())
    }

    /// There is a daemon, and a mount if a program comes by one.
    pub(crate) fn ensure(&mut self, doors: Doors) -> io::Result<()> {
        self.ensure_daemon()?;
        if doors.has_mount() { self.ensure_mount() } else { Ok(()) }
    }

    /// The store is mounted when this returns. A mount whose process was killed is still there then, and makes room.
    pub(crate) fn ensure_mount(&mut self) -> io::Result<()> {
        if self.mount.is_none() {
            std::fs::create_dir(self.mountpoint()).or_else(|error| match error.kind() {
                io::ErrorKind::AlreadyExists => Ok(()),
                _ => Err(error),
            })?;
            let mut command = Command::new(&self.programs.cuesta);
            // Only the campaign starts daemons here.
            command.args(["mount", "-o", "allow_other,nostart"]).arg(self.store()).arg(self.mountpoint());
            told(command)?;
            let mut command = Command::new(&self.programs.cuesta);
            command.args(["status", "--json"]).arg(self.store());
            let status = serde_json::from_str(&told(command)?)?;
            let server = server_of_mount(&status).ok_or_else(|| io::Error::other("who serves the mount?"))?;
            self.mount = Some(server);
        }
        Ok(())
    }

    /// The mount's process is killed; a program that waits for an answer by it gets an error.
    pub(crate) fn kill_mount(&mut self) -> io::Result<()> {
        self.mount.take().map_or(Ok(()), |server| end(server, Some(Signal::KILL)))
    }

    /// The mount's process gets a signal.
    pub(crate) fn signal_mount(&self, signal: Signal) -> io::Result<()> {
        match self.mount {
            Some(server) => Ok(rustix::process::kill_process(server, signal)?),
            None => Ok(()),
        }
    }

    fn unmount(&mut self) {
        // Whatever became of it, nothing of it is to be left.
        let _ = self.kill_mount();
        while cuesta_fuse::unmount(&self.mountpoint(), true).is_ok() {}
    }

    /// Leaves the store where it is, for people to look at.
    pub(crate) fn keep(mut self) -> io::Result<PathBuf> {
        self.unmount();
        self.kill_daemon()?;
        self.directory.disable_cleanup(true);
        Ok(self.directory.path().to_path_buf())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.unmount();
        // A daemon that cannot be killed is gone already.
        let _ = self.kill_daemon();
    }
}

/// The standard output of a program, if it succeeds.
pub(crate) fn told(mut command: Command) -> io::Result<String> {
    let output = command.output()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() {
        return Ok(text(&output.stdout));
    }
    Err(io::Error::other(format!("{}: {} {}", output.status, text(&output.stdout), text(&output.stderr))))
}

impl Writer {
    /// Starts it; returns when it is up.
    pub(super) fn start(mut command: Command) -> io::Result<Writer> {
        let mut run = command.stdout(Stdio::piped()).spawn()?;
        let mut report = run.stdout.take().expect("stdout is a pipe");
        let pid = read_pid(&mut report)?;
        Ok(Writer { run, report, pid, steps: Steps::default(), may_be_cut_off: false })
    }

    /// Takes in what the writer says next; false at its end.
    pub(super) fn step(&mut self) -> io::Result<bool> {
        let mut byte = [0];
        if self.report.read(&mut byte)? == 0 {
            return Ok(false);
        }
        match byte[0] {
            ISSUED => self.steps.issued += 1,
            ACKNOWLEDGED => self.steps.acknowledged += 1,
            SHARED_ISSUED => self.steps.shared_issued += 1,
            SHARED_ACKNOWLEDGED => self.steps.shared_acknowledged += 1,
            said @ (DISAGREED | CUT_OFF) => {
                let was_cut_off = said == CUT_OFF && self.may_be_cut_off;
                let mut text = String::new();
                self.report.read_to_string(&mut text)?;
                self.steps.disagreement = Some(Disagreement { text, was_cut_off });
            }
            other => return Err(io::Error::other(format!("the writer said {other:#x}"))),
        }
        Ok(true)
    }

    /// Has it go on until it made so many operations, or had a wrong answer.
    pub(super) fn step_to(&mut self, acknowledged: u64) -> io::Result<()> {
        while self.steps.acknowledged < acknowledged && self.steps.disagreement.is_none() {
            if !self.step()? {
                let made = self.steps.acknowledged;
                return Err(io::Error::other(format!("the writer ended by itself, after {made} operations")));
            }
        }
        Ok(())
    }

    /// Takes in what it has said while nothing was killed yet.
    pub(super) fn before_the_kill(&mut self) -> io::Result<()> {
        for _ in 0..rustix::io::ioctl_fionread(&self.report)? {
            if !self.step()? || self.steps.disagreement.is_some() {
                break;
            }
        }
        self.may_be_cut_off = true;
        Ok(())
    }

    /// The same of a writer whose daemon may be gone: it may also fall silent.
    pub(super) fn step_to_or_silence(&mut self, acknowledged: u64) -> io::Result<()> {
        while self.steps.acknowledged < acknowledged && speaks(&self.report)? && self.step()? {}
        Ok(())
    }

    pub(super) fn kill(&self) -> io::Result<()> {
        match rustix::process::kill_process(self.pid, Signal::KILL) {
            Err(rustix::io::Errno::SRCH) => Ok(()),
            other => Ok(other?),
        }
    }

    /// Takes in what it said before it died.
    pub(super) fn finish(mut self) -> io::Result<Steps> {
        while self.step()? {}
        self.run.wait()?;
        Ok(self.steps)
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
