//! Calls of callers: the digest keeps the last one of each slot with what it did, whatever becomes of that.

use super::recovery::name_another_boot;
use crate::common::*;
use cuesta_format::entry::FLAG_TAGGED;
use cuesta_format::wire::{Request, Response};
use cuesta_format::{CallRecord, CallSlot, CallTag, Caller, CallerId, InodeNumber, Operation};
use cuesta_sharedfs::SharedFs;
use std::process::{Command, Stdio};

const CALLER: Caller = Caller { user: 1000, id: CallerId([7; 16]) };

impl Writer {
    /// Appends an operation that executes a caller's call, and completes it.
    fn append_tagged(&mut self, operation: Operation<'_>, tag: CallTag) {
        self.clock += 1;
        let mut body = vec![0; operation.body_bytes()];
        operation.encode_body(&mut body);
        body.extend(tag.encode());
        let blocks = u32::from(matches!(operation, Operation::Write { .. }));
        let mut header = self.header(&operation, blocks);
        header.body_bytes = body.len() as u32;
        header.flags |= FLAG_TAGGED;
        self.append_sealed(&header, &body);
        self.complete(self.at);
    }
}

/// A call of the caller, by a process that this one is.
fn tag(slot: u16, number: u64) -> CallTag {
    CallTag { slot: CallSlot { caller: CALLER, slot }, process: std::process::id(), number }
}

fn create(name: &[u8], inode: InodeNumber) -> Operation<'_> {
    let (mode, uid, gid) = (0o100_644, 1, 2);
    Operation::Create { parent: ROOT, inode, mode, uid, gid, device: 0, name, target: b"", list: b"" }
}

fn unlink(name: &[u8], inode: InodeNumber) -> Operation<'_> {
    Operation::Unlink { parent: ROOT, inode, name, orphan: false }
}

/// The record of the slot's last call: its number, its value, where it ended.
fn known(shared: &SharedFs, slot: u16) -> Option<(u64, u64, u64)> {
    let record = shared.snapshot().unwrap().call(CallSlot { caller: CALLER, slot }).unwrap();
    record.map(|CallRecord { number, value, end, .. }| (number, value, end))
}

fn hold_root(writer: &mut Writer) {
    writer.acquire(ROOT, cuesta_format::wire::LeaseMode::Write);
}

/// Makes and removes a file in one batch, and writes twice to another.
fn work(writer: &mut Writer) -> InodeNumber {
    hold_root(writer);
    let (gone, file) = (writer.number(), writer.number());
    writer.append_tagged(create(b"gone", gone), tag(0, 1));
    writer.append_tagged(unlink(b"gone", gone), tag(1, 5));
    writer.append(create(b"file", file));
    writer.append_tagged(Operation::Write { inode: file, offset: 0, data: b"first" }, tag(2, 1));
    writer.append_tagged(Operation::Write { inode: file, offset: 5, data: b"second" }, tag(2, 2));
    gone
}

#[test]
fn the_last_call_of_a_slot_is_kept_though_nothing_else_is_left_of_it() {
    let store = Store::new();
    let shared = store.open();
    let mut writer = Writer::attach(&shared);
    let gone = work(&mut writer);
    assert_eq!(known(&shared, 0), None, "nothing is digested");
    writer.digest();
    assert_eq!(known(&shared, 0), Some((1, gone.0, 0)), "it was made, and removed in the same batch");
    assert_eq!((known(&shared, 1), known(&shared, 2)), (Some((5, gone.0, 0)), Some((2, 6, 11))));
    let slot = tag(0, 1).slot;
    let asked = writer.request(&Request::Call { slot });
    let Response::Call(Some(record)) = asked else { panic!("{asked:?}") };
    assert_eq!((record.number, record.value, record.process), (1, gone.0, std::process::id()));
    let other = CallSlot { caller: Caller { user: 1001, ..CALLER }, slot: 0 };
    assert_eq!(writer.request(&Request::Call { slot: other }), Response::Call(None), "another user's caller");
}

#[test]
fn recovery_knows_the_calls_that_a_log_holds() {
    let store = Store::new();
    let gone = work(&mut Writer::attach(&store.open()));
    let shared = store.copied().open();
    assert_eq!(known(&shared, 0), Some((1, gone.0, 0)));
    assert_eq!((known(&shared, 1), known(&shared, 2)), (Some((5, gone.0, 0)), Some((2, 6, 11))));
}

#[test]
fn a_caller_that_is_forgotten_leaves_nothing() {
    let store = Store::new();
    let shared = store.open();
    let mut writer = Writer::attach(&shared);
    work(&mut writer);
    writer.append(Operation::ForgetCaller { caller: CALLER });
    writer.digest();
    let none = [None; 3];
    assert_eq!([0, 1, 2].map(|slot| known(&shared, slot)), none, "all of it was one batch");

    let file = writer.number();
    writer.append_tagged(create(b"more", file), tag(0, 9));
    writer.digest();
    assert_eq!(known(&shared, 0), Some((9, file.0, 0)));
    let other = Caller { user: 1001, ..CALLER };
    writer.append(Operation::ForgetCaller { caller: other });
    writer.digest();
    assert!(known(&shared, 0).is_some(), "another user's caller");
    writer.append(Operation::ForgetCaller { caller: CALLER });
    writer.digest();
    assert_eq!([0, 1, 2].map(|slot| known(&shared, slot)), none);
}

/// An entry that is rejected took no effect, and neither did those behind it.
#[test]
fn a_call_that_makes_no_sense_leaves_no_record() {
    let store = Store::new();
    let shared = store.open();
    let mut writer = Writer::attach(&shared);
    hold_root(&mut writer);
    let file = writer.number();
    writer.append_tagged(create(b"file", file), tag(0, 1));
    writer.append_tagged(unlink(b"another", file), tag(0, 2));
    writer.append_tagged(unlink(b"file", file), tag(0, 3));
    writer.digest_to_its_end();
    assert_eq!(known(&shared, 0), Some((1, file.0, 0)));
}

#[test]
fn callers_whose_processes_are_gone_are_forgotten_by_the_next_daemon() {
    let store = Store::new();
    let mut child = Command::new("sleep").arg("1000").stdin(Stdio::null()).spawn().unwrap();
    let callers = [1, 2, 3].map(|id| Caller { user: 1000, id: CallerId([id; 16]) });
    {
        let mut writer = Writer::attach(&store.open());
        hold_root(&mut writer);
        // This process, one that ends, and one that the daemon cannot see.
        for (caller, process) in callers.into_iter().zip([std::process::id(), child.id(), 0]) {
            let tag = CallTag { slot: CallSlot { caller, slot: 0 }, process, number: 1 };
            let file = writer.number();
            writer.append_tagged(create(&[b'a' + process as u8 % 2, caller.id.0[0]], file), tag);
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let next = store.copied();
    let shared = next.open();
    let has = |caller| shared.snapshot().unwrap().call(CallSlot { caller, slot: 0 }).unwrap().is_some();
    assert_eq!(callers.map(has), [true, false, true]);
    drop(shared);
    // The machine was started anew.
    name_another_boot(&next.tier());
    let shared = next.open();
    let has = |caller| shared.snapshot().unwrap().call(CallSlot { caller, slot: 0 }).unwrap().is_some();
    assert_eq!(callers.map(has), [false; 3]);
}
