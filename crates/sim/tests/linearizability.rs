//! A slice of the campaign for linearizability (`make linearizability` runs as much as is wanted): processes under the
//! real `cuesta run` work at once, are killed and stopped, and the real daemon is killed and replaced under them; and
//! processes at both doors, where the mount's process is stopped and killed, too.
//!
//! It needs the command and the preload library beside each other, as `make build` leaves them; `CUESTA_BIN` names
//! another command. `CUESTA_SIM_SEED` chooses another slice. Mounts need root and FUSE; skipped visibly otherwise.

use cuesta_sim::doors::{Doors, why_no_mount};
use cuesta_sim::kill::Programs;
use cuesta_sim::linearizability::campaign::{Campaign, Round};
use std::path::{Path, PathBuf};

const ROUND: Round = Round { processes: 5, faults: 8 };

fn run(doors: Doors, stores: u64, rounds_per_store: u64) {
    let writer = PathBuf::from(env!("CARGO_BIN_EXE_linearizability"));
    let cuesta =
        std::env::var_os("CUESTA_BIN").map_or_else(|| writer.with_file_name("cuesta"), PathBuf::from);
    assert!(Path::new(&cuesta).exists(), "{} is not built; run `make build` first", cuesta.display());
    let programs = Programs { cuesta, writer, stores: None, device: None };
    let seed = std::env::var("CUESTA_SIM_SEED").map_or(1, |seed| seed.parse().expect("a number"));
    for seed in seed..seed + stores {
        println!("seed {seed}");
        let mut campaign = Campaign::new(programs.clone(), seed, doors).unwrap();
        for _ in 0..rounds_per_store {
            if let Err(failure) = campaign.round(ROUND) {
                panic!("{failure}");
            }
        }
        let counted = campaign.counted();
        println!("{counted:?}");
        assert!(counted.overlaps > 10 * rounds_per_store, "hardly any calls met: {counted:?}");
    }
}

#[test]
fn calls_of_processes_at_once_take_effect_at_one_instant_each() {
    run(Doors::Run, 2, 6);
}

#[test]
fn calls_of_processes_at_both_doors_take_effect_at_one_instant_each() {
    match why_no_mount() {
        Some(why) => println!("skipped: {why}"),
        None => run(Doors::Both, 1, 4),
    }
}
