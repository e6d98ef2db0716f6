//! A client that means harm, by a ring: it harms itself.

use crate::common::ring::*;
use crate::common::*;
use cuesta_libfs::{Base, Error, Resolve, SetAttributes, Target};
use cuesta_served::{Limits, Offset, PathBase, Request, Response, Subject, VERSION};
use rustix::fs::SealFlags;
use std::sync::atomic::{AtomicBool, Ordering};

/// More than a user may have at once.
const ROUNDS: usize = 300;
const STAT: Request<'static> =
    Request::Stat { subject: Subject::Path { place: PathBase::Root, path: b".", follow: true } };

/// A store with a root that every user may write.
fn open_store(limits: Limits) -> Store {
    let store = store_within(limits);
    let root = Target::Path { base: Base::Root, path: b".", follow: true };
    let set = SetAttributes { mode: Some(0o777), ..Default::default() };
    store.root.set_attributes(&ROOT, root, set).unwrap();
    store
}

/// Something that no honest client stores.
type Wrong = Box<dyn Fn(&RawRing)>;

fn works(ring: &RawRing) {
    assert!(matches!(ring.ask(0, &STAT), Response::Record(_)));
}

#[test]
fn rubbish_in_a_ring_ends_its_connection_and_nothing_else() {
    if !is_root() {
        return;
    }
    let store = open_store(Limits::default());
    let open = Request::Open {
        place: PathBase::Root,
        path: b".",
        flags: 0,
        mode: 0.into(),
        resolve: Resolve::default(),
    };
    let not_by_a_ring = [
        Request::Hello { version: VERSION },
        open,
        Request::Reopen { file: 1, flags: 0 },
        Request::Redeem,
        Request::LockFile { file: 1 },
        Request::AdoptLocks { file: 1 },
        Request::Ring,
        Request::Lane { lane: 1 },
    ];
    let mut wrongs: Vec<Wrong> = vec![
        // No request, half a request, and none at all.
        Box::new(|ring| ring.store(0, &[0xff; 100])),
        Box::new(|ring| ring.store(0, &postcard::to_stdvec(&STAT).unwrap()[..3])),
        Box::new(|ring| ring.store(0, b"")),
        Box::new(|ring| ring.set_length(0, 34 << 10)),
        Box::new(|ring| ring.set_length(0, u32::MAX)),
        Box::new(|ring| ring.set_length(0, 1 << 31)),
    ];
    for request in not_by_a_ring {
        let bytes = postcard::to_stdvec(&request).unwrap();
        wrongs.push(Box::new(move |ring| ring.store(0, &bytes)));
    }
    let (mut honest, good) = ringed(&store);
    for wrong in wrongs {
        let (mut raw, ring) = ringed(&store);
        works(&ring);
        wrong(&ring);
        ring.set_state(0, ASKED);
        assert!(raw.has_ended());
    }
    for state in [RUNNING, 3, 8, 12, 16, u32::MAX] {
        let (mut raw, ring) = ringed(&store);
        ring.set_state(0, state);
        assert!(raw.has_ended(), "{state}");
    }
    works(&good);
    assert!(matches!(honest.ask(&STAT), Response::Record(_)));
}

#[test]
fn what_a_hostile_ring_took_is_given_back() {
    if !is_root() {
        return;
    }
    let store = open_store(Limits::default());
    as_nobody(|| {
        for round in 0..ROUNDS {
            let (mut raw, ring) = ringed(&store);
            for lane in 1..3 {
                assert_eq!(raw.ask(&Request::Lane { lane }), Response::Done);
            }
            ring.send(1, &STAT);
            match round % 3 {
                0 => ring.set_state(0, RUNNING),
                1 => ring.set_state(2, u32::MAX),
                _ => drop(raw),
            }
            // Memory that the daemon gave back reads as zeros.
            while ring.0.atomic_u32(4).unwrap().load(Ordering::Relaxed) != 0 || ring.state(1) != 0 {
                std::thread::yield_now();
            }
        }
    });
}

#[test]
fn bytes_and_words_that_change_while_they_are_read_harm_no_other_client() {
    if !is_root() {
        return;
    }
    let store = open_store(Limits::default());
    write_as_root(&store, b"secret", b"of root", 0o600);
    let (seed, is_over) = (7u64, AtomicBool::new(false));
    println!("seed {seed}");
    let calls: u32 = as_nobody(|| {
        std::thread::scope(|scope| {
            let honest = scope.spawn(|| {
                let (_raw, ring) = ringed(&store);
                let worked = std::panic::catch_unwind(|| (0..2000).for_each(|_| works(&ring)));
                is_over.store(true, Ordering::Relaxed);
                worked.unwrap();
            });
            let mut random = seed;
            let mut next = move || {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                random
            };
            let mut calls = 0;
            while !is_over.load(Ordering::Relaxed) {
                let (_raw, ring) = ringed(&store);
                let name = [b'a' + (next() % 26) as u8; 8];
                let write = Request::MakeNode {
                    place: PathBase::Root,
                    path: &name,
                    mode: 0o100_600.into(),
                    device: 0,
                };
                for _ in 0..next() % 64 {
                    ring.send(0, &write);
                    for _ in 0..next() % 8 {
                        ring.0.write(64 + next() % 32, &[next() as u8]).unwrap();
                        match next() % 16 {
                            0 => ring.set_length(0, next() as u32),
                            1 => ring.set_state(0, next() as u32 % 16),
                            _ => {}
                        }
                    }
                    calls += 1;
                }
            }
            honest.join().unwrap();
            calls
        })
    });
    println!("{calls} calls");
    assert_eq!(read_as_root(&store, b"secret"), b"of root");
    store.root.digest().unwrap();
}

#[test]
fn a_ring_can_neither_shrink_nor_grow_nor_lose_its_seals() {
    let store = store();
    let mut raw = Raw::connect(&store);
    assert_eq!(raw.ask(&Request::Ring), Response::Done);
    let memory = raw.1.pop().unwrap();
    let ring = RawRing::map(&memory);
    let seals = rustix::fs::fcntl_get_seals(&memory).unwrap();
    assert!(seals.contains(SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL));
    for length in [0, RING_BYTES - 1, RING_BYTES + 1] {
        assert!(rustix::fs::ftruncate(&memory, length).is_err());
    }
    assert!(rustix::fs::fcntl_add_seals(&memory, SealFlags::WRITE).is_err());
    // Holes may be made; the request is gone then, and the next one is served.
    let hole = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(&memory, hole, 0, RING_BYTES).unwrap();
    works(&ring);
}

#[test]
fn a_user_has_so_many_rings_and_lanes_and_is_served_by_the_socket_beyond() {
    if !is_root() {
        return;
    }
    let store = open_store(Limits { connections_of_user: 6, ..Limits::default() });
    write_as_root(&store, b"shown", b"to all", 0o644);
    as_nobody(|| {
        let mut rings: Vec<(Raw, RawRing)> = (0..3).map(|_| ringed(&store)).collect();
        let mut without = Raw::connect(&store);
        assert!(without.try_ring().is_none());
        let file = without.opened(b"shown", libc::O_RDONLY);
        let read = Request::Read { file, count: 10, place: Offset::At(0) };
        assert_eq!(without.ask(&read), Response::Bytes(b"to all".to_vec()));
        // Three threads are there, three more may be.
        let mut ask = |ring: usize, lane| rings[ring].0.ask(&Request::Lane { lane });
        let answers = [ask(0, 1), ask(0, 2), ask(1, 7), ask(1, 6), ask(2, 1)];
        assert_eq!(answers[..3], [Response::Done, Response::Done, Response::Done]);
        assert_eq!(answers[3..], [(); 2].map(|()| Response::Failed(Error::Descriptors)));
        rings.iter().for_each(|(_, ring)| works(ring));
        drop(rings.pop());
        while without.try_ring().is_none() {}
    });
    let of_owner: Vec<(Raw, RawRing)> = (0..20).map(|_| ringed(&store)).collect();
    of_owner.iter().for_each(|(_, ring)| works(ring));
}
