//! Optimistic mode: fsync returns at once, the disk has everything a bounded time later, and dsync waits for it.

use crate::common::disk::Disk;
use crate::common::{Ended, Stopped, TestFolder, can_mount};
use std::io::{BufRead, BufReader, Lines, Write};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// The beginning of each program in Python.
const PRELUDE: &str = "import fcntl, os, sys, time
def dsync(file): fcntl.ioctl(file, 0x43e6)
";

/// A small store on the disk that the tests are built on.
struct StoreOnDisk {
    place: TestFolder,
    _disk: tempfile::TempDir,
}

impl Deref for StoreOnDisk {
    type Target = TestFolder;

    fn deref(&self) -> &TestFolder {
        &self.place
    }
}

fn store() -> StoreOnDisk {
    let (place, disk) = (TestFolder::new(), tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap());
    let tier = disk.path().join("tier");
    let arguments = ["mkfs", "store", "--medium", "block", "--nvm", "32M", "--nvm-path"];
    let made = place.cuesta(&[&arguments[..], &[tier.to_str().unwrap()]].concat());
    assert_eq!(made.status(), 0, "{}", made.errors());
    StoreOnDisk { place, _disk: disk }
}

fn python(place: &TestFolder, store: &str, options: &[&str], script: &str) -> Command {
    let script = format!("{PRELUDE}{script}");
    let arguments = [&["run", "--store", store], options, &["--", "python3", "-c", &script]].concat();
    place.command(&arguments)
}

fn spawned(mut command: Command) -> (Child, Lines<BufReader<ChildStdout>>) {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    (child, lines)
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bindings").join(name)
}

const OPTIMISTIC: [&str; 2] = ["--durability", "optimistic"];

#[test]
fn media_other_than_a_disk_are_refused_in_one_line() {
    let place = TestFolder::with_store();
    let refused = [
        place.cuesta(&["mkfs", "other", "--medium", "memory", "--durability", "optimistic"]),
        place.cuesta(&["run", "--store", "store", "--durability", "optimistic", "--", "true"]),
    ];
    for ended in refused {
        assert_ne!(ended.status(), 0);
        let said = ended.errors();
        assert!(said.contains("optimistic is for stores on a disk") && said.contains("memory"), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    place.cuesta(&["stop", "store"]);
    std::fs::write(place.path("store/cuesta.toml"), "durability = \"optimistic\"\n").unwrap();
    let ended = place.cuesta(&["run", "--store", "store", "--", "true"]);
    assert!(ended.errors().contains("for stores on a disk"), "{}", ended.errors());
}

/// The store's own configuration, a program's option, and the status that shows both.
#[test]
fn a_store_or_a_program_is_optimistic_as_it_was_told() {
    let place = store();
    let status = || place.cuesta(&["status", "store"]).text();
    assert_eq!(place.cuesta(&["run", "--store", "store", "--", "true"]).status(), 0);
    assert!(!status().contains("optimistic"), "{}", status());
    let script = "file = os.open('/cuesta/f', os.O_CREAT | os.O_RDWR)
os.write(file, b'x')
print('attached', flush=True)
sys.stdin.readline()
";
    let (mut child, mut lines) = spawned(python(&place, "store", &OPTIMISTIC, script));
    assert_eq!(lines.next().unwrap().unwrap(), "attached");
    let said = status();
    assert!(
        said.contains("fsync returns at once in 1 of the programs, the disk has it within 50 ms"),
        "{said}"
    );
    let json = place.cuesta(&["status", "store", "--json"]).text();
    assert!(
        json.contains("\"durability\":\"optimistic\"") && json.contains("\"optimistic_ms_max\":50"),
        "{json}"
    );
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    place.cuesta(&["stop", "store"]);
    let options = "durability = \"optimistic\"\noptimistic_ms_max = 20\n";
    std::fs::write(place.path("store/cuesta.toml"), options).unwrap();
    assert_eq!(place.cuesta(&["run", "--store", "store", "--", "true"]).status(), 0);
    assert!(status().contains("fsync returns at once, the disk has it within 20 ms"), "{}", status());
}

#[test]
fn sqlite_keeps_its_commits_when_daemon_and_program_are_killed() {
    let place = store();
    let script = "import sqlite3
db = sqlite3.connect('/cuesta/db', isolation_level=None)
db.execute('pragma synchronous=full')
db.execute('create table t(x)')
for number in range(200): db.execute('insert into t values(?)', [number])
print('committed', flush=True)
sys.stdin.readline()
";
    let (mut child, mut lines) = spawned(python(&place, "store", &OPTIMISTIC, script));
    assert_eq!(lines.next().unwrap().unwrap(), "committed");
    place.kill_daemon();
    child.kill().unwrap();
    child.wait().unwrap();
    place.wait_until_unused();
    let check = "import sqlite3
db = sqlite3.connect('/cuesta/db')
print(*db.execute('pragma integrity_check').fetchone(), *db.execute('select count(*) from t').fetchone())
";
    let ended = Ended(python(&place, "store", &[], check).output().unwrap());
    assert_eq!(ended.text(), "ok 200\n", "{}", ended.errors());
    place.cuesta(&["stop", "store"]);
    assert_eq!(place.cuesta(&["fsck", "store"]).status(), 0);
}

/// Without a daemon nothing writes the logs: a program that goes on gets the next daemon, and fsync waits for the disk.
#[test]
fn a_program_goes_on_with_the_next_daemon() {
    let place = store();
    let script = "file = os.open('/cuesta/f', os.O_CREAT | os.O_RDWR)
for line in sys.stdin:
  for number in range(100):
    os.pwrite(file, line.encode(), 0)
    os.fsync(file)
  dsync(file)
  print(line.strip(), flush=True)
";
    let (mut child, mut lines) = spawned(python(&place, "store", &OPTIMISTIC, script));
    let mut input = child.stdin.take().unwrap();
    for round in 0..3 {
        writeln!(input, "round {round}").unwrap();
        assert_eq!(lines.next().unwrap().unwrap(), format!("round {round}"));
        place.kill_daemon();
        place.wait_until_unused();
        assert_eq!(place.cuesta(&["run", "--store", "store", "--", "true"]).status(), 0);
    }
    drop(input);
    assert!(child.wait().unwrap().success());
    let read = place.cuesta(&["run", "--store", "store", "--", "cat", "/cuesta/f"]);
    assert_eq!(read.text(), "round 2\n");
}

/// A daemon that is stopped writes nothing, so the bound holds only if nothing more is done.
#[test]
fn while_the_daemon_is_suspended_operations_wait() {
    let place = store();
    let script = "file = os.open('/cuesta/f', os.O_CREAT | os.O_RDWR)
print('began', flush=True)
number = 0
while True:
  os.pwrite(file, b'%d' % number, 0)
  os.fsync(file)
  number += 1
  if number % 100 == 0: os.write(1, b'%d\\n' % number)
";
    let (mut child, mut lines) = spawned(python(&place, "store", &OPTIMISTIC, script));
    assert_eq!(lines.next().unwrap().unwrap(), "began");
    let daemon = place.daemon();
    let last = std::sync::Arc::new(std::sync::Mutex::new(Instant::now()));
    let heard = std::sync::Arc::clone(&last);
    let reader = std::thread::spawn(move || {
        lines.by_ref().flatten().for_each(|_| *heard.lock().unwrap() = Instant::now())
    });
    let stopped = Stopped::new(&daemon);
    let (began, limit) = (Instant::now(), Duration::from_secs(60));
    let is_silent = || last.lock().unwrap().elapsed() > Duration::from_millis(500);
    while !is_silent() && began.elapsed() < limit {
        std::thread::yield_now();
    }
    assert!(is_silent(), "it goes on");
    let silent_since = *last.lock().unwrap();
    drop(stopped);
    while *last.lock().unwrap() == silent_since && began.elapsed() < limit {
        std::thread::yield_now();
    }
    assert_ne!(*last.lock().unwrap(), silent_since, "it never goes on");
    child.kill().unwrap();
    child.wait().unwrap();
    reader.join().unwrap();
}

#[test]
fn dsync_is_a_command_a_c_function_and_a_python_call() {
    let place = store();
    assert_eq!(place.cuesta(&["dsync", "store"]).status(), 0);
    let told = place.command(&["dsync"]).env("CUESTA_STORE", place.path("store")).output().unwrap();
    assert!(told.status.success());
    assert_ne!(place.cuesta(&["dsync", "nowhere"]).status(), 0);
    let program = "#include <fcntl.h>
#include <stdio.h>
#include \"cuesta.h\"
int main(int count, char **names) {
    for (int at = 1; at < count; at++) {
        int file = open(names[at], O_CREAT | O_RDWR, 0600);
        printf(\"%d \", write(file, \"x\", 1) == 1 ? cuesta_dsync(file) : 1);
    }
    printf(\"%d\\n\", cuesta_dsync(-1));
    return 0;
}
";
    std::fs::write(place.path("waits.c"), program).unwrap();
    let folder = source("");
    let mut compiler = Command::new("cc");
    compiler.arg("-I").arg(&folder).arg("-o").arg(place.path("waits")).arg(place.path("waits.c"));
    assert!(compiler.status().unwrap().success());
    let outside = place.path("outside");
    let (waits, outside) = (place.path("waits"), outside.to_str().unwrap().to_owned());
    let arguments = [
        &["run", "--store", "store"][..],
        &OPTIMISTIC,
        &["--", waits.to_str().unwrap(), "/cuesta/c", &outside],
    ];
    let ended = place.cuesta(&arguments.concat());
    assert_eq!(ended.text(), "0 0 -1\n", "{}", ended.errors());
    let script = format!(
        "sys.path.insert(0, {folder:?})
import cuesta
for name in '/cuesta/python', {outside:?}:
  with open(name, 'wb') as file:
    file.write(b'x')
    cuesta.dsync(file)
    cuesta.dsync(file.fileno())
try: cuesta.dsync(1000)
except OSError as error: print(error.strerror)
"
    );
    let ended = Ended(python(&place, "store", &OPTIMISTIC, &script).output().unwrap());
    assert_eq!(ended.text(), "Bad file descriptor\n", "{}", ended.errors());
}

#[test]
fn a_mount_is_optimistic_and_waits_when_it_is_asked_to() {
    if !can_mount() {
        return;
    }
    let place = store();
    std::fs::create_dir(place.path("files")).unwrap();
    let wrong = place.cuesta(&["mount", "-o", "durability=eager", "store", "files"]);
    assert_eq!(wrong.status(), 2, "{}", wrong.errors());
    let made = place.cuesta(&["mount", "-o", "durability=optimistic,optimistic_ms_max=30", "store", "files"]);
    assert_eq!(made.status(), 0, "{}", made.errors());
    let file = place.path("files/f");
    let script = format!(
        "{PRELUDE}file = os.open({file:?}, os.O_CREAT | os.O_RDWR)
for number in range(300):
  os.pwrite(file, b'%d' % number, 0)
  os.fsync(file)
dsync(file)
dsync(os.open({folder:?}, os.O_RDONLY))
",
        folder = place.path("files")
    );
    let ended = Ended(Command::new("python3").args(["-c", &script]).output().unwrap());
    let status = place.cuesta(&["status", "store"]).text();
    let synced = place.cuesta(&["dsync", "files/f"]);
    let unmounted = place.cuesta(&["unmount", "files"]);
    assert_eq!(ended.status(), 0, "{}", ended.errors());
    assert!(status.contains("within 30 ms"), "{status}");
    assert_eq!(synced.status(), 0, "{}", synced.errors());
    assert_eq!(unmounted.status(), 0, "{}", unmounted.errors());
}

#[test]
fn a_disk_that_takes_no_writes_is_reported_and_stays_reported() {
    if !can_mount() {
        return;
    }
    let disk = Disk::with_store_of("64M");
    let script = "file = os.open('/cuesta/f', os.O_CREAT | os.O_RDWR)
os.write(file, b'kept')
dsync(file)
def failure(act):
  try: act(file)
  except OSError as error: return error.strerror
cut()
while not failure(os.fsync): os.pwrite(file, b'more', 4)
print(failure(os.fsync), failure(dsync), failure(os.fsync))
print(os.pread(file, 4, 0))
";
    let mut program = disk.program_with(&OPTIMISTIC, &format!("{PRELUDE}{script}"));
    let ended = Ended(program.output().unwrap());
    let failed = "Input/output error";
    assert_eq!(ended.text(), format!("{failed} {failed} {failed}\nb'kept'\n"), "{}", ended.errors());
    let status = disk.place.cuesta(&["status", "disk/store"]);
    let said = (status.text(), status.errors());
    assert!(said.0.contains("the disk does not take the logs"), "{:?} {said:?}", status.0.status);
    disk.mount_after_power_loss();
    let read = disk.place.cuesta(&["run", "--store", "disk/store", "--", "head", "-c4", "/cuesta/f"]);
    assert_eq!(read.text(), "kept");
}

/// Two processes take turns and tell each other by pipes, which no file system sees. Each turn begins when the other's has
/// returned. After a loss of power neither has a turn without the one before, and all turns are there that had returned
/// well before.
#[test]
fn after_a_power_loss_the_store_is_what_both_processes_had_done_at_one_moment() {
    if !can_mount() {
        return;
    }
    let disk = Disk::with_store_of("64M");
    let script = "turns, others = os.pipe(), os.pipe()
first = os.fork() != 0
(read, write) = (others[0], turns[1]) if first else (turns[0], others[1])
for end in turns + others:
  if end not in (read, write): os.close(end)
file = os.open('/cuesta/%d' % (not first), os.O_CREAT | os.O_RDWR | os.O_APPEND)
began, number, said = time.monotonic(), 0, False
try:
  while True:
    if (number > 0 or not first) and not os.read(read, 1): os._exit(0)
    os.write(file, b'%07d\\n' % number)
    os.fsync(file)
    if first and not said and time.monotonic() - began > 0.5:
      print(number, flush=True)
      said = True
    os.write(write, b'.')
    number += 1
    if first and time.monotonic() - began > 1.5: cut()
except OSError: os._exit(0)
";
    let mut program = disk.program_with(
        &OPTIMISTIC,
        &format!("{PRELUDE}import signal\nsignal.signal(signal.SIGPIPE, signal.SIG_IGN)\n{script}"),
    );
    let ended = Ended(program.output().unwrap());
    let returned: usize = ended.text().trim().parse().unwrap();
    disk.mount_after_power_loss();
    let count = |name: &str| {
        let read = disk.place.cuesta(&["run", "--store", "disk/store", "--", "cat", name]).text();
        let lines: Vec<&str> = read.lines().collect();
        let is_whole = lines.iter().enumerate().all(|(number, line)| *line == format!("{number:07}"));
        assert!(is_whole, "{name} has a hole");
        lines.len()
    };
    let (first, second) = (count("/cuesta/0"), count("/cuesta/1"));
    assert!(first == second || first == second + 1, "{first} turns, and {second}");
    assert!(first > returned, "{first} turns of more than {returned}, which had returned a second before");
}
