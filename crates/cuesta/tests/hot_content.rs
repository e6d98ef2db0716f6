//! Content that programs read often has a copy in the fast tier, and what they write is never hidden by one.

use crate::common::conversation::Conversation;
use crate::common::tiered::Tiered;
use std::time::{Duration, Instant};

/// A file of 32 MiB in pieces of 64 KiB, of which some are hot; and how to read, and look whether it is as it was written.
const FILE: &str = "
import select, sys
PIECE, PIECES, HOT = 65536, 512, [3 * n for n in range(32)]
def piece(n, of=0):
    return random.Random(n * 1000 + of).randbytes(PIECE)
def make():
    with open('/cuesta/file', 'wb') as file:
        for n in range(PIECES):
            file.write(piece(n))
        os.fsync(file.fileno())
def is_asked():
    return bool(select.select([sys.stdin], [], [], 0)[0])
";

/// A store whose lower tier holds the file.
fn with_file_below(policy: &str) -> Tiered {
    let tiered = Tiered::with_fast_tier_of("64M");
    let configuration = tiered.place.path("store/cuesta.toml");
    let text = std::fs::read_to_string(&configuration).unwrap();
    std::fs::write(&configuration, format!("cold_seconds = 1\nmigration = \"{policy}\"\n{text}")).unwrap();
    tiered.ran(&format!("{FILE}make()"));
    let ended = tiered.place.cuesta(&["migrate", "--store", "store", "--to", "disk", "/cuesta/file"]);
    assert_eq!(ended.status(), 0, "{}", ended.errors());
    tiered
}

fn begin(tiered: &Tiered, script: &str) -> Conversation {
    let script = format!("import errno, os, random\n{FILE}{script}");
    let mut program = Conversation::with(&tiered.place, &script);
    assert_eq!(program.line().trim(), "there");
    program
}

/// Bytes of the fast tier that are copies, once they are as many.
#[track_caller]
fn copied(tiered: &Tiered, is_enough: impl Fn(u64) -> bool) -> u64 {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let copied = tiered.status()["blocks_copied"].as_u64().unwrap() * 4096;
        if is_enough(copied) {
            return copied;
        }
        assert!(Instant::now() < until, "{copied} bytes are copied");
    }
}

fn finish(tiered: &Tiered) {
    tiered.stop();
    let checked = tiered.place.cuesta(&["fsck", "store", "--content"]);
    assert_eq!(checked.status(), 0, "{}{}", checked.text(), checked.errors());
}

/// Reads the hot pieces until it is asked to stop.
const READER: &str = "
file = os.open('/cuesta/file', os.O_RDWR)
held = {n: piece(n) for n in HOT}
print('there', flush=True)
def read():
    for n in HOT:
        for at in range(0, PIECE, 4096):
            assert os.pread(file, 4096, n * PIECE + at) == held[n][at:at + 4096], n
while not is_asked():
    read()
input()
";

#[test]
fn what_a_program_reads_often_has_a_copy_in_the_fast_tier_until_it_is_written() {
    for policy in ["ziggurat", "frequency", "benefit"] {
        let tiered = with_file_below(policy);
        let before = tiered.used();
        let reader = begin(
            &tiered,
            &format!(
                "{READER}
for n in HOT[::2]:
    held[n] = held[n][:100] + b'z' * 5000 + held[n][5100:]
    os.pwrite(file, b'z' * 5000, n * PIECE + 100)
read()
os.fsync(file)
read()"
            ),
        );
        let all = 32 * 65536;
        copied(&tiered, |copied| copied >= all);
        assert_eq!(tiered.used(), before, "{policy}: the homes stay");
        reader.succeeds();
        // The blocks that it wrote lie in the fast tier themselves.
        let written = 16 * 2 * 4096;
        tiered.ran("pass");
        let used = tiered.used();
        assert_eq!([used[0], used[1]], [before[0] + written, before[1] - written], "{policy}");
        tiered.ran(&format!(
            "{FILE}
file = open('/cuesta/file', 'rb')
for n in range(PIECES):
    held = piece(n)
    if n in HOT[::2]:
        held = held[:100] + b'z' * 5000 + held[5100:]
    assert file.read(PIECE) == held, n"
        ));
        finish(&tiered);
    }
}

#[test]
fn copies_go_with_what_is_removed_cut_and_moved() {
    let tiered = with_file_below("benefit");
    let mut reader = begin(
        &tiered,
        &format!(
            "{READER}
os.ftruncate(file, HOT[20] * PIECE + 1000)
os.ftruncate(file, PIECES * PIECE)
for n in HOT[20:]:
    held[n] = held[n][:1000 if n == HOT[20] else 0].ljust(PIECE, b'\\0')
read()
os.fsync(file)
read()
print('cut', flush=True)
input()
read()
os.unlink('/cuesta/file')
read()"
        ),
    );
    copied(&tiered, |copied| copied >= 32 * 65536);
    reader.go_on();
    assert_eq!(reader.line().trim(), "cut");
    let moved = tiered.place.cuesta(&["migrate", "--store", "store", "--to", "fast", "/cuesta/file"]);
    assert_eq!(moved.status(), 0, "{}", moved.errors());
    copied(&tiered, |copied| copied == 0);
    reader.succeeds();
    tiered.ran("assert os.listdir('/cuesta') == []");
    finish(&tiered);
}

#[test]
fn programs_read_what_they_wrote_although_the_daemon_with_its_copies_is_killed() {
    let tiered = with_file_below("benefit");
    let reader = begin(
        &tiered,
        &format!(
            "{READER}
assert all(os.pread(file, PIECE, n * PIECE) == (held[n] if n in held else piece(n)) for n in range(PIECES))"
        ),
    );
    for _ in 0..3 {
        copied(&tiered, |copied| copied >= 16 * 65536);
        tiered.place.kill_daemon_to_its_end();
        // The next daemon finds the blocks of the copies free, and these programs write there.
        tiered.ran("open(f'/cuesta/{random.random()}', 'wb').write(bytes(4 << 20))");
    }
    reader.succeeds();
    finish(&tiered);
}

#[test]
fn the_old_pieces_of_a_file_that_is_written_go_down() {
    let tiered = Tiered::with_fast_tier_of("64M");
    let configuration = tiered.place.path("store/cuesta.toml");
    let text = std::fs::read_to_string(&configuration).unwrap();
    std::fs::write(&configuration, format!("cold_seconds = 1\nlarge_run_bytes = 1000000000\n{text}"))
        .unwrap();
    let writer = begin(
        &tiered,
        "
file = os.open('/cuesta/file', os.O_RDWR | os.O_CREAT)
for n in range(PIECES):
    os.pwrite(file, piece(n), n * PIECE)
    os.fsync(file)
for n in range(PIECES, PIECES + 120):
    os.pwrite(file, piece(n), n * PIECE)
    os.fsync(file)
print('there', flush=True)
count = 0
while not is_asked():
    count += 1
    for n in range(10, 20):
        os.pwrite(file, piece(n, count), n * PIECE)
        os.fsync(file)
for n in range(PIECES + 120):
    assert os.pread(file, PIECE, n * PIECE) == piece(n, count if 10 <= n < 20 else 0), n",
    );
    let until = Instant::now() + Duration::from_secs(60);
    while tiered.used()[0] > 33 << 20 {
        assert!(Instant::now() < until, "{:?}", tiered.used());
    }
    let told = tiered.place.cuesta(&["explain", "--store", "store", "--json", "/cuesta/file"]).text();
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    let extents = told["extents"].as_array().unwrap();
    let tier_of = |block: u64| {
        let holds = |extent: &&serde_json::Value| {
            let first = extent["file_offset"].as_u64().unwrap();
            (first..first + extent["bytes"].as_u64().unwrap()).contains(&(block * 4096))
        };
        extents.iter().find(holds).map(|extent| extent["tier"].as_str().unwrap().to_owned())
    };
    assert_eq!([tier_of(0), tier_of(15 * 16)], [Some("disk".to_owned()), Some("fast".to_owned())]);
    writer.succeeds();
    finish(&tiered);
}
