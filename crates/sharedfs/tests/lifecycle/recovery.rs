//! The store after a kill, whatever the logs hold.

use crate::common::*;
use cuesta_format::access_list::{ACCESS_LIST, DEFAULT_LIST, Entry, Whom, encode};
use cuesta_format::entry::EntryKind;
use cuesta_format::geometry::BOOT_FILE;
use cuesta_format::session_table::{HEAD_BYTES, TableHead, head_offset};
use cuesta_format::wire::{LeaseMode, Request, Response};
use cuesta_format::{InodeNumber, LogPosition, Medium, Operation};
use cuesta_sharedfs::{Ending, Error, SharedFs};
use std::os::fd::AsRawFd as _;
use std::path::Path;

/// A few files and directories, some digested, most still in the log.
fn work(writer: &mut Writer) {
    let directory = writer.directory(b"d");
    for number in 0..20u8 {
        let file = writer.create_in(directory, &[b'a' + number], 0o100_644);
        writer.write(file, u64::from(number) * 1000, &vec![number; 700 * usize::from(number)]);
        if number == 6 {
            writer.digest();
        }
        if number % 3 == 0 {
            writer.rename(file, (directory, &[b'a' + number]), (ROOT, &[b'A' + number]));
        }
    }
    let file = writer.file(b"orphan");
    writer.unlink(ROOT, b"orphan", file, true);
}

fn expected() -> Vec<String> {
    let store = Store::new();
    let shared = store.open();
    let mut writer = Writer::attach(&shared);
    work(&mut writer);
    writer.request(&Request::Detach);
    dump(&shared)
}

#[test]
fn acknowledged_entries_are_there_after_a_kill() {
    let store = Store::new();
    let shared = store.open();
    let mut writer = Writer::attach(&shared);
    work(&mut writer);
    kill(shared, vec![writer]);
    let shared = store.open();
    assert_eq!(dump(&shared), expected());
    assert_eq!(shared.recovered().sessions, 1);
    assert_eq!(shared.recovered().entries, 50 - 17);
    assert_eq!(shared.totals().unwrap().inodes, 22);
    assert!(shared.snapshot().unwrap().sessions().unwrap().is_empty());
}

#[test]
fn recovering_twice_is_recovering_once() {
    let store = Store::new();
    let shared = store.open();
    let mut writer = Writer::attach(&shared);
    work(&mut writer);
    kill(shared, vec![writer]);
    std::mem::forget(store.open());
    let shared = store.open();
    assert_eq!(shared.recovered().entries, 0);
    assert_eq!(dump(&shared), expected());
}

#[test]
fn several_dead_sessions_are_recovered() {
    let store = Store::new();
    let shared = store.open();
    let mut writers: Vec<Writer> = (0..5).map(|_| Writer::attach_without_credit(&shared)).collect();
    for writer in &mut writers {
        assert_eq!(writer.request(&Request::Credit { blocks: 10 }), Response::Done);
    }
    for (number, writer) in writers.iter_mut().enumerate() {
        // Each session has a directory of its own; the root's lease goes round.
        writer.acquire(ROOT, LeaseMode::Write);
        let directory = writer.directory(format!("d{number}").as_bytes());
        let file = writer.create_in(directory, b"f", 0o100_644);
        writer.write(file, 0, format!("content {number}").as_bytes());
        if number == 2 {
            writer.digest();
        }
    }
    kill(shared, writers);
    let shared = store.open();
    for number in 0..5 {
        assert_eq!(content(&shared, &format!("d{number}/f")), format!("content {number}").as_bytes());
    }
    assert_eq!(names_under(&store.tier().join("logs")).len(), 40);
    let mut writer = Writer::attach(&shared);
    writer.file(b"after");
    assert_eq!(names_under(&store.tier().join("logs")).len(), 40, "segments are recycled");
}

#[test]
fn a_flipped_bit_anywhere_keeps_the_prefix() {
    let seed = std::env::var("SEED").map_or(3, |seed| seed.parse().unwrap());
    let mut random = fastrand::Rng::with_seed(seed);
    for round in 0..30 {
        let store = Store::new();
        let shared = store.open();
        let mut writer = Writer::attach(&shared);
        let mut ends = Vec::new();
        for number in 0..12u8 {
            let file = writer.file(&[b'a' + number]);
            ends.push(writer.at);
            writer.write(file, 0, &vec![number; random.usize(1..3000)]);
            ends.push(writer.at);
        }
        let flip = LogPosition(random.u64(0..writer.at.0));
        let byte = writer.read_raw(flip);
        writer.write_raw(flip, &[byte ^ (1 << random.u8(0..8))]);
        kill(shared, vec![writer]);
        let shared = store.open();
        // A flip in the padding behind a body harms nothing.
        let kept = shared.recovered().entries;
        let damaged = ends.iter().filter(|&&end| end <= flip).count() as u64;
        assert!(kept == damaged || kept == 24, "seed {seed}, round {round}: {kept}, {damaged}");
        assert_eq!(dump(&shared).len() as u64, kept.div_ceil(2), "seed {seed}, round {round}");
    }
}

#[test]
fn a_hole_ends_the_prefix_even_if_valid_entries_follow() {
    let store = Store::new();
    let shared = store.open();
    let mut writer = Writer::attach(&shared);
    writer.file(b"a");
    let hole = writer.at;
    writer.file(b"b");
    writer.file(b"c");
    writer.write_raw(hole, &[0; 64]);
    kill(shared, vec![writer]);
    let shared = store.open();
    assert_eq!(dump(&shared).len(), 1);
    assert!(find(&shared, "a").is_some());
}

#[test]
fn void_entries_are_passed_over() {
    let store = Store::new();
    let shared = store.open();
    let mut writer = Writer::attach(&shared);
    writer.file(b"a");
    let mut header = writer.header(&Operation::Void, 0);
    header.kind = EntryKind::Void;
    header.body_bytes = 1000;
    writer.append_sealed(&header, &[0x77; 1000]);
    writer.file(b"b");
    kill(shared, vec![writer]);
    assert_eq!(dump(&store.open()).len(), 2);
}

#[test]
fn the_log_wraps_and_is_recovered_across_the_end_of_the_ring() {
    let store = Store::new();
    let shared = store.open();
    let mut writer = Writer::attach(&shared);
    let file = writer.file(b"f");
    let ring = writer.geometry.ring_bytes();
    let mut number = 0u64;
    while writer.at.0 < ring - 20_000 {
        writer.write(file, number % 7 * 9000, &number.to_le_bytes().repeat(1000));
        number += 1;
        writer.digest();
        writer.retire(writer.at);
        writer.request(&Request::Credit { blocks: 3 });
    }
    while writer.at.0 < ring + 20_000 {
        writer.write(file, number % 7 * 9000, &number.to_le_bytes().repeat(1000));
        number += 1;
    }
    kill(shared, vec![writer]);
    let shared = store.open();
    let content = content(&shared, "f");
    for last in number - 7..number {
        let at = (last % 7 * 9000) as usize;
        assert!(content[at..at + 8000] == last.to_le_bytes().repeat(1000));
    }
    assert!(shared.recovered().entries >= 4);
}

#[test]
fn an_entry_larger_than_a_batch_is_digested() {
    let store = Store::new();
    let shared = store.open();
    let mut writer = Writer::attach(&shared);
    let file = writer.file(b"f");
    let data: Vec<u8> = (0..100_000u32).flat_map(u32::to_le_bytes).take(110_000).collect();
    writer.write(file, 5, &data);
    kill(shared, vec![writer]);
    let shared = store.open();
    assert_eq!(content(&shared, "f")[5..], data);
}

fn list() -> Vec<u8> {
    let whoms = [Whom::Owner, Whom::User(7), Whom::OwningGroup, Whom::Mask, Whom::Others];
    encode(&whoms.map(|whom| Entry { whom, permissions: 5 }))
}

/// Rubbish with valid checksums: each is rejected, the prefix stays, the session is over, no other suffers.
#[test]
fn entries_that_make_no_sense_are_rejected_without_harm() {
    type Rubbish = fn(&mut Writer, InodeNumber, InodeNumber);
    let rubbish: [(&str, Rubbish); 19] = [
        ("write to nothing", |writer, _, _| writer.write(InodeNumber(999), 0, b"x")),
        ("write to a directory", |writer, directory, _| writer.write(directory, 0, b"x")),
        ("write past the end of the world", |writer, _, file| writer.write(file, u64::MAX - 3, b"long")),
        ("truncate to too much", |writer, _, file| writer.truncate(file, u64::MAX)),
        ("create over a name", |writer, _, _| {
            writer.file(b"file");
        }),
        ("create an inode twice", |writer, _, file| writer.create_as(ROOT, b"n", 0o100_644, file)),
        ("create a number never granted", |writer, _, _| {
            writer.create_as(ROOT, b"n", 0o100_644, InodeNumber(1 << 50));
        }),
        ("create of no kind", |writer, _, _| {
            writer.create_in(ROOT, b"n", 0o644);
        }),
        ("create in a file", |writer, _, file| {
            writer.create_in(file, b"n", 0o100_644);
        }),
        ("remove a directory that is not empty", |writer, directory, _| {
            writer.unlink(ROOT, b"directory", directory, false);
        }),
        ("remove what the name does not stand for", |writer, directory, _| {
            writer.unlink(ROOT, b"file", directory, false);
        }),
        ("link a directory", |writer, directory, _| {
            writer.append(Operation::Link { parent: ROOT, inode: directory, name: b"again" });
        }),
        ("release what has names", |writer, _, file| writer.append(Operation::Release { inode: file })),
        ("a directory below itself", |writer, directory, _| {
            let inner = find(&writer.shared, "directory/inner").unwrap();
            writer.rename(directory, (ROOT, b"directory"), (inner, b"loop"));
        }),
        ("an access list of rubbish", |writer, _, file| {
            writer.append(Operation::SetAccessList { inode: file, mode: 0o644, list: b"rubbish" });
        }),
        ("an access list without its mode", |writer, _, file| {
            let (name, value) = (ACCESS_LIST, &list()[..]);
            writer.append(Operation::SetExtended { inode: file, name, value });
        }),
        ("a default list of rubbish", |writer, directory, _| {
            let (name, value) = (DEFAULT_LIST, &b"rubbish"[..]);
            writer.append(Operation::SetExtended { inode: directory, name, value });
        }),
        ("a default list of a file", |writer, _, file| {
            let (name, value) = (DEFAULT_LIST, &list()[..]);
            writer.append(Operation::SetExtended { inode: file, name, value });
        }),
        ("a file made with a list of rubbish", |writer, _, _| {
            let (inode, mode) = (writer.number(), 0o100_644);
            let list = b"rubbish";
            let (parent, name) = (ROOT, b"n");
            let (uid, gid, device) = (1, 2, 0);
            writer.append(Operation::Create {
                parent,
                inode,
                mode,
                uid,
                gid,
                device,
                name,
                target: b"",
                list,
            });
        }),
    ];
    for (what, rubbish) in rubbish {
        let store = Store::new();
        let shared = store.open();
        let mut writer = Writer::attach(&shared);
        let directory = writer.directory(b"directory");
        writer.create_in(directory, b"inner", 0o040_755);
        let file = writer.file(b"file");
        writer.digest();
        let before = dump(&shared);
        let good = writer.at;
        rubbish(&mut writer, directory, file);
        writer.digest_to_its_end();
        assert_eq!(dump(&shared), before, "{what}");
        assert_eq!(writer.digested(), good, "{what}");
        assert!(matches!(writer.request(&Request::Resync), Response::Failed(_)), "{what}");
        let mut other = Writer::attach(&shared);
        other.file(b"alive");
        other.digest();
        assert!(find(&shared, "alive").is_some(), "{what}");
    }
}

#[test]
fn bytes_of_chance_with_a_valid_checksum_never_panic() {
    let seed = std::env::var("SEED").map_or(1, |seed| seed.parse().unwrap());
    let mut random = fastrand::Rng::with_seed(seed);
    let kinds = [
        EntryKind::Write,
        EntryKind::Truncate,
        EntryKind::Create,
        EntryKind::Link,
        EntryKind::Unlink,
        EntryKind::Rename,
        EntryKind::SetAttributes,
        EntryKind::Release,
        EntryKind::Clear,
        EntryKind::Shift,
        EntryKind::CreateUnnamed,
        EntryKind::SetAccessList,
    ];
    let store = Store::new();
    let shared = store.open();
    for _ in 0..300 {
        let mut writer = Writer::attach(&shared);
        writer.acquire(ROOT, LeaseMode::Write);
        for _ in 0..3 {
            let mut header = writer.header(&Operation::Void, random.u32(0..4));
            header.kind = *random.choice(&kinds).unwrap();
            header.flags = random.u8(..);
            header.inode = InodeNumber(random.u64(0..writer.next_inode + 2));
            header.argument = if random.bool() { random.u64(0..5) } else { random.u64(..) };
            let body: Vec<u8> = (0..random.usize(0..90)).map(|_| random.u8(..) % 3).collect();
            header.body_bytes = body.len() as u32;
            writer.append_sealed(&header, &body);
            writer.complete(writer.at);
        }
        let _ = writer.request(&Request::Digest);
        shared.end_session(writer.session, Ending::Gone).unwrap();
    }
    dump(&shared);
}

#[test]
fn a_store_that_is_none_is_refused() {
    let store = Store::new();
    let again = SharedFs::create(&store.tier(), *store.open().superblock());
    assert!(matches!(again, Err(Error::Exists(_))));
    let copies = ["superblock", "superblock.copy"].map(|name| store.tier().join(name));
    for copy in &copies {
        let mut bytes = std::fs::read(copy).unwrap();
        bytes[20] ^= 1;
        std::fs::write(copy, &bytes).unwrap();
    }
    assert!(matches!(SharedFs::open(&store.tier(), options()), Err(Error::Superblock(_))));
    copies.iter().for_each(|copy| std::fs::remove_file(copy).unwrap());
    assert!(matches!(SharedFs::open(&store.tier(), options()), Err(Error::NoStore(_))));
}

#[test]
fn a_name_that_is_there_already_is_found_in_the_middle_of_many_new_ones() {
    for taken in 0..40 {
        let store = Store::new();
        let shared = store.open();
        let mut writer = Writer::attach(&shared);
        let name = |number: usize| format!("n{number:02}").into_bytes();
        let first = writer.file(&name(taken));
        writer.digest();
        for number in 0..40 {
            writer.file(&name(number));
        }
        writer.digest_to_its_end();
        let names: Vec<_> =
            shared.read_directory(ROOT).unwrap().into_iter().map(|entry| entry.name).collect();
        let expected: Vec<_> = (0..=taken).map(name).collect();
        assert_eq!(names, expected);
        assert_eq!(find(&shared, &format!("n{taken:02}")), Some(first));
        assert!(matches!(writer.request(&Request::Resync), Response::Failed(_)));
    }
}

#[test]
fn a_log_whose_writer_lives_on_goes_to_no_other_session() {
    let store = Store::new();
    let shared = store.open();
    let mut descriptors = Vec::new();
    let (handle, ..) = shared.attach(std::process::id(), "survivor").unwrap();
    shared.handle(handle.session, &Request::GrowLog { have: 0, slots: 2 }, &mut descriptors);
    let survivors: Vec<std::fs::File> = descriptors.into_iter().map(Into::into).collect();
    assert_eq!(survivors.len(), 2);
    std::mem::forget(shared);
    let shared = store.open();
    let mut writer = Writer::attach(&shared);
    writer.acquire(ROOT, LeaseMode::Write);
    writer.file(b"new");
    for segment in &survivors {
        std::os::unix::fs::FileExt::write_all_at(segment, &[0xee; 4096], 0).unwrap();
    }
    writer.digest();
    assert!(find(&shared, "new").is_some());
}

/// A commit file says nothing that the log does not: whatever its owner makes of it, others lose nothing.
#[test]
fn a_commit_file_that_its_owner_cut_or_forged_hinders_no_recovery() {
    let store = Store::on(Medium::Block);
    for cut in [true, false] {
        let shared = store.open();
        let mut writer = Writer::attach(&shared);
        writer.acquire(ROOT, LeaseMode::Write);
        let name = if cut { "before" } else { "after" };
        writer.file(name.as_bytes());
        let mut descriptors = Vec::new();
        let ask = |descriptors: &mut _| shared.handle(writer.session, &Request::CommitFile, descriptors);
        assert_eq!(ask(&mut descriptors), Response::Done);
        let Some(file) = descriptors.pop() else {
            println!("skipped: this kernel's tmpfs takes no direct writes");
            return;
        };
        let file = std::fs::File::from(file);
        assert_eq!(ask(&mut descriptors), Response::Done);
        assert_eq!(descriptors.len(), 1, "the one that did not arrive is sent again");
        if cut {
            file.set_len(100).unwrap();
        } else {
            let noise = vec![0xee; geometry().segment_bytes as usize];
            std::fs::write(format!("/proc/self/fd/{}", file.as_raw_fd()), noise).unwrap();
        }
        kill(shared, vec![writer]);
        let shared = store.open();
        assert!(find(&shared, name).is_some());
    }
}

#[test]
fn where_the_medium_needs_no_commit_file_none_is_given() {
    let store = Store::on(Medium::Memory);
    let shared = store.open();
    let mut writer = Writer::attach(&shared);
    assert!(matches!(writer.request(&Request::CommitFile), Response::Failed(_)));
    kill(shared, vec![writer]);
}

/// Has a store say that it was written in another boot: the file that names it, and both files of the session table.
pub fn name_another_boot(tier: &Path) {
    const ANOTHER: &str = "00000000-0000-4000-8000-000000000000\n";
    std::fs::write(tier.join(BOOT_FILE), ANOTHER).unwrap();
    for name in ["sessions", "sessions.copy"] {
        let path = tier.join(name);
        let mut bytes = std::fs::read(&path).unwrap();
        for copy in 0..2 {
            let at = head_offset(copy) as usize..head_offset(copy) as usize + HEAD_BYTES;
            if let Some((sequence, head)) = TableHead::decode(&bytes[at.clone()]) {
                bytes[at].copy_from_slice(&TableHead { boot: head.boot ^ 6, ..head }.encode(sequence));
            }
        }
        std::fs::write(&path, bytes).unwrap();
    }
}

/// A number is another process's after the machine has started anew: no daemon waits for that one.
#[test]
fn only_in_the_same_boot_are_programs_awaited() {
    let program = Program::start();
    let notes: [(&str, Option<&str>, usize); 4] = [
        ("as it was left", None, 1),
        ("missing", Some("missing"), 1),
        ("cut off by a loss of power", Some(""), 1),
        ("of another boot", Some("another"), 0),
    ];
    for (what, note, awaited) in notes {
        let store = Store::new();
        let path = store.tier().join(BOOT_FILE);
        let shared = store.open();
        let this = std::fs::read_to_string(&path).unwrap();
        let mut writer = Writer::attach_as(&shared, program.0.id());
        let file = writer.file(b"f");
        writer.write(file, 0, b"content");
        kill(shared, vec![writer]);
        match note {
            None => {}
            Some("missing") => std::fs::remove_file(&path).unwrap(),
            Some("another") => name_another_boot(&store.tier()),
            Some(note) => std::fs::write(&path, note).unwrap(),
        }
        let shared = store.open();
        assert_eq!(shared.awaited().len(), awaited, "{what}");
        assert_eq!(content(&shared, "f"), b"content", "{what}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), this, "{what}");
    }
}
