//! Why a command gives up: one line for a person, an exit status for a script.

use std::fmt::Display;
use std::path::Path;

/// Something failed.
pub const FAILED: u8 = 1;
/// The arguments make no sense.
pub const WRONG_USAGE: u8 = 2;
/// No daemon serves the store.
pub const NOT_RUNNING: u8 = 3;
/// `fsck` could not check.
pub const FSCK_FAILED: u8 = 8;
/// `run` or `doctor` failed before its program started.
pub const RUN_FAILED: u8 = 125;
/// `run`'s program cannot be executed.
pub const CANNOT_EXECUTE: u8 = 126;
/// `run`'s program was not found.
pub const NOT_FOUND: u8 = 127;

/// What failed, on what, and what to do.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    message: String,
    exit_status: u8,
}

impl Failure {
    /// A failure that says `message`.
    pub fn new(message: impl Into<String>) -> Failure {
        Failure { message: message.into(), exit_status: FAILED }
    }

    /// A failure of something done to `path`.
    pub fn on(path: &Path, what: impl Display) -> Failure {
        Failure::new(format!("{}: {what}", path.display()))
    }

    /// The same with another exit status.
    pub fn exiting(self, exit_status: u8) -> Failure {
        Failure { exit_status, ..self }
    }

    /// The exit status of the process.
    pub fn exit_status(&self) -> u8 {
        self.exit_status
    }
}
