//! A slice of the kill campaign (`make kill-campaign` runs hundreds): the real command, the real daemon and
//! the preload door, killed in the middle.
//!
//! It needs the command and the preload library beside each other, as `make build` leaves them;
//! `CUESTA_BIN` names another command.

use cuesta_sim::kill::Programs;
use cuesta_sim::kill::campaign::Campaign;
use cuesta_sim::kill::pair::PairCampaign;
use std::path::{Path, PathBuf};

const STORES: u64 = 3;
const KILLS_PER_STORE: u64 = 20;
const OPERATIONS_MAX: u64 = 200;

fn programs() -> Programs {
    let writer = PathBuf::from(env!("CARGO_BIN_EXE_kill-writer"));
    let beside = |name: &str| writer.with_file_name(name);
    let cuesta = std::env::var_os("CUESTA_BIN").map_or_else(|| beside("cuesta"), PathBuf::from);
    assert!(Path::new(&cuesta).exists(), "{} is not built; run `make build` first", cuesta.display());
    Programs { cuesta, writer }
}

#[test]
fn nothing_acknowledged_is_lost_to_sigkill() {
    for seed in 0..STORES {
        let mut campaign = Campaign::new(programs(), seed, OPERATIONS_MAX).unwrap();
        for _ in 0..KILLS_PER_STORE {
            if let Err(failure) = campaign.round() {
                panic!("{failure}");
            }
        }
    }
}

#[test]
fn two_programs_on_one_store_lose_nothing_to_sigkill() {
    for seed in 0..2 {
        let mut campaign = PairCampaign::new(programs(), seed, OPERATIONS_MAX).unwrap();
        for _ in 0..KILLS_PER_STORE / 2 {
            if let Err(failure) = campaign.round() {
                panic!("{failure}");
            }
        }
    }
}
