//! A slice of the damage campaign (`make damage-campaign` runs a thousand): files of a store on a disk are damaged one at a time, and each damage is
//! healed or told.
//!
//! It needs the command and the preload library beside each other, as `make build` leaves them; `CUESTA_BIN` names another command.
//! `CUESTA_SIM_SEED` chooses another slice.

use cuesta_sim::damage::{Campaign, Installed, Kind, Outcome, Part};
use std::path::{Path, PathBuf};

fn slice(parts: &[Part], kinds: &[Kind], trials: u64) -> Vec<Outcome> {
    let campaign = PathBuf::from(env!("CARGO_BIN_EXE_damage-campaign"));
    let cuesta =
        std::env::var_os("CUESTA_BIN").map_or_else(|| campaign.with_file_name("cuesta"), PathBuf::from);
    assert!(Path::new(&cuesta).exists(), "{} is not built; run `make build` first", cuesta.display());
    let seed = std::env::var("CUESTA_SIM_SEED").map_or(7, |seed| seed.parse().expect("a number"));
    println!("seed {seed}");
    let campaign = Campaign::new(Installed { cuesta, campaign, stores: None }, seed, parts, kinds).unwrap();
    let trial = |number| {
        let trial = campaign.trial(number).unwrap();
        trial.outcome.unwrap_or_else(|failed| panic!("{number}: {}\n{}", trial.what, failed.0))
    };
    (0..trials).map(trial).collect()
}

#[test]
fn a_damage_to_one_copy_of_what_a_store_cannot_do_without_is_healed() {
    let outcomes = slice(&[Part::Superblock, Part::Metadata, Part::State], &Kind::ALL, 45);
    assert!(outcomes.iter().all(|&outcome| outcome == Outcome::Healed), "{outcomes:?}");
}

#[test]
fn a_damage_to_content_is_told_and_costs_the_files_that_lie_there() {
    let outcomes = slice(&[Part::Arenas], &Kind::ALL, 15);
    assert!(outcomes.iter().all(|&outcome| outcome != Outcome::Repaired), "{outcomes:?}");
    assert!(outcomes.contains(&Outcome::Told), "{outcomes:?}");
}
