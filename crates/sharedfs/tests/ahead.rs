//! Leases granted ahead: one question and one fence for a block of inodes.

mod common;

use common::*;
use cuesta_format::InodeNumber;
use cuesta_format::wire::{AHEAD_MAX, Grant, LeaseMode};

fn numbers(grants: &[Grant]) -> Vec<InodeNumber> {
    grants.iter().map(|grant| grant.record.inode).collect()
}

/// The block of 16 numbers around the inode.
fn block(inode: InodeNumber) -> std::ops::Range<u64> {
    let first = inode.0 / 16 * 16;
    first..first + 16
}

#[test]
fn one_fence_hands_over_a_block_of_files_and_leaves_unborn_numbers_alone() {
    let store = Store::new();
    let shared = store.open();
    let mut maker = Writer::attach(&shared);
    maker.acquire(ROOT, LeaseMode::Write);
    let files: Vec<InodeNumber> = (0..40).map(|n| maker.file(format!("file-{n}").as_bytes())).collect();
    maker.write(files[7], 0, b"content");
    let asked = files[5];

    let mut reader = Writer::attach(&shared);
    reader.acquire(ROOT, LeaseMode::Read);
    maker.resync();
    let granted = reader.acquire_ahead(asked, LeaseMode::Read, 16);
    assert_eq!(granted[0].record.inode, asked);
    let mut found = numbers(&granted);
    found.sort();
    let expected: Vec<_> = files.iter().copied().filter(|file| block(asked).contains(&file.0)).collect();
    assert_eq!(found, expected);
    if let Some(written) = granted.iter().find(|grant| grant.record.inode == files[7]) {
        assert_eq!(written.record.size, 7, "what is granted is what was written before the fence");
    }
    let mut revoked = maker.resync().revoked;
    revoked.sort();
    assert_eq!(revoked, expected);

    // All numbers around the last file; the maker has not used most of them, and goes on to.
    let last = *files.last().unwrap();
    reader.acquire_ahead(last, LeaseMode::Read, AHEAD_MAX);
    maker.resync();
    maker.acquire(ROOT, LeaseMode::Write);
    let born = maker.file(b"born later");
    maker.write(born, 0, b"!");
    maker.digest();
    assert_eq!(content(&shared, "born later"), b"!");
}

#[test]
fn what_others_hold_or_fight_over_is_not_granted_ahead() {
    let store = Store::new();
    let shared = store.open();
    let mut maker = Writer::attach(&shared);
    maker.acquire(ROOT, LeaseMode::Write);
    let files: Vec<InodeNumber> = (0..40).map(|n| maker.file(format!("file-{n}").as_bytes())).collect();
    let inside: Vec<_> = files.iter().copied().filter(|file| file.0 / 16 == files[20].0 / 16).collect();
    let [asked, held, fought, ..] = inside[..] else { panic!("{inside:?}") };
    maker.digest();

    let mut holder = Writer::attach(&shared);
    holder.acquire(held, LeaseMode::Write);
    holder.acquire(fought, LeaseMode::Write);
    let mut fighter = Writer::attach(&shared);
    fighter.acquire(fought, LeaseMode::Write);

    let mut reader = Writer::attach(&shared);
    let granted = numbers(&reader.acquire_ahead(asked, LeaseMode::Read, 16));
    assert_eq!(granted[0], asked);
    assert!(!granted.contains(&held) && !granted.contains(&fought), "{granted:?}");
    assert!(granted.len() > 1);
    assert_eq!(holder.resync().revoked, [fought]);

    // What it holds already it is not given again; its own copy is newer.
    assert_eq!(numbers(&reader.acquire_ahead(granted[1], LeaseMode::Read, 16)), [granted[1]]);
}

#[test]
fn what_was_changed_by_its_last_holder_is_granted_as_changed() {
    let store = Store::new();
    let shared = store.open();
    let mut maker = Writer::attach(&shared);
    maker.acquire(ROOT, LeaseMode::Write);
    let (first, second) = (maker.file(b"first"), maker.file(b"second"));
    maker.write(second, 0, b"before");
    maker.digest();
    maker.write(second, 6, b" and after");
    maker.unlink(ROOT, b"first", first, false);
    let third = maker.file(b"third");
    let mut reader = Writer::attach(&shared);
    let granted = reader.acquire_ahead(third, LeaseMode::Read, AHEAD_MAX);
    assert!(numbers(&granted).iter().all(|&inode| inode != first), "it is gone");
    let grant = granted.iter().find(|grant| grant.record.inode == second).unwrap();
    assert_eq!(grant.record.size, 16);
}
