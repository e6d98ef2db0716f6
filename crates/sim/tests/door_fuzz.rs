//! A slice of the fuzzer of the preload door (`make fuzz-door` runs as much as is wanted): random system calls under the real
//! `cuesta run` and on the disk, compared.
//!
//! It needs the command and the preload library beside each other, as `make build` leaves them; `CUESTA_BIN` names
//! another command. `CUESTA_SIM_SEED` chooses another slice.

use cuesta_sim::door_fuzz::campaign::{self, CALLS};
use cuesta_sim::door_fuzz::player::SLOWLY;
use cuesta_sim::door_fuzz::players::Players;
use cuesta_sim::door_fuzz::sequence::Call;
use std::path::{Path, PathBuf};

/// Some ten thousand calls.
const SEQUENCES: u64 = 240;

/// Sequences that a campaign found to differ, made small, with an empty line between them.
const FOUND: &str = include_str!("door_found.txt");

fn players() -> Players {
    let fuzzer = PathBuf::from(env!("CARGO_BIN_EXE_door-fuzz"));
    let cuesta =
        std::env::var_os("CUESTA_BIN").map_or_else(|| fuzzer.with_file_name("cuesta"), PathBuf::from);
    assert!(Path::new(&cuesta).exists(), "{} is not built; run `make build` first", cuesta.display());
    Players::new(&cuesta, &fuzzer, Path::new(env!("CARGO_TARGET_TMPDIR"))).expect("a store")
}

#[test]
fn what_once_answered_otherwise_than_on_the_disk_does_so_no_more() {
    let mut players = players();
    let mut different = Vec::new();
    for list in FOUND.split("\n\n") {
        let (slowly, calls): (Vec<_>, Vec<_>) = list.lines().partition(|line| *line == SLOWLY);
        let calls: Vec<Call> = calls.into_iter().map(|line| line.parse().expect("a call")).collect();
        let transcripts = players.play_in_turn(&calls, !slowly.is_empty()).expect("both players");
        different.extend(campaign::compare(&transcripts).difference.map(|difference| difference.kind));
    }
    assert!(different.is_empty(), "{different:#?}");
}

#[test]
fn random_calls_answer_by_the_door_as_on_the_disk() {
    let seed = std::env::var("CUESTA_SIM_SEED").map_or(1, |seed| seed.parse().expect("a number"));
    println!("seeds from {seed}, {CALLS} calls each");
    let mut players = players();
    let report = campaign::run(&mut players, seed..seed + SEQUENCES, 5, &mut |found| println!("{found}"));
    let report = report.expect("both players");
    println!("{report}");
    assert!(report.found.is_empty(), "replay the lists above with `door-fuzz replay`");
    let least = SEQUENCES * CALLS as u64 / 2;
    assert!(report.same > least, "too few calls were compared");
}
