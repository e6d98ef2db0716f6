//! Leases, fences, credits and quarantine, between sessions driven by one thread.

use crate::common::*;
use cuesta_format::wire::{LeaseMode, Refusal, Request, Response, Sends};
use cuesta_format::{Geometry, InodeNumber, LogGeneration, LogPosition};
use cuesta_sharedfs::check::{Mode, check};
use cuesta_sharedfs::metadata::MetadataError;
use cuesta_sharedfs::{Ending, Error, Progress};
use std::collections::HashSet;
use std::ops::Range;
use std::time::{Duration, Instant};

#[test]
fn a_conflict_fences_the_holder_and_keeps_its_prefix() {
    let store = Store::new();
    let shared = store.open();
    let mut first = Writer::attach(&shared);
    first.acquire(ROOT, LeaseMode::Write);
    let file = first.file(b"shared");
    first.write(file, 0, b"by the first");
    let accepted = first.at;
    let generation = first.generation();

    let mut second = Writer::attach(&shared);
    let grant = second.acquire(ROOT, LeaseMode::Read);
    assert_eq!(grant.entries.len(), 1);
    assert!(first.generation() > generation);

    // Entries that the first writes under its old lease are void, though they are complete and their checksums
    // are right.
    first.file(b"void");
    let resynced = first.resync();
    assert_eq!((resynced.accepted, resynced.resume), (accepted, accepted));
    assert_eq!((resynced.log_generation, resynced.revoked), (LogGeneration(2), vec![ROOT]));
    assert_eq!(resynced.lease_generation, first.generation());

    // The file it made is still its own; the second gets it by another fence.
    first.write(file, 0, b"again");
    let Response::Granted { grant, .. } =
        second.request(&Request::Lookup { parent: ROOT, name: b"shared".to_vec() })
    else {
        panic!()
    };
    assert_eq!(grant.record.size, 12);
    assert_eq!(content(&shared, "shared"), b"againe first");
    assert!(find(&shared, "void").is_none());
    assert_eq!(first.resync().revoked, [file]);
}

#[test]
fn void_entries_of_an_older_generation_stay_void_after_a_kill() {
    let store = Store::new();
    let shared = store.open();
    let mut first = Writer::attach(&shared);
    first.acquire(ROOT, LeaseMode::Write);
    first.file(b"kept");
    let mut second = Writer::attach(&shared);
    second.acquire(ROOT, LeaseMode::Write);
    for name in [b"void1", b"void2", b"void3"] {
        first.file(name);
    }
    second.file(b"second");
    first.resync();
    first.acquire(ROOT, LeaseMode::Write);
    first.file(b"good1");
    kill(shared, vec![first, second]);
    let shared = store.open();
    let names: Vec<_> = shared.read_directory(ROOT).unwrap().into_iter().map(|entry| entry.name).collect();
    assert_eq!(names, [&b"good1"[..], b"kept", b"second"]);
}

#[test]
fn a_lease_given_back_is_passed_on_after_its_changes_are_digested() {
    let store = Store::new();
    let shared = store.open();
    let mut first = Writer::attach(&shared);
    first.acquire(ROOT, LeaseMode::Write);
    first.file(b"new");
    let generation = first.generation();
    first.request(&Request::GiveBack { inodes: vec![ROOT] });
    let mut second = Writer::attach(&shared);
    assert_eq!(second.acquire(ROOT, LeaseMode::Read).entries.len(), 1);
    assert_eq!(first.generation(), generation, "no fence was needed");
}

#[test]
fn an_ended_session_holds_nothing() {
    let store = Store::new();
    let shared = store.open();
    let mut first = Writer::attach(&shared);
    first.acquire(ROOT, LeaseMode::Write);
    first.file(b"x");
    assert_eq!(first.request(&Request::Detach), Response::Done);
    let mut second = Writer::attach(&shared);
    let grant = second.acquire(ROOT, LeaseMode::Read);
    assert_eq!((grant.mode, grant.entries.len()), (LeaseMode::Write, 1));
}

#[test]
fn a_missing_inode_is_not_leased() {
    let store = Store::new();
    let shared = store.open();
    let mut writer = Writer::attach(&shared);
    let not_found = Response::Failed(Refusal::NotFound);
    let acquire = Request::Acquire {
        inode: InodeNumber(777_777),
        mode: LeaseMode::Read,
        ahead: 0,
        beside: Vec::new(),
        kept: None,
        sends: Sends::Nothing,
    };
    assert_eq!(writer.request(&acquire), not_found);
    let lookup = |parent, name: &[u8]| Request::Lookup { parent, name: name.to_vec() };
    assert!(matches!(writer.request(&lookup(ROOT, b"x")), Response::Failed(Refusal::Invalid(_))));
    writer.acquire(ROOT, LeaseMode::Read);
    assert_eq!(writer.request(&lookup(ROOT, b"x")), not_found);
    assert!(matches!(writer.request(&lookup(ROOT, b"a/b")), Response::Failed(Refusal::Invalid(_))));
}

/// Numbers granted ahead are their session's, whether it made something of them or not. Recovering a log that
/// speaks of none of them changes nothing.
#[test]
fn inode_numbers_granted_before_a_kill_are_never_granted_again() {
    let store = Store::new();
    let mut granted: Vec<Range<u64>> = Vec::new();
    for round in 0..4 {
        let shared = store.open();
        let mut writers: Vec<Writer> = (0..3).map(|_| Writer::attach(&shared)).collect();
        for (which, writer) in writers.iter_mut().enumerate() {
            writer.file(format!("{round}-{which}").as_bytes());
            granted.push(writer.next_inode - 1..writer.next_inode);
            if which > 0 {
                let asked = writer.request(&Request::InodeNumbers { count: 10 });
                let Response::InodeNumbers { first, count } = asked else { panic!("{asked:?}") };
                granted.push(first.0..first.0 + u64::from(count));
            }
            granted.push(writer.next_inode..writer.numbers_end());
        }
        kill(shared, writers);
    }
    let all: HashSet<u64> = granted.iter().cloned().flatten().collect();
    assert_eq!(all.len() as u64, granted.iter().map(|range| range.end - range.start).sum(), "{granted:?}");
    assert_eq!(store.open().read_directory(ROOT).unwrap().len(), 12, "one of each session");
}

#[test]
fn freed_blocks_are_not_reused_before_they_are_retired() {
    let store = Store::with(Geometry { nvm_bytes: 1 << 20, ..geometry() });
    let shared = store.open();
    let mut writer = Writer::attach_without_credit(&shared);
    let Response::Done = writer.request(&Request::Credit { blocks: 200 }) else { panic!() };
    let file = writer.file(b"f");
    for part in 0..4 {
        writer.write(file, part * 20 * 4096, &[1; 20 * 4096]);
    }
    writer.digest();
    let placed = |writer: &mut Writer, from| -> Vec<u64> {
        let report = writer.report(from);
        let extents = report.placed.iter().map(|placed| placed.extent);
        extents.flat_map(|it| (0..u64::from(it.blocks)).map(move |n| it.address.0 + n * 4096)).collect()
    };
    let first = placed(&mut writer, LogPosition(0));
    assert_eq!(first.len(), 80);
    let digested = writer.at;
    for part in 0..4 {
        writer.write(file, part * 20 * 4096, &[2; 20 * 4096]);
    }
    writer.digest();
    let second = placed(&mut writer, digested);
    assert!(second.iter().all(|block| !first.contains(block)));
    // All that is left is in quarantine.
    let credit = Request::Credit { blocks: 60 };
    assert_eq!(writer.request(&credit), Response::Failed(Refusal::NoSpace));
    writer.retire(writer.at);
    assert_eq!(writer.request(&credit), Response::Done);
    assert!(writer.report(LogPosition(0)).placed.is_empty(), "what is retired is not reported");
    for part in 0..3 {
        writer.write(file, part * 20 * 4096, &[3; 20 * 4096]);
    }
    writer.digest();
    assert_eq!(content(&shared, "f")[..60 * 4096], [3; 60 * 4096]);
    assert_eq!(content(&shared, "f")[60 * 4096..], [2; 20 * 4096]);
}

#[test]
fn a_full_store_promises_nothing_keeps_its_promises_and_deletes() {
    let store = Store::with(Geometry { nvm_bytes: 1 << 20, ..geometry() });
    let shared = store.open();
    let mut writer = Writer::attach_without_credit(&shared);
    let mut files = Vec::new();
    for number in 0..100u8 {
        // Some of what it needs it was granted ahead.
        let blocks = (5 * (u64::from(number) + 1)).saturating_sub(writer.credit_limit());
        if blocks > 0 && writer.request(&Request::Credit { blocks }) != Response::Done {
            break;
        }
        let name = [b'f', 0x80 | number];
        let file = writer.file(&name);
        writer.write(file, 0, &[number; 5 * 4096]);
        files.push((file, name));
        if number % 4 == 3 {
            writer.digest();
            writer.retire(writer.at);
        }
    }
    assert_eq!(files.len(), 48, "256 blocks less a reserve of 16 are 48 files of 5");
    writer.digest();
    writer.retire(writer.at);
    for (number, (_, name)) in files.iter().enumerate() {
        assert_eq!(shared.file_content(files[number].0).unwrap(), [name[1] & 0x7f; 5 * 4096]);
    }
    assert_eq!(shared.totals().unwrap().blocks_free, 0);
    // Truncating and deleting go on.
    writer.truncate(files[0].0, 100);
    for (file, name) in &files[1..10] {
        writer.unlink(ROOT, name, *file, false);
    }
    writer.digest();
    writer.retire(writer.at);
    assert_eq!(writer.request(&Request::Credit { blocks: 40 }), Response::Done);
    assert_eq!(shared.file_content(files[0].0).unwrap(), [0; 100]);
}

#[test]
fn a_session_that_takes_more_than_it_was_promised_cannot_take_from_others() {
    let store = Store::with(Geometry { nvm_bytes: 1 << 20, ..geometry() });
    let shared = store.open();
    let mut honest = Writer::attach_without_credit(&shared);
    assert_eq!(honest.request(&Request::Credit { blocks: 200 }), Response::Done);
    let mut greedy = Writer::attach_without_credit(&shared);
    greedy.acquire(ROOT, LeaseMode::Write);
    let kept = greedy.file(b"kept");
    greedy.write(kept, 0, &[1; 4096]);
    let file = greedy.file(b"greedy");
    greedy.write(file, 0, &[1; 30 * 4096]);
    greedy.write(file, 30 * 4096, &[1; 30 * 4096]);
    greedy.digest_to_its_end();
    assert!(matches!(greedy.request(&Request::Resync), Response::Failed(Refusal::SessionEnded)));
    assert_eq!(content(&shared, "kept"), [1; 4096]);
    assert_eq!(content(&shared, "greedy").len(), 30 * 4096);
    honest.acquire(ROOT, LeaseMode::Write);
    let file = honest.file(b"honest");
    for part in 0..4 {
        honest.write(file, part * 50 * 4096, &vec![2; 50 * 4096][..25 * 4096]);
        honest.write(file, part * 50 * 4096 + 25 * 4096, &vec![2; 25 * 4096]);
        honest.digest();
        honest.retire(honest.at);
    }
    assert_eq!(content(&shared, "honest"), vec![2; 200 * 4096]);
}

#[test]
fn status_and_explain_and_trace_tell_the_facts() {
    let store = Store::new();
    let shared = store.open();
    let mut writer = Writer::attach(&shared);
    writer.acquire(ROOT, LeaseMode::Write);
    let directory = writer.directory(b"d");
    let file = writer.create_in(directory, b"f", 0o100_644);
    writer.write(file, 0, &[1; 5000]);
    let ask = |request: &Request| shared.handle(cuesta_format::SessionId(0), request, &mut Vec::new());
    let Response::Status(status) = ask(&Request::Status) else { panic!() };
    assert_eq!((status.sessions.len(), status.sessions[0].pid), (1, NOBODY));
    assert_eq!(status.sessions[0].log_bytes, writer.at.0);
    writer.digest();
    let Response::Explained(explained) = ask(&Request::Explain { path: b"d/f".to_vec() }) else { panic!() };
    assert_eq!((explained.record.inode, explained.extents.len()), (file, 1));
    assert_eq!(explained.leases, [(writer.session, LeaseMode::Write)]);
    let Response::Events(events) = ask(&Request::Trace { from: 0, wait_ms: 0 }) else { panic!() };
    assert!(events.windows(2).all(|pair| pair[1].number == pair[0].number + 1));
    assert!(events.len() >= 5);
    assert!(matches!(ask(&Request::Explain { path: b"none".to_vec() }), Response::Failed(Refusal::NotFound)));
    assert!(matches!(ask(&Request::Digest), Response::Failed(Refusal::SessionEnded)));
}

#[test]
fn a_session_that_cuts_its_log_short_hurts_itself_only() {
    let store = Store::new();
    let shared = store.open();
    let mut hostile = Writer::attach(&shared);
    hostile.acquire(ROOT, LeaseMode::Write);
    hostile.file(b"a");
    hostile.digest();
    hostile.file(b"b");
    hostile.cut_segment(0, 10);
    hostile.digest_to_its_end();
    assert!(matches!(hostile.request(&Request::Resync), Response::Failed(Refusal::SessionEnded)));
    let mut other = Writer::attach(&shared);
    assert_eq!(other.acquire(ROOT, LeaseMode::Write).entries.len(), 1);
    other.file(b"alive");
    other.cut_segment(3, 0);
    assert_eq!(other.request(&Request::Detach), Response::Done);
    assert!(find(&shared, "alive").is_some());
    // Numbers that were cut short are never handed out again.
    let next = Writer::attach(&shared);
    for slot in 0..u64::from(next.geometry.ring_slots) {
        next.read_raw(LogPosition((slot + 1) * next.geometry.segment_bytes - 1));
    }
}

#[test]
fn a_log_that_is_only_said_to_be_long_keeps_no_other_waiting() {
    let store = Store::new();
    let shared = store.open();
    let liar = Writer::attach(&shared);
    liar.complete(LogPosition(u64::MAX / 2));
    let mut writer = Writer::attach(&shared);
    writer.acquire(ROOT, LeaseMode::Write);
    writer.file(b"file");
    assert!(matches!(shared.digest_step(), Ok(Progress::Digested { .. })));
    assert_eq!(writer.digested(), writer.at);
}

#[test]
fn the_undigested_entries_allowed_are_shared_out() {
    let store = Store::new();
    let shared = store.open();
    let mut a = Writer::attach(&shared);
    assert_eq!(a.entries_max(), shared.options().undigested_entries);
    let mut b = Writer::attach(&shared);
    let half = shared.options().undigested_entries / 2;
    assert_eq!((a.entries_max(), b.entries_max()), (half, half));
    let file = b.file(b"f");
    b.write(file, 0, b"content");
    b.digest();
    assert_eq!((a.digested_entries(), b.digested_entries()), (0, 2));
    b.request(&Request::Detach);
    assert_eq!(a.entries_max(), 2 * half);
    a.request(&Request::Detach);
}

#[test]
fn a_directory_that_sessions_pass_through_is_fenced_for_once() {
    let store = Store::new();
    let shared = store.open();
    let mut writers = [Writer::attach(&shared), Writer::attach(&shared), Writer::attach(&shared)];
    let directories: Vec<InodeNumber> = (0..3)
        .map(|number| {
            let writer = &mut writers[number];
            writer.acquire(ROOT, LeaseMode::Write);
            writer.resync();
            writer.directory(format!("d{number}").as_bytes())
        })
        .collect();
    let fences = |writer: &mut Writer| match writer.request(&Request::Status) {
        Response::Status(status) => status.fences,
        other => panic!("{other:?}"),
    };
    let before = fences(&mut writers[0]);
    for round in 0..100 {
        for (writer, &directory) in writers.iter_mut().zip(&directories) {
            writer.acquire(ROOT, LeaseMode::Read);
            writer.resync_if_fenced();
            writer.acquire(directory, LeaseMode::Write);
            writer.create_in(directory, format!("f{round}").as_bytes(), 0o100_644);
        }
    }
    assert_eq!(fences(&mut writers[0]) - before, 1, "the last one to change the root");
    for writer in &mut writers {
        writer.digest();
        writer.request(&Request::Detach);
    }
    assert_eq!(shared.read_directory(directories[2]).unwrap().len(), 100);
}

#[test]
fn credit_is_granted_ahead_while_there_is_plenty() {
    let store = Store::new();
    let shared = store.open();
    let mut writer = Writer::attach_without_credit(&shared);
    writer.request(&Request::Credit { blocks: 20 });
    let file = writer.file(b"f");
    writer.write(file, 0, &[1; 10 * 4096]);
    let before = writer.credit_limit();
    writer.digest();
    let ahead = writer.credit_limit() - before;
    assert!((1..=30).contains(&ahead), "four batches of 10 blocks, of which 10 are left: {ahead}");
    writer.request(&Request::Detach);
    let totals = shared.totals().unwrap();
    assert_eq!(totals.blocks - totals.blocks_free, 10 + 64, "what it was promised is free again");
}

/// A fence that is settled is told without a digest that may be going on for another session.
#[test]
fn a_request_that_needs_no_digest_is_answered_while_one_runs() {
    let store = Store::new();
    let shared = store.open();
    let mut writer = Writer::attach(&shared);
    let held = shared.hold_digests();
    writer.file(b"f");
    for request in [
        Request::Credit { blocks: 1 },
        Request::Report { from: LogPosition(0), skip: 0 },
        Request::InodeNumbers { count: 10 },
        Request::Resync,
        Request::Acquire {
            inode: ROOT,
            mode: LeaseMode::Write,
            ahead: 0,
            beside: Vec::new(),
            kept: None,
            sends: Sends::Nothing,
        },
        Request::GiveBack { inodes: vec![ROOT] },
        Request::Statfs { tree: InodeNumber::NONE },
        Request::Status,
    ] {
        assert!(!matches!(writer.request(&request), Response::Failed(_)), "{request:?}");
    }
    drop(held);
    writer.digest();
}

/// The last steps of an old daemon's connection threads went over the next daemon's writes: redb found its primary
/// corrupted.
#[test]
fn a_store_that_was_left_writes_nothing_any_more() {
    let store = Store::new();
    let shared = store.open();
    let mut old = Writer::attach(&shared);
    let file = old.file(b"f");
    old.write(file, 0, b"content");
    old.digest();
    let old_session = old.session;
    shared.stop().unwrap();
    let late = Writer::attach(&shared);
    shared.leave();

    let next = store.open();
    let mut writer = Writer::attach(&next);
    writer.file(b"of the next one");
    writer.digest();
    for session in [old_session, late.session] {
        let ended = shared.end_session(session, Ending::Gone);
        assert!(matches!(ended, Err(Error::Metadata(MetadataError::Left))), "{ended:?}");
    }
    assert!(matches!(shared.attach(NOBODY, "late"), Err(Error::Metadata(MetadataError::Left))));
    drop((old, late, shared));
    let more = writer.file(b"more of it");
    writer.write(more, 0, b"more");
    writer.digest();
    writer.request(&Request::Detach);
    drop((writer, next));
    let last = store.open();
    assert_eq!(content(&last, "more of it"), b"more");
    assert_eq!(content(&last, "of the next one"), b"");
    drop(last);
    assert!(check(&store.tier(), Mode::Report).unwrap().is_clean());
}

/// The same when no client asks the old one for anything, and it is only let go of.
#[test]
fn letting_go_of_a_store_that_was_left_is_nothing_to_the_next_daemon() {
    let store = Store::new();
    let shared = store.open();
    let mut old = Writer::attach(&shared);
    old.file(b"f");
    old.digest();
    shared.stop().unwrap();
    shared.leave();
    let next = store.open();
    let mut writer = Writer::attach(&next);
    for number in 0..3000 {
        let name = format!("{number:0200}").into_bytes();
        writer.file(&name);
        if number % 500 == 499 {
            writer.digest();
        }
    }
    next.stop().unwrap();
    drop((old, shared));
    kill(next, vec![writer]);
    let last = store.open();
    assert_eq!(last.read_directory(ROOT).unwrap().len(), 3001);
    drop(last);
    assert!(check(&store.tier(), Mode::Report).unwrap().is_clean());
}

/// A holder that others waited for went on writing for as long as a running digest took, and its entries had to be
/// digested behind that.
#[test]
fn a_holder_others_wait_for_stands_still_while_a_digest_goes_on() {
    let store = Store::new();
    let shared = store.open();
    let mut holder = Writer::attach(&shared);
    let file = holder.file(b"f");
    holder.digest();
    holder.write(file, 0, b"content");
    let mut waiter = Writer::attach(&shared);
    let held = shared.hold_digests();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| waiter.acquire(file, LeaseMode::Write).record.size);
        let patience = Instant::now() + Duration::from_secs(60);
        while holder.generation() == holder.lease_generation {
            assert!(Instant::now() < patience, "the holder was not told");
            std::thread::yield_now();
        }
        drop(held);
        assert_eq!(waiting.join().unwrap(), 7);
    });
    assert_eq!(holder.resync().revoked, [file]);
}
