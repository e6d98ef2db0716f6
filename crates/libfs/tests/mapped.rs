//! Files in mapped mode: one memory for all processes that map them, and for all that read, write and cut
//! them by calls.

use crate::common::{Caller, ROOT, Store, root, small};
use cuesta_format::InodeNumber;
use cuesta_format::wire::{Request, Response};
use cuesta_format::{Medium, SessionId, Timestamp};
use cuesta_libfs::{Allocation, Base, Error, OpenFile, SetAttributes, SetTime, Target, Whence};
use cuesta_media::{Mapping, Protection, mapped_files};
use libc::{O_APPEND, O_CREAT, O_RDWR};
use std::fs::File;
use std::sync::Arc;

/// Maps so many bytes of a file, as a program does.
fn map(caller: &Caller, file: &OpenFile, bytes: u64) -> Mapping {
    let shared = caller.client.map_shared(file, true).unwrap();
    Mapping::of_file(&shared, 0, bytes, Protection::ReadWrite, Medium::Memory, false).unwrap()
}

fn seen(mapping: &Mapping, at: u64, bytes: usize) -> Vec<u8> {
    let mut out = vec![0; bytes];
    mapping.read(at, &mut out).unwrap();
    out
}

fn pwrite(caller: &Caller, file: &OpenFile, bytes: &[u8], at: u64) {
    assert_eq!(caller.client.pwrite(file, &[bytes.into()], at as i64), Ok(bytes.len()));
}

/// Inodes that are in mapped mode.
fn mapped(store: &Store) -> Vec<InodeNumber> {
    let folder = store.tier().join(cuesta_format::geometry::REFERENCES_FOLDER);
    mapped_files::list(File::open(folder).unwrap()).unwrap()
}

fn content(bytes: usize, seed: u8) -> Vec<u8> {
    (0..bytes).map(|at| (at / 7) as u8 ^ seed).collect()
}

/// Digests of the file before it was mapped report nothing new once it is not mapped any more.
#[test]
fn a_hole_made_under_a_mapping_is_not_filled_by_a_late_report() {
    let store = Store::new(small());
    let (one, other) = (root(&store.attach()), root(&store.attach()));
    one.write_file("f", &content(8192, 1)).unwrap();
    let file = one.open("f", O_RDWR).unwrap();
    let mapping = map(&one, &file, 8192);
    one.client.allocate(&file, Allocation::Punch, 0, 4096).unwrap();
    drop(mapping);
    one.client.close(file).unwrap();
    let wanted = [vec![0; 4096], content(8192, 1)[4096..].to_vec()].concat();
    assert_eq!(one.read_file("f").unwrap(), wanted);
    // The lookup takes the directory from the first session: a fence, behind which everything digested is
    // known.
    one.write_file("g", b"own").unwrap();
    other.write_file("h", b"theirs").unwrap();
    assert_eq!(one.read_file("h").unwrap(), b"theirs");
    assert_eq!(one.read_file("f").unwrap(), wanted);
}

#[test]
fn all_see_one_memory_while_it_is_mapped_and_one_file_then() {
    let store = Store::new(small());
    let (one, other) = (root(&store.attach()), root(&store.attach()));
    let first = content(3 * 4096 + 100, 1);
    one.write_file("f", &first).unwrap();
    let file = one.open("f", O_RDWR).unwrap();
    let mapping = map(&one, &file, 3 * 4096 + 100);
    assert_eq!(seen(&mapping, 0, first.len()), first);

    mapping.write_through(10, b"stored").unwrap();
    let theirs = other.open("f", O_RDWR).unwrap();
    assert_eq!(other.read_all(&theirs).unwrap()[8..18], [&first[8..10], b"stored", &first[16..18]].concat());
    // Within a page, over several, and behind the end.
    pwrite(&other, &theirs, b"page", 4096);
    let long = content(2 * 4096, 2);
    pwrite(&other, &theirs, &long, 4000);
    assert_eq!(seen(&mapping, 4000, long.len()), long);
    let append = other.open("f", O_RDWR | O_APPEND).unwrap();
    assert_eq!(other.client.write(&append, &[b"end"[..].into()]), Ok(3));
    let both = [one.stat("f").unwrap(), other.stat("f").unwrap()];
    assert_eq!(both.map(|record| record.size), [3 * 4096 + 103; 2]);
    assert_eq!(both.map(|record| record.mode & 0o777), [0o644; 2]);

    one.client.truncate_open(&file, 4096 + 5).unwrap();
    assert_eq!(other.client.seek(&theirs, 0, Whence::End), Ok(4096 + 5));
    other.client.truncate_open(&theirs, 3 * 4096).unwrap();
    assert_eq!(seen(&mapping, 4096 + 5, 2 * 4096 - 5), vec![0; 2 * 4096 - 5]);
    let whole = seen(&mapping, 0, 3 * 4096);
    assert_eq!(one.read_file("f").unwrap(), whole);
    assert_eq!(mapped(&store).len(), 1);

    // The mapping alone keeps the mode, and nothing else does.
    for (caller, file) in [(&one, file), (&other, theirs), (&other, append)] {
        caller.client.close(file).unwrap();
    }
    drop((one, other));
    let last = root(&store.attach());
    last.stat("f").unwrap();
    assert_eq!(mapped(&store).len(), 1);
    mapping.write_through(0, b"last").unwrap();
    drop((mapping, last));
    let last = root(&store.attach());
    assert_eq!(last.read_file("f").unwrap(), [b"last", &whole[4..]].concat());
    assert!(mapped(&store).is_empty());
    // A page that was only read takes memory on a tmpfs, and nothing on other file systems.
    assert!((2..=3).contains(&last.stat("f").unwrap().blocks));
}

#[test]
fn one_session_maps_a_file_again_and_again() {
    let store = Store::new(small());
    let one = root(&store.attach());
    for round in 0..4_u8 {
        let file = one.open("f", O_CREAT | O_RDWR).unwrap();
        let before = one.read_all(&file).unwrap();
        let added = content(4096 + 1000, round);
        pwrite(&one, &file, &added, before.len() as u64);
        let mapping = map(&one, &file, (before.len() + added.len()) as u64);
        assert_eq!(seen(&mapping, 0, before.len() + added.len()), [before, added].concat());
        mapping.write_through(0, &[round; 16]).unwrap();
        drop(mapping);
        one.client.close(file).unwrap();
        assert_eq!(one.read_file("f").unwrap()[..16], [round; 16]);
        assert!(mapped(&store).is_empty(), "round {round}");
    }
}

#[test]
fn mapped_content_outlives_the_daemon() {
    let store = Store::new(small());
    let one = root(&store.attach());
    let file = one.open("f", O_CREAT | O_RDWR).unwrap();
    pwrite(&one, &file, &content(9000, 3), 0);
    let mapping = map(&one, &file, 9000);
    mapping.write_through(100, b"mapped").unwrap();
    pwrite(&one, &file, &content(8192, 4), 500);
    let whole = seen(&mapping, 0, 9000);
    // The daemon is killed, and so is the process.
    std::mem::forget((one, file));
    let next = store.take_over();
    let link = crate::common::InProcess::of(&next, SessionId(0));
    let two = root(&cuesta_libfs::Client::attach(Box::new(link), "next").unwrap());
    assert_eq!(two.read_file("f").unwrap(), whole);
    mapping.write_through(0, b"again").unwrap();
    assert_eq!(two.read_file("f").unwrap()[..5], *b"again");
}

#[test]
fn an_inode_goes_with_its_last_name_and_its_mappings_keep_the_memory() {
    let store = Store::new(small());
    let one = root(&store.attach());
    let inodes = || match store.shared.handle(
        SessionId::NOBODY,
        &Request::Statfs { tree: InodeNumber::NONE },
        &mut Vec::new(),
    ) {
        Response::Statfs(totals) => totals.inodes,
        other => panic!("{other:?}"),
    };
    let file = one.open("f", O_CREAT | O_RDWR).unwrap();
    pwrite(&one, &file, &content(5000, 5), 0);
    let mapping = map(&one, &file, 5000);
    one.unlink("f").unwrap();
    one.client.digest().unwrap();
    assert_eq!((inodes(), mapped(&store).len()), (2, 1));
    assert_eq!(one.read_all(&file).unwrap(), content(5000, 5));
    one.client.close(file).unwrap();
    one.client.digest().unwrap();
    assert_eq!((inodes(), mapped(&store).len()), (1, 0));
    assert_eq!(seen(&mapping, 0, 5000), content(5000, 5));
}

#[test]
fn attributes_are_those_of_any_file() {
    let store = Store::new(small());
    let (one, other) = (root(&store.attach()), root(&store.attach()));
    let file = one.open("f", O_CREAT | O_RDWR).unwrap();
    pwrite(&one, &file, &content(5000, 5), 0);
    let before = one.stat("f").unwrap();
    let mapping = map(&one, &file, 5000);
    let strip = |record: cuesta_format::InodeRecord| cuesta_format::InodeRecord { mapped: false, ..record };
    assert_eq!(strip(other.stat("f").unwrap()), before);
    let set = SetAttributes {
        mode: Some(0o4755),
        modified: SetTime::To(Timestamp::new(1_000_000_000, 5)),
        ..SetAttributes::default()
    };
    let path = Target::Path { base: Base::Root, path: b"f", follow: true };
    other.client.set_attributes(&ROOT, path, set).unwrap();
    let record = one.stat("f").unwrap();
    assert_eq!((record.mode & 0o7777, record.modified), (0o4755, Timestamp::new(1_000_000_000, 5)));
    assert!(record.changed >= before.changed);
    pwrite(&one, &file, b"x", 0);
    assert!(one.stat("f").unwrap().modified >= before.modified);
    one.client.close(file).unwrap();
    drop((mapping, one, other));
    let last = root(&store.attach());
    let end = last.stat("f").unwrap();
    assert_eq!((end.mode & 0o7777, end.size, end.blocks), (0o4755, 5000, 2));
    assert!(end.modified >= before.modified && mapped(&store).is_empty());
}

/// The expected content of the file.
#[derive(Default)]
struct Model(Vec<u8>);

impl Model {
    fn write(&mut self, bytes: &[u8], at: usize) {
        self.0.resize(self.0.len().max(at + bytes.len()), 0);
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn clear(&mut self, at: usize, bytes: usize, grow: bool) {
        if grow {
            self.0.resize(self.0.len().max(at + bytes), 0);
        }
        let end = self.0.len();
        self.0[at.min(end)..(at + bytes).min(end)].fill(0);
    }
}

#[test]
fn a_file_agrees_with_a_model_in_and_out_of_the_mode() {
    let seed = std::env::var("CUESTA_SEED").map_or_else(|_| fastrand::u64(..), |seed| seed.parse().unwrap());
    println!("CUESTA_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..20 {
        let store = Store::new(small());
        let callers = [root(&store.attach()), root(&store.attach())];
        let mut open: [Option<Arc<OpenFile>>; 2] = [None, None];
        let mut mappings: Vec<Mapping> = Vec::new();
        let mut model = Model::default();
        callers[0].write_file("f", b"").unwrap();
        for _ in 0..150 {
            let which = random.usize(..2);
            let caller = &callers[which];
            let file = open[which].get_or_insert_with(|| caller.open("f", O_RDWR).unwrap());
            let at = random.usize(..40_000);
            let bytes = if random.bool() { random.usize(1..100) } else { random.usize(1..20_000) };
            match random.u32(..12) {
                0..3 => {
                    let written = content(bytes, random.u8(..));
                    pwrite(caller, file, &written, at as u64);
                    model.write(&written, at);
                }
                3 => {
                    let written = content(bytes, random.u8(..));
                    let end = model.0.len();
                    let appended =
                        caller.client.write_appending(file, &[written.as_slice().into()], Some(0), true);
                    assert_eq!(appended, Ok(bytes));
                    model.write(&written, end);
                }
                4 => {
                    caller.client.truncate_open(file, at as i64).unwrap();
                    model.0.resize(at, 0);
                }
                5 => {
                    let what = [Allocation::Punch, Allocation::Zero][random.usize(..2)];
                    caller.client.allocate(file, what, at as i64, bytes as i64).unwrap();
                    model.clear(at, bytes, what == Allocation::Zero);
                }
                6 if !model.0.is_empty() => mappings.push(map(caller, file, model.0.len() as u64)),
                7 => mappings.clear(),
                8 => {
                    caller.client.close(open[which].take().unwrap()).unwrap();
                }
                9 => caller.client.digest().unwrap(),
                10 => {
                    let Some(mapping) = mappings.last() else { continue };
                    let end = (mapping.len() as usize).min(model.0.len());
                    let at = at.min(end);
                    let stored = content(bytes.min(end - at), random.u8(..));
                    mapping.write_through(at as u64, &stored).unwrap();
                    model.0[at..at + stored.len()].copy_from_slice(&stored);
                }
                _ => {
                    assert_eq!(caller.stat("f").unwrap().size, model.0.len() as u64);
                    assert!(caller.read_all(file).unwrap() == model.0, "seed {seed}");
                }
            }
        }
        mappings.clear();
        let [one, other] = callers;
        drop((open, one, other));
        let last = root(&store.attach());
        assert!(last.read_file("f").unwrap() == model.0, "seed {seed}, at the end");
        assert!(mapped(&store).is_empty());
        drop(last);
        let report = store.check();
        assert!(report.is_clean(), "seed {seed}: {report:?}");
    }
}

#[test]
fn mapped_files_count_and_end_where_the_store_does() {
    let geometry = cuesta_format::Geometry { nvm_bytes: 16 << 20, ..small() };
    let store = Store::new(geometry);
    let one = root(&store.attach());
    let free = || one.client.statfs().unwrap().blocks_free;
    let file = one.open("f", O_CREAT | O_RDWR).unwrap();
    pwrite(&one, &file, &content(4096, 1), 0);
    one.client.digest().unwrap();
    // Holes take no memory.
    let whole = 8 << 20;
    one.client.truncate_open(&file, whole).unwrap();
    let mapping = map(&one, &file, whole as u64);
    let before = free();
    mapping.write_through(0, b"own").unwrap();
    assert_eq!(free(), before, "it has this block");
    for page in 1..=1000 {
        mapping.write_through(page * 4096, b"stored").unwrap();
    }
    // File systems count the blocks in which they note the places of so many pieces.
    const NOTED_MAX: u64 = 50;
    assert!((before - 1000 - NOTED_MAX..=before - 1000).contains(&free()), "{} of {before}", free());

    // Calls fill holes a page at a time until the store is full. Then no call adds anything.
    let page = content(4096, 2);
    let put = |at: u64| one.client.pwrite(&file, &[page[..].into()], at as i64);
    let mut at = 2000 * 4096;
    let full = loop {
        match put(at) {
            Ok(written) => at += written as u64,
            Err(error) => break error,
        }
        assert!(at < 64 << 20, "it grows past the store's end");
    };
    assert_eq!((full, free()), (Error::NoSpace, 0));
    assert_eq!(put(4096), Ok(4096), "what it has can be written");
    assert_eq!(one.client.allocate(&file, Allocation::Extend, 0, 64 << 20), Err(Error::NoSpace));
    assert_eq!(one.write_file("g", &vec![3; 6 << 20]).err(), Some(Error::NoSpace));

    // The space is free again when the file is gone.
    drop(mapping);
    one.client.close(file).unwrap();
    one.unlink("f").unwrap();
    one.unlink("g").unwrap();
    one.client.digest().unwrap();
    // Freed blocks are free for other sessions after the next digest of the session that freed them.
    one.write_file("h", b"content").unwrap();
    one.client.digest().unwrap();
    assert!(free() > before * 9 / 10, "{} of {before}", free());
}
