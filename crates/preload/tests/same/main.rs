//! Real programs, unmodified: a script does on the store what it does on a directory of the kernel's.
//!
//! Each script runs twice, in an empty directory of the same name: once on this machine's disk, once on a
//! store that appears there. What it says, how it ends and what it leaves behind must be the same, entry by
//! entry: content, kind, mode, owner, size, links, the times it set, extended attributes.
//!
//! The scripts are in `scripts`, one idea each; `prelude.sh` comes before each, `describe.py` says what is left.
//! A script that needs minutes is marked long: `make programs` runs those, too.

#[path = "../common/mod.rs"]
mod common;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use common::Served;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/same");
/// More than the slowest needs on a slow machine.
const SECONDS_MAX: &str = "900";

/// Runs `script` in `directory`, which is on the disk, or on the store if there is one.
fn run(script: &Path, directory: &Path, outside: &Path, store: Option<&Served>) -> (String, String) {
    let command = |program: &str| {
        let mut command = match store {
            Some(store) => store.command_at(program, directory.parent().expect("a parent")),
            None => Command::new(program),
        };
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
    program.args(["-k", "1", SECONDS_MAX, "bash", "-c", "mkdir $D && cd $D && exec bash $0"]).arg(script);
    program.env("BASH_ENV", format!("{FOLDER}/prelude.sh")).env("SCRIPTS", format!("{FOLDER}/scripts"));
    let output = said(program);
    let mut describe = command("python3");
    describe.arg(format!("{FOLDER}/describe.py")).arg(directory).arg(started.to_string());
    (output, said(describe))
}

fn compare(what: &str, script: &str, disk: &str, store: &str) {
    if disk == store {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    for (name, text) in [("disk", disk), ("store", store)] {
        std::fs::write(folder.path().join(name), text).expect("a file");
    }
    let differences =
        Command::new("diff").args(["-aU4", "disk", "store"]).current_dir(folder.path()).output();
    let differences = differences.expect("diff runs").stdout;
    panic!("{script}: {what} differs:\n{}", String::from_utf8_lossy(&differences));
}

fn is_the_same(name: &str) {
    let script = Path::new(FOLDER).join(format!("scripts/{name}.sh"));
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("folder");
    let directory = folder.path().join("at/d");
    let empty = |path: &Path| {
        let _ = std::fs::remove_dir_all(path);
        std::fs::create_dir(path).expect("a directory");
    };
    let outside = folder.path().join("outside");
    empty(&outside);
    empty(&folder.path().join("at"));
    let (said, left) = run(&script, &directory, &outside, None);
    empty(&folder.path().join("at"));
    empty(&outside);
    let store = Served::new();
    let (said_there, left_there) = run(&script, &directory, &outside, Some(&store));
    // Where the store appeared there is a directory on the disk, too: nothing got there.
    assert_eq!(std::fs::read_dir(folder.path().join("at")).expect("a directory").count(), 0, "{name}");
    // To be read with --nocapture.
    print!("{name}:\n{said_there}");
    compare("what it says", name, &said, &said_there);
    compare("what it leaves", name, &left, &left_there);
}

macro_rules! scripts {
    ($($(#[$attribute:meta])* $name:ident,)*) => {
        $(
            #[test]
            $(#[$attribute])*
            fn $name() {
                is_the_same(stringify!($name));
            }
        )*

        #[test]
        fn every_script_is_run() {
            let mut scripts: Vec<_> = std::fs::read_dir(format!("{FOLDER}/scripts"))
                .expect("the folder")
                .map(|entry| entry.expect("an entry").file_name().into_string().expect("a plain name"))
                .filter_map(|name| name.strip_suffix(".sh").map(str::to_owned))
                .collect();
            scripts.sort();
            let mut run = vec![$(stringify!($name)),*];
            run.sort();
            assert_eq!(scripts, run);
        }
    };
}

scripts! {
    access_lists,
    archive,
    bash,
    cargo,
    commands,
    copy,
    edit,
    #[ignore = "long: make programs"]
    fio,
    follow,
    git,
    #[ignore = "long: make programs"]
    git_packs,
    list,
    #[ignore = "long: make programs"]
    make,
    mapping,
    node,
    owners,
    perl,
    #[ignore = "long: make programs"]
    python,
    #[ignore = "long: make programs"]
    redis,
    remove,
    rename,
    #[ignore = "long: make programs"]
    rocksdb,
    rsync,
    search,
    shell,
    #[ignore = "long: make programs"]
    sqlite,
    stdio,
}
