//! A medium that does not take some of its blocks, nor give them: as of persistent memory with poisoned lines, or a disk with bad
//! sectors, the kernel sends a signal to a process that touches them. Here the file of an arena is cut short, which does the same.

use crate::common::TestFolder;
use std::fs::File;
use std::io::{BufRead, BufReader, Lines, Write as _};
use std::process::{Child, ChildStdout, Stdio};

const BLOCK_BYTES: u64 = 4096;
/// As mkfs makes them for a store this small.
const ARENA_BYTES: u64 = 1 << 20;
const BAD_BLOCKS: u64 = 8;
const GOOD_BYTES: u64 = ARENA_BYTES - BAD_BLOCKS * BLOCK_BYTES;

/// A store whose first arena is full of the file `big`, and loses its last blocks; and a file beside it.
fn place(checksums: &str) -> TestFolder {
    let place = TestFolder::new();
    let made =
        place.cuesta(&["mkfs", "store", "--medium", "memory", "--nvm", "16M", "--checksums", checksums]);
    assert_eq!(made.status(), 0, "{}", made.errors());
    let write =
        format!("head -c {} /dev/urandom >/cuesta/big && echo near >/cuesta/near", ARENA_BYTES * 3 / 2);
    works(&place, &write);
    let (address, offset) = last_block(&place, "big");
    assert!(address == GOOD_BYTES && offset > 0, "the file has the end of the first arena");
    place
}

fn shell(place: &TestFolder, script: &str) -> crate::common::Ended {
    place.cuesta(&["run", "--store", "store", "--", "sh", "-c", script])
}

#[track_caller]
fn works(place: &TestFolder, script: &str) -> String {
    let ran = shell(place, script);
    assert_eq!(ran.status(), 0, "{script}: {}", ran.errors());
    ran.text()
}

fn extents(place: &TestFolder, name: &str) -> Vec<[u64; 3]> {
    let explained = place.cuesta(&["explain", "--store", "store", "--json", name]).text();
    let explained: serde_json::Value = serde_json::from_str(&explained).unwrap();
    let number = |extent: &serde_json::Value, key: &str| extent[key].as_u64().unwrap();
    let all = explained["extents"].as_array().unwrap().iter();
    all.map(|extent| ["address", "file_offset", "bytes"].map(|key| number(extent, key))).collect()
}

/// Where the first of the blocks lies that will be lost, if it is the file's, and at which offset of the file.
fn last_block(place: &TestFolder, name: &str) -> (u64, u64) {
    let holds = |&[address, _, bytes]: &[u64; 3]| (address..address + bytes).contains(&GOOD_BYTES);
    let [address, offset, _] = extents(place, name).into_iter().find(holds).unwrap();
    (GOOD_BYTES, offset + GOOD_BYTES - address)
}

fn arena(place: &TestFolder) -> File {
    File::options().write(true).open(place.path("store/nvm/arenas/arena-000000")).unwrap()
}

fn status(place: &TestFolder) -> serde_json::Value {
    serde_json::from_str(&place.cuesta(&["status", "--json", "store"]).text()).unwrap()
}

fn is_good([address, _, bytes]: &[u64; 3]) -> bool {
    address + bytes <= GOOD_BYTES || *address >= ARENA_BYTES
}

const FAILED: &str = "Input/output error";

/// A program that has the file `big` open, has read it, and reads and writes it as it is told: a process that maps an arena which is
/// cut short later is told that it is.
struct Reader {
    program: Child,
    told: Lines<BufReader<ChildStdout>>,
}

impl Reader {
    fn new(place: &TestFolder) -> Reader {
        let script = "
import os, sys
file = os.open('/cuesta/big', os.O_RDWR)
def read(at, size):
  parts = []
  while size > 0:
    part = os.pread(file, size, at)
    if not part: break
    parts.append(part)
    at, size = at + len(part), size - len(part)
  return b''.join(parts)
def write(at, data): assert os.pwrite(file, data, at) == len(data)
print(len(read(0, 1 << 30)), flush=True)
for line in sys.stdin:
  try: print(eval(line), flush=True)
  except OSError as error: print(error.strerror, flush=True)
";
        let mut command = place.command(&["run", "--store", "store", "--", "python3", "-c", script]);
        let mut program = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let told = BufReader::new(program.stdout.take().unwrap()).lines();
        let mut reader = Reader { program, told };
        assert_eq!(reader.answer(), (ARENA_BYTES * 3 / 2).to_string());
        reader
    }

    fn answer(&mut self) -> String {
        self.told.next().expect("the program ended").unwrap()
    }

    fn ask(&mut self, expression: &str) -> String {
        writeln!(self.program.stdin.as_mut().unwrap(), "{expression}").unwrap();
        self.answer()
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        drop(self.program.stdin.take());
        self.program.wait().unwrap();
    }
}

#[test]
fn content_that_a_block_does_not_take_goes_elsewhere_and_the_block_is_never_used_again() {
    let place = place("off");
    let mut reader = Reader::new(&place);
    arena(&place).set_len(GOOD_BYTES).unwrap();
    let (_, offset) = last_block(&place, "big");
    assert_eq!(reader.ask(&format!("read({offset}, 1)")), FAILED);
    assert_eq!(reader.ask(&format!("len(read(0, {offset}))")), offset.to_string());
    // All of it anew, where it lies but for what is bad.
    let big = ARENA_BYTES * 3 / 2;
    works(
        &place,
        &format!("head -c {big} /dev/urandom >copy && dd if=copy of=/cuesta/big bs=64k conv=notrunc"),
    );
    assert!(extents(&place, "big").iter().all(is_good));
    assert_eq!(reader.ask(&format!("read(0, {big}) == open('copy', 'rb').read()")), "True");
    works(&place, "grep -q near /cuesta/near && echo more >>/cuesta/near");
    let found = status(&place);
    assert_eq!((&found["bad_blocks"], &found["refuses_writes"]), (&BAD_BLOCKS.into(), &().into()));
    let text = place.cuesta(&["status", "store"]).text();
    assert!(text.contains("8 blocks that the medium does not take"), "{text}");
    assert!(place.cuesta(&["scrub", "store"]).errors().contains("--checksums on"));
    // The next daemon knows of them, even if the medium seems to be whole then.
    drop(reader);
    place.cuesta(&["stop", "store"]);
    arena(&place).set_len(ARENA_BYTES).unwrap();
    works(&place, "cmp copy /cuesta/big");
    assert_eq!(status(&place)["bad_blocks"], BAD_BLOCKS);
    let full = shell(&place, "cat /dev/zero >/cuesta/rest");
    assert!(full.errors().contains("No space left"), "{}", full.errors());
    assert!(extents(&place, "rest").iter().all(is_good));
    works(&place, "cmp copy /cuesta/big && rm /cuesta/big /cuesta/rest");
    place.cuesta(&["stop", "store"]);
    let checked = place.cuesta(&["fsck", "store"]);
    assert_eq!(checked.status(), 0, "{}", checked.text());
}

#[test]
fn a_block_that_is_lost_and_written_in_part_is_an_error_to_readers_until_all_of_it_is_written() {
    for checksums in ["off", "on"] {
        let place = place(checksums);
        let (_, offset) = last_block(&place, "big");
        let mut reader = Reader::new(&place);
        // The checksums lie behind the blocks, and are lost with them.
        arena(&place).set_len(GOOD_BYTES).unwrap();
        let mut after = |write: &str| {
            assert_eq!(reader.ask(write), "None", "{checksums}");
            // It digests.
            extents(&place, "big");
            let read = [offset, offset + BLOCK_BYTES].map(|at| reader.ask(&format!("read({at}, 4096)[:3]")));
            assert_eq!(status(&place)["refuses_writes"], serde_json::Value::Null, "{checksums}");
            read
        };
        assert_eq!(after(&format!("write({offset} + 10, b'x' * 100)")), [FAILED, FAILED], "{checksums}");
        assert_eq!(after(&format!("write({offset}, b'y' * 4096)")), ["b'yyy'", FAILED], "{checksums}");
        if checksums == "on" {
            let bad = status(&place)["bad_blocks"].as_u64().unwrap();
            let scrubbed = place.cuesta(&["scrub", "--json", "store"]).text();
            let scrubbed: serde_json::Value = serde_json::from_str(&scrubbed).unwrap();
            assert_eq!(scrubbed["bad_blocks"], bad);
            let text = place.cuesta(&["scrub", "store"]).text();
            assert!(
                bad > 0 && text.contains(&format!("{bad} blocks that the medium does not take")),
                "{text}"
            );
        }
    }
}
