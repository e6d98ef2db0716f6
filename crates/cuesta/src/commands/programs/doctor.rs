//! `cuesta doctor`: runs a program as `cuesta run` does, and tells what became of its calls.
//!
//! The calls are counted by the preload door, in a memory file of this process that every process of the run maps:
//! nothing is left behind, however any of them ends. The command stays beside the program, out of the way of
//! signals: those of the terminal reach the program anyway, those sent to the command are handed on.

use super::run::{self, Target};
use crate::messages::failure::{Failure, RUN_FAILED};
use crate::messages::output;
use cuesta_format::account::{ACCOUNT_BYTES, Account};
use report::Report;
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::process::{Pid, PidfdFlags, Signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;
use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus};
use zerocopy::IntoBytes as _;

mod advice;
mod printing;
mod report;

/// Tells the preload door where to count.
const VARIABLE: &str = "CUESTA_DOCTOR";
/// The number that a shell adds to the signal that ended a program.
const SIGNALLED: i32 = 128;

#[derive(Debug, clap::Args)]
#[command(
    long_about = "Run a program on a store as `cuesta run` does, then tell which of its calls were served.\n\n\
                  Counts the calls that name a file, of the program and of everything it starts, by what became of \
                  them: served by Cuesta (and failed, as such a call can), not served yet, or about another file and \
                  passed on to the kernel. Names who made the calls that were not served, and on what; which programs \
                  could not be watched because the preload library cannot be loaded into them; and what to do about \
                  it. The report is made when the program ends: what others do that it leaves running is not in it.",
    after_help = "\
Examples:
  cuesta doctor --store ~/store -- sqlite3 /cuesta/my.db 'pragma journal_mode=wal'
  cuesta doctor --store ~/store --output report.txt -- make -C /cuesta/project
  cuesta doctor --store ~/store --json --output report.json -- ./job.sh

Exit status: the program's own, or 128 and the number of the signal that ended it; 125 cuesta failed, 126 it cannot \
be run, 127 it was not found."
)]
pub struct Arguments {
    /// For programs: one line
    #[arg(long)]
    json: bool,
    /// Where the report goes [default: standard error, behind what the program says]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    target: Target,
}

pub fn execute(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let failed = |what: &str, error: &dyn std::fmt::Display| {
        Failure::new(format!("{what}: {error}")).exiting(RUN_FAILED)
    };
    let (mut command, store_path) = arguments.target.prepare()?;
    let mut output = arguments.output.as_deref().map(create).transpose()?;
    let counting = Counting::begin(&command).map_err(|error| failed("calls cannot be counted", &error))?;
    let signals = Signals::new(heeded()).map_err(|error| failed("signals cannot be caught", &error))?;
    let child = command
        .env(VARIABLE, counting.variable())
        .spawn()
        .map_err(|error| run::not_executed(&command, &error))?;
    let ended = wait(child, signals).map_err(|error| failed("the program cannot be waited for", &error))?;
    let account = counting.end().map_err(|error| failed("what was counted cannot be read", &error))?;
    let report = Report::new(arguments.target.name(), store_path, ended, &account);
    let text = if arguments.json { format!("{}\n", report.as_json()) } else { report.as_text() };
    match &mut output {
        Some((path, file)) => file.write_all(text.as_bytes()).map_err(|error| {
            Failure::on(path, format!("cannot write the report: {error}")).exiting(RUN_FAILED)
        })?,
        None => output::complain(&text),
    }
    let status = ended.code().unwrap_or_else(|| SIGNALLED + ended.signal().unwrap_or(0));
    Ok(ExitCode::from(status as u8))
}

/// Before the program runs: a report that cannot be written is best known then.
fn create(path: &Path) -> Result<(&Path, File), Failure> {
    let file = File::create(path)
        .map_err(|error| Failure::on(path, format!("cannot write the report there: {error}")));
    Ok((path, file.map_err(|failure| failure.exiting(RUN_FAILED))?))
}

/// The account of a run.
struct Counting {
    file: File,
    program: Option<u32>,
}

impl Counting {
    /// An account in which `command` is about to be executed.
    fn begin(command: &Command) -> std::io::Result<Counting> {
        let mut account = Account::new().ok_or(std::io::ErrorKind::OutOfMemory)?;
        let program = account.program(command.get_program().as_bytes());
        if let Some(program) = program {
            account.executes(program);
        }
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let mut file = File::from(rustix::fs::memfd_create("cuesta-doctor", flags)?);
        file.write_all(account.as_mut_bytes())?;
        // Whoever maps it relies on its size.
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Ok(Counting { file, program: program.map(|program| program.0) })
    }

    /// The variable that tells the program where the account is and, for a child of this process, which of its programs it is.
    fn variable(&self) -> String {
        let process = std::process::id();
        let place = format!("/proc/{process}/fd/{}", self.file.as_raw_fd());
        self.program.map_or(place.clone(), |program| format!("{place} {program} ^{process}"))
    }

    fn end(mut self) -> std::io::Result<Box<Account>> {
        let mut account = Account::new().ok_or(std::io::ErrorKind::OutOfMemory)?;
        let bytes = account.as_mut_bytes();
        debug_assert_eq!(bytes.len(), ACCOUNT_BYTES);
        self.file.rewind()?;
        self.file.read_exact(bytes)?;
        Ok(account)
    }
}

/// Signals that must not end this command before its program. One that is ignored stays so, for the program as well.
fn heeded() -> Vec<i32> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    [SIGINT, SIGQUIT, SIGTERM, SIGHUP].into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0).collect()
}

/// Waits for the program, and hands on to it what this process alone was sent.
fn wait(mut child: Child, mut signals: Signals) -> std::io::Result<ExitStatus> {
    let handle = signals.handle();
    // By a descriptor: once the program is gone its number may be another's.
    let program = rustix::process::pidfd_open(Pid::from_child(&child), PidfdFlags::empty())?;
    let forwarder = std::thread::spawn(move || {
        for signal in signals.forever().filter(|signal| matches!(*signal, SIGTERM | SIGHUP)) {
            let signal = if signal == SIGTERM { Signal::TERM } else { Signal::HUP };
            // The program may have ended just now.
            let _ = rustix::process::pidfd_send_signal(&program, signal);
        }
    });
    let ended = child.wait();
    handle.close();
    // A thread that only hands on signals does not panic.
    let _ = forwarder.join();
    ended
}
