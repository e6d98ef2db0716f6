//! Each planted bug that a crash can show is caught by the explorer, on a workload that is sound without it.
//!
//! One of the others, a salt used again, harms only a session that writes while it is fenced: no crash of one process
//! shows it, and SharedFS's own tests plant it with logs written by hand. Those that break what sessions see of one
//! another need no crash: [`crate::linearizability`] plants them.

use crate::{planting, seed};
use cuesta_format::Medium;
use cuesta_media::planted::{Bug, plant};
use cuesta_sim::explorer::calls;
use cuesta_sim::explorer::deaths::{self, Death};
use cuesta_sim::explorer::hand_overs::{Digests, ended, given_back, scenarios};
use cuesta_sim::explorer::lanes::{self, Overlapping};
use cuesta_sim::explorer::mapped::mapped;
use cuesta_sim::explorer::optimistic;
use cuesta_sim::explorer::shipping;
use cuesta_sim::explorer::store::{ClientNumber, On, Step, Workload, WorkloadFailure, crash};
use cuesta_sim::explorer::tiered::{self, FastTier};
use cuesta_sim::explorer::tiers;
use cuesta_sim::explorer::workloads::{DigestAt, lost_overwrites, overwriting, population, workload};
use cuesta_sim::explorer::{Bounds, Coverage, Memory};
use cuesta_sim::explorer::{lost_entries, restarts};
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
    caught_in(bug, &workload(calls, digest), &Bounds::quick());
}

fn caught_in(bug: Bug, workload: &Workload, bounds: &Bounds) {
    let _alone = planting();
    if let Err(failure) = crash(workload, &mut Memory::default(), bounds, seed()) {
        panic!("without the bug: {failure}");
    }
    plant(Some(bug));
    let outcome = crash(workload, &mut Memory::default(), bounds, seed());
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
    caught_in(Bug::RenameInTwoSteps, &workload, &Bounds::quick());
}

#[test]
fn a_digest_that_is_not_atomic_is_caught() {
    caught(Bug::DigestNotAtomic, &append_twice(), DigestAt::Last);
}

#[test]
fn a_journal_that_counts_too_early_is_caught() {
    caught(Bug::JournalCountsFirst, &append_twice(), DigestAt::Last);
}

#[test]
fn a_call_that_is_forgotten_with_what_it_made_is_caught() {
    let _alone = planting();
    let crash = || {
        let memory = &mut Memory::default();
        calls::crash(&calls::made_and_removed(), DigestAt::Last, memory, &Bounds::quick(), seed())
    };
    if let Err(failure) = crash() {
        panic!("without the bug: {failure}");
    }
    plant(Some(Bug::CallFoldedAway));
    let outcome = crash();
    plant(None);
    match outcome {
        Err(WorkloadFailure::Crash(failure)) => println!("CallFoldedAway: {failure}"),
        Err(other) => panic!("CallFoldedAway shows without a crash: {other}"),
        Ok(coverage) => panic!("CallFoldedAway is not caught: {coverage}"),
    }
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

/// One mapped file. Its content comes back when no process has it mapped any more; or only as far as it goes by calls.
fn mapped_file(touch: Option<Operation>) -> Workload {
    let touch = touch.map(|call| Step::Call(1, call));
    mapped([touch.as_slice(), &[]], true, false)
}

#[test]
fn a_mapped_mode_that_ends_in_two_steps_is_caught() {
    caught_in(Bug::MappedEndsEarly, &mapped_file(None), &Bounds::quick());
}

#[test]
fn a_mapped_file_that_comes_back_unflushed_is_caught() {
    caught_in(Bug::MappedUnflushed, &mapped_file(None), &Bounds::quick());
}

/// A write of several pages, which the kernel may do in part.
#[test]
fn a_commit_before_the_mapped_write_is_caught() {
    let write = Operation::Pwrite { slot: 4, offset: 4000, data: Pattern { seed: 3, length: 6000 } };
    caught_in(Bug::MappedAfterCommit, &mapped_file(Some(write)), &Bounds::quick());
}

#[test]
fn an_msync_that_does_nothing_is_caught() {
    caught_in(Bug::SyncForgotten, &mapped_file(None), &Bounds::quick());
}

#[test]
fn an_fsync_that_writes_nothing_to_the_disk_is_caught() {
    let workload = Workload { on: On::Disk(1), ..workload(&write(), DigestAt::Never) };
    caught_in(Bug::SyncForgotten, &workload, &Bounds::quick());
}

#[test]
fn a_recovery_that_forgets_the_commit_file_is_caught() {
    // The first is waited for together with what was there before, which is too long for the commit file.
    let workload = Workload { on: On::Disk(1), ..workload(&[write(), write()].concat(), DigestAt::Never) };
    caught_in(Bug::CommitFileForgotten, &workload, &Bounds::quick());
}

/// The log is longer than its commit file, and no digest comes.
#[test]
fn a_commit_file_that_runs_over_what_it_alone_holds_is_caught() {
    let data = |seed| Pattern { seed, length: 3000 };
    let calls: Vec<_> = (0..7).map(|seed| Operation::Write { slot: 0, data: data(seed) }).collect();
    let workload = Workload { on: On::Disk(1), ..workload(&calls, DigestAt::First) };
    caught_in(Bug::CommitFileLapped, &workload, &Bounds::quick());
}

/// The digest of calls that were not synced ends half-way: the blocks are new in part, and the log is gone.
#[test]
fn an_overwrite_before_the_log_is_on_the_disk_is_caught() {
    let overwriting = overwriting().into_iter().next().expect("there are some");
    let workload = Workload { on: On::Disk(usize::MAX), ..overwriting };
    caught_in(Bug::OverwriteUnwritten, &workload, &Bounds::quick());
}

/// One write whose blocks are staged, on a disk that is never synced: its digest makes it durable.
fn staged_on_a_disk() -> Workload {
    let write = Operation::Write { slot: 1, data: Pattern { seed: 5, length: 13_000 } };
    Workload { on: On::Disk(usize::MAX), ..workload(&[write], DigestAt::Last) }
}

#[test]
fn an_adoption_of_blocks_that_the_disk_may_lack_is_caught() {
    caught_in(Bug::AdoptedUnflushed, &staged_on_a_disk(), &Bounds::quick());
}

#[test]
fn a_recovery_that_does_not_look_at_staged_blocks_is_caught() {
    caught_in(Bug::StagedNotCompared, &staged_on_a_disk(), &Bounds::quick());
}

/// A lease on a directory changes hands: the one makes a name there, and so does the other.
fn names_in_turn() -> [Step; 3] {
    let mkdir = |path| Operation::Mkdir { path: PathText::from(path), mode: 0o755 };
    let [folder, first, second] = ["/d", "/d/first", "/d/second"].map(mkdir);
    [Step::Call(0, folder), Step::Call(0, first), Step::Call(1, second)]
}

fn hand_over() -> Workload {
    let [folder, first, second] = names_in_turn();
    Workload { setup: vec![folder, Step::Digest(0)], steps: vec![first, second], ..Workload::default() }
}

#[test]
fn a_hand_over_that_skips_the_digest_is_caught() {
    caught_in(Bug::LostUpdate, &hand_over(), &Bounds::quick());
}

/// A file is shipped again that a session had for itself: what SharedFS performs comes behind what the session did.
#[test]
fn a_file_that_is_shipped_before_its_log_is_digested_is_caught() {
    let workload = shipping_scenario("shipped no more, and again");
    let run = || shipping::crash(&workload, &mut Memory::default(), &shipping::bounds(), seed());
    caught_alive(Bug::LostUpdate, run);
}

fn shipping_scenario(wanted: &str) -> shipping::Workload {
    let found = shipping::scenarios().into_iter().find(|(name, _)| *name == wanted);
    found.expect("there is such a scenario").1
}

/// A bug that shows in a crash on a disk.
fn caught_on_a_disk(bug: Bug, scenario: &str) {
    let workload = shipping_scenario(scenario).on(Medium::Block);
    caught_by_a_crash(bug, || {
        shipping::crash(&workload, &mut Memory::default(), &shipping::bounds(), seed())
    });
}

fn caught_by_a_crash(bug: Bug, run: impl Fn() -> Result<Coverage, WorkloadFailure>) {
    let _alone = planting();
    if let Err(failure) = run() {
        panic!("without the bug: {failure}");
    }
    plant(Some(bug));
    let outcome = run();
    plant(None);
    match outcome {
        Err(WorkloadFailure::Crash(failure)) => println!("{bug:?}: {failure}"),
        Err(other) => panic!("{bug:?} shows without a crash: {other}"),
        Ok(coverage) => panic!("{bug:?} is not caught: {coverage}"),
    }
}

#[test]
fn a_recovery_that_forgets_what_logs_depend_on_is_caught() {
    caught_on_a_disk(Bug::DependenciesForgotten, "own behind sent");
}

#[test]
fn an_fsync_that_leaves_out_what_the_session_saw_is_caught() {
    caught_on_a_disk(Bug::ObservedUnsynced, "synced where all was sent");
}

/// A bug that shows in a crash of a store in optimistic mode.
fn caught_in_optimistic_mode(bug: Bug) {
    let workload = shipping_scenario("two that saw nothing of each other").on(Medium::Block);
    let run = || optimistic::crash(&workload, &mut Memory::default(), &shipping::bounds(), seed());
    caught_by_a_crash(bug, run);
}

#[test]
fn an_epoch_that_is_recorded_before_the_logs_are_written_is_caught() {
    caught_in_optimistic_mode(Bug::EpochRecordedEarly);
}

#[test]
fn entries_that_do_not_say_their_epoch_are_caught() {
    caught_in_optimistic_mode(Bug::EpochUnlogged);
}

/// A bug that shows in a crash of a disk over another disk, where content gets below that way.
fn caught_below(bug: Bug, way: &str) {
    let workload = tiers::scenario(way, FastTier::Disk(usize::MAX)).expect("there is such a way");
    caught_by_a_crash(bug, || tiered::crash(&workload, &mut Memory::default(), &Bounds::quick(), seed()));
}

#[test]
fn a_digest_that_does_not_wait_for_the_disk_of_the_lower_tier_is_caught() {
    caught_below(Bug::LowerTierUnwritten, "a run of the log's");
}

#[test]
fn a_recovery_that_does_not_look_at_staged_blocks_of_the_lower_tier_is_caught() {
    caught_below(Bug::StagedBelowNotCompared, "a window's blocks");
}

#[test]
fn an_fsync_that_leaves_out_what_is_staged_in_the_lower_tier_is_caught() {
    caught_below(Bug::StagedBelowUnsynced, "a window's blocks between edges");
}

#[test]
fn a_migration_that_does_not_wait_for_the_disk_is_caught() {
    caught_below(Bug::MigratedUnflushed, "a run of the log's, moved");
}

/// A bug that shows at the first look.
fn caught_alive(bug: Bug, run: impl Fn() -> Result<Coverage, WorkloadFailure>) {
    let _alone = planting();
    if let Err(failure) = run() {
        panic!("without the bug: {failure}");
    }
    plant(Some(bug));
    let outcome = run();
    plant(None);
    match outcome {
        Err(failure) => println!("{bug:?}: {failure}"),
        Ok(coverage) => panic!("{bug:?} is not caught: {coverage}"),
    }
}

/// The old holder is dead, and the daemon does not know that yet.
#[test]
fn a_fence_that_loses_what_the_dead_have_done_is_caught() {
    let [folder, Step::Call(_, first), Step::Call(_, second)] = names_in_turn() else {
        panic!("three calls")
    };
    let death = Death {
        setup: vec![folder, Step::Digest(0)],
        kept: (4, 8),
        calls: vec![first],
        then: vec![second],
        unnoticed: true,
        ..Death::default()
    };
    caught_alive(Bug::LostUpdate, || deaths::crash(&death));
}

#[test]
fn a_restart_that_loses_what_the_living_have_done_is_caught() {
    // What the living have done is in their logs for a few events only.
    let bounds = Bounds { deaths_one_in: 1, ..Bounds::quick() };
    let run = || restarts::crash(&hand_over(), &mut Memory::default(), &bounds, seed());
    caught_alive(Bug::LostAtRestart, run);
}

/// Two clients take turns with the names of a directory.
fn turns_with_names() -> Vec<(ClientNumber, Operation)> {
    let names = |(what, turns)| (what == "names of a directory").then_some(turns);
    scenarios().into_iter().find_map(names).expect("there is such a scenario")
}

#[test]
fn what_is_given_back_before_its_log_is_digested_is_caught() {
    let workload = given_back(&turns_with_names(), Digests::None);
    let run = || crash(&workload, &mut Memory::default(), &Bounds::quick(), seed());
    caught_alive(Bug::GivenBackAtOnce, run);
}

/// Whoever of the two goes first.
#[test]
fn a_session_that_ends_undigested_is_caught() {
    for workload in ended(&turns_with_names(), Digests::None).iter().take(2) {
        let run = || crash(workload, &mut Memory::default(), &Bounds::quick(), seed());
        caught_alive(Bug::EndedUndigested, run);
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
