//! A slice of the soak (`make soak` runs as much as is wished): real programs of two users work on one store while anything
//! is killed, and everything is read again.
//!
//! It needs the command and the preload library beside each other, as `make build` leaves them; `CUESTA_BIN` names
//! another command. `CUESTA_SIM_SEED` chooses another slice.

use cuesta_sim::soak::{Installed, Soak};
use std::path::{Path, PathBuf};
use std::time::Duration;

const ROUNDS: u64 = 2;
const WORK: Duration = Duration::from_secs(5);

#[test]
fn what_real_programs_of_two_users_were_told_is_kept_is_there_whatever_is_killed() {
    let here = PathBuf::from(env!("CARGO_BIN_EXE_soak"));
    let cuesta = std::env::var_os("CUESTA_BIN").map_or_else(|| here.with_file_name("cuesta"), PathBuf::from);
    assert!(Path::new(&cuesta).exists(), "{} is not built; run `make build` first", cuesta.display());
    let seed = std::env::var("CUESTA_SIM_SEED").map_or(1, |seed| seed.parse().expect("a number"));
    println!("seed {seed}");
    let mut soak = Soak::new(&Installed { cuesta }, seed).unwrap();
    for _ in 0..ROUNDS {
        if let Err(failure) = soak.round(WORK) {
            panic!("{failure}\nkept in {:?}", soak.keep());
        }
    }
    let counted = soak.counted();
    println!("{counted:?}");
    assert!(counted.acknowledged > 20 && counted.faults > 4, "hardly anything happened: {counted:?}");
}
