//! What digests leave in the shared area.

use crate::common::*;
use cuesta_format::operation::Attributes;
use cuesta_format::wire::{LeaseMode, Request, Response};
use cuesta_format::{Extent, InodeNumber, LogPosition, Operation, SessionId, Timestamp};
use cuesta_sharedfs::Ending;

#[test]
fn a_small_file_arrives_whole() {
    let store = Store::new();
    let shared = store.open();
    let mut writer = Writer::attach(&shared);
    let file = writer.file(b"hello");
    writer.write(file, 0, b"hello, world");
    assert!(find(&shared, "hello").is_none());
    writer.digest();
    assert_eq!(content(&shared, "hello"), b"hello, world");
    assert_eq!(writer.digested(), writer.at);
    let report = writer.report(LogPosition(0));
    assert_eq!((report.digested, report.more, report.placed.len()), (writer.at, false, 1));
    assert_eq!((report.placed[0].inode, report.placed[0].extent.blocks), (file, 1));
}

/// Where a report says that blocks of a file went.
fn moved(writer: &mut Writer, from: LogPosition) -> Vec<Extent> {
    let placed = writer.report(from).placed;
    assert!(!placed.is_empty(), "the writer learns that it may let go of what it logged");
    placed.iter().map(|placed| placed.extent).filter(|extent| extent.blocks > 0).collect()
}

#[test]
fn overwritten_blocks_stay_where_they_lie() {
    let store = Store::new();
    let shared = store.open();
    let mut writer = Writer::attach(&shared);
    writer.vouch();
    let file = writer.file(b"f");
    let mut expected = vec![1; 16 * 4096 + 100];
    writer.write(file, 0, &expected);
    writer.digest();
    let [extent] = moved(&mut writer, LogPosition(0))[..] else { panic!("it lies in one piece") };
    let before = writer.at;
    for (at, length) in [(3 * 4096, 4096), (7 * 4096 + 100, 9000), (16 * 4096 - 1, 101)] {
        writer.write(file, at as u64, &vec![2; length]);
        expected[at..at + length].fill(2);
    }
    writer.digest();
    assert_eq!(content(&shared, "f"), expected);
    let last = Extent { file_block: 16, blocks: 1, address: extent.address_of(16) };
    assert_eq!(moved(&mut writer, before), [last], "the block with the file's end: its rest is unknown");
    assert_eq!(shared.inode_record(file).unwrap().unwrap().blocks, 17);
}

#[test]
fn a_range_cut_and_written_anew_gets_new_blocks() {
    let store = Store::new();
    let shared = store.open();
    let mut writer = Writer::attach(&shared);
    writer.vouch();
    let file = writer.file(b"f");
    writer.write(file, 0, &[1; 8192]);
    writer.digest();
    let [old] = moved(&mut writer, LogPosition(0))[..] else { panic!("it lies in one piece") };
    let before = writer.at;
    writer.truncate(file, 0);
    writer.write(file, 0, &[2; 8192]);
    writer.digest();
    assert_eq!(content(&shared, "f"), [2; 8192]);
    let [new] = moved(&mut writer, before)[..] else { panic!("it lies in one piece") };
    assert_eq!((new.blocks, new.address == old.address), (2, false));
}

#[test]
fn unacknowledged_content_is_not_written_over_acknowledged() {
    let store = Store::new();
    let shared = store.open();
    let mut writer = Writer::attach(&shared);
    writer.vouch();
    let file = writer.file(b"f");
    writer.write(file, 0, &[1; 4096]);
    writer.digest();
    let [old] = moved(&mut writer, LogPosition(0))[..] else { panic!("it lies in one piece") };
    let data = [2; 4096];
    let operation = Operation::Write { inode: file, offset: 0, data: &data };
    let header = writer.header(&operation, 1);
    writer.append_sealed(&header, &data);
    shared.end_session(writer.session, Ending::Gone).unwrap();
    assert!(content(&shared, "f") == data, "it is there, and so it counts");
    let new = &Writer::attach(&shared).acquire(file, LeaseMode::Read).extents[0];
    assert_ne!(new.address, old.address);
}

#[test]
fn a_file_written_under_another_name_costs_one_block_and_two_puts() {
    let store = Store::new();
    let shared = store.open();
    let mut writer = Writer::attach(&shared);
    let file = writer.file(b"tmp");
    writer.write(file, 0, &[7; 4096]);
    writer.rename(file, (ROOT, b"tmp"), (ROOT, b"final"));
    writer.digest();
    let Response::Status(status) = writer.request(&Request::Status) else { panic!() };
    assert_eq!((status.digested_entries, status.coalesced_entries, status.digested_bytes), (3, 1, 4096));
    assert_eq!(content(&shared, "final"), [7; 4096]);
    assert!(find(&shared, "tmp").is_none());
}

#[test]
fn a_file_created_and_removed_in_one_batch_leaves_nothing() {
    let store = Store::new();
    let shared = store.open();
    let mut writer = Writer::attach(&shared);
    let before = shared.totals().unwrap();
    let file = writer.file(b"gone");
    writer.write(file, 0, &[1; 10_000]);
    writer.unlink(ROOT, b"gone", file, false);
    writer.digest();
    let Response::Status(status) = writer.request(&Request::Status) else { panic!() };
    assert_eq!((status.digested_bytes, status.totals.inodes), (0, before.inodes));
    assert!(dump(&shared).is_empty());
}

#[test]
fn writes_truncates_and_digests_agree_with_a_plain_buffer() {
    let seed = std::env::var("SEED").map_or(5, |seed| seed.parse().unwrap());
    let mut random = fastrand::Rng::with_seed(seed);
    let store = Store::new();
    let shared = store.open();
    let mut writer = Writer::attach(&shared);
    let file = writer.file(b"f");
    let mut model: Vec<u8> = Vec::new();
    for step in 0..1200 {
        match random.u8(0..12) {
            0..7 => {
                let offset = random.usize(0..40_000);
                let data: Vec<u8> = (0..random.usize(1..9000)).map(|_| random.u8(1..)).collect();
                writer.write(file, offset as u64, &data);
                model.resize(model.len().max(offset + data.len()), 0);
                model[offset..offset + data.len()].copy_from_slice(&data);
            }
            7..9 => {
                let size = random.usize(0..50_000);
                writer.truncate(file, size as u64);
                model.resize(size, 0);
            }
            9 => {
                let size = random.usize(0..10) * 4096;
                writer.truncate(file, size as u64);
                model.resize(size, 0);
            }
            _ => {}
        }
        // The ring holds half a megabyte: digest before it is full, and sometimes earlier.
        if random.u8(0..6) == 0 || writer.at.0 - writer.digested().0 > 300 << 10 {
            writer.digest();
            writer.retire(writer.at);
            assert!(content(&shared, "f") == model, "seed {seed}, step {step}");
            let record = shared.inode_record(file).unwrap().unwrap();
            let blocks: u64 = shared
                .snapshot()
                .unwrap()
                .extents(file, 0..u64::MAX)
                .unwrap()
                .iter()
                .map(|extent| u64::from(extent.blocks))
                .sum();
            assert_eq!(record.blocks, blocks);
            writer.request(&Request::Credit { blocks: 100 });
        }
    }
    assert!(writer.at.0 > 3 * writer.geometry.ring_bytes(), "the log has wrapped");
}

#[test]
fn truncating_into_a_block_and_growing_again_shows_zeros() {
    let store = Store::new();
    let shared = store.open();
    let mut writer = Writer::attach(&shared);
    let file = writer.file(b"f");
    writer.write(file, 0, &[0xff; 8192]);
    writer.digest();
    writer.truncate(file, 100);
    writer.digest();
    writer.truncate(file, 6000);
    writer.digest();
    let mut expected = vec![0xff; 100];
    expected.resize(6000, 0);
    assert_eq!(content(&shared, "f"), expected);
    writer.write(file, 5000, b"x");
    writer.digest();
    expected[5000] = b'x';
    assert_eq!(content(&shared, "f"), expected);
}

#[test]
fn a_tree_with_links_renames_and_attributes() {
    let store = Store::new();
    let shared = store.open();
    let mut writer = Writer::attach(&shared);
    let a = writer.directory(b"a");
    let b = writer.directory(b"b");
    let inner = writer.create_in(a, b"inner", 0o040_700);
    let file = writer.create_in(inner, b"file", 0o100_600);
    writer.append(Operation::Link { parent: b, inode: file, name: b"second" });
    let link = writer.create_in(b, b"link", 0o120_777);
    writer.rename(inner, (a, b"inner"), (b, b"moved"));
    let attributes = Attributes {
        mode: Some(0o4751),
        gid: Some(77),
        modified: Some(Timestamp(5)),
        ..Attributes::default()
    };
    writer.append(Operation::SetAttributes { inode: file, attributes });
    writer.digest();
    let record = |inode| shared.inode_record(inode).unwrap().unwrap();
    assert_eq!((record(a).links, record(a).size), (2, 0));
    assert_eq!((record(b).links, record(b).size), (3, 3));
    assert_eq!((record(ROOT).links, record(ROOT).size), (4, 2));
    assert_eq!(record(inner).parent, b);
    assert_eq!((record(file).links, record(file).mode, record(file).gid), (2, 0o104_751, 77));
    assert_eq!((record(file).modified, record(file).changed), (Timestamp(5), Timestamp(writer.clock)));
    assert_eq!(find(&shared, "b/moved/file"), Some(file));
    assert_eq!(find(&shared, "b/second"), Some(file));
    assert_eq!(shared.link_target(link).unwrap().unwrap(), b"some/target");
    assert_eq!(record(link).size, 11);

    writer.append(Operation::Rename {
        parent: b,
        name: b"link",
        new_parent: ROOT,
        new_name: b"a",
        inode: link,
        replaced: a,
        orphan: false,
        exchange: true,
    });
    writer.digest();
    assert_eq!((find(&shared, "a"), find(&shared, "b/link")), (Some(link), Some(a)));
    assert_eq!((record(ROOT).links, record(b).links, record(a).parent), (3, 4, b));
}

#[test]
fn a_rename_replaces_and_frees() {
    let store = Store::new();
    let shared = store.open();
    let mut writer = Writer::attach(&shared);
    let old = writer.file(b"target");
    writer.write(old, 0, &[1; 50_000]);
    writer.digest();
    let new = writer.file(b"source");
    writer.write(new, 0, b"new");
    writer.rename_over(new, (ROOT, b"source"), (ROOT, b"target"), old);
    writer.digest();
    assert_eq!(content(&shared, "target"), b"new");
    assert_eq!(shared.inode_record(old).unwrap(), None);
    assert_eq!(shared.read_directory(ROOT).unwrap().len(), 1);
    assert_eq!(shared.inode_record(ROOT).unwrap().unwrap().size, 1);
}

#[test]
fn holes_take_no_blocks() {
    let store = Store::new();
    let shared = store.open();
    let mut writer = Writer::attach(&shared);
    let file = writer.file(b"sparse");
    writer.write(file, 1 << 40, b"end");
    writer.truncate(file, (1 << 40) + 5000);
    writer.digest();
    let record = shared.inode_record(file).unwrap().unwrap();
    assert_eq!((record.size, record.blocks), ((1 << 40) + 5000, 1));
    let mut around = [9; 5];
    shared.read_file(file, (1 << 40) - 1, &mut around).unwrap();
    assert_eq!(&around, b"\0end\0");
}

#[test]
fn an_orphan_lives_until_it_is_released() {
    let store = Store::new();
    let shared = store.open();
    let mut writer = Writer::attach(&shared);
    let [kept, ended, released] = [b"a", b"b", b"c"].map(|name| writer.file(name));
    for (inode, name) in [(kept, b"a"), (ended, b"b"), (released, b"c")] {
        writer.write(inode, 0, &[3; 9000]);
        writer.unlink(ROOT, name, inode, true);
    }
    writer.digest();
    assert!(dump(&shared).is_empty());
    writer.write(released, 9000, b"more");
    writer.digest();
    assert_eq!(shared.file_content(released).unwrap().len(), 9004);
    writer.append(Operation::Release { inode: released });
    writer.digest();
    assert_eq!(shared.inode_record(released).unwrap(), None);
    assert_eq!(shared.inode_record(kept).unwrap().map(|record| record.links), Some(0));
    writer.request(&Request::Detach);
    assert_eq!(shared.inode_record(kept).unwrap(), None);
    assert_eq!(shared.inode_record(ended).unwrap(), None);
    assert_eq!(shared.totals().unwrap().inodes, 1);
}

#[test]
fn an_orphan_made_and_released_in_one_batch_leaves_nothing() {
    let store = Store::new();
    let shared = store.open();
    let mut writer = Writer::attach(&shared);
    let file = writer.file(b"a");
    writer.write(file, 0, &[3; 9000]);
    writer.unlink(ROOT, b"a", file, true);
    writer.append(Operation::Release { inode: file });
    writer.digest();
    assert_eq!(shared.totals().unwrap().inodes, 1);
    assert_eq!(writer.report(LogPosition(0)).placed, []);
}

#[test]
fn a_detached_session_is_over_and_its_log_was_digested() {
    let store = Store::new();
    let shared = store.open();
    let mut writer = Writer::attach(&shared);
    let file = writer.file(b"last");
    writer.write(file, 0, b"words");
    assert_eq!(writer.request(&Request::Detach), Response::Done);
    assert_eq!(content(&shared, "last"), b"words");
    assert!(matches!(writer.request(&Request::Resync), Response::Failed(_)));
    assert!(shared.snapshot().unwrap().session(SessionId(1)).unwrap().is_some());
    let mut next = Writer::attach(&shared);
    assert!(next.session > writer.session);
    next.file(b"x");
    next.digest();
    assert_eq!(shared.snapshot().unwrap().session(SessionId(1)).unwrap(), None);
    assert_ne!(next.number(), InodeNumber(writer.next_inode));
}

#[test]
fn an_explained_file_is_digested_first() {
    let store = Store::new();
    let shared = store.open();
    let mut writer = Writer::attach(&shared);
    let file = writer.file(b"f");
    writer.write(file, 0, &[1; 5000]);
    let explain = Request::Explain { path: b"f".to_vec() };
    let Response::Explained(explained) = writer.request(&explain) else { panic!("not explained") };
    assert_eq!((explained.record.size, explained.extents.len()), (5000, 1));
    assert_eq!(writer.digested(), writer.at);
}

#[test]
fn a_stand_in_goes_with_its_pipe() {
    let store = Store::new();
    let shared = store.open();
    let folder = store.tier().join("special");
    let mut writer = Writer::attach(&shared);
    let make = |inode: InodeNumber| std::fs::write(folder.join(inode.0.to_string()), "").unwrap();
    let kept = writer.create_in(ROOT, b"kept", libc::S_IFIFO | 0o600);
    let gone = writer.create_in(ROOT, b"gone", libc::S_IFIFO | 0o600);
    let never = writer.create_in(ROOT, b"never", libc::S_IFSOCK | 0o600);
    [kept, gone, never].into_iter().for_each(make);
    writer.unlink(ROOT, b"never", never, false);
    writer.digest();
    assert_eq!(names_under(&folder).len(), 2, "the kept and the one to go");
    writer.unlink(ROOT, b"gone", gone, false);
    writer.digest();
    assert_eq!(names_under(&folder).len(), 1);
    // A daemon killed between the commit and the removal leaves one; the next takes it away.
    make(gone);
    drop(writer);
    drop(shared);
    drop(store.open());
    assert_eq!(names_under(&folder).len(), 1);
    assert!(folder.join(kept.0.to_string()).exists());
}
