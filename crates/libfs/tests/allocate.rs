//! `fallocate`: sizes, zeros, what stays, and that a digest and a fresh client see the same.

use crate::common::{Store, root, small};
use cuesta_format::{BLOCK_BYTES, Geometry};
use cuesta_libfs::{Allocation, Error};
use libc::{O_APPEND, O_CREAT, O_RDONLY, O_RDWR};

#[test]
fn a_range_is_extended_kept_punched_and_zeroed() {
    let store = Store::new(small());
    let client = store.attach();
    let call = root(&client);
    let file = call.open("f", O_CREAT | O_RDWR | O_APPEND).unwrap();
    let size = || call.stat("f").unwrap().size;
    client.write(&file, &[[7u8; 10_000].as_slice().into()]).unwrap();
    client.allocate(&file, Allocation::Extend, 0, 20_000).unwrap();
    client.allocate(&file, Allocation::Extend, 100, 5).unwrap();
    assert_eq!(size(), 20_000);
    client.allocate(&file, Allocation::KeepSize, 0, 50_000).unwrap();
    client.allocate(&file, Allocation::Punch, 30_000, 10).unwrap();
    assert_eq!(size(), 20_000);
    client.allocate(&file, Allocation::Punch, 1000, 2000).unwrap();
    client.allocate(&file, Allocation::Punch, 9_999, 1 << 40).unwrap();
    client.allocate(&file, Allocation::Zero, 5000, 1).unwrap();
    client.allocate(&file, Allocation::Zero, 19_999, 11).unwrap();
    let mut expected = vec![7u8; 10_000];
    expected[1000..3000].fill(0);
    expected[5000] = 0;
    expected[9_999] = 0;
    expected.resize(20_010, 0);
    assert!(call.read_all(&file).unwrap() == expected);
    client.digest().unwrap();
    assert!(call.read_all(&file).unwrap() == expected);
    client.detach();
    assert!(root(&store.attach()).read_file("f").unwrap() == expected);
}

#[test]
fn impossible_ranges_are_errors() {
    let store = Store::new(small());
    let client = store.attach();
    let call = root(&client);
    call.write_file("f", b"x").unwrap();
    let read_only = call.open("f", O_RDONLY).unwrap();
    assert_eq!(client.allocate(&read_only, Allocation::Extend, 0, 1), Err(Error::AccessMode));
    let file = call.open("f", O_RDWR).unwrap();
    assert_eq!(client.allocate(&file, Allocation::Extend, -1, 1), Err(Error::Invalid));
    assert_eq!(client.allocate(&file, Allocation::Punch, 0, 0), Err(Error::Invalid));
    assert_eq!(client.allocate(&file, Allocation::Zero, i64::MAX, i64::MAX), Err(Error::FileTooBig));
    assert_eq!(client.allocate(&file, Allocation::KeepSize, 0, 1 << 42), Err(Error::NoSpace));
    assert_eq!(call.read_file("f").unwrap(), b"x");
}

/// Otherwise the refused session would hold the store's room as credit until it gives it back.
#[test]
fn a_range_larger_than_the_store_is_refused_and_takes_no_room() {
    let geometry = Geometry { nvm_bytes: 64 << 20, arena_bytes: 8 << 20, ..Geometry::default() };
    let store = Store::new(geometry);
    let client = store.attach();
    let call = root(&client);
    let file = call.open("f", O_CREAT | O_RDWR).unwrap();
    let totals = client.statfs().unwrap();
    let bytes = ((totals.blocks + 1) * BLOCK_BYTES) as i64;
    for what in [Allocation::Extend, Allocation::KeepSize, Allocation::Zero] {
        assert_eq!(client.allocate(&file, what, 0, bytes), Err(Error::NoSpace), "{what:?}");
    }
    assert_eq!(client.statfs().unwrap().blocks_promised, totals.blocks_promised);
}

/// Small files leave sessions unused credit, and arenas are still to be laid out.
#[test]
fn all_that_is_said_to_be_free_can_be_had() {
    let geometry = Geometry { nvm_bytes: 64 << 20, arena_bytes: 8 << 20, ..Geometry::default() };
    let store = Store::new(geometry);
    let (client, other) = (store.attach(), store.attach());
    let (call, beside) = (root(&client), root(&other));
    for number in 0..40 {
        call.write_file(&format!("f{number}"), &[number as u8; 20_000]).unwrap();
        beside.write_file(&format!("g{number}"), b"small").unwrap();
        // Another session's writes take their room when they are digested.
        other.digest().unwrap();
        let bytes = client.statfs().unwrap().blocks_free * BLOCK_BYTES;
        let file = call.open("all", O_CREAT | O_RDWR).unwrap();
        for what in [Allocation::Extend, Allocation::KeepSize, Allocation::Zero] {
            client.allocate(&file, what, 0, bytes as i64).unwrap_or_else(|error| {
                panic!("{what:?} of {bytes} bytes after {number} files: {error}");
            });
        }
        client.close(file).unwrap();
        call.unlink("all").unwrap();
    }
    // And the room can be written.
    let blocks = client.statfs().unwrap().blocks_free;
    let file = call.open("all", O_CREAT | O_RDWR).unwrap();
    client.allocate(&file, Allocation::Extend, 0, (blocks * BLOCK_BYTES) as i64).unwrap();
    let content = vec![7u8; 64 * BLOCK_BYTES as usize];
    let mut at = 0;
    while at < blocks * BLOCK_BYTES {
        let bytes = (blocks * BLOCK_BYTES - at).min(content.len() as u64) as usize;
        let written = client.pwrite(&file, &[content[..bytes].into()], at as i64).unwrap();
        assert_ne!(written, 0);
        at += written as u64;
    }
}
