//! A slice of the soak (`make soak` runs as much as is wished): real programs of two users work on one store while anything is
//! killed, and everything is read again; all under `cuesta run`, or all by a mount. With some at each door `make soak` has them: what
//! works by a mount while others change its directories may be told for a moment that its working directory is gone
//! (README), which most programs take for an error.
//!
//! It needs the command and the preload library beside each other, as `make build` leaves them; `CUESTA_BIN` names
//! another command. `CUESTA_SIM_SEED` chooses another slice. Mounts need root and FUSE; skipped visibly otherwise.

use cuesta_sim::doors::{Doors, why_no_mount};
use cuesta_sim::soak::{Installed, Soak};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const ROUNDS: u64 = 2;
const WORK: Duration = Duration::from_secs(5);

/// Far longer than killing everything takes.
const PATIENCE: Duration = Duration::from_secs(60);

fn cuesta() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_BIN_EXE_soak"));
    let cuesta = std::env::var_os("CUESTA_BIN").map_or_else(|| here.with_file_name("cuesta"), PathBuf::from);
    assert!(Path::new(&cuesta).exists(), "{} is not built; run `make build` first", cuesta.display());
    cuesta
}

/// Processes that were started with something of the folder, or lie in it.
fn processes_of(folder: &str) -> Vec<String> {
    let told = |pid: &str| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        line.contains(folder).then_some(line)
    };
    let entries = std::fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().file_name());
    entries.filter_map(|name| told(name.to_str()?)).collect()
}

#[test]
fn a_soak_that_is_interrupted_leaves_nothing_behind() {
    for (signal, at_work) in [(Signal::INT, "serve"), (Signal::TERM, "/jobs/")] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_soak"));
        command.arg("--cuesta").arg(cuesta()).args(["--seed", "3", "--minutes", "5"]);
        let mut soak = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut first = String::new();
        BufReader::new(soak.stdout.take().unwrap()).read_line(&mut first).unwrap();
        let folder = first.split_once(" in ").and_then(|(_, rest)| rest.split_once(": ")).expect(&first).0;
        assert!(Path::new(folder).is_dir(), "{folder}");
        // As soon as there is a daemon, and when programs are at work: whenever it comes, it must end.
        let deadline = Instant::now() + PATIENCE;
        while !processes_of(folder).iter().any(|line| line.contains(at_work)) {
            assert!(Instant::now() < deadline, "no {at_work} in {folder}");
            std::thread::yield_now();
        }
        kill_process(Pid::from_child(&soak), signal).unwrap();
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            match soak.try_wait().unwrap() {
                Some(status) => break status,
                None => assert!(Instant::now() < deadline, "{signal:?} does not end it"),
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        assert_eq!(status.code(), Some(130), "{signal:?}");
        assert!(!Path::new(folder).exists(), "{folder} is left behind");
        assert_eq!(processes_of(folder), [""; 0], "{signal:?}");
    }
}

fn soak_by(doors: Doors) {
    let cuesta = cuesta();
    let seed = std::env::var("CUESTA_SIM_SEED").map_or(1, |seed| seed.parse().expect("a number"));
    println!("seed {seed}");
    let mut soak = Soak::new(&Installed { cuesta, stores: None }, seed, doors).unwrap();
    for _ in 0..ROUNDS {
        if let Err(failure) = soak.round(WORK) {
            panic!("{failure}\nkept in {:?}", soak.keep());
        }
    }
    let counted = soak.counted();
    println!("{counted:?}");
    assert!(counted.acknowledged > 20 && counted.faults > 4, "hardly anything happened: {counted:?}");
}

#[test]
fn what_real_programs_of_two_users_were_told_is_kept_is_there_whatever_is_killed() {
    soak_by(Doors::Run);
}

#[test]
fn what_programs_that_came_by_a_mount_were_told_is_kept_is_there_whatever_is_killed() {
    match why_no_mount() {
        Some(why) => println!("skipped: {why}"),
        None => soak_by(Doors::Mount),
    }
}
