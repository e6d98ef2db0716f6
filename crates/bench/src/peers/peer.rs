//! A peer: a file system that works are run on.

use super::name::PeerName;
use crate::error::BenchError;
use crate::figures::measure::Outcome;
use crate::figures::predictions::Predictions;
use crate::processes::child::Role;
use crate::processes::daemon::Daemon;
use crate::processes::user::User;
use crate::works::work::Work;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Where, in a peer, that of another user lies.
pub(super) const OF_USER: &str = "of-user";

/// A file system that is set up; dropping it takes it down.
pub trait Peer {
    /// Which one.
    fn name(&self) -> PeerName;

    /// Where a program run by `command` finds the directory `name`.
    fn dir(&self, name: &str) -> PathBuf;

    /// Where it lies, if that is on a disk.
    fn on_disk(&self) -> Option<&Path> {
        None
    }

    /// The command that runs `program` so that it sees this peer.
    fn command(&self, program: &Path) -> Command;

    /// Makes sure the peer answers, and that what serves it has the CPUs of `daemon`; called before each run.
    fn ensure_ready(&mut self, daemon: Role) -> Result<(), BenchError>;

    /// Makes the peer as new; called after a run that failed.
    fn renew(&mut self) -> Result<(), BenchError>;

    /// The same for programs of `user`: a file system that belongs to that user, beside this one. `None` where there is none.
    fn of_user(&self, _user: User) -> Option<Result<Box<dyn Peer>, BenchError>> {
        None
    }

    /// What serves it, if that is a process.
    fn daemon(&self) -> Option<Daemon>;

    /// How often its predictors were right so far, if it has some.
    fn predictions(&self) -> Option<Result<Predictions, BenchError>> {
        None
    }

    /// Lets the program of `work` write for `filling`, kills it and whatever serves it, and measures the way
    /// back; `None` where there is nothing to recover.
    fn recover(&mut self, work: &Work, filling: Duration) -> Option<Result<Outcome, BenchError>>;
}
