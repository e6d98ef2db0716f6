//! Two processes that both write one file as fast as they can: how long neither gets on when the turn changes.
//!
//! Each notes its turns: calls behind each other of which none had to wait. The time from the end of one's turn to the
//! end of the other's first call is the cost of a hand-over, whatever goes on inside.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::error::{BenchError, Context};
use crate::figures::measure::{Figure, Outcome, latency_histogram};
use crate::workload::pieces::members;

const PROCESSES: u32 = 2;
const WARM_UP: u64 = 64;
/// A call that took longer has waited for something.
const WAITED: Duration = Duration::from_micros(5);

/// Writers of one file, each at a place of its own.
#[derive(Clone, Copy, Debug)]
pub struct HandOver {
    /// Bytes of a write.
    pub size: u64,
}

/// Calls one behind the other, in ns since the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct HandOverTurn {
    first_ended: u64,
    last_ended: u64,
    member: u32,
}

impl HandOver {
    /// Measures in `dir`.
    pub fn run(&self, dir: &Path, time: Duration) -> Result<Outcome, BenchError> {
        let path = dir.join("shared");
        let content = vec![b'x'; self.size as usize];
        File::create(&path)
            .and_then(|file| file.set_len(u64::from(PROCESSES) * self.size))
            .context("making the file")?;
        // One clock for all: they inherit its origin.
        let epoch = Instant::now();
        let outcomes = members::run(PROCESSES, |member| {
            let file = File::options().write(true).open(&path).context("opening the file")?;
            let at = u64::from(member.number) * self.size;
            let write = || file.write_all_at(&content, at).context("pwrite");
            for _ in 0..WARM_UP {
                write()?;
            }
            member.wait_for_all()?;
            let turns = turns(member.number, epoch, time, write)?;
            // Turns take the way that latencies take: pairs of numbers.
            let pairs = turns.iter().map(|turn| (turn.first_ended, turn.last_ended)).collect();
            Ok(Outcome { latency: pairs, ..Outcome::default() })
        })?;
        let whole = std::fs::read(&path).context("reading back")?;
        if whole.len() != content.len() * PROCESSES as usize || whole.iter().any(|&byte| byte != b'x') {
            return Err(BenchError::Corrupt("what the two wrote is not all there".into()));
        }
        let mut all: Vec<HandOverTurn> = (0..)
            .zip(&outcomes)
            .flat_map(|(member, outcome)| {
                let turn = move |&(first_ended, last_ended)| HandOverTurn { first_ended, last_ended, member };
                outcome.latency.iter().map(turn)
            })
            .collect();
        all.sort_unstable();
        let mut between = latency_histogram();
        gaps(&all).for_each(|nanoseconds| between.saturating_record(nanoseconds.max(1)));
        if between.is_empty() {
            return Err(BenchError::Unusable("the two never took turns".into()));
        }
        Ok(Outcome::of(Figure::Median, between.value_at_quantile(0.5) as f64 / 1e3)
            .with(Figure::Percentile99, between.value_at_quantile(0.99) as f64 / 1e3))
    }
}

/// Calls `write` for `time` and notes the turns.
fn turns(
    member: u32,
    epoch: Instant,
    time: Duration,
    mut write: impl FnMut() -> Result<(), BenchError>,
) -> Result<Vec<HandOverTurn>, BenchError> {
    let since = |at: Instant| at.duration_since(epoch).as_nanos() as u64;
    let start = Instant::now();
    let mut last = start;
    let mut turns: Vec<HandOverTurn> = Vec::new();
    while last - start < time {
        write()?;
        let now = Instant::now();
        match turns.last_mut() {
            Some(turn) if now - last <= WAITED => turn.last_ended = since(now),
            _ => turns.push(HandOverTurn { first_ended: since(now), last_ended: since(now), member }),
        }
        last = now;
    }
    Ok(turns)
}

/// The ns between a turn and the next, where that is the other's.
fn gaps(turns: &[HandOverTurn]) -> impl Iterator<Item = u64> {
    let changed = turns.windows(2).filter(|pair| pair[0].member != pair[1].member);
    changed.map(|pair| pair[1].first_ended.saturating_sub(pair[0].last_ended))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_changes_between_members_are_hand_overs() {
        let turn = |first_ended, last_ended, member| HandOverTurn { first_ended, last_ended, member };
        let turns = [turn(10, 20, 0), turn(25, 40, 0), turn(70, 90, 1), turn(95, 99, 1), turn(130, 140, 0)];
        assert_eq!(gaps(&turns).collect::<Vec<_>>(), [30, 31]);
    }

    #[test]
    fn both_write_and_nothing_is_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let outcome = HandOver { size: 64 }.run(dir.path(), Duration::from_millis(50)).unwrap();
        assert!(outcome.figures[&Figure::Median] > 0.0);
    }
}
