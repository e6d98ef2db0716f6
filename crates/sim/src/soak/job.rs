//! One of a lane's processes at work, with all it starts: a process group, and what it says.

use super::lanes::User;
use super::manifest::{Manifest, Step, Violation};
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, kill_process, kill_process_group, waitid, waitpgid,
};
use std::fs::File;
use std::io::{self, BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// What all processes say, and the first thing that was wrong with it.
pub(super) struct Said {
    pub(super) manifest: Manifest,
    pub(super) wrong: Option<(usize, Violation)>,
}

/// Shared with the listening thread.
pub(super) type Heard = Arc<Mutex<Said>>;

/// The post it was started in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Post {
    pub(super) lane: usize,
    pub(super) user: User,
}

pub(super) struct Job {
    pub(super) post: Post,
    /// Whether something of it was killed.
    pub(super) is_hurt: bool,
    /// How often the daemon had gone away when it was started.
    pub(super) outages_before: u64,
    child: Child,
    listener: Option<JoinHandle<()>>,
    errors: PathBuf,
}

/// How it ended.
pub(super) struct Ended {
    pub(super) status: ExitStatus,
    pub(super) errors: String,
}

impl Job {
    pub(super) fn start(
        post: Post,
        mut command: Command,
        heard: &Heard,
        outages_before: u64,
        errors: PathBuf,
    ) -> io::Result<Job> {
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(File::create(&errors)?);
        let before = lock(heard).manifest.last_kept(post.lane);
        let mut child = command.spawn()?;
        let output = child.stdout.take().expect("stdout is a pipe");
        let heard = Arc::clone(heard);
        let listener = std::thread::spawn(move || listen(&heard, post.lane, before, output));
        Ok(Job { post, is_hurt: false, outages_before, child, listener: Some(listener), errors })
    }

    fn group(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Its processes, as far as they are there.
    fn processes(&self) -> io::Result<Vec<Pid>> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir("/proc")? {
            let name = entry?.file_name();
            let Some(pid) = name.to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw) else {
                continue;
            };
            if rustix::process::getpgid(Some(pid)) == Ok(self.group()) {
                found.push(pid);
            }
        }
        Ok(found)
    }

    /// Sends a signal to one of its processes, the `chosen`th of so many as there are.
    pub(super) fn signal_one(&mut self, signal: Signal, chosen: u64) -> io::Result<()> {
        let processes = self.processes()?;
        let Some(one) = processes.get(chosen as usize % processes.len().max(1)) else { return Ok(()) };
        self.is_hurt |= signal == Signal::KILL;
        unless_gone(kill_process(*one, signal))
    }

    /// Sends all of them a signal.
    pub(super) fn signal(&mut self, signal: Signal) -> io::Result<()> {
        self.is_hurt |= signal == Signal::KILL;
        unless_gone(kill_process_group(self.group(), signal))
    }

    /// Whether the first of them has ended. It stays to be waited for, so that the group's number is not another's.
    pub(super) fn has_ended(&self) -> io::Result<bool> {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        Ok(waitid(WaitId::Pid(self.group()), look)?.is_some())
    }

    /// Ends what is left of it, and hears all it said.
    pub(super) fn end(mut self) -> io::Result<Ended> {
        let status = self.end_all()?;
        let errors = std::fs::read_to_string(&self.errors)?;
        std::fs::remove_file(&self.errors)?;
        Ok(Ended { status, errors: errors.trim().to_owned() })
    }

    /// A process that ended before its children left them to this one (their reaper), before it could be waited for itself. So
    /// when there is no child left to wait for, no process is left.
    fn end_all(&mut self) -> io::Result<ExitStatus> {
        let group = self.group();
        unless_gone(kill_process_group(group, Signal::KILL))?;
        let status = self.child.wait()?;
        while let Ok(Some(_)) | Err(Errno::INTR) = waitpgid(group, WaitOptions::empty()) {}
        if let Some(listener) = self.listener.take() {
            listener.join().map_err(|_| io::Error::other("who listened to a program panicked"))?;
        }
        Ok(status)
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if self.listener.is_some() {
            // It is given up because of something worse.
            let _ = self.end_all();
        }
    }
}

fn unless_gone(done: rustix::io::Result<()>) -> io::Result<()> {
    match done {
        Err(Errno::SRCH) => Ok(()),
        other => Ok(other?),
    }
}

/// The words of a job, locked.
pub(super) fn lock(heard: &Heard) -> std::sync::MutexGuard<'_, Said> {
    heard.lock().unwrap_or_else(PoisonError::into_inner)
}

fn listen(heard: &Heard, lane: usize, before: Step, output: ChildStdout) {
    let mut output = BufReader::new(output);
    let mut line = Vec::new();
    // A line that its process was killed in was not said.
    while output.read_until(b'\n', &mut line).is_ok() && line.ends_with(b"\n") {
        let text = String::from_utf8_lossy(&line);
        let said = &mut *lock(heard);
        if let Err(violation) = said.manifest.take(lane, before, text.trim_end()) {
            said.wrong.get_or_insert((lane, violation));
        }
        line.clear();
    }
}
