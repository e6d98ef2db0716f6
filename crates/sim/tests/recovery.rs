//! Recovery is bounded: however a session fills its log, no more entries lie undigested than recovery can digest in a
//! moment, and a log with as many of the worst of them recovers whole. How long it takes is for `make bench` to judge.

use cuesta_format::Geometry;
use cuesta_sharedfs::Options;
use cuesta_sim::operation::{OpenFlags, Operation, PathText, Pattern};
use cuesta_sim::world::{self, World};
use std::time::Instant;

/// Entries that may lie undigested: the least a store can be told.
const ENTRIES_MAX: u64 = 10_000;
/// Operations made after the setup: so many that the log must have been digested meanwhile.
const OPERATIONS: u64 = 29_990;

/// Directories above those that are moved about: each move must be seen not to make a circle.
const DEPTH: usize = 1000;

fn path(text: &str) -> PathText {
    PathText::from(text)
}

/// Makes `setup` and then the operations of `filling`, dies, and recovers; shows the tree to `check`.
fn fill(
    setup: impl IntoIterator<Item = Operation>,
    filling: impl Fn(u64) -> Operation,
    check: impl FnOnce(&mut World),
) {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    world::create(directory.path(), Geometry { nvm_bytes: 512 << 20, ..Geometry::default() }).unwrap();
    let options = Options { undigested_entries: ENTRIES_MAX, ..Options::default() };
    let mut world = World::open_with(directory.path(), options.clone()).unwrap();
    for operation in setup {
        world.apply(&operation).unwrap();
    }
    world.digest().unwrap();
    for number in 0..OPERATIONS {
        let operation = filling(number);
        world.apply(&operation).unwrap_or_else(|errno| panic!("{number}, {operation:?}: {errno}"));
    }
    drop(world);
    let started = Instant::now();
    let mut world = World::open_with(directory.path(), options).unwrap();
    let (entries, took) = (world.recovered().entries, started.elapsed());
    println!("{entries} entries recovered in {took:?}");
    assert!(entries <= ENTRIES_MAX, "{entries} entries lay undigested");
    check(&mut world);
    drop(world);
    world::fsck(directory.path()).unwrap();
}

#[test]
fn new_files() {
    let flags = OpenFlags { read: true, write: true, create: true, exclusive: true, ..OpenFlags::default() };
    let create =
        |number| Operation::Open { slot: 0, path: path(&format!("/{number:05}")), flags, mode: 0o644 };
    fill([], create, |world| {
        let names = world.apply(&Operation::Readdir { path: path("/") }).unwrap();
        let cuesta_sim::operation::Outcome::Names(names) = names else { panic!("{names:?}") };
        assert_eq!(names.len() as u64, OPERATIONS);
    });
}

#[test]
fn writes_of_a_byte_far_apart() {
    let flags = OpenFlags { read: true, write: true, create: true, ..OpenFlags::default() };
    let open = Operation::Open { slot: 0, path: path("/f"), flags, mode: 0o644 };
    let offset = |number: u64| number * 7919 % 100_000 * 8192;
    let data = |number| Pattern { seed: number, length: 1 };
    let write = |number| Operation::Pwrite { slot: 0, offset: offset(number), data: data(number) };
    fill([open.clone()], write, |world| {
        world.apply(&open).unwrap();
        for number in 0..OPERATIONS {
            let read = world.apply(&Operation::Pread { slot: 0, offset: offset(number), length: 1 }).unwrap();
            assert_eq!(read, cuesta_sim::operation::Outcome::Bytes(data(number).bytes()), "{number}");
        }
    });
}

#[test]
fn moves_of_directories_deep_down_and_high_up() {
    // /x/t or /y/t, a long way down, and there m in a or in b.
    let bottom = |top: &str, name: &str| path(&format!("/{top}/t{}/{name}", "/d".repeat(DEPTH)));
    let mkdir = |path| Operation::Mkdir { path, mode: 0o755 };
    let way = (0..=DEPTH).map(|depth| mkdir(path(&format!("/x/t{}", "/d".repeat(depth)))));
    let ends = ["a", "b", "a/m"].map(|name| mkdir(bottom("x", name)));
    let setup = ["/x", "/y"].map(|name| mkdir(path(name))).into_iter().chain(way).chain(ends);
    let rename = |number: u64| {
        let (from, to) = match number % 4 {
            0 => (bottom("x", "a/m"), bottom("x", "b/m")),
            1 => (path("/x/t"), path("/y/t")),
            2 => (bottom("y", "b/m"), bottom("y", "a/m")),
            _ => (path("/y/t"), path("/x/t")),
        };
        Operation::Rename { from, to }
    };
    fill(setup, rename, |world| {
        let last = match OPERATIONS % 4 {
            0 => bottom("x", "a/m"),
            1 => bottom("x", "b/m"),
            2 => bottom("y", "b/m"),
            _ => bottom("y", "a/m"),
        };
        world.apply(&Operation::Lstat { path: last }).unwrap();
    });
}
