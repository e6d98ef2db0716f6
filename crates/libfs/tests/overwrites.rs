//! Blocks that a digest writes where they lie: who wrote them reads them, then and later, though no report names them.

mod common;

use common::{Caller, Store, root, small};
use libc::{O_CREAT, O_RDWR};

const BLOCK: usize = 4096;

/// Digests, and lets go of all the log held.
fn settle(caller: &Caller) {
    caller.client.digest().unwrap();
    // A round of retiring is done in steps, by whoever goes on.
    let file = caller.open("other", O_CREAT | O_RDWR).unwrap();
    for _ in 0..200 {
        caller.client.pwrite(&file, &[b"x".as_slice().into()], 0).unwrap();
    }
    caller.client.close(file).unwrap();
}

fn bytes(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 7 % 251) as u8 + 1).collect()
}

#[test]
fn a_file_that_grew_inside_a_block_is_read_back_where_it_was_overwritten() {
    let store = Store::new(small()).digesting();
    root(&store.attach()).write_file("f", &bytes(100)).unwrap();
    let caller = root(&store.attach());
    // Granted with 100 bytes: of the rest of the block it knows nothing.
    let file = caller.open("f", O_RDWR).unwrap();
    caller.client.truncate_open(&file, 3 * BLOCK as i64).unwrap();
    settle(&caller);
    caller.client.pwrite(&file, &[bytes(50).as_slice().into()], 200).unwrap();
    settle(&caller);
    let mut expected = bytes(100);
    expected.resize(200, 0);
    expected.extend(bytes(50));
    expected.resize(3 * BLOCK, 0);
    assert_eq!(caller.read_all(&file).unwrap(), expected);
}

#[test]
fn a_file_overwritten_again_and_again_is_read_back_by_its_writer_and_by_others() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let store = Store::new(small()).digesting();
    let (caller, other) = (root(&store.attach()), root(&store.attach()));
    let mut expected = bytes(32 * BLOCK + 100);
    caller.write_file("f", &expected).unwrap();
    settle(&caller);
    let file = caller.open("f", O_RDWR).unwrap();
    for round in 0..60 {
        for _ in 0..random.usize(1..20) {
            let at = random.usize(0..expected.len() - 1);
            let (at, length) = match random.bool() {
                true => (at / BLOCK * BLOCK, BLOCK),
                false => (at, random.usize(1..3 * BLOCK)),
            };
            let length = length.min(expected.len() - at);
            let written: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take(length).collect();
            caller.client.pwrite(&file, &[written.as_slice().into()], at as i64).unwrap();
            expected[at..at + length].copy_from_slice(&written);
        }
        match random.u8(0..4) {
            0 => settle(&caller),
            1 => assert_eq!(other.read_file("f").unwrap(), expected, "seed {seed}, round {round}"),
            _ => assert_eq!(caller.read_all(&file).unwrap(), expected, "seed {seed}, round {round}"),
        }
        caller.client.seek(&file, 0, cuesta_libfs::Whence::Set).unwrap();
    }
}
