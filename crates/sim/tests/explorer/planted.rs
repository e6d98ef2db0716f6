//! Each planted bug that a crash can show is caught by the explorer, on a workload that is sound without it.
//!
//! One of the others, a salt used again, harms only a session that writes while it is fenced: no crash of one process
//! shows it, and SharedFS's own tests plant it with logs written by hand. Those that break what sessions see of one
//! another need no crash: [`crate::linearizability`] plants them.

use crate::{planting, seed};
use cuesta_media::planted::{Bug, plant};
use cuesta_sim::explorer::lanes::{self, Overlapping};
use cuesta_sim::explorer::lost_entries;
use cuesta_sim::explorer::store::{Step, Workload, WorkloadFailure, crash};
use cuesta_sim::explorer::workloads::{DigestAt, lost_overwrites, population, workload};
use cuesta_sim::explorer::{Bounds, Memory};
use cuesta_sim::operation::{Operation, PathText, Pattern};

fn write() -> Vec<Operation> {
    vec![Operation::Write { slot: 0, data: Pattern { seed: 1, length: 701 } }]
}

fn rename_over() -> Vec<Operation> {
    vec![Operation::Rename { from: PathText::from("/d/x"), to: PathText::from("/g") }]
}

/// Calls that are lost where "digested up to" is committed apart from what was digested.
fn append_twice() -> Vec<Operation> {
    let data = Pattern { seed: 2, length: 900 };
    let name = PathText::from("/again");
    vec![
        Operation::Write { slot: 1, data },
        Operation::Symlink { target: PathText::from("f"), path: name.clone() },
        Operation::Rename { from: name, to: PathText::from("/moved") },
    ]
}

fn caught(bug: Bug, calls: &[Operation], digest: DigestAt) {
    caught_in(bug, &workload(calls, digest));
}

fn caught_in(bug: Bug, workload: &Workload) {
    let _alone = planting();
    if let Err(failure) = crash(workload, &mut Memory::default(), &Bounds::thorough(), seed()) {
        panic!("without the bug: {failure}");
    }
    plant(Some(bug));
    let outcome = crash(workload, &mut Memory::default(), &Bounds::thorough(), seed());
    plant(None);
    match outcome {
        Err(WorkloadFailure::Crash(failure)) => println!("{bug:?}: {failure}"),
        Err(other) => panic!("{bug:?} shows without a crash: {other}"),
        Ok(coverage) => panic!("{bug:?} is not caught: {coverage}"),
    }
}

#[test]
fn a_missing_fence_is_caught() {
    caught(Bug::MissingFence, &write(), DigestAt::Never);
}

#[test]
fn an_unflushed_tail_is_caught() {
    caught(Bug::UnflushedTail, &write(), DigestAt::Never);
}

#[test]
fn a_rename_in_two_steps_is_caught() {
    // Names that a digest has made, and the next one moves.
    let mut workload = workload(&rename_over(), DigestAt::First);
    workload.steps.push(Step::Digest(0));
    caught_in(Bug::RenameInTwoSteps, &workload);
}

#[test]
fn a_digest_that_is_not_atomic_is_caught() {
    caught(Bug::DigestNotAtomic, &append_twice(), DigestAt::Last);
}

/// The client dies between storing an entry and making it durable, in one of the calls there are.
#[test]
fn an_overwrite_that_may_be_lost_is_caught() {
    let _alone = planting();
    let crash = |death| lost_entries::crash(death, &mut Memory::default(), &Bounds::quick(), seed());
    let deaths = lost_overwrites();
    if let Err(failure) = crash(&deaths[0]) {
        panic!("without the bug: {failure}");
    }
    plant(Some(Bug::OverwriteUnacknowledged));
    let outcome = crash(&deaths[0]);
    plant(None);
    match outcome {
        Err(WorkloadFailure::Crash(failure)) => println!("OverwriteUnacknowledged: {failure}"),
        Err(other) => panic!("OverwriteUnacknowledged shows without a crash: {other}"),
        Ok(coverage) => panic!("OverwriteUnacknowledged is not caught: {coverage}"),
    }
}

/// Two threads that make names in two directories: nothing but the log orders them.
fn overtaking() -> Overlapping {
    let mkdirs = |parent| {
        let mkdir =
            |number| Operation::Mkdir { path: PathText::from(&*format!("{parent}/{number}")), mode: 0o755 };
        (0..4).map(mkdir).collect()
    };
    Overlapping { setup: population(), lanes: vec![mkdirs("/d"), mkdirs("/empty")], ..Overlapping::default() }
}

const SCHEDULES: u64 = 20;

/// A schedule decides whether one thread overtakes the other where it hurts: some do.
#[test]
fn an_early_completion_is_caught() {
    let _alone = planting();
    let workload = overtaking();
    let crash = |seed| lanes::crash(&workload, &mut Memory::default(), &Bounds::quick(), seed);
    if let Err(failure) = crash(seed()) {
        panic!("without the bug: {failure}");
    }
    plant(Some(Bug::EarlyCompletion));
    let caught = (seed()..seed() + SCHEDULES).find_map(|seed| crash(seed).err());
    plant(None);
    match caught {
        Some(WorkloadFailure::Crash(failure)) => println!("EarlyCompletion: {failure}"),
        Some(other) => panic!("EarlyCompletion shows without a crash: {other}"),
        None => panic!("EarlyCompletion is not caught by {SCHEDULES} schedules"),
    }
}
