//! Starts the daemon in the background and waits, on a pipe, until it serves.
//!
//! The daemon writes one line: [`READY`] or why it gives up; a daemon that dies closes the pipe without one.
//! If another process starts a daemon for the same store at the same time, one of the two finds the store in
//! use; the socket is bound right behind the lock, so that one can connect and waits there.

use crate::daemon::Daemon;
use crate::failure::Failure;
use crate::store::Store;
use rustix::pipe::{PipeFlags, pipe_with};
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// The line of a daemon that serves.
pub const READY: &str = "ready";

/// A longer log of the daemon is put aside when the next one starts.
const LOG_BYTES_MAX: u64 = 8 << 20;

/// Makes sure that a daemon serves the store.
pub fn ensure(store: &Store) -> Result<(), Failure> {
    if Daemon::connect(store)?.is_some() {
        return Ok(());
    }
    let outcome = start(store)?;
    if outcome == READY || Daemon::connect(store)?.is_some() {
        return Ok(());
    }
    if outcome.is_empty() {
        return Err(Failure::on(
            store.folder(),
            format!("the daemon died while it started (its log: {})", store.log().display()),
        ));
    }
    Err(Failure::new(outcome))
}

/// Starts one and returns its line.
fn start(store: &Store) -> Result<String, Failure> {
    let fail =
        |what: &str, error: std::io::Error| Failure::on(store.folder(), format!("cannot {what}: {error}"));
    let program = std::env::current_exe().map_err(|error| fail("find the cuesta command", error))?;
    let log = open_log(store).map_err(|error| fail("open the daemon's log", error))?;
    let (outcome, told) = pipe_with(PipeFlags::CLOEXEC).map_err(|errno| fail("make a pipe", errno.into()))?;
    let descriptor = told.as_raw_fd();
    let mut command = Command::new(program);
    command
        .arg("serve")
        .arg(store.folder())
        .arg("--tell-descriptor")
        .arg(descriptor.to_string())
        .env_remove("LD_PRELOAD")
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(log.try_clone().map_err(|error| fail("open the daemon's log", error))?)
        .stderr(log);
    // SAFETY: between fork and exec only two system calls are made; nothing allocates or locks. The
    // descriptor is open: `told` outlives the spawn.
    unsafe {
        command.pre_exec(move || {
            rustix::process::setsid()?;
            let told = rustix::fd::BorrowedFd::borrow_raw(descriptor);
            Ok(rustix::io::fcntl_setfd(told, rustix::io::FdFlags::empty())?)
        });
    }
    command.spawn().map_err(|error| fail("start the daemon", error))?;
    drop(told);
    let mut line = String::new();
    File::from(outcome).read_to_string(&mut line).map_err(|error| fail("hear from the daemon", error))?;
    Ok(line.trim_end().to_owned())
}

fn open_log(store: &Store) -> std::io::Result<File> {
    let path = store.log();
    if path.metadata().is_ok_and(|log| log.len() > LOG_BYTES_MAX) {
        std::fs::rename(&path, path.with_extension("log.old"))?;
    }
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}
