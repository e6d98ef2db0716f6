//! Lower tiers: content beyond the fast tier lies on a disk, and is read, checked and removed from there.

use crate::common::conversation::Conversation;
use crate::common::disk::{Disk, Loop};
use crate::common::room::{room_of, wait_for_room};
use crate::common::tiered::Tiered;
use crate::common::{TestFolder, can_mount};
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Twenty times the fast tier, in files of many sizes, and how to look whether all of it is there.
const FILES: &str = "
def data(n):
    return random.Random(n).randbytes(200_000 + n * 37_000 % 3_000_000)
names = range(100)
def check(skipped=()):
    for n in names:
        if n not in skipped:
            assert open(f'/cuesta/{n}', 'rb').read() == data(n), n
";

#[test]
fn a_store_holds_twenty_times_its_fast_tier_and_survives_kills_at_random() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let tiered = Tiered::new();
    // Content moves down and comes up all the time.
    let policy = ["ziggurat", "frequency", "benefit"][random.usize(0..3)];
    tiered.configure(&format!("cold_seconds = 1\nmigration = \"{policy}\""));
    let write = "
import sys
for n in names:
    if n >= int(sys.argv[1]):
        with open(f'/cuesta/{n}', 'wb') as file:
            file.write(data(n))
            os.fsync(file.fileno())
        print(n, flush=True)";
    let mut written = 0;
    while written < 100 {
        // The daemon, or the program: the files that the program told of are kept.
        let mut kills = random.u64(5..25);
        let script = format!("import errno, os, random\n{FILES}{write}");
        let from = written.to_string();
        let mut writer = tiered
            .place
            .command(&["run", "--store", "store", "--", "python3", "-c", &script, &from])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let ends_program = random.bool();
        for line in BufReader::new(writer.stdout.take().unwrap()).lines() {
            written = line.unwrap().parse::<u64>().unwrap() + 1;
            kills = kills.saturating_sub(1);
            match (kills, ends_program) {
                (0, true) => {
                    writer.kill().unwrap();
                    break;
                }
                (0, false) => {
                    tiered.place.kill_daemon();
                    tiered.place.wait_until_unused();
                    tiered.ran("pass");
                    kills = random.u64(5..25);
                }
                _ => {}
            }
        }
        let ended = writer.wait().unwrap();
        assert!(ended.success() || ends_program, "{ended}");
        let check = format!("{FILES}check(range({written}, 100))");
        tiered.ran(&check);
    }
    let used = tiered.used();
    assert!(used[0] <= 8 << 20 && used[1] > 100 << 20, "{used:?}");
    tiered.place.kill_daemon();
    tiered.place.wait_until_unused();
    tiered.ran(&(FILES.to_owned() + "check()"));
    let explained = tiered.place.cuesta(&["explain", "--store", "store", "--json", "50"]).text();
    assert!(explained.contains(r#""tier":"disk""#), "{explained}");
    let change = "
for n in names:
    with open(f'/cuesta/{n}', 'r+b') as file:
        file.seek(100_001)
        file.write(b'x' * 5000)
for n in names:
    right = bytearray(data(n))
    right[100_001:105_001] = b'x' * 5000
    assert open(f'/cuesta/{n}', 'rb').read() == right, n
    os.truncate(f'/cuesta/{n}', 100_000)
    os.unlink(f'/cuesta/{n}')";
    tiered.ran(&(FILES.to_owned() + change));
    tiered.stop();
    let checked = tiered.place.cuesta(&["fsck", "store", "--content"]);
    assert_eq!(checked.status(), 0, "{}{}", checked.text(), checked.errors());
    tiered.ran("pass");
    assert_eq!(tiered.used(), [0, 0], "what was removed is free");
}

#[test]
fn content_beyond_one_lower_tier_goes_to_the_next_one() {
    let (tiered, told) = Tiered::over(&[("ssd", "ssd", "32M"), ("hdd", "hdd", "256M")], "8M");
    assert!(told.contains("over 2 lower tiers"), "{told}");
    tiered.ran(&format!("{FILES}for n in names: open(f'/cuesta/{{n}}', 'wb').write(data(n))\ncheck()"));
    let used = tiered.used();
    assert!(used[1] > 16 << 20 && used[1] <= 32 << 20 && used[2] > 64 << 20, "{used:?}");
    tiered.place.kill_daemon();
    tiered.place.wait_until_unused();
    tiered.ran(&(FILES.to_owned() + "check()"));
    // Room in the tiers above is used again, although the daemon's own session removed the files and does nothing now.
    tiered.ran(&format!("{FILES}for n in names: os.unlink(f'/cuesta/{{n}}')"));
    assert_eq!(tiered.used(), [0; 3]);
    let began = Instant::now();
    loop {
        tiered.ran(&format!("{FILES}for n in range(9): open(f'/cuesta/{{n}}', 'wb').write(data(n))"));
        let used = tiered.used();
        if used[2] == 0 {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{used:?}");
    }
    tiered.ran(&(FILES.to_owned() + "check(range(9, 100))"));
    tiered.stop();
    let checked = tiered.place.cuesta(&["fsck", "store", "--content"]);
    assert_eq!(checked.status(), 0, "{}{}", checked.text(), checked.errors());
}

/// Figure 1 of the Ziggurat paper (FAST 2019), up to migration: three large writes, an fsync, then eight small writes
/// that are each waited for. A block of the figure is 64 KiB here for the large writes, and 4 KiB for the small ones.
#[test]
fn large_writes_go_to_the_disk_and_what_a_program_waits_for_to_memory() {
    let tiered = Tiered::with_fast_tier_of("64M");
    let write = "
with open('/cuesta/file', 'wb', buffering=0) as file:
    for n in range(3):
        file.write(bytes([n]) * (8 << 16))
    os.fsync(file.fileno())
    for n in range(8):
        file.write(bytes([100 + n]) * 4096)
        os.fsync(file.fileno())
right = b''.join(bytes([n]) * (8 << 16) for n in range(3)) + b''.join(bytes([100 + n]) * 4096 for n in range(8))
assert open('/cuesta/file', 'rb').read() == right
open('/cuesta/short', 'wb').write(b'x' * 5000)";
    tiered.ran(write);
    let tiers_of = |name: &str| -> Vec<(u64, u64, String)> {
        let explained = tiered.place.cuesta(&["explain", "--store", "store", "--json", name]).text();
        let explained: serde_json::Value = serde_json::from_str(&explained).unwrap();
        let mut runs: Vec<(u64, u64, String)> = Vec::new();
        for extent in explained["extents"].as_array().unwrap() {
            let [at, bytes] = ["file_offset", "bytes"].map(|key| extent[key].as_u64().unwrap());
            let tier = extent["tier"].as_str().unwrap().to_owned();
            match runs.last_mut() {
                Some(last) if last.2 == tier && last.1 == at => last.1 += bytes,
                _ => runs.push((at, at + bytes, tier)),
            }
        }
        runs
    };
    let large = 24 << 16;
    let expected = [(0, large, "disk".to_owned()), (large, large + 8 * 4096, "fast".to_owned())];
    assert_eq!(tiers_of("file"), expected);
    assert_eq!(tiers_of("short"), [(0, 8192, "fast".to_owned())]);
    tiered.place.kill_daemon();
    tiered.place.wait_until_unused();
    tiered.ran("assert len(open('/cuesta/file', 'rb').read()) == (24 << 16) + 8 * 4096");
}

/// Each program learns in its own session alone that files are synced here, and would be over before it has.
#[test]
fn programs_that_write_one_file_each_are_predicted_by_those_before_them() {
    let tiered = Tiered::new();
    tiered.ran("pass");
    let synced = "
file = os.open(f'/cuesta/{os.getpid()}', os.O_CREAT | os.O_WRONLY)
os.write(file, b'x' * 9000)
os.fsync(file)
os.close(file)";
    for _ in 0..20 {
        tiered.ran(synced);
        // The daemon learns from a session when that has ended.
        while tiered.status()["sessions"] != serde_json::json!([]) {}
    }
    let status = tiered.status();
    let predictors = &status["predictors"];
    let counts = ["synchronous_right", "synchronous_wrong"].map(|name| predictors[name].as_u64().unwrap());
    assert_eq!(counts, [16, 4], "{predictors}");
}

/// SQLite makes the index of its write-ahead log by such writes. They say nothing of files that are written by calls.
#[test]
fn writes_to_a_file_that_a_program_maps_are_not_predicted() {
    let tiered = Tiered::new();
    tiered.ran(
        "
import mmap
file = os.open('/cuesta/index', os.O_CREAT | os.O_RDWR)
for page in range(8):
    os.pwrite(file, b'x', page * 4096 + 4095)
memory = mmap.mmap(file, 8 * 4096)
memory[0:5] = b'index'
memory.close()
os.close(file)",
    );
    let none = serde_json::json!({"large_right": 0, "large_wrong": 0, "synchronous_right": 0, "synchronous_wrong": 0});
    assert_eq!(tiered.status()["predictors"], none);
}

#[test]
fn a_full_store_says_so_before_it_acknowledges() {
    let tiered = Tiered::new();
    let fill = "
written = 0
try:
    with open('/cuesta/big', 'wb', buffering=0) as file:
        while True:
            written += file.write(bytes([written // 65536 % 251]) * 65536)
except OSError as error:
    assert error.errno == errno.ENOSPC, error
assert written > 250 << 20, written
with open('/cuesta/big', 'rb') as file:
    for at in range(0, written - 65536, 65536):
        assert file.read(65536) == bytes([at // 65536 % 251]) * 65536, at
room = os.statvfs('/cuesta')
assert room.f_bavail * room.f_frsize < 8 << 20, room
os.unlink('/cuesta/big')
open('/cuesta/small', 'wb').write(b'again')";
    tiered.ran(fill);
    tiered.stop();
    let checked = tiered.place.cuesta(&["fsck", "store", "--content"]);
    assert_eq!(checked.status(), 0, "{}{}", checked.text(), checked.errors());
}

#[test]
fn what_lies_on_a_missing_tier_is_an_error_and_is_whole_again_when_the_tier_is_back() {
    let tiered = Tiered::new();
    let write = "
open('/cuesta/small', 'wb').write(b'small')
open('/cuesta/large', 'wb').write(random.Random(1).randbytes(20_000_000))";
    tiered.ran(write);
    assert!(tiered.used()[1] >= 16 << 20);
    tiered.stop();
    let aside = tiered.disk.path().join("aside");
    std::fs::rename(tiered.tier(), &aside).unwrap();
    let without = "
assert open('/cuesta/small', 'rb').read() == b'small'
assert os.stat('/cuesta/large').st_size == 20_000_000
try:
    open('/cuesta/large', 'rb').read()
    raise AssertionError('it was read')
except OSError as error:
    assert error.errno == errno.EIO, error
with open('/cuesta/large', 'r+b', buffering=0) as file:
    file.seek(10_000_000 // 4096 * 4096)
    try:
        file.write(b'part of a block')
        raise AssertionError('the rest of the block is gone')
    except OSError as error:
        assert error.errno == errno.EIO, error
os.rename('/cuesta/large', '/cuesta/renamed')
open('/cuesta/other', 'wb').write(b'other')";
    tiered.ran(without);
    let listed = tiered.place.cuesta(&["tier", "list", "store"]).text();
    assert!(listed.contains("disk is missing"), "{listed}");
    tiered.stop();
    let checked = tiered.place.cuesta(&["fsck", "store", "--dry-run"]);
    assert!(checked.text().contains("tier 1 is missing"), "{}{}", checked.text(), checked.errors());
    std::fs::rename(&aside, tiered.tier()).unwrap();
    let again = "
assert open('/cuesta/renamed', 'rb').read() == random.Random(1).randbytes(20_000_000)
assert open('/cuesta/other', 'rb').read() == b'other'";
    tiered.ran(again);
    tiered.stop();
    assert_eq!(tiered.place.cuesta(&["fsck", "store", "--content"]).status(), 0);
}

#[test]
fn syncfs_has_the_lower_disk_take_what_other_programs_staged_there() {
    if !can_mount() {
        return;
    }
    let disk = Disk::empty();
    let place = &disk.place;
    let fast = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (fast, tier) = (fast.path().join("fast"), format!("disk={}:128M", place.path("disk/tier").display()));
    let arguments = ["mkfs", "store", "--medium", "block", "--nvm", "64M", "--tier", &tier, "--nvm-path"];
    let made = place.cuesta(&[&arguments[..], &[fast.to_str().unwrap()]].concat());
    assert_eq!(made.status(), 0, "{}", made.errors());
    let python = |script: &str| {
        let ended = place.cuesta(&["run", "--store", "store", "--", "python3", "-c", script]);
        assert_eq!(ended.status(), 0, "{}{}", ended.text(), ended.errors());
    };
    // A digest would have the disk take everything, too: of an idle log, or for a lease that moves.
    let configuration = place.path("store/cuesta.toml");
    let text = std::fs::read_to_string(&configuration).unwrap();
    std::fs::write(&configuration, format!("digest_idle_ms = 600000\n{text}")).unwrap();
    python("open('/cuesta/large', 'w')");
    let syncs = "import ctypes, os, sys
store = os.open('/cuesta', os.O_RDONLY)
print('opened', flush=True)
sys.stdin.readline()
print(ctypes.CDLL(None).syncfs(store), flush=True)
sys.stdin.readline()";
    let writes = "import sys
with open('/cuesta/large', 'r+b', buffering=0) as file:
    print(file.write(b'large' * 200_000), flush=True)
    sys.stdin.readline()";
    let mut syncing = Conversation::with(place, syncs);
    assert_eq!(syncing.line(), "opened\n");
    let mut writing = Conversation::with(place, writes);
    assert_eq!(writing.line(), "1000000\n");
    syncing.go_on();
    assert_eq!(syncing.line(), "0\n");
    disk.cut();
    place.kill_daemon();
    drop((syncing, writing));
    place.wait_until_unused();
    disk.unmount();
    disk.mount();
    python("assert open('/cuesta/large', 'rb').read() == b'large' * 200_000");
    assert_eq!(place.cuesta(&["stop", "store"]).status(), 0);
}

#[test]
fn a_changed_block_of_a_lower_tier_is_told_and_destroy_empties_the_tier() {
    let tiered = Tiered::new();
    tiered.ran("open('/cuesta/large', 'wb').write(random.Random(1).randbytes(20_000_000))");
    let explained = tiered.place.cuesta(&["explain", "--store", "store", "--json", "large"]).text();
    let explained: serde_json::Value = serde_json::from_str(&explained).unwrap();
    let extents = explained["extents"].as_array().unwrap();
    let below = extents.iter().find(|extent| extent["tier"] == "disk").unwrap();
    let arena_bytes = 1 << 20;
    let address = below["address"].as_u64().unwrap();
    let arena = tiered.tier().join(format!("arenas/arena-{:06}", address / arena_bytes));
    let file = File::options().read(true).write(true).open(arena).unwrap();
    let mut byte = [0];
    std::os::unix::fs::FileExt::read_exact_at(&file, &mut byte, address % arena_bytes).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &[byte[0] ^ 1], address % arena_bytes).unwrap();
    let read = "
try:
    open('/cuesta/large', 'rb').read()
    raise AssertionError('it was read')
except OSError as error:
    assert error.errno == errno.EIO, error";
    tiered.ran(read);
    let scrubbed = tiered.place.cuesta(&["scrub", "store"]);
    assert!(scrubbed.text().contains("large"), "{}{}", scrubbed.text(), scrubbed.errors());
    let destroyed = tiered.place.cuesta(&["destroy", "--yes", "store"]);
    assert_eq!(destroyed.status(), 0, "{}", destroyed.errors());
    assert!(destroyed.text().contains("removed its lower tier"), "{}", destroyed.text());
    assert_eq!(std::fs::read_dir(tiered.tier()).unwrap().count(), 0);
}

#[test]
fn a_tier_that_cannot_be_is_refused_in_one_line() {
    let place = TestFolder::new();
    let disk = tempfile::tempdir_in("/var/tmp").unwrap();
    let mkfs =
        |tier: &str| place.cuesta(&["mkfs", "store", "--medium", "memory", "--nvm", "8M", "--tier", tier]);
    std::fs::write(disk.path().join("file"), "").unwrap();
    let at = |name: &str| disk.path().join(name).display().to_string();
    mkfs(&format!("disk={}:1G", at(""))).refused(1, &["not empty"]);
    mkfs(&format!("disk={}:1000", at("tier"))).refused(2, &["too small"]);
    mkfs(&format!("disk={}:9999T", at("tier"))).refused(2, &["room for"]);
    assert!(!place.path("store").exists() && !disk.path().join("tier").exists());
}

#[test]
fn a_disk_without_a_file_system_is_a_tier() {
    if !can_mount() {
        return;
    }
    let images = tempfile::tempdir_in("/var/tmp").unwrap();
    let disk = Loop::new(&images.path().join("image"), 100 << 20);
    let place = TestFolder::new();
    let mkfs = |size: &str, more: &[&str]| {
        let tier = format!("raw={}:{size},profile=read_ns=2000,seek_ns=1000", disk.0);
        let arguments = ["mkfs", "store", "--medium", "memory", "--nvm", "8M", "--tier", &tier];
        place.cuesta(&[&arguments[..], more].concat())
    };
    mkfs("1G", &[]).refused(2, &["room for"]);
    std::fs::write(&disk.0, vec![1; 4096]).unwrap();
    mkfs("90M", &[]).refused(1, &["holds something", "--overwrite-device"]);
    let made = mkfs("90M", &["--overwrite-device"]);
    assert_eq!(made.status(), 0, "{}", made.errors());
    let run = |script: &str| {
        let script = format!("import random\n{script}");
        let ended = place.cuesta(&["run", "--store", "store", "--", "python3", "-c", &script]);
        assert_eq!(ended.status(), 0, "{}{}", ended.text(), ended.errors());
    };
    run("open('/cuesta/large', 'wb').write(random.Random(2).randbytes(60_000_000))");
    place.kill_daemon();
    place.wait_until_unused();
    run("assert open('/cuesta/large', 'rb').read() == random.Random(2).randbytes(60_000_000)");
    // A discard on a loop device makes a hole in its file.
    let image = images.path().join("image");
    rustix::fs::fsync(File::open(&disk.0).unwrap()).unwrap();
    assert!(room_of(&image) >= 48 << 20);
    run("import os\nos.unlink('/cuesta/large')");
    wait_for_room(&image, 16 << 20);
    run("open('/cuesta/large', 'wb').write(random.Random(3).randbytes(60_000_000))
assert open('/cuesta/large', 'rb').read() == random.Random(3).randbytes(60_000_000)");
    let listed = place.cuesta(&["tier", "list", "store"]).text();
    assert!(listed.contains("raw plays read_ns=2000,seek_ns=1000"), "{listed}");
    assert_eq!(place.cuesta(&["stop", "store"]).status(), 0);
    let checked = place.cuesta(&["fsck", "store", "--content"]);
    assert_eq!(checked.status(), 0, "{}{}", checked.text(), checked.errors());
    assert_eq!(place.cuesta(&["destroy", "--yes", "store"]).status(), 0);
    let mut label = [1; 48];
    std::os::unix::fs::FileExt::read_exact_at(&File::open(&disk.0).unwrap(), &mut label, 0).unwrap();
    assert_eq!(label, [0; 48], "the disk is no store's any more");
}

/// A session writes into blocks that SharedFS granted. The daemon dies before a digest has made them a file's.
#[test]
fn a_disk_keeps_what_was_written_into_windows_when_the_daemon_dies() {
    if !can_mount() {
        return;
    }
    let images = tempfile::tempdir_in("/var/tmp").unwrap();
    let disk = Loop::new(&images.path().join("image"), 100 << 20);
    let place = TestFolder::new();
    let tier = format!("raw={}:90M", disk.0);
    let made = place.cuesta(&["mkfs", "store", "--medium", "memory", "--nvm", "8M", "--tier", &tier]);
    assert_eq!(made.status(), 0, "{}", made.errors());
    let run = |script: &str| {
        let script = format!(
            "import os, random, signal\ndata = lambda n: random.Random(n).randbytes(3_000_000)\n{script}"
        );
        let ended = place.cuesta(&["run", "--store", "store", "--", "python3", "-c", &script]);
        assert_eq!(ended.status(), 0, "{}{}", ended.text(), ended.errors());
    };
    for n in 0..10 {
        run("pass");
        let daemon = place.daemon();
        run(&format!(
            "content = data({n})
file = os.open('/cuesta/{n}', os.O_CREAT | os.O_WRONLY)
os.write(file, content)
os.kill({daemon}, signal.SIGKILL)"
        ));
        place.wait_until_unused();
    }
    run("for n in range(10): assert open(f'/cuesta/{n}', 'rb').read() == data(n), n");
}
