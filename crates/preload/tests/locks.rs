//! Locks between processes: the same as on the kernel's own file system, and nothing is left of them.

use crate::common::{Finish as _, PREFIX, Served, compare, compiled, told};
use cuesta_format::geometry::REFERENCES_FOLDER;
use cuesta_media::lock_files;
use std::fs::File;
use std::process::Command;
use std::time::{Duration, Instant};

const LOCKS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/locks.py");

#[test]
fn locks_are_between_processes_what_they_are_on_the_kernels_file_system() {
    let store = Served::new();
    let folder = tempfile::tempdir().expect("folder");
    let directory = folder.path().to_str().expect("a plain name").to_owned();
    let kernel = Command::new("python3").args([LOCKS, &directory]).finish();
    let ours = store.command("python3").args([LOCKS, PREFIX]).finish();
    assert!(kernel.status.success(), "{}", told(&kernel));
    compare(&told(&kernel), &told(&ours));
    nothing_is_left(&store);
}

/// Lock files that no process has go soon.
fn nothing_is_left(store: &Served) {
    at_most_are_left(store, 0);
}

/// SharedFS takes unused lock files away beside the program, and may be behind it.
fn at_most_are_left(store: &Served, most: usize) {
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut left = lock_files_of(store);
    while left > most && Instant::now() < deadline {
        std::thread::yield_now();
        left = lock_files_of(store);
    }
    assert!(left <= most, "{left} lock files");
}

fn lock_files_of(store: &Served) -> usize {
    let folder = File::open(store.folder().join(REFERENCES_FOLDER)).expect("the folder");
    lock_files::list(&folder, usize::MAX).expect("its names").expect("all of them").len()
}

/// One process lives on. Its files are locked in turn, and shared with children: some of each are in use at any
/// time, and no more than that for long.
#[test]
fn files_that_are_locked_in_turn_leave_nothing_behind() {
    let store = Served::new();
    let source = r#"
        #include <fcntl.h>
        #include <stdio.h>
        #include <stdlib.h>
        #include <sys/file.h>
        #include <sys/wait.h>
        #include <unistd.h>
        int main(void) {
            char name[64];
            for (int n = 0; n < 20000; n++) {
                snprintf(name, sizeof name, "/cuesta/%d", n);
                int fd = open(name, O_RDWR | O_CREAT, 0644);
                struct flock lock = { .l_type = F_WRLCK };
                if (fd < 0 || (n % 2 ? flock(fd, LOCK_EX) : fcntl(fd, F_SETLK, &lock))) return perror(name), 1;
                if (n % 100 == 0) {
                    pid_t child = fork();
                    if (child == 0) _exit(flock(fd, LOCK_UN));
                    waitpid(child, NULL, 0);
                }
                close(fd);
                unlink(name);
            }
            puts("locked");
            fflush(stdout);
            getchar();
            return 0;
        }"#;
    let folder = tempfile::tempdir().expect("folder");
    let program = compiled(folder.path(), "turns", source, &[]);
    let path = program.to_str().expect("a plain name").to_owned();
    let mut running = store
        .command(&path)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("runs");
    let mut said = [0; 7];
    std::io::Read::read_exact(running.stdout.as_mut().expect("a pipe"), &mut said).expect("it says so");
    // It lives still.
    at_most_are_left(&store, 10_000);
    drop(running.stdin.take());
    assert!(running.wait().expect("its end").success());
    nothing_is_left(&store);
}
