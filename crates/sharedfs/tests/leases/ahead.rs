//! Leases granted ahead: one question and one fence for a block of inodes.

use crate::common::*;
use cuesta_format::wire::{AHEAD_MAX, Grant, LeaseMode, Request, Response};
use cuesta_format::{FileKind, InodeNumber};
use cuesta_sharedfs::SharedFs;
use std::collections::BTreeMap;
use std::sync::Arc;

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
fn held_and_contended_inodes_are_not_granted_ahead() {
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

    // An inode it holds already is not given again; its own copy is newer.
    assert_eq!(numbers(&reader.acquire_ahead(granted[1], LeaseMode::Read, 16)), [granted[1]]);
}

#[test]
fn an_inode_its_last_holder_changed_is_granted_as_changed() {
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

/// The visible state of a file or a directory: its size, or its names.
#[derive(Debug, PartialEq, Eq)]
enum Shown {
    File(u64),
    Directory(BTreeMap<Vec<u8>, InodeNumber>),
}

fn names(
    tree: &mut BTreeMap<InodeNumber, Shown>,
    directory: InodeNumber,
) -> &mut BTreeMap<Vec<u8>, InodeNumber> {
    match tree.get_mut(&directory) {
        Some(Shown::Directory(names)) => names,
        other => panic!("no directory: {other:?}"),
    }
}

/// The grants of a new session on the blocks in which the inodes of `tree` lie.
fn granted(shared: &Arc<SharedFs>, tree: &BTreeMap<InodeNumber, Shown>) -> BTreeMap<InodeNumber, Shown> {
    let mut reader = Writer::attach(shared);
    let blocks: BTreeMap<u64, InodeNumber> =
        tree.keys().rev().map(|&inode| (inode.0 / u64::from(AHEAD_MAX), inode)).collect();
    let grants = blocks.into_values().flat_map(|near| reader.acquire_ahead(near, LeaseMode::Read, AHEAD_MAX));
    let shown = grants.map(|grant| {
        let names = grant.entries.into_iter().map(|entry| (entry.name, entry.inode)).collect();
        let shown = match grant.record.kind() {
            FileKind::Directory => Shown::Directory(names),
            _ => Shown::File(grant.record.size),
        };
        (grant.record.inode, shown)
    });
    let shown = shown.filter(|&(inode, _)| inode != ROOT).collect();
    assert_eq!(reader.request(&Request::Detach), Response::Done);
    shown
}

/// Parcels are kept for the next session: each must be the last commit, each time.
#[test]
fn a_session_that_comes_into_a_tree_again_is_granted_the_changes() {
    let seed = std::env::var("SEED").map_or(7, |seed| seed.parse().unwrap());
    println!("SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let store = Store::new();
    let shared = store.open();
    let mut first = Writer::attach(&shared);
    first.acquire(ROOT, LeaseMode::Write);
    let directories: Vec<_> = (0..3).map(|n| first.directory(format!("directory-{n}").as_bytes())).collect();
    first.request(&Request::Detach);
    let mut tree: BTreeMap<_, _> =
        directories.iter().map(|&directory| (directory, Shown::Directory(BTreeMap::new()))).collect();
    let mut files: Vec<(InodeNumber, InodeNumber, Vec<u8>)> = Vec::new();

    for round in 0..120 {
        let mut maker = Writer::attach(&shared);
        for &there in tree.keys() {
            maker.acquire(there, LeaseMode::Write);
        }
        for change in 0..random.u32(1..4) {
            let parent = directories[random.usize(..directories.len())];
            let name = format!("{round}-{change}").into_bytes();
            let which = random.usize(..files.len().max(1));
            match random.u32(0..4) {
                1 if !files.is_empty() => {
                    let file = files[which].0;
                    let Some(Shown::File(size)) = tree.get_mut(&file) else { panic!("no file") };
                    maker.write(file, *size, b"more");
                    *size += 4;
                }
                2 if !files.is_empty() => {
                    let (file, old_parent, old_name) = files.swap_remove(which);
                    maker.unlink(old_parent, &old_name, file, false);
                    names(&mut tree, old_parent).remove(&old_name);
                    tree.remove(&file);
                }
                3 if !files.is_empty() => {
                    let (file, old_parent, old_name) = files[which].clone();
                    maker.rename(file, (old_parent, &old_name), (parent, &name));
                    names(&mut tree, old_parent).remove(&old_name);
                    names(&mut tree, parent).insert(name.clone(), file);
                    files[which] = (file, parent, name);
                }
                _ => {
                    let file = maker.create_in(parent, &name, 0o100_644);
                    names(&mut tree, parent).insert(name.clone(), file);
                    tree.insert(file, Shown::File(0));
                    files.push((file, parent, name));
                }
            }
        }
        assert_eq!(maker.request(&Request::Detach), Response::Done);
        assert_eq!(granted(&shared, &tree), tree, "round {round}");
    }
}
