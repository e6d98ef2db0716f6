//! Crashes of the real store.

use crate::{long, seed, without_bugs};
use cuesta_sim::explorer::store::{Workload, crash};
use cuesta_sim::explorer::workloads::{DigestAt, calls, workload, wrapping};
use cuesta_sim::explorer::{Bounds, Coverage};
use cuesta_sim::random::Random;
use std::fmt::Debug;

const PAIRS: usize = 60;
const WRAPPING_CALLS: usize = 60;

fn explore(workload: &Workload, bounds: &Bounds, what: &dyn Debug, total: &mut Coverage) {
    let _sound = without_bugs();
    match crash(workload, bounds, seed()) {
        Ok(coverage) => total.add(coverage),
        Err(failure) => panic!("{what:?}: {failure}"),
    }
}

#[test]
fn each_call_survives_crashes_whole_or_not_at_all() {
    let mut total = Coverage::default();
    let bounds = if long() { Bounds::thorough() } else { Bounds::quick() };
    for call in calls() {
        for digest in [DigestAt::Never, DigestAt::First, DigestAt::Last] {
            explore(&workload(std::slice::from_ref(&call), digest), &bounds, &(&call, digest), &mut total);
        }
    }
    println!("single calls: {total}");
}

#[test]
fn pairs_of_calls_survive_crashes_as_a_prefix() {
    let calls = calls();
    let all = calls.iter().flat_map(|first| calls.iter().map(move |second| [first.clone(), second.clone()]));
    let all: Vec<_> = all.flat_map(|pair| DigestAt::ALL.map(|digest| (pair.clone(), digest))).collect();
    let mut random = Random::new(seed());
    let chosen = if long() { all } else { (0..PAIRS).map(|_| random.pick(&all).clone()).collect() };
    let mut total = Coverage::default();
    for (pair, digest) in chosen {
        explore(&workload(&pair, digest), &Bounds::quick(), &(&pair, digest), &mut total);
    }
    println!("pairs of calls: {total}");
}

#[test]
fn a_log_that_wraps_survives_crashes() {
    let mut total = Coverage::default();
    for seed in seed()..seed() + if long() { 20 } else { 2 } {
        explore(&wrapping(seed, WRAPPING_CALLS), &Bounds::quick(), &seed, &mut total);
    }
    println!("wrapping log: {total}");
}

/// A crash while an earlier one is being recovered from.
#[test]
fn recovery_itself_may_crash() {
    let bounds = Bounds { recoveries_one_in: if long() { 1 } else { 8 }, ..Bounds::quick() };
    let mut total = Coverage::default();
    let calls = calls();
    for pair in calls.windows(2).step_by(if long() { 1 } else { 5 }) {
        explore(&workload(pair, DigestAt::First), &bounds, &pair, &mut total);
    }
    println!("recovery: {total}");
}
