//! Plays a trace with fast tiers of several sizes and by several policies, and compares these with each other and with the bounds.

use super::bounds::{fixed, optimum};
use super::report::{Goal, GoalReport, PolicyReport, TierReport, TraceReport};
use super::simulation::player::{Outcome, Playing, Reads, play};
use super::simulation::uses::{Use, Uses};
use super::synthetic::scenario::{SECOND_US, Scenario, Subject};
use super::traces::trace::{Op, Trace};
use crate::error::BenchError;
use cuesta_placement::{Kind, Limits};
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The size of a fast tier.
#[derive(Clone, Copy, Debug)]
pub enum FastTier {
    /// Percent of the largest amount of content that the trace has at one time.
    Share(f64),
    Bytes(u64),
}

/// What all traces are played with.
#[derive(Debug)]
pub struct Comparing {
    pub policies: Vec<Kind>,
    pub fast_tiers: Vec<FastTier>,
    pub piece_bytes: u64,
    pub limits: Limits,
    pub sample: u32,
    pub mb_per_second: f64,
    pub seed: u64,
}

/// A trace, cut.
struct Cut<'a> {
    uses: Uses,
    /// The same without the scan, and the files whose hits the scan may cost.
    undisturbed: Option<(Uses, &'a Range<u32>)>,
    counted_from_us: u64,
    is_zipf: bool,
}

impl Comparing {
    /// Plays a trace.
    pub fn compare(&self, scenario: &Scenario) -> Result<TraceReport, BenchError> {
        let trace = &scenario.trace;
        let undisturbed = match &scenario.subject {
            Subject::Scan { hot, undisturbed } => Some((Uses::cut(undisturbed, self.piece_bytes)?, hot)),
            Subject::Zipf | Subject::Mixed => None,
        };
        let cut = Cut {
            uses: Uses::cut(trace, self.piece_bytes)?,
            undisturbed,
            counted_from_us: scenario.counted_from_us,
            is_zipf: matches!(scenario.subject, Subject::Zipf),
        };
        Ok(TraceReport {
            name: trace.name.clone(),
            reads: requests(trace, Op::Read),
            writes: requests(trace, Op::Write),
            seconds: cut.uses.end_us() as f64 / SECOND_US as f64,
            counted_from_seconds: scenario.counted_from_us as f64 / SECOND_US as f64,
            footprint_bytes: cut.uses.footprint * self.piece_bytes,
            tiers: in_parallel(&self.fast_tiers, |&fast| self.compare_with(&cut, fast)),
        })
    }

    fn compare_with(&self, cut: &Cut<'_>, fast: FastTier) -> TierReport {
        let (capacity, share) = match fast {
            FastTier::Share(percent) => {
                ((cut.uses.footprint as f64 * percent / 100.0).round() as u64, Some(percent))
            }
            FastTier::Bytes(bytes) => (bytes / self.piece_bytes, None),
        };
        let playing = Playing {
            capacity,
            limits: self.limits,
            sample: self.sample,
            mb_per_second: self.mb_per_second,
            counted_from_us: cut.counted_from_us,
            seed: self.seed,
        };
        let mtime = play(&cut.uses, Kind::Ziggurat, &playing, cut.is_hot());
        let mut report = TierReport {
            share,
            fast_bytes: capacity * self.piece_bytes,
            reads: mtime.hits.reads + mtime.misses.reads,
            optimum_misses: optimum::misses(&cut.uses, capacity, cut.counted_from_us, true),
            optimum_without_bypass_misses: optimum::misses(&cut.uses, capacity, cut.counted_from_us, false),
            fixed_misses: fixed::misses(&cut.uses, capacity, cut.counted_from_us),
            mtime_misses: mtime.misses.reads,
            each_minute_bytes: fixed::bytes_moved_each_minute(&cut.uses, capacity),
            policies: Vec::new(),
        };
        for &kind in &self.policies {
            let outcome = match kind {
                Kind::Ziggurat => mtime,
                _ => play(&cut.uses, kind, &playing, cut.is_hot()),
            };
            let undisturbed =
                cut.undisturbed.as_ref().map(|(uses, _)| play(uses, kind, &playing, cut.is_hot()));
            let goals = goals(cut, &report, &outcome, undisturbed.as_ref());
            report.policies.push(PolicyReport {
                policy: kind.name(),
                hits: outcome.hits,
                misses: outcome.misses,
                down_bytes: outcome.moved.down,
                up_bytes: outcome.moved.up,
                dropped_bytes: outcome.moved.dropped,
                written_through_bytes: outcome.moved.written_through,
                elsewhere_bytes: outcome.elsewhere,
                goals,
            });
        }
        report
    }
}

impl Cut<'_> {
    fn is_hot(&self) -> impl Fn(&Use) -> bool {
        let hot: Vec<bool> = match &self.undisturbed {
            // Both cuts number the pieces of the files that were written first alike.
            Some((uses, hot)) => uses
                .pieces
                .iter()
                .map(|piece| u32::try_from(piece.inode.0).is_ok_and(|file| hot.contains(&file)))
                .collect(),
            None => Vec::new(),
        };
        move |next| hot.get(next.piece as usize).copied().unwrap_or(false)
    }
}

fn goals(
    cut: &Cut<'_>,
    tier: &TierReport,
    outcome: &Outcome,
    undisturbed: Option<&Outcome>,
) -> Vec<GoalReport> {
    let mut goals = Vec::new();
    let ratio = |value: u64, to: u64| value as f64 / to as f64;
    if cut.is_zipf && tier.fixed_misses > 0 {
        goals.push(Goal::ToFixed.of(ratio(outcome.misses.reads, tier.fixed_misses)));
        // Where all placements are alike, as with equal frequencies, none can be so much better.
        if ratio(tier.fixed_misses, tier.mtime_misses) <= Goal::ToMtime.most() {
            goals.push(Goal::ToMtime.of(ratio(outcome.misses.reads, tier.mtime_misses)));
        }
    }
    if let Some(undisturbed) = undisturbed
        && undisturbed.hot_hits.reads > 0
    {
        let kept = ratio(outcome.hot_hits.reads, undisturbed.hot_hits.reads);
        goals.push(Goal::LostByScan.of(1.0 - kept));
    }
    let due = outcome.elsewhere + tier.each_minute_bytes;
    if due > 0 {
        goals.push(Goal::ToBytesDue.of(ratio(outcome.moved.both_ways(), due)));
    }
    goals
}

fn requests(trace: &Trace, op: Op) -> Reads {
    let mut requests = Reads::default();
    for access in trace.accesses.iter().filter(|access| access.op == op) {
        requests.add(access.bytes);
    }
    requests
}

/// The results of `work` for all items, in their order, by as many threads as there are processors.
fn in_parallel<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(items.len());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(number) else { break };
                    let result = work(item);
                    if let Ok(mut results) = results.lock() {
                        results.push((number, result));
                    }
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap_or_default();
    results.sort_by_key(|(number, _)| *number);
    results.into_iter().map(|(_, result)| result).collect()
}
