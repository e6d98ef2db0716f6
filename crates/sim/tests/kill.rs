//! A slice of the kill campaign (`make kill-campaign` runs hundreds): the real command, the real daemon, the preload door
//! and a mount, killed in the middle.
//!
//! It needs the command and the preload library beside each other, as `make build` leaves them;
//! `CUESTA_BIN` names another command. Mounts need root and FUSE; skipped visibly otherwise.

use cuesta_sim::doors::{Door, Doors, why_no_mount};
use cuesta_sim::kill::Programs;
use cuesta_sim::kill::campaign::{Campaign, Victim};
use cuesta_sim::kill::pair::PairCampaign;
use std::ops::Range;
use std::path::{Path, PathBuf};

const OPERATIONS_MAX: u64 = 200;
/// Half as many as return before a kill on average.
const OPERATIONS_LEAST: u64 = OPERATIONS_MAX / 4;

fn programs() -> Programs {
    let writer = PathBuf::from(env!("CARGO_BIN_EXE_kill-writer"));
    let beside = |name: &str| writer.with_file_name(name);
    let cuesta = std::env::var_os("CUESTA_BIN").map_or_else(|| beside("cuesta"), PathBuf::from);
    assert!(Path::new(&cuesta).exists(), "{} is not built; run `make build` first", cuesta.display());
    Programs { cuesta, writer, stores: None, device: None }
}

fn kill_one(doors: Doors, seeds: Range<u64>, kills: u64) {
    for seed in seeds {
        let mut campaign = Campaign::new(programs(), seed, doors, OPERATIONS_MAX).unwrap();
        for _ in 0..kills {
            if let Err(failure) = campaign.round() {
                panic!("{failure}");
            }
        }
        assert!(campaign.acknowledged() >= kills * OPERATIONS_LEAST, "{}", campaign.acknowledged());
        if doors.has_mount() {
            // A writer by a mount met every way it can be killed.
            let by_mount =
                campaign.met().iter().filter(|(victim, door)| victim.has_mount() && *door == Door::Mount);
            let victims: Vec<Victim> = by_mount.map(|(victim, _)| *victim).collect();
            assert_eq!(victims, [Victim::Mount, Victim::MountAndDaemon, Victim::Everything]);
        }
    }
}

fn kill_two(doors: Doors, seeds: Range<u64>, kills: u64) {
    for seed in seeds {
        let mut campaign = PairCampaign::new(programs(), seed, doors, OPERATIONS_MAX).unwrap();
        for _ in 0..kills {
            if let Err(failure) = campaign.round() {
                panic!("{failure}");
            }
        }
        assert!(campaign.acknowledged() >= kills * OPERATIONS_LEAST, "{}", campaign.acknowledged());
        assert!(campaign.notes() >= kills, "{}", campaign.notes());
    }
}

fn with_mounts(kill: impl FnOnce()) {
    match why_no_mount() {
        Some(why) => println!("skipped: {why}"),
        None => kill(),
    }
}

#[test]
fn nothing_acknowledged_is_lost_to_sigkill() {
    kill_one(Doors::Run, 0..3, 20);
}

#[test]
fn two_programs_on_one_store_lose_nothing_to_sigkill() {
    kill_two(Doors::Run, 0..2, 10);
}

#[test]
fn nothing_acknowledged_by_either_door_is_lost_to_sigkill_of_program_mount_and_daemon() {
    with_mounts(|| kill_one(Doors::Both, 0..1, 12));
}

#[test]
fn two_programs_at_both_doors_lose_nothing_to_sigkill() {
    with_mounts(|| kill_two(Doors::Both, 0..1, 8));
}
