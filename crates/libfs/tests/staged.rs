//! Large writes are written once: their blocks are the file's, whatever happens to them before the digest and after.

use crate::common::{Caller, InProcess, Store, root};
use cuesta_format::wire::{Request, Response};
use cuesta_format::{Geometry, Medium, SessionId};
use cuesta_libfs::{Client, Error};
use cuesta_sharedfs::{Options, Progress, SharedFs};
use libc::{O_APPEND, O_CREAT, O_DSYNC, O_RDWR};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

const MIB: usize = 1 << 20;

/// Files of up to some MiB, in a tier of 64 MiB.
fn geometry(checks_content: bool) -> Geometry {
    Geometry {
        arena_bytes: 8 << 20,
        segment_bytes: 512 << 10,
        ring_slots: 16,
        nvm_bytes: 64 << 20,
        checks_content,
    }
}

fn options() -> Options {
    Options { spare_segments: 2, ..Options::default() }
}

/// Bytes that are nowhere else.
fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    std::iter::repeat_with(|| random.u8(..)).take(len).collect()
}

fn logged_bytes(store: &Store) -> u64 {
    store.shared.backlogs().iter().map(|log| log.bytes).sum()
}

fn copied_bytes(store: &Store) -> u64 {
    match store.shared.handle(SessionId::NOBODY, &Request::Status, &mut Vec::new()) {
        Response::Status(status) => status.digested_bytes,
        other => panic!("{other:?}"),
    }
}

fn written(call: &Caller, name: &str, content: &[u8]) {
    let file = call.open(name, O_CREAT | O_RDWR).unwrap();
    assert_eq!(call.client.pwrite(&file, &[content.into()], 0), Ok(content.len()), "in one piece");
    call.client.close(file).unwrap();
}

fn digest_all(shared: &SharedFs) {
    while matches!(shared.digest_step().unwrap(), Progress::Digested { .. }) {}
}

/// Changes one byte of the arena that holds these bytes.
fn damage(tier: &Path, found: &[u8]) {
    for entry in std::fs::read_dir(tier.join("arenas")).unwrap() {
        let path = entry.unwrap().path();
        let content = std::fs::read(&path).unwrap();
        if let Some(at) = content.chunks(4096).position(|block| block.starts_with(found)) {
            let file = std::fs::File::options().write(true).open(path).unwrap();
            file.write_all_at(&[!found[0]], at as u64 * 4096).unwrap();
            return;
        }
    }
    panic!("the bytes are in no arena");
}

#[test]
fn the_log_takes_the_edges_of_a_large_write_and_the_digest_copies_nothing_else() {
    let played = || Options { emulate: "optane-pmm".parse().unwrap(), ..options() };
    let stores = [
        Store::on(Medium::Memory, geometry(false), options()),
        Store::on(Medium::Memory, geometry(true), options()),
        Store::on(Medium::Block, geometry(true), options()),
        Store::on(Medium::Memory, geometry(false), played()),
        Store::with(geometry(false), options()),
    ];
    for (number, store) in stores.into_iter().enumerate() {
        let medium = format!("store {number} on {}", store.shared.superblock().medium);
        let call = root(&store.attach());
        let content = bytes(1, MIB + 5000);
        let file = call.open("f", O_CREAT | O_RDWR).unwrap();
        let (first, rest) = content.split_at(70_001);
        assert_eq!(call.client.pwrite(&file, &[first.into(), rest.into()], 1000), Ok(content.len()));
        assert!(logged_bytes(&store) < 20_000, "{} bytes of {medium}", logged_bytes(&store));
        let expected = [&[0; 1000][..], &content].concat();
        assert!(call.read_all(&file).unwrap() == expected, "{medium}, before the digest");
        let copied = copied_bytes(&store);
        digest_all(&store.shared);
        assert!(copied_bytes(&store) - copied <= 2 * 4096, "{medium}: its edges");
        assert!(call.read_all(&file).unwrap() == expected, "{medium}, behind the digest");
        call.client.digest().unwrap();
        assert!(call.read_all(&file).unwrap() == expected, "{medium}, where the digest left it");
        assert!(root(&store.attach()).read_file("f").unwrap() == expected, "{medium}, by another session");
        let again = store.take_over();
        assert_eq!(again.recovered().damaged_logs, 0);
    }
}

#[test]
fn an_overwrite_is_staged_from_128_kib_on_and_an_append_from_64() {
    let store = Store::on(Medium::Memory, geometry(false), options());
    let call = root(&store.attach());
    written(&call, "f", &bytes(2, MIB));
    call.client.digest().unwrap();
    let file = call.open("f", O_RDWR).unwrap();
    let logged = |write: &dyn Fn()| {
        let before = logged_bytes(&store);
        write();
        logged_bytes(&store) - before
    };
    let over = |len: usize| call.client.pwrite(&file, &[bytes(3, len)[..].into()], 8192).unwrap();
    assert!(logged(&|| assert_eq!(over(64 << 10), 64 << 10)) >= 64 << 10);
    assert!(logged(&|| assert_eq!(over(128 << 10), 128 << 10)) < 4096);
    file.set_flags(O_APPEND);
    let append = |len: usize| call.client.write(&file, &[bytes(4, len)[..].into()]).unwrap();
    assert!(logged(&|| assert_eq!(append(64 << 10), 64 << 10)) < 4096);
    assert!(logged(&|| assert_eq!(append(60 << 10), 60 << 10)) >= 60 << 10);
}

/// What no file kept of the blocks comes back: the store takes many times what it holds.
#[test]
fn on_a_disk_short_writes_are_staged_behind_a_mebibyte_that_no_program_waited_for() {
    let store = Store::on(Medium::Block, geometry(true), options());
    let call = root(&store.attach());
    let content = bytes(11, 3 * MIB);
    let file = call.open("f", O_CREAT | O_RDWR).unwrap();
    let write = |blocks: std::ops::Range<usize>| {
        let before = logged_bytes(&store);
        for block in blocks {
            let piece = &content[block * 4096..][..4096];
            assert_eq!(call.client.pwrite(&file, &[piece.into()], block as i64 * 4096), Ok(4096));
        }
        logged_bytes(&store) - before
    };
    assert!(write(0..256) >= MIB as u64, "no stream is that long yet");
    let streamed = write(256..512);
    assert!(streamed < MIB as u64 / 8, "{streamed} bytes");
    call.client.fsync(&file).unwrap();
    assert!(write(512..600) >= 88 * 4096, "a program waited");
    assert!(write(601..700) >= 99 * 4096, "a jump");
    assert!(write(600..601) >= 4096);
    assert!(write(700..768) >= 68 * 4096);
    assert!(call.read_all(&file).unwrap() == content, "before the digest");
    let copied = copied_bytes(&store);
    digest_all(&store.shared);
    assert!(copied_bytes(&store) - copied <= 2 * MIB as u64, "adopted blocks are not copied");
    let synchronous = call.open("synchronous", O_CREAT | O_RDWR | O_DSYNC).unwrap();
    for block in 0..400 {
        let before = logged_bytes(&store);
        let piece = &content[block * 4096..][..4096];
        assert_eq!(call.client.pwrite(&synchronous, &[piece.into()], block as i64 * 4096), Ok(4096));
        assert!(logged_bytes(&store) - before >= 4096, "a program waits for each write: {block}");
    }
    assert!(call.read_all(&file).unwrap() == content, "behind the digest");
    let again = store.take_over();
    assert_eq!(again.recovered().damaged_logs, 0);
    assert!(root(&attach_to(&again).client).read_file("f").unwrap() == content, "by the next daemon");
}

#[test]
fn blocks_of_overwritten_cut_and_removed_files_are_used_again() {
    for checks in [false, true] {
        let store = Store::on(Medium::Memory, geometry(checks), options());
        let client = store.attach();
        let call = root(&client);
        let free = store.shared.totals().unwrap().blocks_free;
        for round in 0..200u64 {
            let content = bytes(round, MIB);
            written(&call, "f", &content);
            match round % 4 {
                0 => drop(call.unlink("f")),
                1 => call.with_file("f", |client, file| client.truncate_open(file, 5000).unwrap()),
                2 => written(&call, "f", &bytes(round + 1000, 300_000)),
                _ => {}
            }
            if round % 16 == 15 {
                client.digest().unwrap();
            }
        }
        assert!(call.read_file("f").unwrap() == bytes(199, MIB));
        call.unlink("f").unwrap();
        client.detach();
        drop((call, client));
        digest_all(&store.shared);
        assert_eq!(store.shared.totals().unwrap().blocks_free, free);
        let report = store.check();
        assert!(report.is_clean(), "{report:?}");
    }
}

#[test]
fn small_writes_and_cuts_over_a_staged_write_that_is_not_digested() {
    let store = Store::on(Medium::Memory, geometry(true), options());
    let call = root(&store.attach());
    let mut expected = bytes(5, MIB);
    let file = call.open("f", O_CREAT | O_RDWR).unwrap();
    assert_eq!(call.client.pwrite(&file, &[expected[..].into()], 0), Ok(MIB));
    for (at, len) in [(10, 5), (4096, 4096), (9000, 10_000), (500_000, 1), (MIB - 3, 3)] {
        let piece = bytes(at as u64, len);
        assert_eq!(call.client.pwrite(&file, &[piece[..].into()], at as i64), Ok(len));
        expected[at..at + len].copy_from_slice(&piece);
    }
    call.client.truncate_open(&file, 900_001).unwrap();
    call.client.truncate_open(&file, 950_000).unwrap();
    expected.truncate(900_001);
    expected.resize(950_000, 0);
    assert!(call.read_all(&file).unwrap() == expected);
    call.client.digest().unwrap();
    assert!(call.read_all(&file).unwrap() == expected);
    assert!(root(&store.attach()).read_file("f").unwrap() == expected);
}

/// A client of the next daemon.
fn attach_to(shared: &Arc<SharedFs>) -> Caller {
    root(&Client::attach(Box::new(InProcess::of(shared, SessionId::NOBODY)), "test").unwrap())
}

/// A store with two acknowledged writes, of which the second is staged, and with nothing of them digested.
fn two_writes(store: &Store) -> (Arc<Client>, Vec<u8>) {
    let client = store.attach();
    let call = root(&client);
    written(&call, "before", b"before");
    let content = bytes(6, MIB);
    written(&call, "staged", &content);
    (client, content)
}

/// Such blocks were never written before the power went: the log ends before their entry.
#[test]
fn a_log_ends_before_a_staged_write_whose_blocks_are_not_there() {
    let store = Store::on(Medium::Memory, geometry(true), options());
    let (client, content) = two_writes(&store);
    damage(store.tier(), &content[40 * 4096..41 * 4096]);
    let next = store.take_over_with(Options { await_sessions: false, ..options() });
    assert_eq!(next.recovered().damaged_logs, 0, "nothing says that it was acknowledged");
    let call = attach_to(&next);
    assert_eq!(call.read_file("before").unwrap(), b"before");
    assert_eq!(call.read_file("staged").unwrap(), b"");
    drop(client);
}

/// An entry behind says that the staged write was acknowledged: its damaged block is told, and everything else is there.
#[test]
fn a_damaged_block_of_an_acknowledged_staged_write_is_an_error_there() {
    let store = Store::on(Medium::Memory, geometry(true), options());
    let (client, content) = two_writes(&store);
    written(&root(&client), "behind", b"behind");
    damage(store.tier(), &content[40 * 4096..41 * 4096]);
    let next = store.take_over_with(Options { await_sessions: false, ..options() });
    let call = attach_to(&next);
    assert_eq!(call.read_file("behind").unwrap(), b"behind");
    let file = call.open("staged", O_RDWR).unwrap();
    let mut block = [0; 4096];
    let read = |block: &mut [u8], number: i64| call.client.pread(&file, &mut [block.into()], number * 4096);
    assert!(matches!(read(&mut block, 40), Err(Error::Content(_))));
    assert_eq!(read(&mut block, 41), Ok(4096));
    assert!(block == content[41 * 4096..42 * 4096]);
    drop(client);
}
