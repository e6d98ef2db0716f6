//! What surrounds a program's calls: descriptors that are none, pipes, mounts, processes made in unusual ways, sandboxes, limits.
//!
//! Each program in `surroundings` runs twice, in an empty directory on this machine's disk and in one on a store, and must say
//! the same.

use std::path::Path;
use std::process::Command;

use crate::common::{Finish as _, Served, compare, compiled, told};

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

/// A program in C, which gets the directory as its argument.
fn c(name: &str, options: &[&str]) {
    let folder = tempfile::tempdir().expect("folder");
    let source = std::fs::read_to_string(Path::new(FOLDER).join(format!("{name}.c"))).expect("source");
    let program = compiled(folder.path(), name, &source, options);
    is_the_same(|command| command, program.to_str().expect("a path"));
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

#[test]
fn a_file_that_was_mapped_collapses_and_takes_insertions() {
    python("shifting.py");
}

#[test]
fn another_users_ids_for_a_while_change_what_is_allowed_and_nothing_else() {
    if rustix::process::geteuid().is_root() {
        python("borrowed_ids.py");
    }
}

#[test]
fn a_child_that_shares_memory_or_descriptors_leaves_its_parent_what_it_has() {
    c("clones", &["-w"]);
}

#[test]
fn a_loop_device_of_a_file_of_the_store_is_refused_with_a_line_where_there_is_no_mount() {
    if !rustix::process::geteuid().is_root() || !Path::new("/dev/loop0").exists() {
        return;
    }
    let script = "
import errno, fcntl, os, struct, sys
loop, other = os.open('/dev/loop0', os.O_RDWR), os.open('/dev/null', os.O_RDWR)
f, folder, path = os.open('/cuesta/f', os.O_RDWR | os.O_CREAT), os.open('/cuesta', os.O_RDONLY), os.open('/cuesta/f', os.O_PATH)
for fd in (f, folder, path):
    for device in (loop, other):
        for request, argument in ((0x4c00, fd), (0x4c0a, struct.pack('I', fd) + bytes(300))):
            try: print(fcntl.ioctl(device, request, argument))
            except OSError as error: print(errno.errorcode[error.errno], end=' ')
";
    let said = told(&Served::new().command("python3").args(["-c", script]).finish());
    let errors = "ENOTSUP ENOTSUP ENOTTY ENOTTY EINVAL EINVAL ENOTTY ENOTTY EBADF EBADF ENOTTY ENOTTY ";
    assert!(said.starts_with(errors), "{said}");
    assert_eq!(said.matches("cuesta: /cuesta/f cannot be the file of a loop device").count(), 2, "{said}");
}

#[test]
fn little_address_space_and_other_limits_are_enough() {
    shell("limits.sh");
}

/// As [`c`], by a shell: what executes such a program tells its runtime that the door comes first.
fn sanitized(option: &str) {
    let folder = tempfile::tempdir().expect("folder");
    let source = std::fs::read_to_string(Path::new(FOLDER).join("sanitized.c")).expect("source");
    let program = compiled(folder.path(), "sanitized", &source, &["-g", option]);
    let run = format!("{} \"$0\" || echo failed: $?", program.display());
    let command = |mut command: Command| {
        command.args(["-c", &run]);
        command
    };
    is_the_same(command, "bash");
}

#[test]
fn a_program_built_with_the_address_sanitizer_works() {
    sanitized("-fsanitize=address");
}

#[test]
fn a_program_built_with_the_thread_sanitizer_gets_no_reports() {
    sanitized("-fsanitize=thread");
}

#[test]
fn a_program_built_with_the_sanitizer_of_undefined_behaviour_works() {
    sanitized("-fsanitize=undefined");
}

#[test]
fn a_program_that_filters_its_calls_down_to_reading_and_writing_works_on() {
    c("filtered", &["-w"]);
}
