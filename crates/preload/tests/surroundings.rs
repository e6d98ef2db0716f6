//! What surrounds a program's calls: descriptors that are none, pipes, mounts, processes made in unusual ways, sandboxes, limits.
//!
//! Each program in `surroundings` runs twice, in an empty directory on this machine's disk and in one on a store, and must say
//! the same.

use std::path::Path;
use std::process::Command;

use crate::common::{Finish as _, Served, compare, told};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/surroundings");

/// Runs what `command` makes for a directory on the disk, and for one on a store.
fn is_the_same(command: impl Fn(Command) -> Command, program: &str) {
    let disk = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("folder");
    let there = command(Command::new(program)).arg(disk.path()).finish();
    let store = Served::new();
    assert!(store.command("mkdir").arg("/cuesta/d").finish().status.success());
    let here = command(store.command(program)).arg("/cuesta/d").finish();
    compare(&told(&there), &told(&here));
    assert!(here.status.success(), "{}", told(&here));
}

/// A script of Python, which gets the directory as its argument.
fn python(name: &str) {
    let script = Path::new(FOLDER).join(name);
    is_the_same(
        |mut command| {
            command.arg(&script);
            command
        },
        "python3",
    );
}

/// A script of the shell, which gets the directory as its argument.
fn shell(name: &str) {
    let script = Path::new(FOLDER).join(name);
    is_the_same(
        |mut command| {
            command.arg(&script);
            command
        },
        "bash",
    );
}

#[test]
fn a_directory_descriptor_that_is_none_answers_as_on_a_disk() {
    python("bad_directories.py");
}

#[test]
fn a_pipe_takes_and_gives_as_much_as_with_a_file_of_the_kernels() {
    python("pipes.py");
}

#[test]
fn mounts_elsewhere_are_made_with_the_working_directory_in_the_store() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    shell("mounts.sh");
}
