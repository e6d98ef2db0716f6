//! Sessions on threads of their own that take the root's lease from each other all the time, beside a digest thread:
//! whatever was acknowledged is there, nothing else is, and nothing waits for ever.

use crate::common::*;
use cuesta_format::wire::{LeaseMode, Request, Response};
use cuesta_sharedfs::check::{Mode, check};
use std::sync::atomic::{AtomicBool, Ordering};

const SESSIONS: u8 = 3;
const FILES: usize = 150;

/// Makes files under the protocol of a client: entries written while the generation moved count only if they were
/// accepted.
fn make_files(writer: &mut Writer, number: u8) -> Vec<String> {
    let mut made = Vec::new();
    while made.len() < FILES {
        writer.acquire(ROOT, LeaseMode::Write);
        if writer.generation() != writer.lease_generation {
            writer.resync();
            continue;
        }
        let name = format!("s{number}-{:03}", made.len());
        let file = writer.file(name.as_bytes());
        let end = writer.at;
        if writer.generation() != writer.lease_generation && writer.resync().accepted < end {
            continue;
        }
        made.push(name);
        if made.len() % 7 == 0 && writer.generation() == writer.lease_generation {
            writer.write(file, 0, &[number; 3000]);
            writer.resync_if_fenced();
        }
    }
    made
}

#[test]
fn leases_change_hands_between_threads() {
    let store = Store::new();
    let shared = store.open();
    let done = AtomicBool::new(false);
    let mut writers: Vec<Writer> = (0..SESSIONS).map(|_| Writer::attach(&shared)).collect();
    let mut made: Vec<String> = std::thread::scope(|scope| {
        let digest = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                shared.digest_step().unwrap();
                std::thread::yield_now();
            }
        });
        let threads: Vec<_> = writers
            .iter_mut()
            .zip(0..)
            .map(|(writer, number)| scope.spawn(move || make_files(writer, number)))
            .collect();
        let made = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        done.store(true, Ordering::Relaxed);
        digest.join().unwrap();
        made
    });
    for writer in &mut writers {
        assert_eq!(writer.request(&Request::Detach), Response::Done);
    }
    let names: Vec<_> = shared
        .read_directory(ROOT)
        .unwrap()
        .into_iter()
        .map(|entry| String::from_utf8(entry.name).unwrap())
        .collect();
    made.sort();
    assert_eq!(names, made);
    drop(writers);
    drop(shared);
    let report = check(&store.tier(), Mode::Report).unwrap();
    assert!(report.is_clean(), "{report:?}");
}
