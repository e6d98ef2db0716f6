//! The report of `cuesta doctor`, as text and as JSON.

use super::advice;
use super::report::{Report, text};
use crate::messages::{error_names, output, system_calls};
use cuesta_format::account::{CountedProgram, Outcome};
use serde_json::{Value, json};
use std::os::unix::process::ExitStatusExt as _;

impl Report {
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
                super::report::text(&program.path),
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
