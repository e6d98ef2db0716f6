//! Starts the daemon in the background and waits, on a pipe, until it serves.
//!
//! The daemon writes one line, an [`Outcome`]; a daemon that dies closes the pipe without one. The store may
//! be in use without being served: by a killed daemon that is not quite dead, by one that just starts, by
//! fsck. Then we try again for a while.
//!
//! A process of another user than the store's starts none, and waits for one only where its socket is there and refuses: a killed
//! daemon leaves that behind, and the store's user may be starting the next one. A daemon that stopped in order took it away.

use crate::daemons::daemon::Daemon;
use crate::daemons::own_program::OwnProgram;
use crate::messages::failure::Failure;
use crate::messages::log;
use crate::stores::store::Store;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::thread::{CpuSet, sched_getaffinity};
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How a start ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The daemon serves.
    Ready,
    /// Another process has the store.
    InUse(String),
    /// It cannot be served.
    Failed(String),
}

impl Outcome {
    /// As the daemon writes it.
    pub fn to_line(&self) -> String {
        match self {
            Outcome::Ready => "ready\n".into(),
            Outcome::InUse(why) => format!("in-use {why}\n"),
            Outcome::Failed(why) => format!("failed {why}\n"),
        }
    }

    fn from_line(line: &str) -> Option<Outcome> {
        let (outcome, why) = line.trim_end().split_once(' ').unwrap_or((line.trim_end(), ""));
        match outcome {
            "ready" => Some(Outcome::Ready),
            "in-use" => Some(Outcome::InUse(why.to_owned())),
            "failed" => Some(Outcome::Failed(why.to_owned())),
            _ => None,
        }
    }
}

/// How long a store may be in use without being served.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a killed daemon's socket for other users may refuse.
const PATIENCE_WITH_OTHERS: Duration = Duration::from_secs(5);
/// How long to wait before trying again: at first, and after many times.
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_millis(200);

/// The stack of a thread that waits for a child to end.
const WAITING_STACK_BYTES: usize = 64 << 10;

/// The parent of a process in the background.
#[derive(Clone, Copy, Debug)]
pub enum Parent {
    /// A command that soon ends, or becomes another program. The process that it starts has no parent here, so that a program which
    /// waits for all of its own does not wait for it.
    Command,
    /// A process that stays, any thread of it. The process that it starts runs on the processors that it was given itself, and is waited
    /// for when it ends.
    Server {
        /// Those processors.
        processors: CpuSet,
    },
}

impl Parent {
    /// A process that stays. By the thread it began with.
    pub fn staying() -> Parent {
        match sched_getaffinity(None) {
            Ok(processors) => Parent::Server { processors },
            // Nobody is waited for then, that is all.
            Err(_) => Parent::Command,
        }
    }
}

/// Makes sure that a daemon serves the store. Only its own user, or root, starts one.
pub fn ensure(store: &Store) -> Result<(), Failure> {
    ensure_by(Parent::Command, store)
}

/// The same by a parent of any kind.
pub fn ensure_by(parent: Parent, store: &Store) -> Result<(), Failure> {
    if store.is_of_another_user() {
        return reach_as_another_user(store).map_err(|_| {
            Failure::on(store.folder(), "this store belongs to another user, and is not served to others now")
        });
    }
    let began = Instant::now();
    let mut pause = PAUSE_MIN;
    loop {
        if is_served(store)? {
            return Ok(());
        }
        match start(store, parent)? {
            Outcome::Ready => return Ok(()),
            Outcome::InUse(_) if began.elapsed() < PATIENCE => std::thread::sleep(pause),
            Outcome::InUse(why) | Outcome::Failed(why) => return Err(Failure::new(why)),
        }
        pause = (2 * pause).min(PAUSE_MAX);
    }
}

/// Makes sure that a daemon listens on the socket for other users.
fn reach_as_another_user(store: &Store) -> Result<(), Errno> {
    let address = SocketAddrUnix::new(store.users_socket())?;
    let began = Instant::now();
    let mut pause = PAUSE_MIN;
    loop {
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        match connect(&socket, &address) {
            Err(Errno::CONNREFUSED) if began.elapsed() < PATIENCE_WITH_OTHERS => std::thread::sleep(pause),
            outcome => return outcome,
        }
        pause = (2 * pause).min(PAUSE_MAX);
    }
}

/// Whether a daemon answers. That the socket takes connections is not enough: that of a dying daemon does.
fn is_served(store: &Store) -> Result<bool, Failure> {
    let Some(mut daemon) = Daemon::connect(store)? else { return Ok(false) };
    daemon.answers()
}

/// Starts one and hears how that went.
fn start(store: &Store, parent: Parent) -> Result<Outcome, Failure> {
    in_background(store, parent, "daemon", &["serve".as_ref(), store.folder().as_os_str()])
}

/// Starts this command once more, as what it is called here, with `arguments` and the one that says where it tells how
/// that went; and hears it.
pub fn in_background(
    store: &Store,
    parent: Parent,
    called: &str,
    arguments: &[&OsStr],
) -> Result<Outcome, Failure> {
    let fail =
        |what: &str, error: std::io::Error| Failure::on(store.folder(), format!("cannot {what}: {error}"));
    let log = log::open(&store.log()).map_err(|error| fail("open the daemon's log", error))?;
    let (outcome, told) = pipe_with(PipeFlags::CLOEXEC).map_err(|errno| fail("make a pipe", errno.into()))?;
    let descriptor = told.as_raw_fd();
    let start = |program: &OwnProgram| {
        let mut command = Command::new(program.path());
        command
            .arg0("cuesta")
            .args(arguments)
            .arg("--tell-descriptor")
            .arg(descriptor.to_string())
            .env_remove("LD_PRELOAD")
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log.try_clone()?);
        // SAFETY: between fork and exec only system calls are made; nothing allocates or locks. A second fork is made by
        // the kernel alone: of this process of one thread, and each of the two only goes on to exec or ends. The
        // descriptor is open: `told` outlives the spawn.
        unsafe {
            command.pre_exec(move || {
                rustix::process::setsid()?;
                match &parent {
                    // They may have been taken away since; then it runs where this thread does.
                    Parent::Server { processors } => {
                        let _ = rustix::thread::sched_setaffinity(None, processors);
                    }
                    Parent::Command => match libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) {
                        0 => {}
                        -1 => return Err(std::io::Error::last_os_error()),
                        _ => libc::_exit(0),
                    },
                }
                // The caller's open files are none of ours: they may lie on the very mount that waits for us.
                libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC);
                let told = rustix::fd::BorrowedFd::borrow_raw(descriptor);
                Ok(rustix::io::fcntl_setfd(told, rustix::io::FdFlags::empty())?)
            });
        }
        command.spawn()
    };
    let program = OwnProgram::find();
    let child = start(&program).or_else(|error| match program.without_copy(&error) {
        Some(program) => start(&program),
        None => Err(error),
    });
    let mut child = child.map_err(|error| fail(&format!("start the {called}"), error))?;
    drop(told);
    let mut wait = move || {
        // How it ended its log says.
        let _ = child.wait();
    };
    match parent {
        Parent::Command => wait(),
        Parent::Server { .. } => {
            let thread = std::thread::Builder::new().name("child".into()).stack_size(WAITING_STACK_BYTES);
            thread.spawn(wait).map_err(|error| fail("start a thread", error))?;
        }
    }
    let mut line = String::new();
    let heard = File::from(outcome).read_to_string(&mut line);
    heard.map_err(|error| fail(&format!("hear from the {called}"), error))?;
    Ok(Outcome::from_line(&line).unwrap_or_else(|| {
        let why = format!("the {called} died while it started (its log: {})", store.log().display());
        Outcome::Failed(Failure::on(store.folder(), why).to_string())
    }))
}

/// The process that waits for the started one, if one does.
pub struct Told(Option<OwnedFd>);

impl Told {
    /// By the descriptor that was inherited for that, if one was.
    pub fn adopt(descriptor: Option<RawFd>) -> Told {
        let open = |&descriptor: &RawFd| {
            // SAFETY: only asks whether the number is an open descriptor.
            descriptor > 2 && unsafe { libc::fcntl(descriptor, libc::F_GETFD) } >= 0
        };
        // SAFETY: the descriptor is open, was made for this by our parent, and nothing else here knows it.
        let told = descriptor.filter(open).map(|descriptor| unsafe { OwnedFd::from_raw_fd(descriptor) });
        if let Some(told) = &told {
            // Processes that are started from here are none of the caller's business.
            let _ = rustix::io::fcntl_setfd(told, rustix::io::FdFlags::CLOEXEC);
        }
        Told(told)
    }

    /// Says it once and closes the pipe.
    pub fn say(self, outcome: &Outcome) {
        if let Some(pipe) = self.0
            && let Err(error) = rustix::io::write(&pipe, outcome.to_line().as_bytes())
        {
            tracing::warn!(%error, "whoever started this has not waited for it");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_survive_the_pipe() {
        for outcome in
            [Outcome::Ready, Outcome::InUse("by process 7".into()), Outcome::Failed("it is: broken".into())]
        {
            assert_eq!(Outcome::from_line(&outcome.to_line()), Some(outcome));
        }
        assert_eq!(Outcome::from_line(""), None);
    }
}
