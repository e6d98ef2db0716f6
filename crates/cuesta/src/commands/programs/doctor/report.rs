//! The report of `cuesta doctor`: what became of a run and of its calls.

use crate::commands::programs::run::StorePath;
use cuesta_format::account::{Account, CountedCall, CountedProgram, Outcome, ProgramIndex};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

/// What became of a run.
#[derive(Debug)]
pub struct Report {
    /// The program, as it was named.
    pub name: String,
    /// Where it was to find the store.
    pub store_path: StorePath,
    /// The kinds of calls.
    pub calls: Vec<CountedCall>,
    /// The programs of the run.
    pub programs: Vec<CountedProgram>,
    pub(super) ended: ExitStatus,
    pub(super) lost: u64,
}

/// How often a call came to what.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) unserved: u64,
    pub(super) failed: u64,
    pub(super) served: u64,
    pub(super) passed: u64,
}

impl Counts {
    fn add(&mut self, call: &CountedCall) {
        *match call.kind.outcome {
            Outcome::Unserved => &mut self.unserved,
            Outcome::Failed => &mut self.failed,
            Outcome::Served => &mut self.served,
            Outcome::Passed => &mut self.passed,
        } += call.count;
    }
}

impl Report {
    /// The report of a program that has ended.
    pub fn new(name: &OsStr, store_path: StorePath, ended: ExitStatus, account: &Account) -> Report {
        Report {
            name: name.to_string_lossy().into_owned(),
            store_path,
            calls: account.counted_calls(),
            programs: account.counted_programs(),
            ended,
            lost: account.lost(),
        }
    }

    /// How often calls came to `outcome`.
    pub fn total(&self, outcome: Outcome) -> u64 {
        self.of(outcome).map(|call| call.count).sum()
    }

    /// The kinds of calls that came to `outcome`.
    pub fn of(&self, outcome: Outcome) -> impl Iterator<Item = &CountedCall> {
        self.calls.iter().filter(move |call| call.kind.outcome == outcome)
    }

    /// The programs the library was not in, at least once.
    pub fn unwatched(&self) -> impl Iterator<Item = &CountedProgram> {
        self.programs.iter().filter(|program| program.refused != 0 || program.executed > program.watched)
    }

    /// Each system call with its counts: those not served first, then by how often they were about the store.
    pub(super) fn by_call(&self) -> Vec<(u32, Counts)> {
        let mut all: BTreeMap<u32, Counts> = BTreeMap::new();
        for call in &self.calls {
            all.entry(call.kind.number).or_default().add(call);
        }
        let mut all: Vec<_> = all.into_iter().collect();
        all.sort_by_key(|(_, counts)| {
            std::cmp::Reverse((counts.unserved, counts.served + counts.failed, counts.passed))
        });
        all
    }

    pub(super) fn program(&self, index: ProgramIndex) -> String {
        let found = self.programs.iter().find(|program| program.index == index);
        found.map_or_else(String::new, |program| text(&program.path))
    }

    /// Whether the program itself says that all went well.
    pub fn is_success(&self) -> bool {
        self.ended.success()
    }

    pub(super) fn ending(&self) -> String {
        match (self.ended.code(), self.ended.signal()) {
            (Some(status), _) => format!("exited with status {status}"),
            (None, Some(signal)) => format!("was ended by signal {signal}"),
            (None, None) => "ended".to_owned(),
        }
    }
}

/// Bytes a program chose, on one line.
pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes)
        .chars()
        .map(|one| if one.is_control() { '\u{fffd}' } else { one })
        .collect()
}
