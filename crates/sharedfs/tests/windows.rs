//! Windows: blocks that a session writes itself. An entry may name those it was granted, each once; all others come back.

use crate::common::*;
use cuesta_format::operation::{BlockRun, StagedWrite};
use cuesta_format::wire::{Request, Response};
use cuesta_format::{BLOCK_BYTES, BlockAddress, Geometry, InodeNumber, LogPosition, Operation, TierNumber};
use cuesta_sharedfs::check::{Mode, check};
use cuesta_sharedfs::{Options, SharedFs};
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

const BLOCK: usize = BLOCK_BYTES as usize;

/// A window, and the file that it lies in.
struct Window {
    run: BlockRun,
    file: File,
}

impl Window {
    fn of(writer: &Writer, done: &[(BlockAddress, LogPosition)]) -> Window {
        let mut descriptors = Vec::new();
        let request = Request::Window { tier: TierNumber::FAST, blocks: 64, done: done.to_vec() };
        let answer = writer.shared.handle(writer.session, &request, &mut descriptors);
        let Response::Window { address, blocks, .. } = answer else { panic!("{answer:?}") };
        assert!(blocks >= 16, "{blocks} blocks");
        Window { run: BlockRun { address, blocks }, file: descriptors.pop().expect("its file").into() }
    }

    /// A part of it.
    fn run(&self, first: u32, blocks: u32) -> BlockRun {
        BlockRun { address: self.run.address.plus(u64::from(first) * BLOCK_BYTES), blocks }
    }

    /// Writes all blocks of a part.
    fn fill(&self, writer: &Writer, run: BlockRun, byte: u8) {
        let content = vec![byte; run.blocks as usize * BLOCK];
        self.file.write_all_at(&content, writer.geometry.arena_offset(run.address)).unwrap();
    }
}

fn store() -> Store {
    Store::with(Geometry { arena_bytes: 1 << 20, nvm_bytes: 64 << 20, checks_content: true, ..geometry() })
}

fn body(writer: &Writer, runs: &[BlockRun], byte: u8) -> Vec<u8> {
    let blocks: u32 = runs.iter().map(|run| run.blocks).sum();
    let sum = cuesta_format::entry::crc32c(&[byte; BLOCK]);
    let sums = vec![sum; blocks as usize];
    let mut body = Vec::new();
    let has_sums = writer.geometry.checks_content;
    StagedWrite::encode(runs, has_sums.then_some(&sums[..]), b"", b"", &mut body);
    body
}

/// Logs a staged write of these blocks, each full of one byte.
fn log_staged(writer: &mut Writer, inode: InodeNumber, offset: u64, runs: &[BlockRun], byte: u8) {
    let body = body(writer, runs, byte);
    let staged = StagedWrite::decode(offset, &body).unwrap();
    writer.append(Operation::WriteStaged { inode, offset, staged });
}

fn free_blocks(shared: &SharedFs) -> u64 {
    let totals = shared.totals().unwrap();
    totals.blocks_unpromised()
}

fn finish(store: &Store, shared: Arc<SharedFs>, writers: Vec<Writer>) {
    drop((shared, writers));
    let report = check(&store.tier(), Mode::Repair).unwrap();
    assert!(report.is_clean(), "{report:?}");
}

#[test]
fn staged_blocks_become_the_file_s_as_they_are() {
    let store = store();
    let shared = store.open();
    let mut writer = Writer::attach(&shared);
    let file = writer.file(b"file");
    let window = Window::of(&writer, &[]);
    window.fill(&writer, window.run(0, 8), 7);
    log_staged(&mut writer, file, 0, &[window.run(4, 2), window.run(0, 3)], 7);
    writer.digest();
    assert!(content(&shared, "file") == vec![7; 5 * BLOCK]);
    let extents = shared.snapshot().unwrap().extents(file, 0..u64::MAX).unwrap();
    let places: Vec<_> = extents.iter().map(|extent| (extent.address, extent.blocks)).collect();
    assert_eq!(places, [(window.run(4, 2).address, 2), (window.run(0, 3).address, 3)]);
    finish(&store, shared, vec![writer]);
}

#[test]
fn a_log_that_names_blocks_it_may_not_is_given_up_there() {
    type Forged = fn(&mut Writer, &Window, &Window, InodeNumber);
    let forged: [(&str, Forged); 6] = [
        ("of no window", |it, window, _, file| {
            let behind = window.run(window.run.blocks, 1);
            log_staged(it, file, 0, &[behind], 7);
        }),
        ("partly behind its window", |it, window, _, file| {
            log_staged(it, file, 0, &[window.run(window.run.blocks - 1, 2)], 7);
        }),
        ("of another session", |it, _, other, file| log_staged(it, file, 0, &[other.run(0, 1)], 7)),
        ("twice in one entry", |it, window, _, file| {
            log_staged(it, file, 0, &[window.run(4, 3), window.run(6, 2)], 7);
        }),
        ("twice in a batch", |it, window, _, file| {
            log_staged(it, file, 0, &[window.run(4, 3)], 7);
            log_staged(it, file, 1 << 20, &[window.run(3, 2)], 7);
        }),
        ("that a file has", |it, window, _, file| {
            log_staged(it, file, 0, &[window.run(4, 3)], 7);
            it.digest();
            log_staged(it, file, 1 << 20, &[window.run(5, 1)], 7);
        }),
    ];
    for (name, forge) in forged {
        let store = store();
        let shared = store.open();
        let honest = Writer::attach(&shared);
        let others = Window::of(&honest, &[]);
        let mut hostile = Writer::attach(&shared);
        let file = hostile.file(b"file");
        let window = Window::of(&hostile, &[]);
        window.fill(&hostile, window.run, 7);
        forge(&mut hostile, &window, &others, file);
        hostile.digest_to_its_end();
        finish(&store, shared, vec![hostile, honest]);
        println!("{name}");
    }
}

#[test]
fn a_block_that_holds_something_else_than_its_entry_says_is_damaged() {
    let store = store();
    let shared = store.open();
    let mut writer = Writer::attach(&shared);
    let file = writer.file(b"file");
    let window = Window::of(&writer, &[]);
    window.fill(&writer, window.run(0, 4), 7);
    window.fill(&writer, window.run(2, 1), 8);
    log_staged(&mut writer, file, 0, &[window.run(0, 4)], 7);
    writer.digest();
    assert!(shared.file_content(file).is_err(), "no reader may get it");
    drop((shared, writer));
}

#[test]
fn what_no_file_keeps_and_what_no_entry_names_is_free_again() {
    let store = store();
    let shared = store.open();
    let before = {
        let mut first = Writer::attach(&shared);
        first.file(b"any");
        first.digest();
        first.request(&Request::Detach);
        free_blocks(&shared)
    };
    let mut writer = Writer::attach(&shared);
    let file = writer.create_in(ROOT, b"short-lived", 0o100_644);
    let mut done = Vec::new();
    for round in 0..200 {
        let window = Window::of(&writer, &done);
        window.fill(&writer, window.run, 7);
        // Named, overwritten in the batch, cut; and a rest that is not named.
        log_staged(&mut writer, file, 0, &[window.run(0, 4)], 7);
        log_staged(&mut writer, file, 0, &[window.run(4, 4)], 7);
        writer.truncate(file, 5000);
        done = vec![(window.run.address, writer.at)];
        if round % 4 == 3 {
            writer.digest();
            writer.retire(writer.at);
        }
    }
    writer.unlink(ROOT, b"short-lived", file, false);
    writer.digest();
    writer.request(&Request::Detach);
    assert_eq!(free_blocks(&shared), before);
    finish(&store, shared, vec![writer]);
}

/// The daemon is killed between the grant and the digest; the blocks are granted still, and no other session gets them.
#[test]
fn windows_outlive_the_daemon_with_their_session() {
    let store = store();
    let shared = store.open();
    let mut writer = Writer::attach_as(&shared, std::process::id());
    let file = writer.file(b"file");
    let window = Window::of(&writer, &[]);
    window.fill(&writer, window.run(0, 4), 7);
    log_staged(&mut writer, file, 0, &[window.run(0, 2)], 7);
    writer.digest();
    log_staged(&mut writer, file, 2 * BLOCK_BYTES, &[window.run(2, 2)], 7);
    drop(shared);
    let next = SharedFs::open(&store.tier(), Options { await_sessions: true, ..options() }).unwrap();
    assert!(content(&next, "file") == vec![7; 4 * BLOCK]);
    let other = Writer::attach(&next);
    for _ in 0..20 {
        let fresh = Window::of(&other, &[]);
        let end = |run: BlockRun| run.address.0 + u64::from(run.blocks) * BLOCK_BYTES;
        assert!(end(fresh.run) <= window.run.address.0 || end(window.run) <= fresh.run.address.0);
    }
    drop((next, other, writer));
}
