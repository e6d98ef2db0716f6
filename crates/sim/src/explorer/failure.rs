//! A crash that the code under test does not survive as it must.

use super::subject::Progress;
use std::fmt;
use std::path::PathBuf;

/// A state that does not recover to what it must.
#[derive(Debug, thiserror::Error)]
#[error("seed {seed}, event {event} of {events}, {moment}, {progress:?}: {reason}{}", shown(.files))]
pub struct Failure {
    /// Repeats the choice of states.
    pub seed: u64,
    /// The event at which the crash was.
    pub event: usize,
    /// How many events there are.
    pub events: usize,
    /// What kind of crash.
    pub moment: Moment,
    /// How far each lane of the run had come.
    pub progress: Vec<Progress>,
    /// The fault.
    pub reason: String,
    /// The files as they were before recovery, if asked for with `CUESTA_SIM_KEEP`.
    pub files: Option<PathBuf>,
}

/// The kind of a crash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Power loss right after a fence.
    AfterFence,
    /// Power loss right after the kernel wrote a page of a file in mapped mode, or made a hole there.
    AfterWrite,
    /// Power loss when a file was made, or had its length or name changed, or was removed, and nothing more.
    AfterFileStep,
    /// Power loss between fences: so many of so many pending lines survived.
    BetweenFences {
        /// Lines that survived at least in part.
        lines: usize,
        /// Lines that were pending.
        pending: usize,
    },
    /// The process died; nothing stored is lost.
    ProcessDeath,
    /// A crash, and another one while it was being recovered from.
    DuringRecovery(Box<[Moment; 2]>),
}

impl fmt::Display for Moment {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Moment::AfterFence => write!(formatter, "power loss after a fence"),
            Moment::AfterWrite => write!(formatter, "power loss after the kernel wrote"),
            Moment::AfterFileStep => {
                write!(formatter, "power loss after a step of making or removing a file")
            }
            Moment::BetweenFences { lines, pending } => {
                write!(formatter, "power loss with {lines} of {pending} pending lines surviving")
            }
            Moment::ProcessDeath => write!(formatter, "process death"),
            Moment::DuringRecovery(moments) => {
                write!(formatter, "{}, then {} while it was recovered from", moments[0], moments[1])
            }
        }
    }
}

fn shown(files: &Option<PathBuf>) -> String {
    files.as_ref().map_or(String::new(), |files| format!(" (files kept in {})", files.display()))
}
