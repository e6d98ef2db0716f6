//! Plays sequences of seeds on both sides, compares, and shrinks what differs.

use super::allowed::{self, Allowed};
use super::arguments;
use super::part::Part;
use super::player::{CALL, SLOWLY};
use super::players::{Players, Transcripts};
use super::sequence::Call;
use std::collections::BTreeMap;
use std::fmt;
use std::io;

/// Calls of a sequence.
pub const CALLS: usize = 40;
/// So many sequences are one that is played slowly.
const SLOWLY_ONE_IN: u64 = 32;
/// How often a sequence is played while it is shrunk.
const ATTEMPTS_MAX: usize = 300;

fn parts(transcript: &str) -> Vec<Part<'_>> {
    let starts: Vec<_> = transcript
        .match_indices(CALL)
        .map(|(at, _)| at)
        .filter(|at| *at == 0 || transcript.as_bytes()[*at - 1] == b'\n')
        .collect();
    let ends = starts.iter().skip(1).copied().chain([transcript.len()]);
    let part = |(start, end): (&usize, usize)| {
        let (call, told) = transcript[start + 2..end].split_once('\n').unwrap_or_default();
        Part { call, told, before: &transcript[..*start] }
    };
    starts.iter().zip(ends).map(part).collect()
}

/// A call that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Its number in the sequence, which begins after the fixture.
    pub index: usize,
    /// The call.
    pub call: String,
    /// The transcript of it on the disk.
    pub disk: String,
    /// The same by the door.
    pub door: String,
    /// By what it is told from others.
    pub kind: String,
}

/// How far two transcripts were compared, and what was found.
#[derive(Debug, Default)]
pub struct Compared {
    /// Calls without difference.
    pub same: usize,
    /// Differences that stay.
    pub allowed: Vec<&'static Allowed>,
    /// One that does not.
    pub difference: Option<Difference>,
}

/// Compares what both sides tell.
#[must_use]
pub fn compare(transcripts: &Transcripts) -> Compared {
    let (disk, door) = (parts(&transcripts.disk), parts(&transcripts.door));
    let mut compared = Compared::default();
    for (index, (disk, door)) in disk.iter().zip(&door).enumerate() {
        if (disk.call, disk.told) == (door.call, door.told) {
            compared.same += 1;
            continue;
        }
        if let Some(allowed) = allowed::find(disk, door) {
            compared.allowed.push(allowed);
            if allowed.goes_on {
                continue;
            }
            return compared;
        }
        let kind = match (disk.answer(), door.answer()) {
            (one, other) if one == other => {
                let lines = |part: &Part<'_>| part.told.lines().map(str::to_owned).collect::<Vec<_>>();
                let (one, other) = (lines(disk), lines(door));
                let line = one
                    .iter()
                    .find(|line| !other.contains(line))
                    .or_else(|| other.iter().find(|line| !one.contains(line)));
                let word = line.and_then(|line| line.split_whitespace().next()).unwrap_or("order");
                format!(
                    "{}: {} with other effect: {word}",
                    disk.name(),
                    if one.is_empty() { "" } else { disk.answer() }
                )
            }
            (one, other) => format!("{}: {one} on the disk, {other} by the door", disk.name()),
        };
        compared.difference = Some(Difference {
            index: index.saturating_sub(1),
            call: disk.call.to_owned(),
            disk: disk.told.to_owned(),
            door: door.told.to_owned(),
            kind,
        });
        return compared;
    }
    compared
}

/// The counts and findings of a campaign.
#[derive(Debug, Default)]
pub struct Report {
    /// Sequences played.
    pub sequences: u64,
    /// Calls without difference.
    pub same: u64,
    /// Differences that stay, by their headings.
    pub allowed: BTreeMap<&'static str, u64>,
    /// By kind: how often, and the smallest sequence found.
    pub found: BTreeMap<String, (u64, FoundDifference)>,
}

/// A sequence that differs, as small as it was made.
#[derive(Clone, Debug)]
pub struct FoundDifference {
    /// Of the sequence it was found in.
    pub seed: u64,
    /// The calls that are left of it.
    pub calls: Vec<Call>,
    /// Whether it was played slowly.
    pub slowly: bool,
    /// What its last call does.
    pub difference: Difference,
}

impl fmt::Display for FoundDifference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "--- {} (seed {})", self.difference.kind, self.seed)?;
        if self.slowly {
            writeln!(formatter, "{SLOWLY}")?;
        }
        for call in &self.calls {
            writeln!(formatter, "{call}")?;
        }
        let (disk, door) = (&self.difference.disk, &self.difference.door);
        let only = |one: &str, other: &str| -> String {
            let other: Vec<_> = other.lines().collect();
            one.lines().filter(|line| !other.contains(line)).map(|line| format!("{line}\n")).collect()
        };
        writeln!(formatter, "only on the disk, {}:", self.difference.call)?;
        write!(formatter, "{}only by the door:\n{}", only(disk, door), only(door, disk))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "{} sequences, {} calls without difference", self.sequences, self.same)?;
        for (heading, count) in &self.allowed {
            writeln!(formatter, "{count:8}  {heading}")?;
        }
        for (kind, (count, _)) in &self.found {
            writeln!(formatter, "{count:8}  DIFFERENT: {kind}")?;
        }
        Ok(())
    }
}

/// Plays what is left after taking out as much as still differs in this way.
fn shrink(
    players: &mut Players,
    slowly: bool,
    mut calls: Vec<Call>,
    difference: Difference,
) -> io::Result<(Vec<Call>, Difference)> {
    let mut smallest = difference;
    calls.truncate(smallest.index + 1);
    let mut attempts = 0;
    let mut step = calls.len() / 2;
    while step > 0 {
        let mut start = 0;
        while start < calls.len() && attempts < ATTEMPTS_MAX {
            let mut fewer = calls.clone();
            fewer.drain(start..(start + step).min(calls.len()));
            attempts += 1;
            match compare(&players.play_in_turn(&fewer, slowly)?).difference {
                Some(found) if found.kind == smallest.kind => {
                    fewer.truncate(found.index + 1);
                    (calls, smallest) = (fewer, found);
                }
                _ => start += step,
            }
        }
        step /= 2;
    }
    Ok((calls, smallest))
}

/// Plays the sequences of these seeds until one differs that is not of a kind seen before, `kinds` times.
///
/// # Errors
///
/// A player fails.
pub fn run(
    players: &mut Players,
    seeds: std::ops::Range<u64>,
    kinds: usize,
    each: &mut dyn FnMut(&FoundDifference),
) -> io::Result<Report> {
    let mut report = Report::default();
    for seed in seeds {
        let calls = arguments::generate(seed, CALLS);
        let slowly = seed % SLOWLY_ONE_IN == 0;
        let mut compared = compare(&players.play(&calls, slowly)?);
        if compared.difference.is_some() {
            // Both players use the machine's devices, on which their locks meet.
            compared = compare(&players.play_in_turn(&calls, slowly)?);
        }
        report.sequences += 1;
        report.same += compared.same.saturating_sub(1).min(CALLS) as u64;
        for allowed in compared.allowed {
            *report.allowed.entry(allowed.heading).or_default() += 1;
        }
        let Some(difference) = compared.difference else { continue };
        if let Some((count, _)) = report.found.get_mut(&difference.kind) {
            *count += 1;
            continue;
        }
        let (calls, difference) = shrink(players, slowly, calls, difference)?;
        let found = FoundDifference { seed, calls, slowly, difference };
        each(&found);
        report.found.insert(found.difference.kind.clone(), (1, found));
        if report.found.len() >= kinds {
            break;
        }
    }
    Ok(report)
}
