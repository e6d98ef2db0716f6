//! The code under test as the explorer sees it, and the marks of a run.

use cuesta_media::recorder;
use std::hash::Hash;
use std::path::Path;

/// How far a lane of a run had come: how many operations were acknowledged, and how many issued. A run whose
/// operations follow each other has one lane; those of several overlap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Progress {
    /// These must have survived.
    pub acknowledged: u64,
    /// Nothing behind these can have.
    pub issued: u64,
}

/// Notes that the next operation of `lane` (from 0) is issued.
pub fn issued(lane: u64) {
    recorder::mark(2 * lane);
}

/// Notes that the operation issued last on `lane` has returned.
pub fn acknowledged(lane: u64) {
    recorder::mark(2 * lane + 1);
}

/// Counts a mark in.
pub(in crate::explorer) fn advance(progress: &mut [Progress], mark: u64) {
    let lane = &mut progress[(mark / 2) as usize];
    match mark % 2 {
        0 => lane.issued += 1,
        _ => lane.acknowledged += 1,
    }
}

/// The code under test, as the explorer needs it.
pub trait Subject {
    /// What recovery finds.
    type RecoveredState: Eq + Hash;

    /// Opens the store in `directory` as after a crash, checks it and says what it holds.
    fn recover(&mut self, directory: &Path) -> Result<Self::RecoveredState, String>;

    /// Has the recovered store in `directory` go on, and checks it once more. Crashes of recovery come before.
    fn go_on(&mut self, _directory: &Path, _recovered: &Self::RecoveredState) -> Result<(), String> {
        Ok(())
    }

    /// What recovery depends on besides the state, as a number.
    fn circumstances(&self) -> u64 {
        0
    }

    /// Whether recovery reads the store through `media` and nothing else.
    fn reads_are_seen(&self) -> bool {
        false
    }

    /// Whether what a call of the kernel's wrote may be lost until it is synced, as on a disk.
    fn writes_wait(&self) -> bool {
        false
    }

    /// Whether the machine may lose its power; else processes only are killed.
    fn loses_power(&self) -> bool {
        true
    }

    /// The disk that a file lies on, by the file's path below the store's directory. Each disk takes writes at
    /// times of its own.
    fn disk_of(&self, _path: &Path) -> u8 {
        0
    }

    /// How many lanes its runs have.
    fn lanes(&self) -> usize {
        1
    }

    /// Whether a run whose lanes had come so far may leave `found` behind.
    fn judge(&self, found: &Self::RecoveredState, progress: &[Progress]) -> Result<(), String>;
}
