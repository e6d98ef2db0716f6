//! The `cuesta` command: makes, serves, inspects and repairs stores, and runs programs on them.
//!
//! | room | idea |
//! |---|---|
//! | `commands` | the subcommands, one file each; each answers the exit status |
//! | `stores` | where the parts of a store lie, its owner, its locks and its mounts |
//! | `daemons` | a connection to the daemon of a store, and starting one |
//! | `messages` | how the command says things, and names for numbers |
//!
//! The command knows no formats and no protocol but by the other crates.

mod commands;
mod daemons;
mod messages;
mod stores;

use clap::Parser;
use commands::Command;
use messages::{failure, output, slips};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::ExitCode;

/// A crash-consistent file system in user space: unmodified programs write to shared memory, inside
/// their own process, and what they were told is written survives their death and the daemon's.
#[derive(Debug, Parser)]
#[command(
    name = "cuesta",
    version,
    after_help = "\
First steps:
  cuesta mkfs ~/store                          make a store
  cuesta run --store ~/store -- bash           a shell whose /cuesta is the store
  cuesta mount ~/store ~/files                 the same files, for every program
  cuesta status ~/store                        what goes on
  cuesta stop ~/store                          stop its daemon; the files stay
  cuesta destroy ~/store                       remove it, with all that is in it

Exit status: 0 done, 1 failed, 2 wrong usage, 3 no daemon serves the store.
`run` and `doctor` exit as their program does (125: cuesta failed, 126: cannot be run, 127: not found);
`fsck` with 0 clean, 1 repaired, 2 damaged, 8 could not check; `scrub` with 0 clean, 2 damaged."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse_from(as_mount_helper(std::env::args_os().collect())) {
        Ok(cli) => cli,
        Err(error) => {
            let status = if error.use_stderr() { usage_status() } else { 0 };
            match std::env::args().nth(1).and_then(|command| slips::explained(&error, &command)) {
                Some(line) => output::error(&failure::Failure::new(line).exiting(status)),
                None if status != 0 && output::is_json() => {
                    output::error(&failure::Failure::new(error.to_string().trim_end()).exiting(status));
                }
                // If even this cannot be printed, the exit status is left.
                None => drop(error.print()),
            }
            return ExitCode::from(status);
        }
    };
    // A disk that does not give a part of a mapped file is an error of the reader, and not the end of the daemon or of a mount.
    cuesta_media::install_fault_handler();
    let done = cli.command.execute();
    done.unwrap_or_else(|failure| {
        output::error(&failure);
        ExitCode::from(failure.exit_status())
    })
}

/// What mount(8) starts for a line of `/etc/fstab`, or to change the options of a mount, is this program called
/// `mount.fuse.cuesta`; or, where that is not installed, `mount.fuse3`, which starts `cuesta` with a source and a place. Either is
/// `cuesta mount`, with options of mount(8) that say nothing here. No command begins with a slash.
fn as_mount_helper(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let name = arguments.first().and_then(|name| Path::new(name).file_name());
    let by_name = name.is_some_and(|name| name.as_bytes().starts_with(b"mount."));
    let by_source = arguments.len() > 2 && arguments[1].as_bytes().starts_with(b"/");
    if by_name || by_source {
        // A dry run.
        if arguments.iter().any(|argument| argument == "-f") {
            std::process::exit(0);
        }
        arguments.retain(|argument| !matches!(argument.as_bytes(), b"-n" | b"-s" | b"-v"));
        arguments.splice(1..1, ["mount".into(), "--by-mount".into()]);
    }
    arguments
}

/// Wrong usage is told apart from what a program under `run`, or a check by `fsck`, came to.
fn usage_status() -> u8 {
    match std::env::args().nth(1).as_deref() {
        Some("run" | "doctor") => failure::RUN_FAILED,
        Some("fsck") => failure::FSCK_FAILED,
        _ => failure::WRONG_USAGE,
    }
}
