//! Content moves between tiers while programs go on, and none of it is lost.

use crate::common::conversation::Conversation;
use crate::common::tiered::{TREE, Tiered, bytes_of_tree};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

#[test]
fn a_tree_moves_down_and_up_while_a_program_has_it_open() {
    let tiered = Tiered::with_fast_tier_of("64M");
    tiered.ran(&format!("{TREE}make()"));
    assert_eq!(tiered.used(), [bytes_of_tree(), 0]);
    // It knows where the content lies before it moves.
    let reader = tiered.begin(
        "
check()
files = [open(name(n), 'rb') for n in range(40)]
print('there', flush=True)
input()
assert all(os.pread(file.fileno(), 1 << 20, 0) == data(n) for n, file in enumerate(files))
check()",
    );
    let told = tiered.migrated("/cuesta/tree", "disk");
    assert_eq!((&told["files"], &told["bytes_moved"]), (&40.into(), &bytes_of_tree().into()));
    assert_eq!(tiered.used(), [0, bytes_of_tree()]);
    reader.succeeds();
    // The fast tier's blocks are free again: others may have them.
    tiered.ran("open('/cuesta/other', 'wb').write(b'x' * (20 << 20))");
    tiered.ran(&format!("{TREE}check()"));
    let one = "/cuesta/tree/1/2/7";
    assert_eq!(tiered.migrated(one, "fast")["files"], 1);
    assert_eq!(tiered.migrated("/cuesta", "0")["files"], 41);
    assert_eq!(tiered.migrated("/cuesta", "0")["bytes_moved"], 0, "it lies there already");
    tiered.ran(&format!("{TREE}check()"));
    assert_eq!(tiered.used()[1], 0);
    tiered.assert_sound();
}

#[test]
fn what_a_program_writes_while_its_file_moves_is_not_lost() {
    let tiered = Tiered::with_fast_tier_of("64M");
    let writer = "
import threading
held = bytearray(4 << 20)
file = os.open('/cuesta/file', os.O_RDWR | os.O_CREAT)
os.pwrite(file, held, 0)
os.fsync(file)
print('there', flush=True)
done = threading.Event()
threading.Thread(target=lambda: (input(), done.set())).start()
r, rounds = random.Random(1), 0
while not done.is_set() or rounds < 500:
    rounds += 1
    # In place, as the committed blocks are overwritten.
    at = r.randrange(len(held) - 20_000)
    part = r.randbytes(r.choice([10, 4096, 20_000]))
    held[at:at + len(part)] = part
    os.pwrite(file, part, at)
    if rounds % 7 == 0:
        os.fsync(file)
        assert os.pread(file, len(held), 0) == held, rounds
os.fsync(file)
open('/cuesta/copy', 'wb').write(held)";
    let writer = tiered.begin(writer);
    let mut moved = 0;
    for round in 0..40 {
        let told = tiered.migrated("/cuesta/file", if round % 2 == 0 { "disk" } else { "fast" });
        moved += told["bytes_moved"].as_u64().unwrap();
    }
    assert!(moved > 0, "the writer never let a part of it move");
    writer.succeeds();
    tiered.ran("assert open('/cuesta/file', 'rb').read() == open('/cuesta/copy', 'rb').read()");
    tiered.assert_sound();
}

#[test]
fn cold_content_moves_down_by_itself_until_the_fast_tier_has_room() {
    let tiered = Tiered::with_fast_tier_of("64M");
    tiered.configure("cold_seconds = 2\nmigration = \"ziggurat\"");
    let write = |first: u32, count: u32| {
        format!(
            "
for n in range({first}, {first} + {count}):
    with open(f'/cuesta/{{n}}', 'wb') as file:
        file.write(random.Random(n).randbytes(600_000))
        os.fsync(file.fileno())
"
        )
    };
    // A program keeps the first one open for all that time.
    tiered.ran(&write(0, 75));
    let reader = tiered.begin(
        "
file = open('/cuesta/0', 'rb')
assert file.read(1000) == random.Random(0).randbytes(600_000)[:1000]
print('there', flush=True)
input()
file.seek(0)
assert file.read() == random.Random(0).randbytes(600_000)",
    );
    let until = Instant::now() + Duration::from_secs(60);
    let used = loop {
        let used = tiered.used();
        if used[0] <= 33 << 20 || Instant::now() > until {
            break used;
        }
    };
    let all = 75 * 600_000_u64.next_multiple_of(4096);
    assert!(used[0] <= 33 << 20 && used[0] + used[1] == all, "{used:?}");
    // Not more than that: the rest has its place in the fast tier.
    assert!(used[0] > 20 << 20, "{used:?}");
    let demoted = tiered.status()["blocks_demoted"].as_u64().unwrap();
    assert!(demoted > 0 && demoted * 4096 <= tiered.used()[1], "{demoted}");
    reader.succeeds();
    let explained = |name: &str| {
        let told = tiered.place.cuesta(&["explain", "--store", "store", "--json", name]).text();
        serde_json::from_str::<serde_json::Value>(&told).unwrap()["extents"][0]["tier"].clone()
    };
    assert_eq!((explained("0"), explained("74")), ("disk".into(), "fast".into()), "the oldest went first");
    tiered.ran(
        "
for n in range(75):
    assert open(f'/cuesta/{n}', 'rb').read() == random.Random(n).randbytes(600_000)",
    );
    tiered.assert_sound();
}

#[test]
fn a_drained_tier_holds_nothing_and_gets_nothing_while_programs_go_on() {
    let tiered = Tiered::with_fast_tier_of("64M");
    tiered.ran(&format!("{TREE}make()"));
    tiered.migrated("/cuesta/tree", "disk");
    // It changes parts of blocks that lie on the tier, and reads them, before they are moved and behind.
    let mut writer = tiered.begin(
        "
held = {n: bytearray(data(n)) for n in range(40)}
files = {n: os.open(name(n), os.O_RDWR) for n in range(40)}
def change():
    for n in range(40):
        at = random.Random(n).randrange(len(held[n]) + 1)
        held[n][at:at + 100] = b'y' * 100
        os.pwrite(files[n], b'y' * 100, at)
        os.fsync(files[n])
        assert os.pread(files[n], 1 << 20, 0) == held[n], n
change()
print('there', flush=True)
input()
change()
print('changed', flush=True)
input()
assert all(os.pread(files[n], 1 << 20, 0) == held[n] for n in range(40))",
    );
    let drained = tiered.place.cuesta(&["tier", "drain", "store", "disk"]);
    assert_eq!(drained.status(), 0, "{}", drained.errors());
    assert!(drained.text().contains("disk holds nothing any more"), "{}", drained.text());
    assert_eq!(tiered.used()[1], 0);
    writer.go_on();
    assert_eq!(writer.line().trim(), "changed");
    // A long run that no program waits for would go there.
    tiered.ran("open('/cuesta/long', 'wb').write(bytes(4 << 20))");
    assert_eq!(tiered.used()[1], 0);
    let listed = tiered.place.cuesta(&["tier", "list", "store"]).text();
    assert!(listed.contains("disk is drained: no new content goes there"), "{listed}");
    writer.succeeds();
    tiered.assert_sound();
    // The next daemon takes it for content again.
    tiered.ran("open('/cuesta/longer', 'wb').write(bytes(4 << 20))");
    assert!(tiered.used()[1] > 0);
    tiered.assert_sound();
}

#[test]
fn a_tier_that_holds_more_than_the_others_have_room_for_is_not_drained() {
    let tiered = Tiered::new();
    // The program lives, so that a part of what it wrote may not be digested yet.
    let writer = tiered.begin(
        "
content = random.Random(3).randbytes(30 << 20)
file = open('/cuesta/file', 'w+b')
for at in range(0, len(content), 10_000):
    file.write(content[at:at + 10_000])
file.flush()
print('there', flush=True)
input()
file.write(content)
file.flush()
os.fsync(file.fileno())
file.seek(0)
assert file.read() == content + content",
    );
    for _ in 0..2 {
        let drained = tiered.place.cuesta(&["tier", "drain", "store", "disk"]);
        assert!(drained.status() == 1 && drained.errors().contains("have room for"), "{}", drained.errors());
    }
    writer.succeeds();
    let fast = tiered.place.cuesta(&["tier", "drain", "store", "fast"]);
    assert!(fast.status() == 1 && fast.errors().contains("only lower tiers"), "{}", fast.errors());
    tiered.assert_sound();
}

#[test]
fn a_tier_is_added_below_the_others_while_a_program_goes_on() {
    let tiered = Tiered::with_fast_tier_of("64M");
    tiered.ran(&format!("{TREE}make()"));
    let mut writer = tiered.begin(
        "
file = os.open('/cuesta/file', os.O_RDWR | os.O_CREAT)
os.pwrite(file, data(30), 0)
print('there', flush=True)
input()
os.pwrite(file, b'more', len(data(30)))
os.fsync(file)
assert os.pread(file, 1 << 20, 0) == data(30) + b'more'
check()
print('wrote', flush=True)
input()
check()
assert os.pread(file, 1 << 20, 0) == data(30) + b'more'",
    );
    let asked = format!("archive={}:256M", tiered.disk.path().join("archive").display());
    let added = tiered.place.cuesta(&["tier", "add", "store", &asked]);
    assert_eq!(added.status(), 0, "{}", added.errors());
    assert!(added.text().contains("added archive: tier 2 in"), "{}", added.text());
    writer.go_on();
    assert_eq!(writer.line().trim(), "wrote");
    let told = tiered.migrated("/cuesta", "archive");
    assert_eq!(told["files"], 41);
    assert_eq!(tiered.used()[..2], [0, 0]);
    writer.succeeds();
    tiered.ran(&format!("{TREE}check()"));
    for (again, why) in [(asked.as_str(), "has a tier called archive already"), ("tape", "NAME=PATH:SIZE")] {
        let refused = tiered.place.cuesta(&["tier", "add", "store", again]);
        assert!(refused.status() == 2 && refused.errors().contains(why), "{}", refused.errors());
    }
    // Content goes further down if the tier above is drained.
    assert_eq!(tiered.migrated("/cuesta", "disk")["files"], 41);
    assert_eq!(tiered.place.cuesta(&["tier", "drain", "store", "disk"]).status(), 0);
    let used = tiered.used();
    assert!(used[..2] == [0, 0] && used[2] > 0, "{used:?}");
    tiered.ran(&format!("{TREE}check()"));
    tiered.assert_sound();
}

#[test]
fn files_of_several_programs_move_while_the_daemon_is_killed_again_and_again() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let tiered = Tiered::with_fast_tier_of("64M");
    let programs: Vec<Conversation> = (0..3)
        .map(|number| {
            tiered.begin(&format!(
                "
import select, sys
file, held = os.open('/cuesta/file{number}', os.O_RDWR | os.O_CREAT), bytearray()
r = random.Random({number})
print('there', flush=True)
while not select.select([sys.stdin], [], [], 0)[0] or len(held) < 1 << 20:
    at = r.randrange(min(len(held), 3 << 20) + 1)
    part = r.randbytes(r.choice([50, 5000, 70_000]))
    held[at:at + len(part)] = part
    os.pwrite(file, part, at)
    if r.randrange(5) == 0:
        os.fsync(file)
        at = r.randrange(len(held))
        assert os.pread(file, 100_000, at) == held[at:at + 100_000]
assert os.pread(file, len(held) + 1, 0) == held
open('/cuesta/copy{number}', 'wb').write(held)"
            ))
        })
        .collect();
    for _ in 0..6 {
        // The daemon may die in the middle, so that the command fails.
        let to = if random.bool() { "disk" } else { "fast" };
        let mut command = tiered.place.command(&["migrate", "--store", "store", "--to", to, "/cuesta"]);
        let mut migrating = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        for _ in 0..random.u32(..2000) {
            std::thread::yield_now();
        }
        tiered.place.kill_daemon_to_its_end();
        migrating.wait().unwrap();
        // Whichever command comes next starts another daemon, with which the programs go on.
        tiered.ran("pass");
    }
    programs.into_iter().for_each(Conversation::succeeds);
    tiered.ran(
        "
for n in range(3):
    assert open(f'/cuesta/file{n}', 'rb').read() == open(f'/cuesta/copy{n}', 'rb').read(), n",
    );
    tiered.assert_sound();
}

#[test]
fn a_write_to_a_part_of_a_block_on_a_lower_tier_waits_for_the_next_daemon() {
    let tiered = Tiered::with_fast_tier_of("64M");
    tiered.ran("open('/cuesta/file', 'wb').write(bytes(1 << 20))");
    tiered.migrated("/cuesta/file", "disk");
    // It has the file, but has not looked at the tier yet.
    let mut writer = tiered.begin(
        "
file = os.open('/cuesta/file', os.O_RDWR)
os.pwrite(file, b'a' * 4096, 0)
print('there', flush=True)
input()
print('writes', flush=True)
os.pwrite(file, b'b' * 10, 8000)
input()
assert os.pread(file, 1 << 20, 0) == (b'a' * 4096).ljust(8000, b'\\0') + (b'b' * 10).ljust((1 << 20) - 8000, b'\\0')",
    );
    tiered.place.kill_daemon_to_its_end();
    writer.go_on();
    assert_eq!(writer.line().trim(), "writes");
    tiered.ran("pass");
    writer.succeeds();
    tiered.assert_sound();
}

/// Figure 1 of the Ziggurat paper (FAST 2019), (c) to (f): eight small writes behind 24 large blocks; then the file cools, all of it is on
/// the disk, a program reads the last eight blocks, and maps the file.
#[test]
fn a_file_that_cools_goes_down_and_is_read_and_mapped_there() {
    let tiered = Tiered::with_fast_tier_of("64M");
    tiered.configure("cold_seconds = 2\nlarge_run_bytes = 1000000\nmigration = \"ziggurat\"");
    let program = tiered.begin(
        "
import mmap
right = random.Random(1).randbytes(24 << 16) + random.Random(2).randbytes(8 << 12)
file = os.open('/cuesta/file', os.O_RDWR | os.O_CREAT)
for n in range(3):
    os.write(file, right[n * (8 << 16):(n + 1) * (8 << 16)])
os.fsync(file)
for n in range(8):
    os.write(file, right[(24 << 16) + n * 4096:][:4096])
    os.fsync(file)
print('there', flush=True)
input()
assert os.pread(file, 8 << 12, 24 << 16) == right[24 << 16:]
memory = mmap.mmap(file, 0)
assert memory[:] == right
memory[:5] = b'first'
memory.flush()
assert os.pread(file, 10, 0) == b'first' + right[5:10]",
    );
    let lies = |tier: &str| {
        let told = tiered.place.cuesta(&["explain", "--store", "store", "--json", "/cuesta/file"]).text();
        let told: serde_json::Value = serde_json::from_str(&told).unwrap();
        let there = told["extents"].as_array().unwrap().iter().filter(|extent| extent["tier"] == tier);
        there.map(|extent| extent["bytes"].as_u64().unwrap()).sum::<u64>()
    };
    assert_eq!([lies("disk"), lies("fast")], [24 << 16, 8 << 12]);
    // Newer content needs the room.
    tiered.ran(
        "
for n in range(45):
    with open(f'/cuesta/{n}', 'wb') as file:
        file.write(bytes(1_000_000))
        os.fsync(file.fileno())",
    );
    let until = Instant::now() + Duration::from_secs(60);
    while lies("fast") > 0 {
        assert!(Instant::now() < until, "{}", lies("fast"));
    }
    assert_eq!(lies("disk"), (24 << 16) + (8 << 12));
    let trace = tiered.place.cuesta(&["trace", "store"]).text();
    let inode = {
        let told = tiered.place.cuesta(&["explain", "--store", "store", "--json", "/cuesta/file"]).text();
        serde_json::from_str::<serde_json::Value>(&told).unwrap()["record"]["inode"].clone()
    };
    let moves: Vec<serde_json::Value> = trace
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .filter(|event| event["event"] == "migrate" && event["inode"] == inode)
        .collect();
    let moved: u64 = moves.iter().map(|moved| moved["blocks"].as_u64().unwrap()).sum();
    assert_eq!((moved, moves.iter().all(|moved| moved["tier"] == 1)), (8, true), "{moves:?}");
    program.succeeds();
    tiered.ran("assert open('/cuesta/file', 'rb').read(5) == b'first'");
    tiered.assert_sound();
}

#[test]
fn a_file_that_a_program_maps_stays() {
    let tiered = Tiered::with_fast_tier_of("64M");
    tiered.ran(&format!("{TREE}make()"));
    let mapper = tiered.begin(
        "
import mmap
with open(name(30), 'r+b') as file:
    memory = mmap.mmap(file.fileno(), 0)
print('there', flush=True)
input()
assert memory[:] == data(30)",
    );
    let ended = tiered.place.cuesta(&["migrate", "--store", "store", "--to", "disk", "/cuesta/tree"]);
    assert_eq!(ended.status(), 2, "{}", ended.errors());
    assert!(ended.text().contains("1 stayed, because programs map them"), "{}", ended.text());
    mapper.succeeds();
    tiered.ran(&format!("{TREE}check()"));
    assert_eq!(tiered.migrated("/cuesta/tree", "disk")["files_pinned"], 0);
    tiered.ran(&format!("{TREE}check()"));
    tiered.assert_sound();
}

#[test]
fn a_tier_that_is_full_takes_a_part_and_says_so() {
    let (tiered, _) = Tiered::over(&[("disk", "tier", "16M")], "64M");
    tiered.ran(
        "
for n in range(40):
    with open(f'/cuesta/{n}', 'wb') as file:
        file.write(random.Random(n).randbytes(1 << 20))
        os.fsync(file.fileno())",
    );
    let ended = tiered.place.cuesta(&["migrate", "--store", "store", "--to", "disk", "/cuesta"]);
    assert_eq!(ended.status(), 2, "{}", ended.errors());
    assert!(ended.text().contains("it is full"), "{}", ended.text());
    tiered.ran(
        "
for n in range(40):
    assert open(f'/cuesta/{n}', 'rb').read() == random.Random(n).randbytes(1 << 20)",
    );
    let used = tiered.used();
    assert!(used[1] > 8 << 20 && used[0] + used[1] == 40 << 20, "{used:?}");
    tiered.assert_sound();
}

#[test]
fn unknown_tiers_and_files_are_told() {
    let tiered = Tiered::new();
    for (to, path, why) in [
        ("tape", "/cuesta", "tape: the store has no such tier; it has fast, disk"),
        ("disk", "/cuesta/nothing", "no such file in the store"),
    ] {
        let ended = tiered.place.cuesta(&["migrate", "--store", "store", "--to", to, path]);
        assert!(ended.status() == 1 && ended.errors().contains(why), "{}", ended.errors());
    }
    assert!(Path::new(&tiered.disk.path().join("tier")).is_dir());
}
