//! Each bug that can be planted in this crate does harm: the instruments have something to catch. A program of its own: a
//! planted bug holds for the whole process, and would hold for other tests beside it.

#![cfg(feature = "record")]

mod common;

use common::*;
use cuesta_format::wire::LeaseMode;
use cuesta_media::planted::{Bug, plant};

/// The names in the root after a fence, more entries, and a kill.
fn names_after_a_fence_and_a_kill() -> Vec<Vec<u8>> {
    let store = Store::new();
    let shared = store.open();
    let mut first = Writer::attach(&shared);
    first.acquire(ROOT, LeaseMode::Write);
    first.file(b"kept1");
    let mut second = Writer::attach(&shared);
    second.acquire(ROOT, LeaseMode::Write);
    for name in [b"void1", b"void2", b"void3"] {
        first.file(name);
    }
    second.file(b"other");
    first.resync();
    first.acquire(ROOT, LeaseMode::Write);
    first.next_inode += 10;
    first.file(b"good1");
    kill(shared, vec![first, second]);
    let shared = store.open();
    shared.read_directory(ROOT).unwrap().into_iter().map(|entry| entry.name).collect()
}

#[test]
fn a_reused_salt_lets_void_entries_validate() {
    plant(None);
    let sound = names_after_a_fence_and_a_kill();
    assert_eq!(sound, [&b"good1"[..], b"kept1", b"other"]);
    plant(Some(Bug::ReusedSalt));
    let shown = names_after_a_fence_and_a_kill();
    plant(None);
    assert_eq!(shown, [&b"good1"[..], b"kept1", b"other", b"void2", b"void3"]);
}
