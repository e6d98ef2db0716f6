//! Files that every program has mapped, damaged under it; and logs on a disk, damaged while no process has the store open.

use crate::common::disk::Disk;
use crate::common::{TestFolder, can_mount};
use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

/// Appends a line to a file and says so, once for each line that it is given.
const APPENDS: &str = "import os, sys
log = os.open('/cuesta/log', os.O_CREAT | os.O_WRONLY | os.O_APPEND)
for line in sys.stdin:
    os.write(log, line.encode())
    os.fsync(log)
    print('done', flush=True)
";

/// A store on a disk, which is digested only when it must be; also found as `store`.
fn disk() -> Option<Disk> {
    if !can_mount() {
        return None;
    }
    let disk = Disk::with_store_of("64M");
    std::os::unix::fs::symlink("disk/store", disk.place.path("store")).unwrap();
    let configuration = disk.place.path("store/cuesta.toml");
    let text = std::fs::read_to_string(&configuration).unwrap();
    let text: String =
        text.lines().filter(|line| !line.contains("digest_idle_ms")).flat_map(|line| [line, "\n"]).collect();
    std::fs::write(&configuration, text + "digest_idle_ms = 600000\n").unwrap();
    Some(disk)
}

struct Program {
    child: Child,
    answers: BufReader<std::process::ChildStdout>,
    lines: u32,
}

impl Program {
    fn start(place: &TestFolder) -> Program {
        let mut command =
            place.command(&["run", "--store", "store", "--", "/usr/bin/python3", "-c", APPENDS]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        Program { child, answers, lines: 0 }
    }

    /// Has it append a line, which is acknowledged when this returns.
    fn append(&mut self) {
        self.lines += 1;
        writeln!(self.child.stdin.as_mut().unwrap(), "line {}", self.lines).unwrap();
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        assert_eq!(answer, "done\n", "line {}", self.lines);
    }

    fn end(mut self) -> u32 {
        drop(self.child.stdin.take());
        assert!(self.child.wait().unwrap().success());
        self.lines
    }
}

fn tier(place: &TestFolder) -> PathBuf {
    place.path("store/nvm")
}

fn write(path: &Path) -> File {
    OpenOptions::new().write(true).open(path).unwrap()
}

fn lines(place: &TestFolder) -> String {
    place.cuesta(&["run", "--store", "store", "--", "cat", "/cuesta/log"]).text()
}

fn expected(lines: u32) -> String {
    (1..=lines).map(|line| format!("line {line}\n")).collect()
}

/// A cut page ended programs by SIGBUS; a zeroed one had them answer EIO to everything.
#[test]
fn a_program_goes_on_whatever_becomes_of_the_page_that_counts_daemons() {
    let Some(disk) = disk() else { return };
    let place = &disk.place;
    let mut program = Program::start(place);
    program.append();
    let page = tier(place).join("incarnation");
    for harm in ["cut", "zeroed", "noise", "name removed", "next daemon", "cut"] {
        match harm {
            "cut" => write(&page).set_len(0).unwrap(),
            "zeroed" => write(&page).write_all_at(&[0; 4096], 0).unwrap(),
            "noise" => write(&page).write_all_at(&[0xa5; 4096], 0).unwrap(),
            "name removed" => std::fs::remove_file(&page).unwrap(),
            _ => {
                place.kill_daemon();
                assert_eq!(place.cuesta(&["run", "--store", "store", "--", "true"]).status(), 0);
            }
        }
        program.append();
        program.append();
    }
    let written = program.end();
    assert_eq!(lines(place), expected(written));
    let log = std::fs::read_to_string(place.path("store/sharedfs.log")).unwrap();
    assert!(log.contains("incarnation was damaged under the daemon"), "{log}");
    assert_eq!(place.cuesta(&["stop", "store"]).text(), "stopped\n");
    assert_eq!(place.cuesta(&["fsck", "store"]).status(), 0);
}

/// Zeroed slots looked as if they had never been used, and their logs were forgotten in silence.
#[test]
fn what_was_waited_for_survives_the_loss_of_either_file_of_the_session_table() {
    for file in ["sessions", "sessions.copy"] {
        for harm in ["zeroed", "cut", "removed", "old"] {
            let Some(disk) = disk() else { return };
            let place = &disk.place;
            let path = tier(place).join(file);
            let old = std::fs::read(&path).unwrap();
            let mut program = Program::start(place);
            (0..5).for_each(|_| program.append());
            place.kill_daemon();
            program.child.kill().unwrap();
            program.child.wait().unwrap();
            place.wait_until_unused();
            match harm {
                "zeroed" => write(&path).write_all_at(&[0; 16384], 0).unwrap(),
                "cut" => write(&path).set_len(8192).unwrap(),
                "removed" => std::fs::remove_file(&path).unwrap(),
                _ => std::fs::write(&path, old).unwrap(),
            }
            assert_eq!(place.cuesta(&["fsck", "--dry-run", "store"]).status(), 0, "{file} {harm}");
            assert_eq!(lines(place), expected(5), "{file} {harm}");
            place.cuesta(&["stop", "store"]);
        }
    }
}

/// The last entries of a log, of which nothing behind them tells.
#[test]
fn the_last_lines_that_were_waited_for_are_not_lost_in_silence() {
    let Some(disk) = disk() else { return };
    let place = &disk.place;
    let mut program = Program::start(place);
    // The third one stands whole behind the damage, and tells which file it was.
    (0..3).for_each(|_| program.append());
    place.kill_daemon();
    program.child.kill().unwrap();
    program.child.wait().unwrap();
    place.wait_until_unused();
    for entry in std::fs::read_dir(tier(place).join("logs")).unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        // Without the commit file nothing is left of the second.
        if let Some(at) = bytes.windows(7).position(|bytes| bytes == b"line 2\n") {
            write(&path).write_all_at(&[0; 80], at as u64 - 64).unwrap();
        }
    }
    let told = place.cuesta(&["fsck", "--dry-run", "store"]);
    assert_eq!(told.status(), 2, "{}", told.text());
    assert!(told.text().contains("was damaged: it was acknowledged up to"), "{}", told.text());
    let read = place.cuesta(&["run", "--store", "store", "--", "cat", "/cuesta/log"]);
    assert_eq!((read.status(), read.text().as_str()), (1, ""), "{}", read.errors());
    assert!(read.errors().contains("Input/output error"), "{}", read.errors());
    let log = std::fs::read_to_string(place.path("store/sharedfs.log")).unwrap();
    assert!(log.contains("a log was damaged") && log.contains("/log (inode"), "{log}");
    // Whoever writes it anew has a whole file.
    let script = "echo anew > /cuesta/log && cat /cuesta/log";
    assert_eq!(place.cuesta(&["run", "--store", "store", "--", "sh", "-c", script]).text(), "anew\n");
    assert_eq!(place.cuesta(&["stop", "store"]).text(), "stopped\n");
    assert_eq!(place.cuesta(&["fsck", "store"]).status(), 2, "the log was not told by a repair yet");
    assert_eq!(place.cuesta(&["fsck", "--repair", "store"]).status(), 1);
    assert_eq!(place.cuesta(&["fsck", "store"]).status(), 0);
}
