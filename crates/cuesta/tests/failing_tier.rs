//! Disks of lower tiers that fail under a store in memory or on another disk: an ext4 of its own on a loop device, which is shut down.

use crate::common::conversation::Conversation;
use crate::common::disk::Disk;
use crate::common::{TestFolder, can_mount};
use std::fs::File;
use std::process::Command;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How to write a file of 5 MB durably, and to look whether it is whole.
const CONTENT: &str = "
def content(n):
    return random.Random(n).randbytes(5_000_000)
def write(n):
    with open(f'/cuesta/{n}', 'wb') as file:
        file.write(content(n))
        os.fsync(file.fileno())
def check(n):
    assert open(f'/cuesta/{n}', 'rb').read() == content(n), n
";

/// A disk with a tier of 128 MiB, and a store in memory above it.
fn disk_below_a_store() -> Disk {
    let disk = Disk::empty();
    let tier = format!("disk={}:128M", disk.place.path("disk/tier").display());
    let arguments = ["mkfs", "store", "--medium", "memory", "--nvm", "64M", "--tier", &tier];
    let made = disk.place.cuesta(&arguments);
    assert_eq!(made.status(), 0, "{}", made.errors());
    disk
}

#[test]
fn a_lower_disk_that_takes_no_writes_is_told_and_content_goes_elsewhere() {
    if !can_mount() {
        return;
    }
    let disk = disk_below_a_store();
    let place = &disk.place;
    #[track_caller]
    fn run(place: &TestFolder, script: &str) {
        let script = format!("import errno, os, random\n{CONTENT}{script}");
        let ended = place.cuesta(&["run", "--store", "store", "--", "python3", "-c", &script]);
        assert_eq!(ended.status(), 0, "{}{}", ended.text(), ended.errors());
    }
    run(place, "for n in range(4): write(n)");
    assert_eq!(place.cuesta(&["explain", "--store", "store", "/cuesta"]).status(), 0);
    assert!(!place.cuesta(&["tier", "list", "store"]).text().contains("failed"));
    disk.shut_down();
    run(
        place,
        "for n in range(4, 8): write(n)
for n in range(4, 8): check(n)",
    );
    run(
        place,
        "for n in range(4, 8): check(n)
assert os.stat('/cuesta/0').st_size == 5_000_000",
    );
    let listed = place.cuesta(&["tier", "list", "store"]).text();
    assert!(listed.contains("disk failed, and is only read"), "{listed}");
    // The fast tier is all that is left, and it is full at some time.
    run(
        place,
        "
try:
    for n in range(8, 40): write(n)
    raise AssertionError('more than the fast tier holds')
except OSError as error:
    assert error.errno == errno.ENOSPC, error
for n in range(n, 40):
    if os.path.exists(f'/cuesta/{n}'): os.unlink(f'/cuesta/{n}')",
    );
    assert_eq!(place.cuesta(&["stop", "store"]).status(), 0);
    disk.unmount();
    disk.mount();
    run(place, "for n in range(8): check(n)");
    run(place, "for n in range(40, 52): write(n)");
    run(place, "for n in range(40, 52): check(n)");
    assert!(!place.cuesta(&["tier", "list", "store"]).text().contains("failed"));
    assert_eq!(place.cuesta(&["stop", "store"]).status(), 0);
    let checked = place.cuesta(&["fsck", "store", "--content"]);
    assert_eq!(checked.status(), 0, "{}{}", checked.text(), checked.errors());
}

/// The fast tier has no checksums, the lower one has.
#[test]
fn a_write_to_a_part_of_a_block_on_a_lower_disk_that_takes_no_writes_is_kept() {
    if !can_mount() {
        return;
    }
    let disk = disk_below_a_store();
    let run = |script: &str| {
        let script = format!("import os, random\n{CONTENT}{script}");
        let ended = disk.place.cuesta(&["run", "--store", "store", "--", "python3", "-c", &script]);
        assert_eq!(ended.status(), 0, "{}{}", ended.text(), ended.errors());
    };
    run("write(0)");
    // The end of the session has digested its log. The second program's reads bring the content into the kernel's pages.
    run("check(0)");
    let migrated = disk.place.cuesta(&["migrate", "--store", "store", "--to", "disk", "/cuesta/0"]);
    assert_eq!(migrated.status(), 0, "{}", migrated.errors());
    // The disk has all that it was asked to take, and can be read.
    assert!(Command::new("sync").arg("-f").arg(disk.place.path("disk")).status().unwrap().success());
    disk.break_down();
    run("
write(1)
with open('/cuesta/long', 'wb') as file:
    file.write(content(2))");
    let failed = || disk.place.cuesta(&["tier", "list", "store"]).text().contains("disk failed");
    let began = Instant::now();
    while !failed() {
        assert!(began.elapsed() < Duration::from_secs(60));
    }
    run("
file = os.open('/cuesta/0', os.O_RDWR)
os.pwrite(file, b'z' * 100, 5000)
os.fsync(file)");
    run("
expected = bytearray(content(0))
expected[5000:5100] = b'z' * 100
assert open('/cuesta/0', 'rb').read() == expected");
    disk.repair();
    assert_eq!(disk.place.cuesta(&["stop", "store"]).status(), 0);
}

#[test]
fn below_memory_a_disk_that_fails_behind_the_last_write_is_told_without_another_write() {
    if !can_mount() {
        return;
    }
    let disk = disk_below_a_store();
    let place = &disk.place;
    // Long enough for the disk to be gone before the daemon flushes it.
    let configuration = place.path("store/cuesta.toml");
    let text = std::fs::read_to_string(&configuration).unwrap();
    std::fs::write(&configuration, format!("tier_write_back_ms = 8000\n{text}")).unwrap();
    let script = format!("import os, random\n{CONTENT}write(0)");
    let ended = place.cuesta(&["run", "--store", "store", "--", "python3", "-c", &script]);
    assert_eq!(ended.status(), 0, "{}{}", ended.text(), ended.errors());
    // The session is over, so its log is digested.
    assert_eq!(place.cuesta(&["explain", "--store", "store", "/cuesta/0"]).status(), 0);
    disk.shut_down();
    let listed = || place.cuesta(&["tier", "list", "store"]).text();
    let began = Instant::now();
    while !listed().contains("disk failed, and is only read") {
        assert!(began.elapsed() < Duration::from_secs(60), "{}", listed());
    }
    assert_eq!(place.cuesta(&["stop", "store"]).status(), 0);
}

/// A store on another disk than its lower tier. Content that was staged in the lower tier lies there until an fsync.
struct DiskBelowADisk {
    disk: Disk,
    _fast: TempDir,
}

impl DiskBelowADisk {
    fn new() -> DiskBelowADisk {
        let disk = Disk::empty();
        let place = &disk.place;
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let fast = folder.path().join("fast");
        let tier = format!("disk={}:128M", place.path("disk/tier").display());
        let arguments = ["mkfs", "store", "--medium", "block", "--nvm", "64M", "--tier", &tier, "--nvm-path"];
        let made = place.cuesta(&[&arguments[..], &[fast.to_str().unwrap()]].concat());
        assert_eq!(made.status(), 0, "{}", made.errors());
        DiskBelowADisk { disk, _fast: folder }
    }

    /// Adds a line to the configuration.
    fn configure(&self, line: &str) {
        let configuration = self.disk.place.path("store/cuesta.toml");
        let text = std::fs::read_to_string(&configuration).unwrap();
        std::fs::write(&configuration, format!("{line}\n{text}")).unwrap();
    }

    #[track_caller]
    fn run(&self, script: &str) {
        let script = format!("{SMALL}{script}");
        let ended = self.disk.place.cuesta(&["run", "--store", "store", "--", "python3", "-c", &script]);
        assert_eq!(ended.status(), 0, "{}{}", ended.text(), ended.errors());
    }

    fn list(&self) -> String {
        self.disk.place.cuesta(&["tier", "list", "store"]).text()
    }

    /// Starts a program that stages a large file, and waits.
    fn stage(&self, rest: &str) -> Conversation {
        self.run("open('/cuesta/large', 'w')\nsmall(0)");
        let script = format!(
            "import errno, os, sys
file = open('/cuesta/large', 'r+b', buffering=0)
file.write(b'large' * 200_000)
def sync(file):
    try:
        os.fsync(file)
        return 'synced'
    except OSError as error:
        return errno.errorcode[error.errno]
def is_whole():
    try:
        return open('/cuesta/large', 'rb').read() == b'large' * 200_000
    except OSError as error:
        return errno.errorcode[error.errno]
other = open('/cuesta/other', 'wb', buffering=0)
print('staged', flush=True)
sys.stdin.readline()
{rest}"
        );
        let mut writing = Conversation::with(&self.disk.place, &script);
        assert_eq!(writing.line(), "staged\n");
        writing
    }
}

impl DiskBelowADisk {
    /// The lower disk is well again, and another daemon has the store.
    fn start_anew(&self) {
        self.disk.place.kill_daemon();
        self.disk.place.wait_until_unused();
        self.disk.repair();
        self.run("pass");
        assert!(!self.list().contains("failed"));
    }

    fn stop_and_check(&self) {
        assert_eq!(self.disk.place.cuesta(&["stop", "store"]).status(), 0);
        let checked = self.disk.place.cuesta(&["fsck", "store", "--content"]);
        assert_eq!(checked.status(), 0, "{}{}", checked.text(), checked.errors());
    }
}

/// How to write small files durably, and to look whether they are there.
const SMALL: &str = "
import os
def small(n):
    with open(f'/cuesta/small-{n}', 'wb') as file:
        file.write(b'%d' % n * 3000)
        os.fsync(file.fileno())
def check_small(n):
    assert open(f'/cuesta/small-{n}', 'rb').read() == b'%d' % n * 3000, n
";

#[test]
fn what_was_staged_on_a_lower_disk_that_is_gone_is_saved_by_an_fsync_and_other_files_go_on() {
    if !can_mount() {
        return;
    }
    let store = DiskBelowADisk::new();
    // Only the fsync is to find out.
    store.configure("digest_idle_ms = 600000");
    let mut writing = store.stage(
        "print(is_whole(), sync(file), is_whole(), flush=True)
sys.stdin.readline()
other.write(b'other')
print(sync(other), flush=True)",
    );
    store.disk.cut();
    writing.go_on();
    assert_eq!(writing.line(), "True synced True\n");
    store.run("for n in range(50): small(n)");
    let listed = store.list();
    assert!(listed.contains("disk failed, and is only read"), "{listed}");
    writing.go_on();
    assert_eq!(writing.line(), "synced\n");
    drop(writing);
    store.disk.place.kill_daemon();
    store.disk.place.wait_until_unused();
    store.disk.unmount();
    store.disk.mount();
    let whole = "for n in range(50): check_small(n)
assert open('/cuesta/large', 'rb').read() == b'large' * 200_000
assert open('/cuesta/other', 'rb').read() == b'other'";
    store.run(whole);
    store.stop_and_check();
}

/// The kernel takes the writes. Only a flush tells that the disk did not.
#[test]
fn a_flush_that_a_lower_disk_fails_costs_no_synced_byte_in_any_mode_and_by_any_waiter() {
    if !can_mount() {
        return;
    }
    // The fsync finds out; or a digest; or a cut of the logs.
    let modes = ["digest_idle_ms = 600000", "digest_idle_ms = 10", "durability = \"optimistic\""];
    for (number, mode) in modes.into_iter().enumerate() {
        println!("{mode}");
        let store = DiskBelowADisk::new();
        store.configure(mode);
        let mut writing = store.stage(
            "file.write(b'again' * 200_000)
print('written', flush=True)
sys.stdin.readline()
other.write(b'other')
print(sync(other), sync(file), flush=True)
sys.stdin.readline()",
        );
        store.disk.break_down();
        writing.go_on();
        assert_eq!(writing.line(), "written\n");
        let began = Instant::now();
        while number > 0 && !store.list().contains("disk failed, and is only read") {
            assert!(began.elapsed() < Duration::from_secs(60), "{}", store.list());
        }
        store.run("for n in range(50): small(n)");
        writing.go_on();
        assert_eq!(writing.line(), "synced synced\n");
        let listed = store.list();
        assert!(listed.contains("disk failed, and is only read"), "{listed}");
        store.run("for n in range(50): check_small(n)");
        assert_eq!(store.disk.place.cuesta(&["dsync", "store"]).status(), 0);
        store.start_anew();
        drop(writing);
        store.run(
            "for n in range(50): check_small(n)
assert open('/cuesta/large', 'rb').read() == b'large' * 200_000 + b'again' * 200_000
assert open('/cuesta/other', 'rb').read() == b'other'",
        );
        store.stop_and_check();
    }
}

#[test]
fn content_that_a_lower_disk_lost_is_an_error_of_that_file_alone() {
    if !can_mount() {
        return;
    }
    for digest_by_another in [false, true] {
        let store = DiskBelowADisk::new();
        store.configure("digest_idle_ms = 600000");
        let mut writing = store.stage(
            "other.write(b'other')
print(sync(other), sync(file), sync(file), is_whole(), flush=True)
sys.stdin.readline()",
        );
        store.disk.break_down();
        // The kernel tries to write its pages, takes them for written, and forgets them.
        let arenas = std::fs::read_dir(store.disk.place.path("disk/tier/arenas")).unwrap();
        for arena in arenas.map(|entry| File::open(entry.unwrap().path()).unwrap()) {
            let _ = arena.sync_data();
            rustix::fs::fadvise(&arena, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        }
        let reads = "
try:
    open('/cuesta/large', 'rb').read()
    raise AssertionError('it was read')
except OSError as error:
    assert error.errno == 5, error";
        if digest_by_another {
            store.run(reads);
        }
        writing.go_on();
        assert_eq!(writing.line(), "synced EIO synced EIO\n", "{digest_by_another}");
        store.run("for n in range(50): small(n)");
        let listed = store.list();
        assert!(listed.contains("disk failed, and is only read"), "{listed}");
        store.start_anew();
        drop(writing);
        store.run(reads);
        store.run(
            "for n in range(50): check_small(n)
assert open('/cuesta/other', 'rb').read() == b'other'
os.unlink('/cuesta/large')",
        );
        store.stop_and_check();
    }
}
