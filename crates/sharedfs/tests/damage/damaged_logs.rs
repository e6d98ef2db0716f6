//! Logs that their medium damaged, told from logs that a crash cut off (docs/decisions/0045).

use crate::common::*;
use cuesta_format::acknowledged::{self, mark_offset};
use cuesta_format::entry::Header;
use cuesta_format::geometry::ACKNOWLEDGED_FILE;
use cuesta_format::wire::{LeaseMode, Request, Response};
use cuesta_format::{InodeNumber, LogPosition, Medium, Operation};
use cuesta_sharedfs::check::{CheckReport, Mode, Problem, Verdict, check, told};
use std::os::unix::fs::FileExt as _;

/// Appends a write that says how far its log was acknowledged when it was made.
fn write_knowing(
    writer: &mut Writer,
    file: InodeNumber,
    offset: u64,
    data: &[u8],
    acknowledged: LogPosition,
) {
    let operation = Operation::Write { inode: file, offset, data };
    let header = Header { acknowledged, ..writer.header(&operation, 1) };
    writer.append_sealed(&header, data);
    writer.complete(writer.at);
}

fn looked_at(store: &Store, mode: Mode) -> CheckReport {
    check(&store.tier(), mode).unwrap()
}

fn problems(report: &CheckReport) -> Vec<Problem> {
    report.findings.iter().map(|finding| finding.problem.clone()).collect()
}

/// Writes of ten files; the hole takes the one of file 3. Each entry says that those before the last two were acknowledged.
fn ten_files(writer: &mut Writer) -> (Vec<InodeNumber>, Vec<LogPosition>) {
    let files: Vec<_> = (0..10u8).map(|number| writer.file(&[b'a' + number])).collect();
    let mut starts = vec![];
    for (number, &file) in files.iter().enumerate() {
        starts.push(writer.at);
        let acknowledged = starts.iter().rev().nth(2).copied().unwrap_or(LogPosition(0));
        write_knowing(writer, file, 0, &[number as u8; 300], acknowledged);
    }
    (files, starts)
}

#[test]
fn a_hole_before_a_mark_is_damage_and_one_behind_is_a_crash() {
    for (hole, is_damage) in [(3, true), (6, true), (7, false), (8, false), (9, false)] {
        let store = Store::new();
        let shared = store.open();
        let mut writer = Writer::attach(&shared);
        let (files, starts) = ten_files(&mut writer);
        writer.write_raw(starts[hole], &[0; 100]);
        kill(shared, vec![writer]);
        let report = looked_at(&store, Mode::Report);
        assert_eq!(report.worst(), is_damage.then_some(Verdict::Damaged), "hole {hole}: {report:?}");
        if let [Problem::Log(loss)] = &problems(&report)[..] {
            assert_eq!(loss.end, starts[hole], "hole {hole}");
            assert_eq!(loss.acknowledged, starts[7], "hole {hole}");
            let named: Vec<_> = loss.files.keys().copied().collect();
            assert_eq!(named, files[hole + 1..7.max(hole + 1)], "hole {hole}");
        }
        let shared = store.open();
        assert_eq!(shared.recovered().damaged_logs, u64::from(is_damage), "hole {hole}");
        assert_eq!(content(&shared, "b"), [1; 300]);
        drop(shared);
        let report = looked_at(&store, Mode::Repair);
        assert_eq!(report.worst(), is_damage.then_some(Verdict::Damaged), "told again: {report:?}");
        told(&store.tier()).unwrap();
        let report = looked_at(&store, Mode::RepairWithLoss);
        assert_eq!(report.worst(), is_damage.then_some(Verdict::Repaired), "{report:?}");
        told(&store.tier()).unwrap();
        assert_eq!(looked_at(&store, Mode::Report).findings, []);
    }
}

/// A session that comes after recovery cannot read a file that lost content, and a cut to nothing makes it whole.
#[test]
fn a_file_that_lost_content_is_not_read_until_it_is_cut() {
    let store = Store::new();
    let shared = store.open();
    let mut writer = Writer::attach(&shared);
    let (files, starts) = ten_files(&mut writer);
    writer.write_raw(starts[3], &[0; 100]);
    kill(shared, vec![writer]);
    let shared = store.open();
    let mut reader = Writer::attach(&shared);
    let arenas = u64::from(geometry().arenas_max()) * geometry().arena_bytes;
    let is_readable = |reader: &mut Writer, file| {
        let grant = reader.acquire(file, LeaseMode::Read);
        assert!(grant.record.size >= 300 || grant.record.size == 0);
        grant.extents.iter().all(|extent| extent.address.0 < arenas)
    };
    for (number, &file) in files.iter().enumerate() {
        // What stood in the hole itself has no name.
        assert_eq!(is_readable(&mut reader, file), !(4..7).contains(&number), "file {number}");
        reader.request(&Request::GiveBack { inodes: vec![file] });
    }
    reader.append(Operation::Truncate { inode: files[4], size: 0 });
    reader.unlink(ROOT, b"f", files[5], false);
    reader.digest();
    reader.request(&Request::GiveBack { inodes: vec![files[4]] });
    assert!(is_readable(&mut reader, files[4]));
    assert!(!is_readable(&mut reader, files[6]));
    reader.request(&Request::Detach);
    drop(reader);
    drop(shared);
    let lost = problems(&looked_at(&store, Mode::Report));
    let of_content: Vec<_> = lost.iter().filter(|it| matches!(it, Problem::LostContent(_))).collect();
    assert_eq!(of_content, [&Problem::LostContent(files[6])]);
}

/// Nothing stands behind the last entries: the file of marks says that they were acknowledged.
#[test]
fn the_last_entries_are_missed_by_the_file_of_marks() {
    for marked in [true, false] {
        let store = Store::on(Medium::Block);
        let shared = store.open();
        let mut writer = Writer::attach(&shared);
        let mut descriptors = Vec::new();
        let answer = shared.handle(writer.session, &Request::Marks, &mut descriptors);
        let Response::Marks { slot } = answer else { panic!("{answer:?}") };
        let marks = std::fs::File::from(descriptors.pop().unwrap());
        writer.file(b"kept");
        let hole = writer.at;
        writer.file(b"lost");
        if marked {
            // One copy is enough.
            let mark = acknowledged::encode(writer.salt, writer.at);
            marks.write_all_at(&mark, mark_offset(slot, 1)).unwrap();
        }
        writer.write_raw(hole, &[0; 128]);
        kill(shared, vec![writer]);
        let report = looked_at(&store, Mode::Report);
        assert_eq!(report.worst(), marked.then_some(Verdict::Damaged), "{report:?}");
        assert_eq!(store.open().recovered().damaged_logs, u64::from(marked));
    }
}

/// A segment that is cut or gone costs what it held, is told, and closes nothing.
#[test]
fn a_segment_that_is_cut_or_missing_closes_no_store() {
    for damage in ["cut", "removed", "commit file removed", "marks cut", "marks removed"] {
        let store = Store::on(Medium::Block);
        let shared = store.open();
        let mut writer = Writer::attach(&shared);
        let file = writer.file(b"kept");
        writer.digest();
        writer.write(file, 0, &[7; 5000]);
        let segments = names_under(&store.tier().join("logs"));
        let (marks, first) = (store.tier().join(ACKNOWLEDGED_FILE), store.tier().join("logs/seg-000000"));
        assert!(first.exists(), "{segments:?}");
        kill(shared, vec![writer]);
        match damage {
            "cut" => std::fs::File::options().write(true).open(first).unwrap().set_len(10).unwrap(),
            "removed" => std::fs::remove_file(first).unwrap(),
            "marks cut" => std::fs::File::options().write(true).open(marks).unwrap().set_len(10).unwrap(),
            "marks removed" => std::fs::remove_file(marks).unwrap(),
            _ => {}
        }
        let is_lost = ["cut", "removed"].contains(&damage);
        let report = looked_at(&store, Mode::Report);
        assert_eq!(report.worst(), is_lost.then_some(Verdict::Damaged), "{damage}: {report:?}");
        let shared = store.open();
        let expected = if is_lost { vec![] } else { vec![7; 5000] };
        assert_eq!(content(&shared, "kept"), expected, "{damage}");
        let mut writer = Writer::attach(&shared);
        writer.file(b"next");
        writer.digest();
    }
}
