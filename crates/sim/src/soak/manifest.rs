//! The acknowledged steps, and the content that a reader must find.
//!
//! Lanes speak in lines, while they work:
//!
//! | line | means |
//! |---|---|
//! | `resume N` | a program that just started found step N, and none behind it |
//! | `kept N SUM` | step N is done, and what it made has this checksum |
//! | `leaves N` | from now on steps up to N may be gone |
//! | `gone N` | they are |
//! | `saw WHAT` | something that must not be |
//!
//! and `found N SUM` for each step that a second reader finds. All of it lies in a file outside the store, for people to
//! look at when something is wrong.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::path::Path;

/// A step of a lane, from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Step(pub u64);

impl fmt::Display for Step {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "step {}", self.0)
    }
}

/// Something that must not be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// It was acknowledged.
    #[error("{0} was acknowledged and is not there")]
    Lost(Step),
    /// It was acknowledged, and is not what it was.
    #[error("{step} was acknowledged as {kept} and is {found}")]
    Changed {
        /// Which one.
        step: Step,
        /// The checksum of then.
        kept: String,
        /// The checksum of now.
        found: String,
    },
    /// Two processes did it, or one did it again.
    #[error("{0} was acknowledged twice")]
    Twice(Step),
    /// It was removed, and that was acknowledged.
    #[error("{0} was removed and is there again")]
    Back(Step),
    /// Nobody can have done it.
    #[error("{0} is there, but nobody came further than {1}")]
    Invented(Step, Step),
    /// A new process does not find what was acknowledged before it started.
    #[error("a program that started after {kept} was acknowledged finds {found} to be the last")]
    NotSeen {
        /// The step it should find.
        kept: Step,
        /// The step it finds.
        found: Step,
    },
    /// A program that looks for what must not be saw it.
    #[error("{0}")]
    Saw(String),
    /// No line of ours.
    #[error("it said {0:?}")]
    Said(String),
}

/// The state of one lane.
#[derive(Clone, Debug, Default)]
struct Lane {
    kept: BTreeMap<Step, String>,
    /// The last step that was found or acknowledged.
    last: Step,
    leaving: Step,
    gone: Step,
}

/// All lanes.
pub struct Manifest {
    names: Vec<String>,
    lanes: Vec<Lane>,
    file: File,
    acknowledged: u64,
}

impl Manifest {
    /// An empty one in a new file.
    pub fn create(path: &Path, names: Vec<String>) -> io::Result<Manifest> {
        let lanes = vec![Lane::default(); names.len()];
        Ok(Manifest { names, lanes, file: File::create_new(path)?, acknowledged: 0 })
    }

    /// The last step of a lane that is acknowledged.
    #[must_use]
    pub fn last_kept(&self, lane: usize) -> Step {
        self.lanes[lane].kept.last_key_value().map_or(Step::default(), |(step, _)| *step)
    }

    /// Steps that were acknowledged so far.
    #[must_use]
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// A program of a lane said something, which it started when `before` was the last step kept.
    pub fn take(&mut self, lane: usize, before: Step, line: &str) -> Result<(), Violation> {
        // Written or not, the line is judged; the file is for people.
        let _ = writeln!(self.file, "{} {line}", self.names[lane]);
        let record = &mut self.lanes[lane];
        match parse(line)? {
            Line::Resume(found) if found < before => Err(Violation::NotSeen { kept: before, found }),
            Line::Resume(found) => {
                record.last = record.last.max(found);
                Ok(())
            }
            Line::Kept(step, sum) => {
                self.acknowledged += 1;
                record.last = record.last.max(step);
                record.kept.insert(step, sum).map_or(Ok(()), |_| Err(Violation::Twice(step)))
            }
            Line::Leaves(step) => {
                record.leaving = record.leaving.max(step);
                Ok(())
            }
            Line::Gone(step) => {
                record.gone = record.gone.max(step);
                record.kept.retain(|kept, _| *kept > step);
                Ok(())
            }
            Line::Saw(what) => Err(Violation::Saw(what)),
            Line::Found(..) => Err(Violation::Said(line.to_owned())),
        }
    }

    /// Compares a lane with the steps found by now, when no job works. At most `under_way` steps may be there that no job came
    /// to acknowledge. Whatever is found was seen, and stays.
    pub fn compare(&mut self, lane: usize, said: &str, under_way: usize) -> Result<(), Violation> {
        let record = &mut self.lanes[lane];
        let mut found = BTreeMap::new();
        for line in said.lines() {
            match parse(line)? {
                Line::Found(step, sum) => drop(found.insert(step, sum)),
                Line::Saw(what) => return Err(Violation::Saw(what)),
                _ => return Err(Violation::Said(line.to_owned())),
            }
        }
        if let Some((back, _)) = found.range(..=record.gone).next() {
            return Err(Violation::Back(*back));
        }
        for (step, kept) in record.kept.iter().filter(|(step, _)| **step > record.leaving) {
            match found.get(step) {
                None => return Err(Violation::Lost(*step)),
                Some(sum) if sum != kept => {
                    let (kept, found) = (kept.clone(), sum.clone());
                    return Err(Violation::Changed { step: *step, kept, found });
                }
                Some(_) => {}
            }
        }
        if let Some((last, _)) = found.last_key_value() {
            if last.0 > record.last.0 + under_way as u64 {
                return Err(Violation::Invented(*last, record.last));
            }
            record.last = record.last.max(*last);
        }
        found.retain(|step, _| *step > record.leaving);
        record.kept = found;
        Ok(())
    }

    /// Writes the file anew, with what still holds.
    pub fn save(&mut self) -> io::Result<()> {
        self.file.rewind()?;
        self.file.set_len(0)?;
        let mut file = io::BufWriter::new(&self.file);
        for (name, lane) in self.names.iter().zip(&self.lanes) {
            writeln!(file, "{name} gone {}\n{name} leaves {}", lane.gone.0, lane.leaving.0)?;
            for (step, sum) in &lane.kept {
                writeln!(file, "{name} kept {} {sum}", step.0)?;
            }
        }
        file.flush()
    }
}

enum Line {
    Resume(Step),
    Kept(Step, String),
    Leaves(Step),
    Gone(Step),
    Found(Step, String),
    Saw(String),
}

fn parse(line: &str) -> Result<Line, Violation> {
    let otherwise = || Violation::Said(line.to_owned());
    let (word, rest) = line.split_once(' ').ok_or_else(otherwise)?;
    let step = |text: &str| text.parse().map(Step).map_err(|_| otherwise());
    let with_sum = || {
        let (number, sum) = rest.split_once(' ').ok_or_else(otherwise)?;
        Ok((step(number)?, sum.to_owned()))
    };
    Ok(match word {
        "resume" => Line::Resume(step(rest)?),
        "kept" => with_sum().map(|(step, sum)| Line::Kept(step, sum))?,
        "found" => with_sum().map(|(step, sum)| Line::Found(step, sum))?,
        "leaves" => Line::Leaves(step(rest)?),
        "gone" => Line::Gone(step(rest)?),
        "saw" => Line::Saw(rest.to_owned()),
        _ => return Err(otherwise()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(said: &[&str]) -> (tempfile::TempDir, Manifest) {
        let folder = tempfile::tempdir().unwrap();
        let mut manifest = Manifest::create(&folder.path().join("manifest"), vec!["lane".into()]).unwrap();
        for line in said {
            manifest.take(0, Step(0), line).unwrap();
        }
        (folder, manifest)
    }

    fn compared(said: &[&str], found: &str) -> Result<(), Violation> {
        let (_folder, mut manifest) = manifest(said);
        manifest.compare(0, found, 1)
    }

    #[test]
    fn what_was_acknowledged_must_be_there_as_it_was() {
        let said = ["resume 0", "kept 1 a", "kept 2 b"];
        assert_eq!(compared(&said, "found 1 a\nfound 2 b\n"), Ok(()));
        assert_eq!(compared(&said, "found 1 a"), Err(Violation::Lost(Step(2))));
        assert_eq!(compared(&said, "found 2 b"), Err(Violation::Lost(Step(1))));
        let changed = Violation::Changed { step: Step(2), kept: "b".into(), found: "c".into() };
        assert_eq!(compared(&said, "found 1 a\nfound 2 c"), Err(changed));
        assert_eq!(compared(&said, "nonsense"), Err(Violation::Said("nonsense".into())));
    }

    #[test]
    fn one_step_under_way_may_be_there_and_stays_when_it_was_seen() {
        let said = ["resume 0", "kept 1 a"];
        assert_eq!(compared(&said, "found 1 a\nfound 3 c"), Err(Violation::Invented(Step(3), Step(1))));
        let (_folder, mut manifest) = manifest(&said);
        assert_eq!(manifest.compare(0, "found 1 a\nfound 2 b", 1), Ok(()));
        assert_eq!(manifest.compare(0, "found 1 a", 1), Err(Violation::Lost(Step(2))));
        assert_eq!(manifest.last_kept(0), Step(2));
    }

    #[test]
    fn what_is_removed_may_go_and_does_not_come_back() {
        let said = ["kept 1 a", "kept 2 b", "kept 3 c", "leaves 1", "gone 1", "leaves 2"];
        assert_eq!(compared(&said, "found 2 b\nfound 3 c"), Ok(()));
        assert_eq!(compared(&said, "found 2 half\nfound 3 c"), Ok(()));
        assert_eq!(compared(&said, "found 3 c"), Ok(()));
        assert_eq!(compared(&said, "found 1 a\nfound 3 c"), Err(Violation::Back(Step(1))));
        assert_eq!(compared(&said, "found 2 b"), Err(Violation::Lost(Step(3))));
    }

    #[test]
    fn programs_that_contradict_one_another_are_noticed() {
        let (_folder, mut manifest) = manifest(&["kept 1 a", "kept 2 b"]);
        assert_eq!(manifest.take(0, Step(1), "kept 2 c"), Err(Violation::Twice(Step(2))));
        let not_seen = Violation::NotSeen { kept: Step(2), found: Step(1) };
        assert_eq!(manifest.take(0, Step(2), "resume 1"), Err(not_seen));
        assert_eq!(manifest.take(0, Step(2), "saw a secret"), Err(Violation::Saw("a secret".into())));
        assert_eq!(manifest.take(0, Step(2), "found 1 a"), Err(Violation::Said("found 1 a".into())));
    }
}
