//! Disks of lower tiers that fail under a store in memory: an ext4 of its own on a loop device, which is shut down.

use crate::common::disk::Disk;
use crate::common::{TestFolder, can_mount};
use std::time::{Duration, Instant};

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
