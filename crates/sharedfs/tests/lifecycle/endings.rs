//! Crashes while a session ends whose process lives on: at no point may its segments become another session's.

use crate::common::*;
use cuesta_format::SegmentId;
use cuesta_format::geometry::segment_path;
use cuesta_format::session_table::{SESSION_SLOTS, SessionRecord, record_bytes, record_offset};
use cuesta_format::wire::Request;
use cuesta_sharedfs::Ending;
use cuesta_sharedfs::check::{Mode, check};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// A store as a killed daemon left it, with the segments of the one session there was.
fn killed() -> (Store, Vec<SegmentId>) {
    let store = Store::new();
    let shared = store.open();
    let mut writer = Writer::attach(&shared);
    let file = writer.file(b"f");
    writer.write(file, 0, b"content");
    writer.digest();
    kill(shared, vec![writer]);
    let mut segments = Vec::new();
    change_records(&store, |record| segments.extend_from_slice(&record.segments));
    assert_eq!(segments.len(), 8);
    (store, segments)
}

/// Changes the newest copy of each record in use, as one write of it.
fn change_records(store: &Store, mut change: impl FnMut(&mut SessionRecord)) {
    let table = File::options().read(true).write(true).open(store.tier().join("sessions")).unwrap();
    let slots = geometry().ring_slots;
    for slot in 0..SESSION_SLOTS {
        let copies = [0, 1].map(|copy| {
            let mut bytes = vec![0; record_bytes(slots)];
            table.read_exact_at(&mut bytes, record_offset(slots, slot, copy)).unwrap();
            SessionRecord::decode(&bytes)
        });
        let newest = copies.into_iter().zip(0..).filter_map(|(found, copy)| Some((found?, copy)));
        let Some(((sequence, mut record), copy)) = newest.max_by_key(|((sequence, _), _)| *sequence) else {
            continue;
        };
        if !record.is_free() {
            change(&mut record);
            let mut bytes = Vec::new();
            record.encode(sequence + 1, &mut bytes);
            table.write_all_at(&bytes, record_offset(slots, slot, 1 - copy)).unwrap();
        }
    }
}

fn occupied(store: &Store) -> usize {
    let mut count = 0;
    change_records(store, |_| count += 1);
    count
}

fn is_left(store: &Store, segment: SegmentId) -> bool {
    store.tier().join(segment_path(segment)).exists()
}

#[test]
fn wherever_the_end_is_broken_off_the_segments_go_and_the_slot_after_them() {
    for removed in 0..=8 {
        let (store, segments) = killed();
        change_records(&store, |record| record.ended = true);
        for &segment in &segments[..removed] {
            std::fs::remove_file(store.tier().join(segment_path(segment))).unwrap();
        }
        assert!(check(&store.tier(), Mode::Report).unwrap().is_clean(), "{removed} removed");
        let shared = store.open();
        assert!(!segments.iter().any(|&segment| is_left(&store, segment)), "{removed} removed");
        assert_eq!((occupied(&store), shared.recovered().entries), (0, 0));
        assert_eq!(content(&shared, "f"), b"content");
        let mut next = Writer::attach(&shared);
        let file = next.file(b"g");
        next.write(file, 0, b"more");
        next.request(&Request::Detach);
        assert_eq!(content(&shared, "g"), b"more");
    }
}

#[test]
fn before_that_the_log_is_recovered_as_any_other() {
    let (store, segments) = killed();
    // The process lives: it is this one.
    change_records(&store, |record| record.pid = std::process::id());
    let shared = store.open();
    assert!(!segments.iter().any(|&segment| is_left(&store, segment)));
    assert_eq!((occupied(&store), shared.recovered().sessions), (0, 1));
}

#[test]
fn segments_that_cannot_be_removed_keep_their_slot_until_they_are() {
    let store = Store::new();
    let shared = store.open();
    let mut writer = Writer::attach(&shared);
    writer.file(b"f");
    let session = writer.session;
    // The first ones are its own; on a disk there are spare ones behind them.
    let own: Vec<_> =
        names_under(&store.tier().join("logs")).drain(..geometry().ring_slots as usize).collect();
    let (path, aside) = (store.tier().join("logs").join(&own[3]), store.tier().join("aside"));
    std::fs::rename(&path, &aside).unwrap();
    std::fs::create_dir(&path).unwrap();
    shared.end_session(session, Ending::GivenUp).unwrap();
    let mut ended = Vec::new();
    change_records(&store, |record| ended.push((record.session, record.ended)));
    assert_eq!(ended, [(session, true)]);
    let left: Vec<_> = names_under(&store.tier().join("logs"));
    assert_eq!(
        own.iter().filter(|&name| left.contains(name)).collect::<Vec<_>>(),
        [&own[3]],
        "the others went"
    );
    kill(shared, vec![writer]);
    std::fs::remove_dir(&path).unwrap();
    std::fs::rename(&aside, &path).unwrap();
    let shared = store.open();
    assert!(!path.exists());
    assert_eq!((occupied(&store), shared.recovered().entries), (0, 0));
    assert_eq!(shared.read_directory(ROOT).unwrap().len(), 1);
}
