//! Blocks that a digest overwrites in place: their writer reads them, at once and later, though no report
//! names them.

use crate::common::{Caller, Store, root, small};
use libc::{O_CREAT, O_RDWR};
use std::sync::atomic::{AtomicBool, Ordering};

const BLOCK: usize = 4096;

/// Digests, and retires all of the log.
fn settle(caller: &Caller) {
    caller.client.digest().unwrap();
    // Any later operation does the next step of the round.
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
    // The grant covers 100 bytes. The session knows nothing of the rest of the block.
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

/// A checksum covers a whole block, while a digest writes another part of it.
#[test]
fn reading_a_block_during_an_overwrite_does_not_report_damage() {
    const ROUNDS: u32 = 20_000;
    let store = Store::new(small()).digesting();
    let caller = root(&store.attach());
    caller.write_file("f", &bytes(BLOCK)).unwrap();
    let file = caller.open("f", O_RDWR).unwrap();
    settle(&caller);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| {
            let mut reads = 0;
            while !is_over.load(Ordering::Relaxed) {
                let mut part = [0; 100];
                let read = caller.client.pread(&file, &mut [part.as_mut_slice().into()], 3000);
                assert_eq!((read, part.as_slice()), (Ok(100), &bytes(BLOCK)[3000..3100]));
                reads += 1;
            }
            reads
        });
        for round in 0..ROUNDS {
            let written = [round as u8; 500];
            caller.client.pwrite(&file, &[written.as_slice().into()], i64::from(round % 4) * 600).unwrap();
            if round % 100 == 0 {
                caller.client.digest().unwrap();
            }
        }
        is_over.store(true, Ordering::Relaxed);
        println!("{} reads", reading.join().unwrap());
    });
}
