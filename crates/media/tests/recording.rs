//! The recorder: order, identity of files, and a planted bug that shows in what it saw.
#![cfg(feature = "record")]

use cuesta_media::planted::{self, Bug};
use cuesta_media::recorder::{self, Event, Recorder, Recording, RegionKey};
use cuesta_media::{GrowableMapping, Mapping, Medium, Protection, Window};
use std::os::fd::AsFd;
use std::path::Path;

const PAGE: u64 = 4096;

/// The events of this test's own thread: other tests fence too.
fn events(recording: Recording) -> Vec<Event> {
    let first = recording.events.iter().find(|recorded| !matches!(recorded.event, Event::Fence));
    let thread = first.expect("something was recorded").thread;
    recording
        .events
        .into_iter()
        .filter(|recorded| recorded.thread == thread)
        .map(|recorded| recorded.event)
        .collect()
}

fn store(region: RegionKey, offset: u64, bytes: &[u8]) -> Event {
    Event::Store { region, offset, bytes: bytes.into() }
}

fn flush(region: RegionKey, offset: u64, len: u64) -> Event {
    Event::Flush { region, offset, len }
}

fn region_at(path: &Path) -> RegionKey {
    use std::os::unix::fs::MetadataExt;
    let metadata = path.metadata().unwrap();
    RegionKey { device: metadata.dev(), inode: metadata.ino() }
}

#[test]
fn stores_flushes_fences_and_marks_come_in_order() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("segment");
    let mapping = Mapping::create(&path, PAGE, Medium::Memory, false).unwrap();
    mapping.write(0, b"before").unwrap();
    let recorder = Recorder::install(&[directory.path()]).unwrap();
    let region = region_at(&path);
    mapping.write_through(100, b"payload").unwrap();
    mapping.write(8, b"header").unwrap();
    mapping.flush(8, 6).unwrap();
    mapping.fence().unwrap();
    recorder::mark(1);
    mapping.write(200, b"never flushed").unwrap();
    let recording = recorder.take();
    assert_eq!(recording.base.len(), 1);
    assert_eq!(recording.base[0].region, region);
    assert_eq!((recording.base[0].len, &recording.base[0].contents[..]), (PAGE, &b"before"[..]));
    let expected = [
        store(region, 100, b"payload"),
        flush(region, 64, 64),
        store(region, 8, b"header"),
        flush(region, 0, 64),
        Event::Fence,
        Event::Mark(1),
        store(region, 200, b"never flushed"),
    ];
    assert_eq!(events(recording), expected);
    mapping.write(0, b"after").unwrap();
}

#[test]
fn two_mappings_of_a_file_are_one_region_and_a_store_may_span_files() {
    let directory = tempfile::tempdir().unwrap();
    let window = Window::reserve(2 * PAGE, Medium::Memory).unwrap();
    let paths = [directory.path().join("a"), directory.path().join("b")];
    for (slot, path) in paths.iter().enumerate() {
        drop(Mapping::create(path, PAGE, Medium::Memory, false).unwrap());
        let file = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
        window.map(&file, 0, PAGE, slot as u64 * PAGE, Protection::ReadWrite, false).unwrap();
    }
    let second = Mapping::open(&paths[1], Protection::ReadWrite, Medium::Memory).unwrap();
    let recorder = Recorder::install(&[directory.path()]).unwrap();
    window.write_through(PAGE - 2, b"wxyz").unwrap();
    second.write(64, b"same file").unwrap();
    let (a, b) = (region_at(&paths[0]), region_at(&paths[1]));
    let expected = [
        store(a, PAGE - 2, b"wx"),
        store(b, 0, b"yz"),
        flush(a, PAGE - 64, 64),
        flush(b, 0, 64),
        store(b, 64, b"same file"),
    ];
    assert_eq!(events(recorder.take()), expected);
}

#[test]
fn files_made_grown_and_written_by_calls_are_seen_and_others_are_not() {
    let directory = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let recorder = Recorder::install(&[directory.path()]).unwrap();
    let other = Mapping::create(&elsewhere.path().join("x"), PAGE, Medium::Memory, false).unwrap();
    other.write_through(0, b"not ours").unwrap();
    let path = directory.path().join("meta");
    let meta = GrowableMapping::open(&path, Medium::Memory).unwrap();
    meta.set_len(10_000).unwrap();
    meta.write_through(9_000, b"tree").unwrap();
    let file = std::fs::File::open(&path).unwrap();
    recorder::record_file_write(file.as_fd(), 5, b"call");
    recorder::record_file_sync(file.as_fd());
    let region = region_at(&path);
    let path = path.canonicalize().unwrap();
    let expected = [
        Event::Appear { region, path, len: 0, contents: Vec::new() },
        Event::SetLen { region, len: 10_000 },
        store(region, 9_000, b"tree"),
        flush(region, 8_960, 64),
        store(region, 5, b"call"),
        flush(region, 0, u64::MAX),
        Event::Fence,
    ];
    assert_eq!(events(recorder.take()), expected);
}

#[test]
fn the_planted_unflushed_tail_shows_in_the_recording() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("segment");
    let mapping = Mapping::create(&path, PAGE, Medium::Memory, false).unwrap();
    let recorder = Recorder::install(&[directory.path()]).unwrap();
    planted::plant(Some(Bug::UnflushedTail));
    mapping.write_through(64, &[1; 100]).unwrap();
    mapping.write_through(256, &[2; 10]).unwrap();
    mapping.write_through(512, &[3; 64]).unwrap();
    planted::plant(None);
    let region = region_at(&path);
    let expected = [
        store(region, 64, &[1; 100]),
        flush(region, 64, 64),
        store(region, 256, &[2; 10]),
        store(region, 512, &[3; 64]),
        flush(region, 512, 64),
    ];
    assert_eq!(events(recorder.take()), expected);
}
