//! A slice of the fuzzer of the preload door (`make fuzz-door` runs as much as is wanted): random system calls under the real
//! `cuesta run` and on the disk, compared.
//!
//! It needs the command and the preload library beside each other, as `make build` leaves them; `CUESTA_BIN` names
//! another command. `CUESTA_SIM_SEED` chooses another slice.

use cuesta_sim::door_fuzz::campaign::{self, CALLS};
use cuesta_sim::door_fuzz::players::Players;
use std::path::{Path, PathBuf};

/// Some ten thousand calls.
const SEQUENCES: u64 = 240;

#[test]
fn random_calls_answer_by_the_door_as_on_the_disk() {
    let fuzzer = PathBuf::from(env!("CARGO_BIN_EXE_door-fuzz"));
    let cuesta =
        std::env::var_os("CUESTA_BIN").map_or_else(|| fuzzer.with_file_name("cuesta"), PathBuf::from);
    assert!(Path::new(&cuesta).exists(), "{} is not built; run `make build` first", cuesta.display());
    let seed = std::env::var("CUESTA_SIM_SEED").map_or(1, |seed| seed.parse().expect("a number"));
    println!("seeds from {seed}, {CALLS} calls each");
    let disk = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let mut players = Players::new(&cuesta, &fuzzer, disk).expect("a store");
    let report = campaign::run(&mut players, seed..seed + SEQUENCES, 5, &mut |found| println!("{found}"));
    let report = report.expect("both players");
    println!("{report}");
    assert!(report.found.is_empty(), "replay the lists above with `door-fuzz replay`");
    let least = SEQUENCES * CALLS as u64 / 2;
    assert!(report.same > least, "too few calls were compared");
}
