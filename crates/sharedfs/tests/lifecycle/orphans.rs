//! Inodes without a name: kept while a session or a descriptor says that they are open, and no longer.

use crate::common::*;
use cuesta_format::control::OPEN_SLOTS_MAX;
use cuesta_format::geometry::REFERENCES_FOLDER;
use cuesta_format::wire::{LeaseMode, Request, Response, Sends};
use cuesta_format::{InodeNumber, Operation, SessionId};
use cuesta_media::lock_files::{self, Access};
use cuesta_sharedfs::{Ending, SharedFs};
use std::fs::File;
use std::os::fd::OwnedFd;

/// Inodes in use besides the root, and those kept for no session in particular.
fn kept(shared: &SharedFs) -> (u64, usize) {
    let inodes = shared.totals().unwrap().inodes - 1;
    let rows = shared.snapshot().unwrap().orphans().unwrap();
    (inodes, rows.iter().filter(|(_, holder)| *holder == SessionId::NOBODY).count())
}

fn descriptor(store: &Store, inode: InodeNumber) -> OwnedFd {
    let folder = File::open(store.tier().join(REFERENCES_FOLDER)).unwrap();
    lock_files::take(&folder, inode, Access::Read).unwrap()
}

#[test]
fn each_of_many_descriptors_keeps_its_inode() {
    let store = Store::new();
    let shared = store.open();
    let mut writer = Writer::attach(&shared);
    for count in [3usize, 100] {
        let names: Vec<[u8; 2]> =
            (0..count as u8).map(|number| [b'a' + number / 26, b'a' + number % 26]).collect();
        let files: Vec<InodeNumber> = names.iter().map(|name| writer.file(name)).collect();
        let mut descriptors: Vec<OwnedFd> =
            files.iter().skip(1).map(|&file| descriptor(&store, file)).collect();
        for (name, &file) in names.iter().zip(&files) {
            writer.unlink(ROOT, name, file, false);
        }
        writer.digest();
        assert_eq!(kept(&shared), (count as u64 - 1, count - 1));
        descriptors.truncate(1);
        assert_eq!(kept(&shared), (1, 1));
        drop(descriptors);
        assert_eq!(kept(&shared), (0, 0));
        // It had leases on them, and is told that it has none.
        writer.resync_if_fenced();
    }
}

/// The next daemon's session for other users opens what they had open while the session that kept it ends: it gets it or
/// does not, and what it logs of it is no mistake of its own.
#[test]
fn a_session_that_asks_for_a_going_inode_gets_it_or_is_told_that_it_is_gone() {
    let store = Store::new();
    let shared = store.open();
    let mut opener = Writer::attach(&shared);
    opener.use_open_slots(1);
    let mut came = 0;
    for round in 0..400 {
        let mut keeper = Writer::attach(&shared);
        let file = keeper.file(b"f");
        keeper.digest();
        keeper.unlink(ROOT, b"f", file, true);
        keeper.digest();
        // As that of a session of the daemon before, its lease is gone.
        keeper.request(&Request::GiveBack { inodes: vec![file] });
        let (shared, session) = (&shared, keeper.session);
        // Both at once, one of them a little later in each round.
        let start = std::sync::Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                start.wait();
                (0..round % 20 * 100).for_each(|_| std::hint::spin_loop());
                shared.end_session(session, Ending::Gone).unwrap();
            });
            start.wait();
            (0..round / 20 * 100).for_each(|_| std::hint::spin_loop());
            let ask = Request::Acquire {
                inode: file,
                mode: LeaseMode::Write,
                ahead: 0,
                beside: Vec::new(),
                kept: None,
                sends: Sends::Nothing,
            };
            let generation = opener.generation();
            if matches!(opener.request(&ask), Response::Granted { .. }) {
                opener.open_in_slot(0, file);
                // A fence between these would have it ask again.
                if opener.generation() == generation {
                    opener.append_forged(Operation::Write { inode: file, offset: 0, data: b"content" });
                    came += 1;
                }
            }
        });
        println!("round {round}");
        opener.digest();
        opener.open_in_slot(0, InodeNumber::NONE);
        assert_eq!(kept(shared), (0, 0));
        opener.resync_if_fenced();
    }
    println!("it came in time {came} times");
}

#[test]
fn an_open_inode_stays_as_long_as_its_session_at_most() {
    let store = Store::new();
    let shared = store.open();
    let mut writer = Writer::attach(&shared);
    let mut stays = |says: &dyn Fn(&Writer, InodeNumber)| {
        let opener = Writer::attach(&shared);
        says(&opener, InodeNumber(writer.next_inode));
        let file = writer.file(b"f");
        writer.unlink(ROOT, b"f", file, false);
        writer.digest();
        let found = kept(&shared);
        shared.end_session(opener.session, Ending::Gone).unwrap();
        assert_eq!(kept(&shared), (0, 0));
        writer.resync_if_fenced();
        found == (1, 1)
    };
    assert!(stays(&|opener, file| {
        opener.use_open_slots(512);
        opener.open_in_slot(511, file);
    }));
    assert!(!stays(&|opener, file| {
        opener.use_open_slots(511);
        opener.open_in_slot(511, file);
    }));
    assert!(!stays(&|opener, file| {
        opener.use_open_slots(u32::MAX);
        opener.open_in_slot(7, InodeNumber(file.0 + 1));
    }));
    assert!(stays(&|opener, file| {
        opener.use_open_slots(u32::MAX);
        opener.open_in_slot(OPEN_SLOTS_MAX - 1, file);
    }));
    assert!(stays(&|opener, _| opener.open_unlisted(1)));
    assert!(!stays(&|_, _| {}));
}

#[test]
fn only_its_keeper_releases_an_inode() {
    let store = Store::new();
    let shared = store.open();
    let (mut owner, mut other) = (Writer::attach(&shared), Writer::attach(&shared));
    let file = owner.file(b"f");
    owner.unlink(ROOT, b"f", file, true);
    owner.digest();
    other.acquire(file, LeaseMode::Write);
    other.append(Operation::Release { inode: file });
    other.digest_to_its_end();
    assert_eq!(kept(&shared), (1, 0));
    // Its lease is gone with it: nothing keeps the inode when its holder ends.
    owner.request(&Request::Detach);
    assert_eq!(kept(&shared), (0, 0));
}
