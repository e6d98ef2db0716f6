//! A scanner reads the entries that a writer appends: across laps, threads, faults and torn ends.

#[path = "../../media/tests/common/medium.rs"]
mod medium;
use medium::medium;

use cuesta_format::call_tag::TAG_BYTES;
use cuesta_format::control::CONTROL_BYTES;
use cuesta_format::entry::{EntryBreak, EntryKind, Salt};
use cuesta_format::{
    CallSlot, CallTag, Caller, CallerId, Geometry, InodeNumber, LeaseGeneration, LogGeneration, LogPosition,
    Medium, Operation, SessionId, StoreId, Timestamp,
};
use cuesta_media::{Mapping, Protection, UserSlice, Window, install_fault_handler};
use cuesta_oplog::{Appender, LogSource, LogUnwritten, Ring, ScanStep, Scanner, Stamp, read_batch};
use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::thread;

const INODE: InodeNumber = InodeNumber(7);

fn geometry() -> Geometry {
    Geometry { segment_bytes: 16 << 10, ring_slots: 4, ..Geometry::default() }
}

fn salt(generation: u64) -> Salt {
    Salt::new(StoreId([3; 16]), SessionId(1), LogGeneration(generation))
}

fn stamp() -> Stamp<'static> {
    Stamp {
        lease_generation: LeaseGeneration(1),
        debit_blocks: 1,
        time: Timestamp(5),
        tag: None,
        is_synchronous: false,
    }
}

struct Log {
    _folder: tempfile::TempDir,
    segments: Vec<File>,
    appender: Appender,
}

impl Log {
    fn new() -> Log {
        Log::on(medium())
    }

    fn on(medium: Medium) -> Log {
        let geometry = geometry();
        let folder = tempfile::tempdir().unwrap();
        let open = |name: String, bytes: u64| {
            let file = File::options()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(folder.path().join(name))
                .unwrap();
            file.set_len(bytes).unwrap();
            file
        };
        let segments: Vec<File> = (0..geometry.ring_slots)
            .map(|slot| open(format!("seg-{slot}"), geometry.segment_bytes))
            .collect();
        let slots = geometry.ring_slots + geometry.overlap_slots();
        let window = Window::reserve(u64::from(slots) * geometry.segment_bytes, medium).unwrap();
        for slot in 0..slots {
            let file = &segments[(slot % geometry.ring_slots) as usize];
            let at = u64::from(slot) * geometry.segment_bytes;
            window.map(file, 0, geometry.segment_bytes, at, Protection::ReadWrite, false).unwrap();
        }
        open("page".into(), CONTROL_BYTES as u64);
        let page = Mapping::open(&folder.path().join("page"), Protection::ReadWrite, medium).unwrap();
        let appender = Appender::new(Ring::new(window, geometry), salt(1), LogPosition(0), Arc::new(page));
        appender.set_limit(geometry.ring_slots, LogPosition(0));
        Log { _folder: folder, segments, appender }
    }

    fn write(&self, offset: u64, data: &[u8]) -> LogPosition {
        let admission = self.appender.admit(data.len()).unwrap();
        let reservation = self.appender.reserve(admission);
        self.appender.append_write(reservation, INODE, offset, &[UserSlice::from(data)], stamp()).unwrap().end
    }

    /// The offsets of all writes a scan from `from` accepts, and why it ended.
    fn scan(&self, from: LogPosition, salt: Salt) -> (Vec<(u64, Vec<u8>)>, Option<EntryBreak>) {
        let mut batch = Vec::new();
        read_batch(self, &geometry(), geometry().ring_slots, from, u64::MAX, &mut batch).unwrap();
        let mut scanner = Scanner::new(&batch, from, salt, &geometry());
        let mut found = Vec::new();
        loop {
            match scanner.step() {
                ScanStep::Entry(header, body) if header.fields().kind == EntryKind::Write => {
                    found.push((header.fields().argument, body.to_vec()));
                }
                ScanStep::Entry(..) => {}
                ScanStep::End(why) => return (found, Some(why)),
                ScanStep::Cut { .. } => return (found, None),
            }
        }
    }
}

impl LogSource for Log {
    fn read_at(&self, position: LogPosition, out: &mut [u8]) -> io::Result<()> {
        let geometry = geometry();
        let mut done = 0;
        while done < out.len() {
            let at = position.plus(done as u64);
            let inside = at.0 % geometry.segment_bytes;
            let part = (out.len() - done).min((geometry.segment_bytes - inside) as usize);
            let file = &self.segments[geometry.slot(at) as usize];
            file.read_exact_at(&mut out[done..done + part], inside)?;
            done += part;
        }
        Ok(())
    }
}

#[test]
fn an_attribute_of_any_length_is_one_entry() {
    let log = Log::new();
    for length in [0, 1, 54, 55, 512, 5000, 16 << 10] {
        let start = log.appender.completed();
        let value: Vec<u8> = (0..length).map(|at| at as u8).collect();
        let set = Operation::SetExtended { inode: INODE, name: b"user.odd", value: &value };
        let admission = log.appender.admit(set.body_bytes()).unwrap();
        log.appender.append(log.appender.reserve(admission), &set, stamp());
        let mut batch = Vec::new();
        read_batch(&log, &geometry(), geometry().ring_slots, start, u64::MAX, &mut batch).unwrap();
        let mut scanner = Scanner::new(&batch, start, salt(1), &geometry());
        let ScanStep::Entry(header, body) = scanner.step() else { panic!("{length} bytes: no entry") };
        assert_eq!(Operation::decode(header.fields(), body), Ok(set));
    }
}

#[test]
fn a_tag_lies_behind_any_body() {
    let log = Log::new();
    let caller = Caller { user: 1000, id: CallerId([5; 16]) };
    let tag = CallTag { slot: CallSlot { caller, slot: 3 }, process: 77, number: 8 };
    let stamp = Stamp { tag: Some(&tag), ..stamp() };
    for length in [0, 1, 31, 32, 33, 64, 5000] {
        let start = log.appender.completed();
        let data: Vec<u8> = (0..length).map(|at| at as u8).collect();
        let write = Operation::Write { inode: INODE, offset: 9, data: &data };
        let set = Operation::SetExtended { inode: INODE, name: b"user.odd", value: &data };
        let name = vec![b'n'; 1 + length.min(254)];
        let link = Operation::Link { parent: INODE, inode: INODE, name: &name };
        let reserve = |operation: &Operation<'_>| {
            let admission = log.appender.admit(operation.body_bytes() + TAG_BYTES).unwrap();
            log.appender.reserve(admission)
        };
        let slice = [UserSlice::from(&data[..])];
        log.appender.append_write(reserve(&write), INODE, 9, &slice, stamp).unwrap();
        for operation in [&write, &set, &link] {
            log.appender.append(reserve(operation), operation, stamp);
        }
        let mut batch = Vec::new();
        read_batch(&log, &geometry(), geometry().ring_slots, start, u64::MAX, &mut batch).unwrap();
        let mut scanner = Scanner::new(&batch, start, salt(1), &geometry());
        for operation in [write, write, set, link] {
            let ScanStep::Entry(header, body) = scanner.step() else { panic!("{length} bytes: no entry") };
            assert_eq!(Operation::decode(header.fields(), body), Ok(operation));
            assert_eq!(CallTag::of(header.fields(), body), Some(tag));
        }
        assert!(matches!(scanner.step(), ScanStep::End(_)));
    }
}

#[test]
fn entries_are_read_back_in_order() {
    let log = Log::new();
    for (offset, data) in [(0, &b"first"[..]), (5, &[7; 4096]), (4101, b"")] {
        log.write(offset, data);
    }
    let create = Operation::Unlink { parent: InodeNumber::ROOT, inode: INODE, name: b"name", orphan: true };
    let reservation = log.appender.reserve(log.appender.admit(create.body_bytes()).unwrap());
    let appended = log.appender.append(reservation, &create, stamp());
    assert_eq!(log.appender.completed(), appended.end);

    let mut batch = Vec::new();
    read_batch(&log, &geometry(), 4, LogPosition(0), u64::MAX, &mut batch).unwrap();
    let mut scanner = Scanner::new(&batch, LogPosition(0), salt(1), &geometry());
    for _ in 0..3 {
        assert!(matches!(scanner.step(), ScanStep::Entry(..)));
    }
    let ScanStep::Entry(header, body) = scanner.step() else { panic!("the unlink is missing") };
    assert_eq!(Operation::decode(header.fields(), body), Ok(create));
    assert_eq!(scanner.step(), ScanStep::End(EntryBreak::Checksum));
    assert_eq!(scanner.position(), appended.end);
}

#[test]
fn laps_wrap_and_never_show_an_earlier_one() {
    let log = Log::new();
    let mut tail = LogPosition(0);
    for lap in 0..40_u64 {
        let from = tail;
        for n in 0..3 {
            tail = log.write(lap * 3 + n, &vec![lap as u8; 5000]);
        }
        let (found, end) = log.scan(from, salt(1));
        assert_eq!(found.len(), 3, "lap {lap}");
        assert!(found.iter().all(|(_, data)| data == &vec![lap as u8; 5000]));
        assert!(end.is_some() || lap < 4, "an earlier lap's entry must break the scan");
        log.appender.set_limit(4, tail);
    }
}

#[test]
fn a_full_log_says_how_far_it_would_have_to_reach() {
    let log = Log::new();
    while log.appender.admit(4000).map(drop).is_ok() {
        log.write(0, &[1; 4000]);
    }
    let full = log.appender.admit(4000).unwrap_err();
    log.appender.set_limit(4, LogPosition(full.needed.0 - geometry().ring_bytes()));
    assert!(log.appender.admit(4000).is_ok());
}

#[test]
fn a_restart_voids_what_lay_behind() {
    let log = Log::new();
    let end = log.write(0, b"kept");
    log.write(1, b"void");
    log.appender.restart(end, salt(2));
    assert_eq!(log.scan(end, salt(2)).0, []);
    log.write(2, b"new");
    assert_eq!(log.scan(end, salt(2)).0, [(2, b"new".to_vec())]);
    assert_eq!(log.scan(LogPosition(0), salt(1)).0, [(0, b"kept".to_vec())]);
}

/// An entry that completes while the disk takes what earlier ones depend on may depend on more: it waits for the next write.
#[test]
fn the_disk_has_what_entries_depend_on_before_it_has_them() {
    let log = Log::on(Medium::Block);
    let first = log.write(0, b"first");
    let later = || log.write(1, b"later");
    let steps = RefCell::new(Vec::new());
    let take = |what: &str| steps.borrow_mut().push(what.to_owned());
    let sync = |depends: &dyn Fn() -> bool| {
        log.appender.sync(LogPosition(0), depends, |_, _| {
            take("entries");
            true
        })
    };
    let depends = || {
        take("dependencies");
        later();
        true
    };
    assert_eq!(sync(&depends), Ok(()));
    assert_eq!(*steps.borrow(), ["dependencies", "entries"]);
    assert_eq!(log.appender.durable_until(), first, "the later entry is not written");
    assert_eq!(sync(&|| false), Err(LogUnwritten), "nothing is written without what it depends on");
    assert_eq!(log.appender.durable_until(), first);
}

#[test]
fn torn_bodies_and_flipped_bits_end_the_prefix() {
    let log = Log::new();
    log.write(0, b"kept");
    let torn = log.write(1, &[9; 300]);
    log.write(2, b"behind");
    let at = torn.0 - 100;
    let mut byte = [0];
    log.segments[0].read_exact_at(&mut byte, at).unwrap();
    log.segments[0].write_all_at(&[byte[0] ^ 4], at).unwrap();
    assert_eq!(log.scan(LogPosition(0), salt(1)), (vec![(0, b"kept".to_vec())], Some(EntryBreak::Body)));
}

#[test]
fn many_threads_leave_no_hole() {
    let log = Log::new();
    thread::scope(|scope| {
        for worker in 0..4_u64 {
            let log = &log;
            scope.spawn(move || {
                for n in 0..50 {
                    let end = log.write(worker * 1000 + n, &[worker as u8; 100]);
                    assert!(log.appender.completed() >= end, "returned implies recoverable");
                }
            });
        }
    });
    let (found, _) = log.scan(LogPosition(0), salt(1));
    assert_eq!(found.len(), 200);
    assert_eq!(log.appender.entries(), 200, "none is counted twice or lost between two threads");
    for worker in 0..4 {
        let own: Vec<u64> =
            found.iter().map(|(offset, _)| *offset).filter(|offset| offset / 1000 == worker).collect();
        assert!(own.is_sorted(), "one thread's operations stay in order");
    }
}

#[test]
fn a_fault_leaves_a_void_entry_not_a_hole() {
    install_fault_handler();
    let log = Log::new();
    log.write(0, b"before");
    // SAFETY: the range is unmapped on purpose; the copy recovers from the fault.
    let bad = unsafe { UserSlice::new(std::ptr::without_provenance(4096), 5000) };
    let reservation = log.appender.reserve(log.appender.admit(5000 + 3).unwrap());
    let fault =
        log.appender.append_write(reservation, INODE, 6, &[UserSlice::from(&b"abc"[..]), bad], stamp());
    assert_eq!(fault.unwrap_err().copied, 3);
    log.write(6, b"after");
    assert_eq!(log.appender.entries(), 3, "a void entry is one that recovery walks over");
    let (found, _) = log.scan(LogPosition(0), salt(1));
    assert_eq!(found, [(0, b"before".to_vec()), (6, b"after".to_vec())]);
}
