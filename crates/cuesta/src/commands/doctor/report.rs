//! What `cuesta doctor` tells, as text and as JSON.

use super::advice;
use crate::commands::run::Whereabouts;
use crate::{error_names, output, system_calls};
use cuesta_format::account::{Account, CountedCall, CountedProgram, Outcome, ProgramIndex};
use serde_json::{Value, json};
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
    pub whereabouts: Whereabouts,
    /// The kinds of calls.
    pub calls: Vec<CountedCall>,
    /// The programs of the run.
    pub programs: Vec<CountedProgram>,
    ended: ExitStatus,
    lost: u64,
}

/// How often a call came to what.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    unserved: u64,
    failed: u64,
    served: u64,
    passed: u64,
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
    pub fn new(name: &OsStr, whereabouts: Whereabouts, ended: ExitStatus, account: &Account) -> Report {
        Report {
            name: name.to_string_lossy().into_owned(),
            whereabouts,
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
    fn by_call(&self) -> Vec<(u32, Counts)> {
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

    fn program(&self, index: ProgramIndex) -> String {
        let found = self.programs.iter().find(|program| program.index == index);
        found.map_or_else(String::new, |program| text(&program.path))
    }

    /// Whether the program itself says that all went well.
    pub fn is_success(&self) -> bool {
        self.ended.success()
    }

    fn ending(&self) -> String {
        match (self.ended.code(), self.ended.signal()) {
            (Some(status), _) => format!("exited with status {status}"),
            (None, Some(signal)) => format!("was ended by signal {signal}"),
            (None, None) => "ended".to_owned(),
        }
    }

    /// For a person.
    pub fn as_text(&self) -> String {
        let total = |outcome| self.total(outcome);
        let mut text = format!(
            "cuesta doctor: {} {}\n  about the store: {} served, {} failed, {} not served; about other files: {} \
             passed on to the kernel\n",
            self.name,
            self.ending(),
            total(Outcome::Served),
            total(Outcome::Failed),
            total(Outcome::Unserved),
            total(Outcome::Passed),
        );
        let rows: Vec<Vec<String>> = self
            .by_call()
            .into_iter()
            .map(|(number, counts)| {
                let counts = [counts.served, counts.failed, counts.unserved, counts.passed];
                [vec![system_calls::name(number)], counts.map(|count| count.to_string()).to_vec()].concat()
            })
            .collect();
        if !rows.is_empty() {
            text += "\n";
            text += &output::table(&["call", "served", "failed", "not served", "passed on"], &rows);
        }
        for (heading, outcome) in [("not served", Outcome::Unserved), ("failed", Outcome::Failed)] {
            let rows = self.rows(outcome);
            if !rows.is_empty() {
                text += "\n";
                let headings = [heading, "times", "answered", "first by", "on"];
                text += &output::aligned_table(&headings, &rows, &[0, 2, 3, 4]);
            }
        }
        let rows: Vec<Vec<String>> = self.unwatched().map(unwatched_row).collect();
        if !rows.is_empty() {
            text += "\n";
            let headings = ["program not watched", "started", "refused", "why"];
            text += &output::aligned_table(&headings, &rows, &[0, 3]);
        }
        for program in self.programs.iter().filter(|program| program.missed_sites != 0) {
            text += &format!(
                "\n  {}: {} system call instructions cannot be intercepted\n",
                self::text(&program.path),
                program.missed_sites
            );
        }
        if self.lost != 0 {
            text += &format!("\n  {} calls found no room in the account and are missing above\n", self.lost);
        }
        text + &format!("\nVerdict: {}\n", advice::verdict(self))
    }

    /// A row for each kind that came to `outcome`, and one for each further example.
    fn rows(&self, outcome: Outcome) -> Vec<Vec<String>> {
        let mut rows = Vec::new();
        for call in self.of(outcome) {
            let mut row = vec![
                system_calls::name(call.kind.number),
                call.count.to_string(),
                error_names::name(i32::from(call.kind.errno)),
            ];
            for (program, about) in &call.examples {
                let program = self.program(*program);
                let name = program.rsplit('/').next().unwrap_or_default().to_owned();
                row.extend([name, text(about)]);
                rows.push(std::mem::replace(&mut row, vec![String::new(); 3]));
            }
        }
        rows
    }

    /// For programs.
    pub fn as_json(&self) -> Value {
        let kinds = |outcome| {
            let kinds = self.of(outcome).map(|call| {
                let examples = call
                    .examples
                    .iter()
                    .map(|(program, about)| json!({ "program": self.program(*program), "on": text(about) }));
                json!({
                    "call": system_calls::name(call.kind.number),
                    "number": call.kind.number,
                    "errno": call.kind.errno,
                    "error": error_names::name(i32::from(call.kind.errno)),
                    "count": call.count,
                    "examples": examples.collect::<Vec<_>>(),
                })
            });
            kinds.collect::<Vec<_>>()
        };
        let calls = self.by_call().into_iter().map(|(number, counts)| {
            json!({
                "call": system_calls::name(number),
                "number": number,
                "served": counts.served,
                "failed": counts.failed,
                "unserved": counts.unserved,
                "passed_on": counts.passed,
            })
        });
        let programs = self.programs.iter().map(|program| {
            json!({
                "path": text(&program.path),
                "started": program.executed,
                "watched": program.watched,
                "refused": program.refused,
                "barrier": program.barrier.map(|barrier| barrier.description()),
                "missed_sites": program.missed_sites,
            })
        });
        json!({
            "command": self.name,
            "status": self.ended.code(),
            "signal": self.ended.signal(),
            "served": self.total(Outcome::Served),
            "failed": self.total(Outcome::Failed),
            "unserved": self.total(Outcome::Unserved),
            "passed_on": self.total(Outcome::Passed),
            "lost": self.lost,
            "calls": calls.collect::<Vec<_>>(),
            "unserved_calls": kinds(Outcome::Unserved),
            "failed_calls": kinds(Outcome::Failed),
            "programs": programs.collect::<Vec<_>>(),
            "verdict": advice::verdict(self),
        })
    }
}

fn unwatched_row(program: &CountedProgram) -> Vec<String> {
    vec![
        text(&program.path),
        program.executed.to_string(),
        program.refused.to_string(),
        advice::why_unwatched(program).to_owned(),
    ]
}

/// Bytes a program chose, on one line.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes)
        .chars()
        .map(|one| if one.is_control() { '\u{fffd}' } else { one })
        .collect()
}
