//! Crashes of the real store: a slice of every part of the campaign.

use crate::{seed, without_bugs};
use cuesta_format::Medium;
use cuesta_format::quota::Amounts;
use cuesta_sim::explorer::calls::{self, logged_calls, made_and_removed};
use cuesta_sim::explorer::campaign::{Case, Part};
use cuesta_sim::explorer::mapped::mapped;
use cuesta_sim::explorer::shipping;
use cuesta_sim::explorer::store::{Step, Workload, crash};
use cuesta_sim::explorer::workloads::DigestAt;
use cuesta_sim::explorer::{Bounds, Coverage, Memory};
use cuesta_sim::operation::{FallocateMode, OpenFlags, Operation, PathText, Pattern};
use cuesta_sim::random::Random;

/// Explores `count` cases of a part, drawn by the seed.
fn slice(part: Part, count: usize, change: impl Fn(Case) -> Case) {
    let cases = part.cases(seed());
    let mut random = Random::new(seed());
    let (mut total, mut memory) = (Coverage::default(), Memory::default());
    for _ in 0..count {
        let case = change(random.pick(&cases).clone());
        let _sound = without_bugs();
        match case.run(seed(), &mut memory) {
            Ok(coverage) => total.add(coverage),
            Err(failure) => panic!("{case}: {failure}"),
        }
    }
    println!("{}: {count} of {} cases, {total}", part.name(), cases.len());
}

fn as_it_is(case: Case) -> Case {
    case
}

#[test]
fn a_call_survives_crashes_whole_or_not_at_all() {
    slice(Part::Single, 2, as_it_is);
}

#[test]
fn pairs_of_calls_survive_crashes_as_a_prefix() {
    slice(Part::Pairs, 45, as_it_is);
}

#[test]
fn a_log_that_wraps_survives_crashes() {
    slice(Part::Wrapping, 2, as_it_is);
}

/// An arena and a part of the log, each made in three steps.
#[test]
fn a_store_that_grows_survives_crashes_while_its_files_are_made() {
    let _sound = without_bugs();
    let case = &Part::Growing.cases(seed())[0];
    let coverage =
        case.run(seed(), &mut Memory::default()).unwrap_or_else(|failure| panic!("{case}: {failure}"));
    println!("{coverage}");
    assert!(coverage.file_steps >= 6, "{coverage}");
}

#[test]
fn recovery_itself_may_crash() {
    slice(Part::Recovery, 2, |case| case.bounded(|bounds| bounds.recoveries_one_in = 8));
}

#[test]
fn what_one_client_passes_on_to_another_survives_crashes() {
    slice(Part::Clients, 7, as_it_is);
}

#[test]
fn what_is_open_outlives_the_daemon() {
    slice(Part::Outliving, 6, as_it_is);
}

#[test]
fn a_client_that_dies_takes_nothing_from_another() {
    slice(Part::Deaths, 4, as_it_is);
}

/// And what is done below it meanwhile is charged to it or not, as it counts for it or not.
#[test]
fn a_quota_is_set_on_a_directory_whole_or_not_at_all() {
    let path = |path: &str| PathText(path.as_bytes().to_vec());
    let flags = OpenFlags { write: true, create: true, ..OpenFlags::default() };
    let call = |operation| Step::Call(0, operation);
    let write = |slot, seed| call(Operation::Write { slot, data: Pattern { seed, length: 9000 } });
    let open = |slot, name: &str| call(Operation::Open { slot, path: path(name), flags, mode: 0o600 });
    let mkdir = |name: &str| call(Operation::Mkdir { path: path(name), mode: 0o755 });
    let limits = |blocks| Some(Amounts { blocks, inodes: 100 });
    let workload = Workload {
        setup: vec![mkdir("/d"), mkdir("/d/in"), open(0, "/d/in/f"), write(0, 1), Step::Digest(0)],
        steps: vec![
            mkdir("/d/late"),
            Step::Quota(0, "d", limits(50)),
            write(0, 2),
            mkdir("/d/in/deep"),
            open(1, "/d/in/deep/g"),
            write(1, 3),
            Step::Quota(0, "d/in", limits(60)),
            call(Operation::Unlink { path: path("/d/in/f") }),
            open(2, "/d/h"),
            Step::Quota(0, "d", None),
            write(2, 4),
            Step::Digest(0),
        ],
        ..Workload::default()
    };
    let _sound = without_bugs();
    match crash(&workload, &mut Memory::default(), &Bounds::quick(), seed()) {
        Ok(coverage) => println!("{coverage}"),
        Err(failure) => panic!("{failure}"),
    }
}

/// Whichever of a caller's calls is under way, its record says whether it took effect: of each call, and of a file that comes and goes.
#[test]
fn the_record_of_a_call_survives_crashes_with_what_the_call_did() {
    let _sound = without_bugs();
    let mut memory = Memory::default();
    let mut total = Coverage::default();
    let mut random = Random::new(seed());
    let short_lived = made_and_removed();
    let all = logged_calls();
    let mut runs: Vec<Vec<Operation>> = (0..6).map(|_| vec![random.pick(&all).clone()]).collect();
    runs.push(short_lived);
    for (number, run) in runs.iter().enumerate() {
        let digest = DigestAt::ALL[number % DigestAt::ALL.len()];
        match calls::crash(run, digest, &mut memory, &Bounds::quick(), seed()) {
            Ok(coverage) => total.add(coverage),
            Err(failure) => panic!("{run:?}, {digest:?}: {failure}"),
        }
    }
    println!("{} runs, {total}", runs.len());
}

#[test]
fn two_logs_that_wrap_survive_crashes() {
    slice(Part::ClientsWrapping, 1, as_it_is);
}

#[test]
fn blocks_that_are_overwritten_survive_crashes() {
    slice(Part::Overwriting, 6, as_it_is);
}

#[test]
fn staged_writes_survive_crashes_whole_or_not_at_all() {
    slice(Part::Staged, 12, as_it_is);
}

#[test]
fn calls_that_overlap_survive_crashes_in_an_order_they_may_have_had() {
    slice(Part::Overlapping, 8, as_it_is);
}

#[test]
fn what_is_stored_through_mappings_and_synced_survives_crashes() {
    slice(Part::Mapped, 5, as_it_is);
}

#[test]
fn a_client_that_dies_in_a_mapped_file_leaves_each_call_whole() {
    slice(Part::MappedDeaths, 6, as_it_is);
}

#[test]
fn leases_that_change_hands_take_nothing_along() {
    slice(Part::HandOvers, 6, as_it_is);
}

#[test]
fn what_was_synced_to_a_disk_survives_and_the_rest_as_a_prefix() {
    slice(Part::Disk, 5, as_it_is);
}

#[test]
fn an_optimistic_store_is_what_all_sessions_had_done_at_one_moment() {
    slice(Part::Optimistic, 3, as_it_is);
}

#[test]
fn content_of_a_lower_tier_survives_crashes_whatever_each_disk_had_taken() {
    slice(Part::Tiers, 8, as_it_is);
}

#[test]
fn clients_go_on_when_the_daemon_is_killed() {
    slice(Part::Restarts, 1, as_it_is);
}

/// Explores every scenario of sessions that send operations, and so many drawn ones.
fn explore_shipping(medium: Medium, drawn: u64) {
    let scenarios = shipping::scenarios().into_iter().map(|(name, workload)| (name.to_owned(), workload));
    let drawn = (seed()..seed() + drawn).map(|seed| (format!("seed {seed}"), shipping::drawn(seed)));
    let (mut total, mut failures) = (Coverage::default(), Vec::new());
    for (name, workload) in scenarios.chain(drawn) {
        let _sound = without_bugs();
        let memory = &mut Memory::default();
        match shipping::crash(&workload.on(medium), memory, &shipping::bounds(), seed()) {
            Ok(coverage) => total.add(coverage),
            Err(failure) => failures.push(format!("{name}: {failure}")),
        }
    }
    println!("{total}");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn what_is_sent_and_what_is_not_survive_as_one_prefix_with_what_was_seen() {
    explore_shipping(Medium::Memory, 2);
}

#[test]
fn what_is_sent_and_what_is_not_survive_on_a_disk_as_one_prefix_with_what_was_seen() {
    explore_shipping(Medium::Block, 1);
}

/// A hole and a length are two calls of the kernel's, between which a process can be killed.
#[test]
fn a_mapped_file_gets_zeros_up_to_a_new_end_whole_or_not_at_all() {
    let _sound = without_bugs();
    let zero = FallocateMode::ZeroRange;
    let zero = Operation::Fallocate { slot: 4, mode: zero, offset: 12_000, length: 4000 };
    let workload = mapped([&[Step::Call(1, zero)], &[]], true, true);
    let outcome = crash(&workload, &mut Memory::default(), &Bounds::quick(), seed());
    println!("{}", outcome.unwrap_or_else(|failure| panic!("{failure}")));
}
