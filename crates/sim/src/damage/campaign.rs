//! A trial and its outcome.

use super::content::{Reading, Readings};
use super::harm::{self, Kind};
use super::part::Part;
use super::place::{Before, DamageFolder, Ended, Installed};
use crate::operations::random::Random;
use rustix::io::Errno;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// How often another file or kind is drawn when a damage would change nothing.
const DRAWS_MAX: usize = 200;
/// Lines of the daemon's log that are shown with a failure.
const LINES_MAX: usize = 10;
/// The exit status of a check of a store it could not open.
const DAMAGED: i32 = 2;

/// What became of a damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// Everything reads as it was written.
    Healed,
    /// What does not was told, or is an error.
    Told,
    /// The store opened only after a repair; what does not read as it was written was told then.
    Repaired,
}

/// A damage that was neither healed nor told.
#[derive(Clone, Debug)]
pub struct Failed(pub String);

/// A damage and what became of it.
#[derive(Clone, Debug)]
pub struct Trial {
    /// Its number.
    pub number: u64,
    /// The purpose of the file.
    pub part: Part,
    /// The damage.
    pub kind: Kind,
    /// The file and the damage, for people.
    pub what: String,
    /// What became of it.
    pub outcome: Result<Outcome, Failed>,
}

/// Stores to damage.
#[derive(Debug)]
pub struct Campaign {
    place: DamageFolder,
    seed: u64,
    parts: Vec<Part>,
    kinds: Vec<Kind>,
    bases: [Base; 2],
}

/// A store that is copied, and then damaged.
#[derive(Debug)]
struct Base {
    before: Before,
    expected: Readings,
    files: Vec<(Part, String)>,
}

/// The readings and messages of a damaged store.
#[derive(Default)]
struct Seen {
    /// Whether anything said that something is wrong.
    told: bool,
    /// What no program may do.
    crimes: Vec<String>,
    /// What each step said, for people.
    steps: Vec<String>,
}

impl Seen {
    fn take(&mut self, step: &str, ended: &Ended, tells: bool) {
        self.told |= tells;
        self.crimes.extend(ended.crime.clone());
        let said = [&ended.errors, &ended.text].map(|text| text.trim().to_owned()).join(" ");
        let said: String = said.chars().take(600).collect();
        self.steps.push(format!("    {step}: status {}: {said}", ended.status));
    }
}

impl Campaign {
    /// Makes the stores.
    pub fn new(installed: Installed, seed: u64, parts: &[Part], kinds: &[Kind]) -> io::Result<Campaign> {
        let place = DamageFolder::new(installed, seed)?;
        let base = |before| -> io::Result<Base> {
            Ok(Base { before, expected: place.expected(before), files: place.files(before)? })
        };
        let bases = [base(Before::Stopped)?, base(Before::Killed)?];
        Ok(Campaign { place, seed, parts: parts.to_vec(), kinds: kinds.to_vec(), bases })
    }

    /// Damages one file of a copy of the store, and looks at what becomes of it.
    pub fn trial(&self, number: u64) -> io::Result<Trial> {
        let mut random = Random::new(self.seed.wrapping_mul(0x9e37_79b9).wrapping_add(number));
        let Base { before, expected, files } = random.pick(&self.bases);
        let trial = self.place.trial(*before)?;
        let tier = DamageFolder::tier(&trial);
        for _ in 0..DRAWS_MAX {
            let (part, kind) = (*random.pick(&self.parts), *random.pick(&self.kinds));
            let of_part: Vec<&String> =
                files.iter().filter(|(of, _)| *of == part).map(|(_, name)| name).collect();
            if of_part.is_empty() {
                continue;
            }
            let file = *random.pick(&of_part);
            let old = self.place.older(file);
            let Some(harm) = harm::damage(&tier.join(file), old.as_deref(), kind, &mut random)? else {
                continue;
            };
            let what = format!("{file} of a store that was {before:?}: {harm}");
            let outcome = self.outcome(&trial, expected)?;
            return Ok(Trial { number, part, kind, what, outcome });
        }
        Err(io::Error::other("no file of the store can be damaged in these ways"))
    }

    /// What an operator sees of the store.
    fn outcome(&self, trial: &Path, expected: &Readings) -> io::Result<Result<Outcome, Failed>> {
        let mut seen = Seen::default();
        let checked = self.place.operate(trial, "fsck", &["--dry-run"])?;
        seen.take("fsck --dry-run", &checked, checked.status != 0);
        let mut opened = self.use_it(trial, &mut seen)?;
        let checked = self.place.operate(trial, "fsck", &["--content"])?;
        seen.take("fsck", &checked, checked.status != 0);
        let is_refused = opened.is_none();
        if is_refused || checked.status >= DAMAGED {
            let repaired = self.place.operate(trial, "fsck", &["--repair"])?;
            seen.take("fsck --repair", &repaired, repaired.status != 0);
            opened = self.use_it(trial, &mut seen)?.or(opened);
        }
        self.look_for_panics(trial, &mut seen);
        Ok(judge(&seen, is_refused, expected, opened.as_ref()))
    }

    /// Programs read everything, and the daemon looks at all content.
    fn use_it(&self, trial: &Path, seen: &mut Seen) -> io::Result<Option<Readings>> {
        let (ended, readings) = self.place.read(trial)?;
        let short = Ended { text: String::new(), ..ended };
        seen.take("run", &short, readings.is_none());
        if readings.is_some() {
            let scrubbed = self.place.operate(trial, "scrub", &[])?;
            seen.take("scrub", &scrubbed, scrubbed.status != 0);
            let stopped = self.place.operate(trial, "stop", &[])?;
            seen.take("stop", &stopped, false);
        }
        Ok(readings)
    }

    fn look_for_panics(&self, trial: &Path, seen: &mut Seen) {
        let log = fs::read_to_string(trial.join("sharedfs.log")).unwrap_or_default();
        if let Some(line) = log.lines().find(|line| line.contains("panicked")) {
            seen.crimes.push(format!("the daemon panicked: {line}"));
        }
        let tells = |line: &&str| line.contains(" ERROR ") || line.contains(" WARN ");
        seen.told |= log.lines().any(|line| tells(&line));
        seen.steps.extend(log.lines().filter(tells).take(LINES_MAX).map(|line| format!("    log: {line}")));
    }

    /// Leaves the store of the last trial where it is.
    pub fn keep(self) -> io::Result<PathBuf> {
        self.place.keep()
    }
}

/// The faults in the readings of programs: errors, and other differences.
fn compare(expected: &Readings, found: &Readings) -> (Vec<String>, Vec<String>) {
    let (mut errors, mut others) = (Vec::new(), Vec::new());
    let is_below =
        |path: &str, above: &str| path.strip_prefix(above).is_some_and(|rest| rest.starts_with('/'));
    for (path, right) in &expected.0 {
        match found.0.get(path) {
            Some(reading) if reading == right => {}
            Some(Reading::Error { errno, .. }) if *errno == Errno::IO.raw_os_error() => {
                errors.push(path.clone())
            }
            // Of a directory that cannot be listed, no name can be.
            None if errors.iter().any(|above| is_below(path, above)) => {}
            Some(other) => others.push(format!("{path} reads as {other:?}, not as {right:?}")),
            None => others.push(format!("{path} is gone")),
        }
    }
    for path in found.0.keys().filter(|path| !expected.0.contains_key(*path)) {
        others.push(format!("{path} was never made"));
    }
    (errors, others)
}

fn judge(
    seen: &Seen,
    is_refused: bool,
    expected: &Readings,
    found: Option<&Readings>,
) -> Result<Outcome, Failed> {
    let fail = |why: String| Err(Failed(format!("{why}\n{}", seen.steps.join("\n"))));
    if !seen.crimes.is_empty() {
        return fail(seen.crimes.join("; "));
    }
    let Some(found) = found else { return fail("the store does not open, nor after a repair".into()) };
    let (errors, others) = compare(expected, found);
    if !others.is_empty() && !seen.told {
        let count = others.len();
        return fail(format!(
            "{count} silent: {}",
            others.into_iter().take(5).collect::<Vec<_>>().join("; ")
        ));
    }
    Ok(match (is_refused, errors.is_empty() && others.is_empty()) {
        (true, _) => Outcome::Repaired,
        (false, true) => Outcome::Healed,
        (false, false) => Outcome::Told,
    })
}
