//! Every order of requests, fences, digests, deaths and restarts, in small cases.

use crate::leases::simulated::{Leases, Mistake, Operation, Step, World, Wrong, number};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Whether every session comes to an end is looked at in one of so many states.
const LOOKED_AT_ONE_IN: u128 = 64;

/// A case that is small enough.
#[derive(Clone, Debug)]
struct Case {
    sessions: usize,
    inodes: usize,
    /// Operations of each session, kills and crashes: at most so many.
    operations: usize,
    kills: usize,
    crashes: usize,
    ahead: bool,
}

/// A world and what may still be begun in it.
#[derive(Clone)]
struct State {
    world: World,
    operations: Vec<usize>,
    kills: usize,
    crashes: usize,
}

impl State {
    fn steps(&self) -> Vec<Step> {
        let mut steps = self.world.going_on();
        for session in 0..self.world.sessions.len() {
            if self.operations[session] > 0 {
                let inodes = 0..self.world.stored.len();
                steps.extend(inodes.flat_map(|inode| {
                    [Operation::Read(inode), Operation::Write(inode), Operation::GiveBack(inode)]
                        .map(|operation| Step::Begin(session, operation))
                }));
            }
            if self.kills > 0 {
                steps.push(Step::Kill(session));
            }
        }
        if self.crashes > 0 {
            steps.push(Step::Crash);
        }
        steps.retain(|step| self.world.is_possible(*step));
        steps
    }

    fn make(&self, step: Step) -> Result<State, Wrong> {
        let mut next = self.clone();
        match step {
            Step::Begin(session, _) => next.operations[session] -= 1,
            Step::Kill(_) => next.kills -= 1,
            Step::Crash => next.crashes -= 1,
            _ => {}
        }
        next.world.make(step)?;
        Ok(next)
    }

    /// What decides about all that can follow: of numbers that only grow, how far they are apart; of what was written,
    /// whether it is the last.
    fn identity(&self) -> u128 {
        let half = |half: u8| {
            let mut hasher = DefaultHasher::new();
            (half, &self.operations, self.kills, self.crashes).hash(&mut hasher);
            self.world.hash_to(&mut hasher);
            u128::from(hasher.finish())
        };
        half(0) << 64 | half(1)
    }
}

impl World {
    fn hash_to(&self, hasher: &mut impl Hasher) {
        self.recovered.hash(hasher);
        let is_last = |inode: usize, value: u64| self.truth[inode] == value;
        for it in &self.sessions {
            (it.is_alive, it.is_known, &it.revoked, &it.untold, &it.operation).hash(hasher);
            (it.generation - it.knows_generation, it.generation - it.settled_generation).hash(hasher);
            (it.log_generation - it.knows_log_generation, self.daemon - it.knows_daemon).hash(hasher);
            it.log.iter().for_each(|&(inode, value)| (inode, is_last(inode, value)).hash(hasher));
            (it.log.len(), it.lingering.len()).hash(hasher);
            it.lingering
                .iter()
                .for_each(|(inode, until)| (inode, until.0.wrapping_sub(it.digested)).hash(hasher));
            for (inode, cached) in it.cached.iter().enumerate() {
                cached.map(|(mode, value)| (mode, is_last(inode, value))).hash(hasher);
            }
        }
        for inode in 0..self.stored.len() {
            is_last(inode, self.stored[inode]).hash(hasher);
            let Leases { entries, contention, .. } = &self.leases;
            let lease = self.leases.lease(number(inode));
            (lease.writer, &lease.readers, entries.contains_key(&number(inode))).hash(hasher);
            for &(session, until) in &lease.lingering {
                (session, until.0.wrapping_sub(self.sessions[session.0 as usize - 1].digested)).hash(hasher);
            }
            let contended = contention.is_remembered(number(inode), self.now);
            (contended, contention.held_for(number(inode), self.now)).hash(hasher);
        }
    }
}

/// What an exploration came to.
enum Explored {
    Sound { states: usize },
    Wrong { why: Wrong, steps: Vec<Step> },
}

/// How each state was come by: from which, by which step.
type ReachedStates = HashMap<u128, Option<(u128, Step)>>;

/// The steps to a state, and one more.
fn steps_to(known: &ReachedStates, mut at: u128, last: Option<Step>) -> Vec<Step> {
    let mut steps = Vec::from_iter(last);
    while let Some((before, step)) = known[&at] {
        steps.push(step);
        at = before;
    }
    steps.reverse();
    steps
}

fn explore(case: &Case, mistake: Option<Mistake>) -> Explored {
    let first = State {
        world: World::new(case.sessions, case.inodes, case.ahead, mistake),
        operations: vec![case.operations; case.sessions],
        kills: case.kills,
        crashes: case.crashes,
    };
    let mut known = ReachedStates::from([(first.identity(), None)]);
    let mut waiting = vec![first];
    while let Some(state) = waiting.pop() {
        let here = state.identity();
        if here % LOOKED_AT_ONE_IN == 0
            && let Err(why) = state.world.clone().come_to_an_end()
        {
            return Explored::Wrong { why, steps: steps_to(&known, here, None) };
        }
        for step in state.steps() {
            match state.make(step) {
                Err(why) => return Explored::Wrong { why, steps: steps_to(&known, here, Some(step)) },
                Ok(next) => {
                    let identity = next.identity();
                    if let Entry::Vacant(place) = known.entry(identity) {
                        place.insert(Some((here, step)));
                        waiting.push(next);
                    }
                }
            }
        }
    }
    Explored::Sound { states: known.len() }
}

fn cases() -> [Case; 3] {
    let two = Case { sessions: 2, inodes: 1, operations: 2, kills: 1, crashes: 1, ahead: false };
    let near = Case { inodes: 2, operations: 1, kills: 0, ahead: true, ..two.clone() };
    let three = Case { sessions: 3, operations: 1, kills: 0, crashes: 0, ..two.clone() };
    [two, near, three]
}

#[test]
fn no_order_of_requests_fences_deaths_and_restarts_loses_a_write_or_lets_two_write() {
    for case in cases() {
        match explore(&case, None) {
            Explored::Sound { states } => {
                println!("{case:?}: {states} states");
            }
            Explored::Wrong { why, steps } => panic!("{why}, by {steps:?}"),
        }
    }
}

#[test]
fn each_mistake_in_the_rules_is_found() {
    for mistake in [
        Mistake::FenceWithoutDigest,
        Mistake::FenceUnnoticed,
        Mistake::NothingLingers,
        Mistake::LogGoesOn,
        Mistake::LeasesOutliveTheDaemon,
        Mistake::NoSecondLook,
    ] {
        let found = cases().iter().find_map(|case| match explore(case, Some(mistake)) {
            Explored::Wrong { why, steps } => Some((why, steps)),
            Explored::Sound { .. } => None,
        });
        let (why, steps) = found.unwrap_or_else(|| panic!("{mistake:?} is not found"));
        println!("{mistake:?}: {why}, by {steps:?}");
    }
}
