//! Content that changes behind the store's back: a program that reads it is told so, and `cuesta scrub` finds it.

mod common;

use common::Place;
use std::fs::File;
use std::os::unix::fs::FileExt as _;

const BLOCK_BYTES: u64 = 4096;

fn place() -> Place {
    let place = Place::new();
    let made = place.cuesta(&["mkfs", "store", "--medium", "memory", "--nvm", "64M", "--checksums", "on"]);
    assert!(made.text().contains("with checksums"), "{}{}", made.text(), made.errors());
    place
}

fn shell(place: &Place, script: &str) -> common::Ended {
    place.cuesta(&["run", "--store", "store", "--", "sh", "-c", script])
}

/// Changes a bit of a file, `offset` bytes from its beginning, where `cuesta explain` says it lies.
fn flip(place: &Place, name: &str, offset: u64) {
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
    let arena_bytes = place.path("store/nvm/arenas/arena-000000").metadata().unwrap().len();
    assert!(address < arena_bytes, "it lies in the first arena");
    let arena = File::options().read(true).write(true).open(place.path("store/nvm/arenas/arena-000000"));
    let arena = arena.unwrap();
    let mut byte = [0];
    arena.read_exact_at(&mut byte, address).unwrap();
    arena.write_all_at(&[byte[0] ^ 4], address).unwrap();
}

#[test]
fn a_flipped_bit_is_an_error_to_who_reads_it_and_scrub_names_the_file() {
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
    let place = Place::with_store();
    let scrubbed = place.cuesta(&["scrub", "store"]);
    assert!(scrubbed.status() == 1 && scrubbed.errors().contains("--checksums on"), "{}", scrubbed.errors());
}
