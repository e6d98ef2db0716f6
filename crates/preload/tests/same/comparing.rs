//! A script run in two places, and what it said and left there compared: here and in the tests of the command.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

/// Where the scripts are that every door is compared by.
pub const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../preload/tests/same");
/// More than the slowest needs on a slow machine.
const SECONDS_MAX: &str = "900";

/// A script's output, how it ended, and the files that it left.
pub struct Outcome {
    pub said: String,
    pub left: String,
}

/// Runs `script` in `directory`, which it makes, with `outside` for what is to lie elsewhere; programs are started by `start`.
pub fn run(script: &Path, directory: &Path, outside: &Path, start: &dyn Fn(&str) -> Command) -> Outcome {
    let command = |program: &str| {
        let mut command = start(program);
        command.env_remove("TMPDIR").envs([("LC_ALL", "C.UTF-8"), ("TZ", "UTC"), ("TERM", "dumb")]);
        command.env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        command.env("CARGO", env!("CARGO"));
        command.env("HOME", directory).env("D", directory).env("OUTSIDE", outside).stdin(Stdio::null());
        command
    };
    let said = |mut command: Command| {
        let (mut reader, writer) = std::io::pipe().expect("a pipe");
        command.stdout(writer.try_clone().expect("a pipe")).stderr(writer);
        let mut child = command.spawn().expect("runs");
        drop(command);
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut reader, &mut bytes).expect("what it says");
        format!("{}{}\n", String::from_utf8_lossy(&bytes), child.wait().expect("it ends"))
    };
    let started = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time").as_secs();
    let mut program = command("timeout");
    // The first shell is one that does not read the prelude, which takes its variable away.
    program.args(["-k", "1", SECONDS_MAX, "sh", "-c", "mkdir $D && cd $D && exec bash $0"]).arg(script);
    program.env("BASH_ENV", format!("{FOLDER}/prelude.sh")).env("SCRIPTS", format!("{FOLDER}/scripts"));
    let output = said(program);
    let mut describe = command("python3");
    describe.arg(format!("{FOLDER}/describe.py")).arg(directory).arg(started.to_string());
    Outcome { said: output, left: said(describe) }
}

/// Fails with the lines in which one place differs from the disk.
pub fn compare(script: &str, place: &str, disk: &Outcome, there: &Outcome) {
    compare_texts(&format!("what {script} says {place}"), &disk.said, &there.said);
    compare_texts(&format!("what {script} leaves {place}"), &disk.left, &there.left);
}

fn compare_texts(what: &str, disk: &str, there: &str) {
    if disk == there {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    for (name, text) in [("disk", disk), ("there", there)] {
        std::fs::write(folder.path().join(name), text).expect("a file");
    }
    let differences =
        Command::new("diff").args(["-aU4", "disk", "there"]).current_dir(folder.path()).output();
    let differences = differences.expect("diff runs").stdout;
    panic!("{what} differs:\n{}", String::from_utf8_lossy(&differences));
}

/// The scripts of a folder, by their names.
pub fn scripts_in(folder: &str) -> Vec<String> {
    let mut scripts: Vec<_> = std::fs::read_dir(folder)
        .expect("the folder")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("a plain name"))
        .filter_map(|name| name.strip_suffix(".sh").map(str::to_owned))
        .collect();
    scripts.sort();
    scripts
}
