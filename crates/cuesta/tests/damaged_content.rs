//! Content that changes behind the store's back: a program that reads it is told so, and `cuesta scrub` finds it.

use crate::common::TestFolder;
use std::fs::File;
use std::os::unix::fs::FileExt as _;

const BLOCK_BYTES: u64 = 4096;

fn place() -> TestFolder {
    let place = TestFolder::new();
    let made = place.cuesta(&["mkfs", "store", "--medium", "memory", "--nvm", "64M", "--checksums", "on"]);
    assert!(made.text().contains("with checksums"), "{}{}", made.text(), made.errors());
    place
}

fn shell(place: &TestFolder, script: &str) -> crate::common::Ended {
    place.cuesta(&["run", "--store", "store", "--", "sh", "-c", script])
}

/// Where in the first arena a byte of a file lies, as `cuesta explain` says.
fn address(place: &TestFolder, name: &str, offset: u64) -> u64 {
    let explained = place.cuesta(&["explain", "--store", "store", "--json", name]).text();
    let explained: serde_json::Value = serde_json::from_str(&explained).unwrap();
    let extents = explained["extents"].as_array().unwrap();
    let number = |extent: &serde_json::Value, key: &str| extent[key].as_u64().unwrap();
    let holds = |extent: &&serde_json::Value| {
        let start = number(extent, "file_offset");
        (start..start + number(extent, "bytes")).contains(&offset)
    };
    let extent = extents.iter().find(holds).unwrap();
    let address = number(extent, "address") + offset - number(extent, "file_offset");
    assert!(address < arena(place).metadata().unwrap().len(), "it lies in the first arena");
    address
}

fn arena(place: &TestFolder) -> File {
    let path = place.path("store/nvm/arenas/arena-000000");
    File::options().read(true).write(true).open(path).unwrap()
}

/// Changes a bit of a file, `offset` bytes from its beginning.
fn flip(place: &TestFolder, name: &str, offset: u64) {
    let (arena, address) = (arena(place), address(place, name, offset));
    let mut byte = [0];
    arena.read_exact_at(&mut byte, address).unwrap();
    arena.write_all_at(&[byte[0] ^ 4], address).unwrap();
}

#[test]
fn a_flipped_bit_is_an_error_to_readers_and_scrub_names_the_file() {
    let place = place();
    let made = shell(
        &place,
        "mkdir /cuesta/d && head -c 100000 /dev/urandom >/cuesta/d/data && cp /cuesta/d/data /cuesta/other",
    );
    assert_eq!(made.status(), 0, "{}", made.errors());
    let clean = place.cuesta(&["scrub", "store"]);
    assert!(clean.status() == 0 && clean.text().starts_with("clean: 2 files"), "{}", clean.text());
    flip(&place, "d/data", 50_000);
    let read = shell(&place, "cat /cuesta/d/data >/dev/null");
    assert!(read.status() != 0 && read.errors().contains("Input/output error"), "{}", read.errors());
    // The rest of it is there.
    let before = shell(
        &place,
        "head -c 49152 /cuesta/d/data | cmp -n 49152 - /cuesta/other && tail -c 40000 /cuesta/d/data | wc -c",
    );
    assert_eq!((before.status(), before.text().trim()), (0, "40000"), "{}", before.errors());
    let found = place.cuesta(&["scrub", "store"]);
    assert_eq!(found.status(), 2);
    assert!(
        found.text().contains("d/data") && found.text().contains("4096 bytes from 49152 on"),
        "{}",
        found.text()
    );
    let found = place.cuesta(&["scrub", "--json", "store"]).text();
    let found: serde_json::Value = serde_json::from_str(&found).unwrap();
    assert_eq!((&found["outcome"], &found["damaged"][0]["path"]), (&"damaged".into(), &"d/data".into()));
    let log = std::fs::read_to_string(place.path("store/sharedfs.log")).unwrap();
    assert!(log.contains("d/data") && log.contains("checksum"), "{log}");
    assert_eq!(log.matches("d/data").count(), 1, "it was read, and scrubbed twice: {log}");
    place.cuesta(&["stop", "store"]);
    let checked = place.cuesta(&["fsck", "--content", "store"]);
    assert!(
        checked.status() == 2 && checked.text().contains("1 blocks of its content"),
        "{}",
        checked.text()
    );
}

#[test]
fn a_damaged_block_stays_damaged_until_all_of_it_is_written_anew() {
    let place = place();
    shell(&place, "head -c 20000 /dev/urandom >/cuesta/data");
    flip(&place, "data", BLOCK_BYTES + 100);
    // A part of it is written, in place and by a file that is cut there.
    let part = "dd if=/dev/zero of=/cuesta/data bs=1 seek=5000 count=10 conv=notrunc 2>/dev/null";
    assert_eq!(shell(&place, part).status(), 0);
    assert_eq!(place.cuesta(&["scrub", "store"]).status(), 2);
    assert_ne!(shell(&place, "cat /cuesta/data >/dev/null").status(), 0);
    shell(&place, "truncate -s 6000 /cuesta/data && truncate -s 20000 /cuesta/data");
    assert_eq!(place.cuesta(&["scrub", "store"]).status(), 2);
    let whole = "dd if=/dev/zero of=/cuesta/data bs=4096 seek=1 count=1 conv=notrunc 2>/dev/null";
    assert_eq!(shell(&place, whole).status(), 0);
    assert_eq!(shell(&place, "cat /cuesta/data >/dev/null").status(), 0);
    let healed = place.cuesta(&["scrub", "store"]);
    assert_eq!(healed.status(), 0, "{}", healed.text());
}

#[test]
fn a_store_without_checksums_says_so() {
    let place = TestFolder::with_store();
    let scrubbed = place.cuesta(&["scrub", "store"]);
    assert!(scrubbed.status() == 1 && scrubbed.errors().contains("--checksums on"), "{}", scrubbed.errors());
}

/// As of a disk with a sector that cannot be read: the kernel sends a signal to a process that looks at the mapped page.
#[test]
fn a_block_that_the_medium_does_not_give_is_an_error_to_readers_and_the_daemon_goes_on() {
    let place = TestFolder::with_store();
    let write = "head -c 20000 /dev/urandom >/cuesta/near && head -c 20000 /dev/urandom >/cuesta/far";
    assert_eq!(shell(&place, write).status(), 0);
    let daemon = place.daemon();
    let (near, far) = (address(&place, "near", 16384), address(&place, "far", 16384));
    let (first, last) = if near < far { ("near", "far") } else { ("far", "near") };
    // A program that maps it later is told that it is too short.
    let program = format!(
        "import errno, mmap, os\n\
         first, last = (os.open('/cuesta/' + name, os.O_RDWR) for name in ('{first}', '{last}'))\n\
         def refused(do):\n\
         \x20   try: do()\n\
         \x20   except OSError as error: return error.errno == errno.EIO\n\
         assert len(os.pread(first, 20000, 0)) == len(os.pread(last, 20000, 0)) == 20000\n\
         os.truncate('store/nvm/arenas/arena-000000', {})\n\
         assert len(os.pread(first, 20000, 0)) == 20000\n\
         assert len(os.pread(last, 20000, 0)) == 16384\n\
         assert refused(lambda: os.pread(last, 100, 16384))\n\
         assert refused(lambda: mmap.mmap(last, 4096)), 'the daemon copies it for that'\n\
         assert len(os.pread(first, 20000, 0)) == 20000\n",
        near.max(far)
    );
    let ran = place.cuesta(&["run", "--store", "store", "--", "python3", "-c", &program]);
    assert_eq!(ran.status(), 0, "{}", ran.errors());
    assert_eq!(place.daemon(), daemon);
    let log = std::fs::read_to_string(place.path("store/sharedfs.log")).unwrap();
    assert!(log.contains(last) && log.contains("damaged"), "{log}");
}
