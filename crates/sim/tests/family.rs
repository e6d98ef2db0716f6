//! Families of processes on the store and on the kernel's own file system: each must be told the same.
//!
//! It needs the command and the preload library beside each other, as `make build` leaves them; `CUESTA_BIN` names
//! another command, `CUESTA_SIM_SEED` repeats one seed, `CUESTA_SIM_SEEDS` says how many there are.

use std::path::{Path, PathBuf};
use std::process::Command;

const SEEDS: u64 = 12;

fn told(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}{said}", String::from_utf8_lossy(&output.stderr));
    said
}

/// The transcripts of the two up to their first difference.
fn difference(kernel: &str, store: &str) -> Option<String> {
    let same = kernel.lines().zip(store.lines()).take_while(|(left, right)| left == right).count();
    if kernel == store {
        return None;
    }
    let before = kernel.lines().take(same).filter(|line| !line.contains("os error"));
    let before: String = before.map(|line| format!("{line}\n")).collect();
    let end = "nothing more";
    let (left, right) = (kernel.lines().nth(same).unwrap_or(end), store.lines().nth(same).unwrap_or(end));
    Some(format!("{before}kernel: {left}\nstore:  {right}"))
}

#[test]
fn a_family_of_processes_is_told_the_same_on_the_store_as_by_the_kernel() {
    let family = PathBuf::from(env!("CARGO_BIN_EXE_family"));
    let beside = || family.with_file_name("cuesta");
    let cuesta = std::env::var_os("CUESTA_BIN").map_or_else(beside, PathBuf::from);
    assert!(Path::new(&cuesta).exists(), "{} is not built; run `make build` first", cuesta.display());
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let seeds = match number("CUESTA_SIM_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("CUESTA_SIM_SEEDS").unwrap_or(SEEDS),
    };

    // Where the store is in memory itself, its memory goes with it.
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let store = directory.path().join("store");
    told(Command::new(&cuesta).arg("mkfs").arg(&store).args(["--medium", "memory", "--nvm", "128M"]));
    let mut differences = Vec::new();
    for seed in seeds {
        // Paths climb, so each family has a directory around its root.
        let around = tempfile::tempdir().unwrap();
        let text = seed.to_string();
        let conduct = |mut command: Command, root: &Path| {
            told(command.args(["conduct", "--seed", &text, "--root"]).arg(root))
        };
        let kernel = conduct(Command::new(&family), &around.path().join("root"));
        let mut run = Command::new(&cuesta);
        run.arg("run").arg("--store").arg(&store).arg("--").arg(&family);
        let above = format!("/cuesta/{seed}");
        told(Command::new(&cuesta).arg("run").arg("--store").arg(&store).args(["--", "mkdir", &above]));
        let served = conduct(run, &Path::new(&above).join("root"));
        if let Some(difference) = difference(&kernel, &served) {
            differences.push(format!("seed {seed}:\n{difference}\n"));
        }
    }
    told(Command::new(&cuesta).arg("stop").arg(&store));
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
