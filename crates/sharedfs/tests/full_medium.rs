//! A medium that fills up between two steps. Each test in a process of its own: the limit on file sizes that stands for
//! the full medium is the process's, and holds for the file that the outcome of other tests may be written to as well.

mod common;

use common::*;
use cuesta_format::Operation;
use cuesta_format::durability::DurabilityWish;
use cuesta_format::quota::{Amounts, Limited, Limits};
use cuesta_format::wire::{LeaseMode, PROTOCOL_VERSION, Refusal, Request, Response, Sends};
use cuesta_format::{FileKind, InodeNumber, SessionId};
use cuesta_sharedfs::check::{Mode, check, told};
use cuesta_sharedfs::metadata::{Dirent, Files, MetadataError, MetadataStore};
use cuesta_sharedfs::server::Service;
use cuesta_sharedfs::{Options, SharedFs};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::os::unix::fs::FileExt;
use std::process::Command;
use std::sync::Arc;

/// Set in the process that a test has for itself.
const HAS_PROCESS: &str = "CUESTA_TEST_HAS_PROCESS";

/// Whether this process is for the test of that name alone. If not, the test is made in one that is: its output is a
/// pipe, for which no limit holds.
#[must_use]
fn has_process(test: &str) -> bool {
    if std::env::var_os(HAS_PROCESS).is_some() {
        // SAFETY: no handler runs: past the limit the call fails, that is all.
        unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
        return true;
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    let ended = command.args(["--exact", test, "--nocapture"]).env(HAS_PROCESS, "").output().unwrap();
    let said = [ended.stdout, ended.stderr].map(|said| String::from_utf8_lossy(&said).into_owned()).concat();
    assert!(ended.status.success() && said.contains("1 passed"), "{}:\n{said}", ended.status);
    println!("{said}");
    false
}

fn limit_files(bytes: Option<u64>) {
    let limit = getrlimit(Resource::Fsize);
    setrlimit(Resource::Fsize, Rlimit { current: bytes, maximum: limit.maximum }).unwrap();
}

/// Fills the metadata store with long names, made in the order `name` gives them, until it finds no room. Answers the
/// names.
fn fill(writer: &mut Writer, name: impl Fn(usize) -> u64) -> Vec<Vec<u8>> {
    let mut names = Vec::new();
    loop {
        // As many as the log holds: scattered, they need more room than the daemon foresees.
        for _ in 0..1200 {
            let name = format!("{:0250}", name(names.len())).into_bytes();
            writer.file(&name);
            names.push(name);
        }
        match writer.request(&Request::Digest) {
            Response::Done => writer.retire(writer.at),
            refused => {
                assert_eq!(refused, Response::Failed(Refusal::NoSpace));
                return names;
            }
        }
    }
}

/// A store whose medium holds what its metadata takes now, and no byte more.
fn full_store() -> (Store, Arc<SharedFs>, Writer, Writer) {
    full_store_with(|_| {})
}

/// The same of one that something was done to first.
fn full_store_with(prepare: impl Fn(&SharedFs)) -> (Store, Arc<SharedFs>, Writer, Writer) {
    let store = Store::new();
    let options = Options { digest_batch_bytes: 1 << 20, ..options() };
    let shared = SharedFs::open(&store.tier(), options).unwrap();
    prepare(&shared);
    let mut first = Writer::attach(&shared);
    let second = Writer::attach(&shared);
    first.acquire(ROOT, LeaseMode::Write);
    for _ in 0..40 {
        first.request(&Request::InodeNumbers { count: 4096 });
    }
    limit_files(Some(std::fs::metadata(store.tier().join("meta.redb")).unwrap().len()));
    (store, shared, first, second)
}

fn names(shared: &SharedFs) -> Vec<Vec<u8>> {
    shared.read_directory(ROOT).unwrap().into_iter().map(|entry| entry.name).collect()
}

#[test]
fn a_fence_that_fails_half_way_voids_nothing_that_was_acknowledged() {
    if !has_process("a_fence_that_fails_half_way_voids_nothing_that_was_acknowledged") {
        return;
    }
    let (store, shared, mut first, mut second) = full_store();
    let made = fill(&mut first, |number| number as u64);
    let acquire = Request::Acquire {
        inode: ROOT,
        mode: LeaseMode::Read,
        ahead: 0,
        beside: Vec::new(),
        kept: None,
        sends: Sends::Nothing,
    };
    assert!(matches!(second.request(&acquire), Response::Failed(_)));
    assert!(first.generation() > first.lease_generation, "it is fenced");
    assert!(
        matches!(first.request(&Request::Resync), Response::Failed(_)),
        "it is unknown where its log goes on"
    );
    limit_files(None);
    kill(shared, vec![first, second]);
    let shared = store.open();
    assert_eq!(names(&shared), made);
}

#[test]
fn a_daemon_that_found_the_medium_full_goes_on_when_there_is_room() {
    if !has_process("a_daemon_that_found_the_medium_full_goes_on_when_there_is_room") {
        return;
    }
    // In order; and scattered, so that each name is put into a page of its own.
    for scatter in [1, 0x9e37_79b9_7f4a_7c15] {
        let (store, shared, mut first, mut second) = full_store();
        let mut made = fill(&mut first, |number| (number as u64).wrapping_mul(scatter));
        made.sort();
        let digested = names(&shared);
        assert!(digested.len() < made.len() && digested.iter().all(|name| made.binary_search(name).is_ok()));
        for _ in 0..3 {
            assert_eq!(first.request(&Request::Digest), Response::Failed(Refusal::NoSpace));
            assert!(!Service::digest(&*shared, true).unwrap(), "the daemon lives");
        }
        let acquire = Request::Acquire {
            inode: ROOT,
            mode: LeaseMode::Read,
            ahead: 0,
            beside: Vec::new(),
            kept: None,
            sends: Sends::Nothing,
        };
        assert_eq!(second.request(&acquire), Response::Failed(Refusal::NoSpace));
        assert_eq!(first.request(&Request::Detach), Response::Failed(Refusal::NoSpace));

        limit_files(None);
        assert!(matches!(second.request(&acquire), Response::Granted { .. }));
        assert_eq!(names(&shared), made);
        // The session that could not end is ended by the way.
        while shared.pending_bytes(first.session) > 0
            || !matches!(first.request(&Request::Resync), Response::Failed(_))
        {
            Service::digest(&*shared, true).unwrap();
        }
        assert_eq!(second.request(&Request::Detach), Response::Done);
        drop((first, second, shared));
        assert!(check(&store.tier(), Mode::Report).unwrap().is_clean());
    }
}

#[test]
fn free_space_under_a_quota_is_told_on_a_full_medium() {
    if !has_process("free_space_under_a_quota_is_told_on_a_full_medium") {
        return;
    }
    let limits = Amounts { blocks: 100, inodes: 1 << 20 };
    let (_store, shared, mut first, mut second) = full_store_with(|shared| {
        let request =
            Request::SetQuota { of: Limited::Directory(Vec::new()), limits: Some(Limits::hard(limits)) };
        assert_eq!(shared.handle(SessionId::NOBODY, &request, &mut Vec::new()), Response::Done);
    });
    let made = fill(&mut first, |number| number as u64);
    let statfs = Request::Statfs { tree: ROOT };
    for answer in [first.request(&statfs), second.request(&statfs)] {
        let Response::Statfs(totals) = answer else { panic!("{answer:?}") };
        assert_eq!((totals.blocks, totals.blocks_free), (100, 100));
        let committed = names(&shared).len() as u64;
        assert!(committed < made.len() as u64, "some are in the log only");
        assert_eq!(totals.inodes, committed + 1);
    }
    limit_files(None);
    kill(shared, vec![first, second]);
}

/// Flips a bit of a name in the metadata's journal. Says whether it is there.
fn damage_journal(store: &Store, name: &[u8]) -> bool {
    let copies = ["meta.redb", "meta.copy"].map(|name| store.tier().join(name));
    let damage = |path: &std::path::PathBuf| {
        let journal = std::fs::read(path).unwrap()[..4 << 20].to_vec();
        let Some(found) = journal.windows(name.len()).position(|bytes| bytes == name) else { return false };
        let file = std::fs::File::options().write(true).open(path).unwrap();
        file.write_all_at(&[journal[found] ^ 1], found as u64).unwrap();
        true
    };
    copies.iter().filter(|path| path.exists()).all(damage)
}

/// A transaction that finds the medium full reads the journal again. Its content is known, is read on, and nothing
/// is written over it.
#[test]
fn a_journal_that_is_found_damaged_on_a_full_medium_is_read_on_and_left() {
    if !has_process("a_journal_that_is_found_damaged_on_a_full_medium_is_read_on_and_left") {
        return;
    }
    let store = Store::new();
    let path = store.tier().join("meta.redb");
    let open = || MetadataStore::open(&path, medium());
    let metadata = open().unwrap();
    let put = |names: &[Vec<u8>]| {
        let mut transaction = metadata.begin()?;
        let dirent = Dirent { inode: ROOT, kind: FileKind::File };
        names.iter().for_each(|name| transaction.put_dirent(ROOT, name, dirent));
        transaction.commit()
    };
    let small = vec![b"a small one to be found".to_vec()];
    put(&small).unwrap();
    assert!(damage_journal(&store, &small[0]));
    limit_files(Some(std::fs::metadata(&path).unwrap().len()));
    let many: Vec<_> = (0..40_000).map(|number| format!("{number:0250}").into_bytes()).collect();
    assert!(matches!(put(&many), Err(MetadataError::NoSpace)));
    for _ in 0..2 {
        let names: Vec<_> =
            metadata.read().unwrap().list(ROOT, b"", 9).unwrap().into_iter().map(|it| it.name).collect();
        assert_eq!(names, small, "what was committed is known");
        assert!(matches!(put(&small), Err(MetadataError::Journal(_))), "and is not written over");
    }
    drop(metadata);
    assert!(matches!(open(), Err(MetadataError::Journal(_))));
    let sound = MetadataStore::open_sound_part(Files::new(&path, medium())).unwrap();
    assert!(sound.loss().is_some());
    drop(sound.drop_rest().unwrap());
    open().unwrap();
}

/// Nothing is dropped that there is no room to remember.
#[test]
fn a_repair_drops_nothing_on_a_full_medium_and_everything_when_there_is_room() {
    if !has_process("a_repair_drops_nothing_on_a_full_medium_and_everything_when_there_is_room") {
        return;
    }
    let store = Store::new();
    let shared = store.open();
    let mut writer = Writer::attach(&shared);
    writer.file(b"a name to be found");
    writer.digest();
    kill(shared, vec![writer]);
    assert!(damage_journal(&store, b"a name to be found"));
    // How far it is written, and its records.
    let journal = || {
        let bytes = std::fs::read(store.tier().join("meta.redb")).unwrap();
        [bytes[24..32].to_vec(), bytes[4096..4 << 20].to_vec()]
    };
    let damaged = journal();
    limit_files(Some(0));
    for _ in 0..2 {
        let refused = check(&store.tier(), Mode::RepairWithLoss);
        assert!(matches!(refused, Err(cuesta_sharedfs::Error::NoSpace)), "{refused:?}");
    }
    limit_files(None);
    assert!(journal() == damaged, "it is as it was");
    let report = check(&store.tier(), Mode::RepairWithLoss).unwrap();
    let said = report.findings[0].problem.to_string();
    assert!(said.contains("the journal of the metadata store was damaged"), "{report:?}");
    told(&store.tier()).unwrap();
    // The log makes up for it.
    assert!(find(&store.open(), "a name to be found").is_some());
}

#[test]
fn attributes_that_found_the_medium_full_are_kept() {
    if !has_process("attributes_that_found_the_medium_full_are_kept") {
        return;
    }
    let (store, shared, mut first, second) = full_store();
    let value = |number: usize| vec![number as u8; 1000 + number * 7919 % 30_000];
    let mut files = Vec::new();
    let full = loop {
        for _ in 0..8 {
            let number = files.len();
            let inode = first.file(format!("{number}").as_bytes());
            files.push(inode);
            let value = value(number);
            first.append(Operation::SetExtended { inode, name: b"user.large", value: &value });
        }
        match first.request(&Request::Digest) {
            Response::Done => first.retire(first.at),
            refused => break refused,
        }
    };
    assert_eq!(full, Response::Failed(Refusal::NoSpace));
    limit_files(None);
    assert_eq!(first.request(&Request::Digest), Response::Done);
    let snapshot = shared.snapshot().unwrap();
    for (number, &inode) in files.iter().enumerate() {
        let attributes = snapshot.extended(inode).unwrap();
        assert!(attributes.len() == 1 && attributes[0].value == value(number), "{number}");
    }
    drop(snapshot);
    first.request(&Request::Detach);
    drop((first, second, shared));
    assert!(check(&store.tier(), Mode::Report).unwrap().is_clean());
}

#[test]
fn a_log_that_cannot_grow_is_told_that_the_medium_is_full() {
    if !has_process("a_log_that_cannot_grow_is_told_that_the_medium_is_full") {
        return;
    }
    let store = Store::new();
    let shared = store.open();
    let attach = Request::Attach {
        version: PROTOCOL_VERSION,
        pid: NOBODY,
        program: "test".into(),
        first: InodeNumber::NONE,
        resume: SessionId::NOBODY,
        durability: DurabilityWish::NONE,
    };
    let attached = || match shared.handle(SessionId(0), &attach, &mut Vec::new()) {
        Response::Attached(welcome) => welcome.session,
        other => panic!("not attached: {other:?}"),
    };
    let grow =
        |session, have, slots| shared.handle(session, &Request::GrowLog { have, slots }, &mut Vec::new());
    // A new store on a disk has some segments, which others take first.
    let mut spare = names_under(&store.tier().join("logs")).len() as u32;
    while spare > 0 {
        let (other, wanted) = (attached(), spare.min(geometry().ring_slots));
        let mut have = 0;
        while have < wanted {
            let Response::Grown { offsets } = grow(other, have, wanted) else {
                panic!("{have} of {wanted} are all")
            };
            assert_ne!(offsets.len(), 0, "{have} of {wanted} are all");
            have += offsets.len() as u32;
        }
        spare -= wanted;
    }
    let session = attached();
    limit_files(Some(0));
    let full = grow(session, 0, 1);
    limit_files(None);
    assert_eq!(full, Response::Failed(Refusal::NoSpace));
    assert_eq!(grow(session, 0, 1), Response::Grown { offsets: vec![0] });
}

/// Further names of a file take room that no session is credited with. A daemon that recovers them on a full medium
/// finds enough after all, in smaller steps than the one before it; or it does not start, says why, and leaves them
/// as they are.
#[test]
fn recovery_on_a_full_medium_loses_nothing() {
    if !has_process("recovery_on_a_full_medium_loses_nothing") {
        return;
    }
    for scatter in [1, 0x9e37_79b9_7f4a_7c15] {
        let store = Store::new();
        let shared = store.open();
        let mut writer = Writer::attach(&shared);
        limit_files(Some(std::fs::metadata(store.tier().join("meta.redb")).unwrap().len()));
        let file = writer.file(b"first");
        let mut made = vec![b"first".to_vec()];
        loop {
            for _ in 0..1000 {
                let name = format!("{:0250}", (made.len() as u64).wrapping_mul(scatter)).into_bytes();
                writer.append(Operation::Link { parent: ROOT, inode: file, name: &name });
                made.push(name);
            }
            match writer.request(&Request::Digest) {
                Response::Done => writer.retire(writer.at),
                refused => break assert_eq!(refused, Response::Failed(Refusal::NoSpace)),
            }
        }
        kill(shared, vec![writer]);
        made.sort();
        for _ in 0..2 {
            match SharedFs::open(&store.tier(), options()) {
                Ok(shared) => assert_eq!(names(&shared), made),
                Err(refused) => {
                    assert!(matches!(refused, cuesta_sharedfs::Error::NoSpace), "{refused}");
                    println!("scattered by {scatter:x}: {refused}");
                }
            }
        }
        limit_files(None);
        assert_eq!(names(&store.open()), made);
        assert!(check(&store.tier(), Mode::Report).unwrap().is_clean());
    }
}

/// Fills the metadata store itself until not one name more finds room.
fn fill_to_the_brim(store: &Store) {
    let path = store.tier().join("meta.redb");
    let metadata = MetadataStore::open(&path, medium()).unwrap();
    let mut made = 0u64;
    for step in [20_000, 1000, 50, 1] {
        loop {
            let Ok(mut transaction) = metadata.begin() else { panic!("step {step}") };
            for number in made..made + step {
                let name = format!("{:0250}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
                transaction.put_dirent(ROOT, name.as_bytes(), Dirent { inode: ROOT, kind: FileKind::File });
            }
            made += step;
            match transaction.commit() {
                Ok(()) => {}
                Err(MetadataError::NoSpace) => break,
                Err(error) => panic!("{error}"),
            }
        }
    }
}

/// What starting wants to forget of sessions that are gone took room: a store without any did not open any more.
#[test]
fn a_store_whose_metadata_is_full_to_the_brim_opens() {
    if !has_process("a_store_whose_metadata_is_full_to_the_brim_opens") {
        return;
    }
    let store = Store::new();
    let shared = store.open();
    let mut writers: Vec<Writer> = (0..40).map(|_| Writer::attach_without_credit(&shared)).collect();
    let mut kept = Vec::new();
    for (number, writer) in writers.iter_mut().enumerate() {
        writer.acquire(ROOT, LeaseMode::Write);
        let name = format!("{number}");
        let inode = writer.file(name.as_bytes());
        writer.open_in_slot(0, inode);
        writer.append(Operation::Unlink { parent: ROOT, inode, name: name.as_bytes(), orphan: true });
        writer.digest();
        kept.push(inode);
    }
    assert_eq!(shared.snapshot().unwrap().orphans().unwrap().len(), kept.len());
    kill(shared, writers);
    limit_files(Some(std::fs::metadata(store.tier().join("meta.redb")).unwrap().len()));
    fill_to_the_brim(&store);
    for _ in 0..2 {
        let shared = store.open();
        let writer = Writer::attach_without_credit(&shared);
        kill(shared, vec![writer]);
    }
    limit_files(None);
    let shared = store.open();
    let snapshot = shared.snapshot().unwrap();
    assert_eq!((snapshot.orphans().unwrap(), snapshot.sessions().unwrap()), (Vec::new(), Vec::new()));
}

/// The first session without room kept all others from ending.
#[test]
fn a_daemon_that_leaves_a_full_medium_ends_whom_it_can() {
    if !has_process("a_daemon_that_leaves_a_full_medium_ends_whom_it_can") {
        return;
    }
    let (store, shared, mut first, mut second) = full_store();
    let made = fill(&mut first, |number| number as u64);
    assert!(matches!(shared.stop(), Err(cuesta_sharedfs::Error::NoSpace)));
    assert_eq!(second.request(&Request::Resync), Response::Failed(Refusal::SessionEnded));
    shared.leave();
    limit_files(None);
    drop((first, second, shared));
    assert_eq!(names(&store.open()), made);
}

/// What two programs left that were awaited and died: one has something that goes with it, for which there may be no room. The
/// other was not come to, and both waited for something else to happen.
#[test]
fn sessions_that_are_left_over_are_ended_as_there_is_room() {
    if !has_process("sessions_that_are_left_over_are_ended_as_there_is_room") {
        return;
    }
    let store = Store::new();
    let shared = store.open();
    let programs = [Program::start(), Program::start()];
    let mut writers: Vec<Writer> =
        programs.iter().map(|program| Writer::attach_as(&shared, program.0.id())).collect();
    let sessions: Vec<SessionId> = writers.iter().map(|writer| writer.session).collect();
    let inode = writers[0].file(b"f");
    writers[0].open_in_slot(0, inode);
    writers[0].append(Operation::Unlink { parent: ROOT, inode, name: b"f", orphan: true });
    writers[0].digest();
    kill(shared, writers);
    limit_files(Some(std::fs::metadata(store.tier().join("meta.redb")).unwrap().len()));
    fill_to_the_brim(&store);
    let shared = store.open();
    let awaited = || -> Vec<SessionId> { shared.awaited().into_iter().map(|(session, _)| session).collect() };
    assert_eq!(awaited(), sessions);
    drop(programs);
    sessions.iter().for_each(|&session| Service::kicked(&*shared, session));
    assert!(Service::idle_after(&*shared).is_some(), "it is looked again, kick or not");
    Service::digest(&*shared, true).unwrap();
    assert!(!awaited().contains(&sessions[1]), "whether or not there is room for the other");
    limit_files(None);
    while !awaited().is_empty() {
        assert!(Service::idle_after(&*shared).is_some());
        Service::digest(&*shared, true).unwrap();
    }
}
