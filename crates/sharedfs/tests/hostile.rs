//! Sessions that mean harm, beside an honest one on the same store: they lose their own session at most. The honest
//! one's files stay whole and can be read, its session goes on, and the store stays clean.
//!
//! `served/tests/hostile.rs` tests attacks by processes of other users; `recovery.rs` rubbish with valid checksums,
//! in every kind of entry; `fuzz` bytes of chance, under guidance.

use crate::common::*;
use cuesta_format::operation::Attributes;
use cuesta_format::quota::{Amounts, Limited, Limits};
use cuesta_format::wire::{LeaseMode, Refusal, Request, Response, ScrubPlace, Sends};
use cuesta_format::{BlockAddress, InodeNumber, LogPosition, Operation, SessionId};
use cuesta_sharedfs::check::{Mode, check};
use cuesta_sharedfs::{Progress, SharedFs};
use std::sync::Arc;

const CONTENT: [u8; 10_000] = [0x5a; 10_000];

/// A store with an honest session, which has a tree of its own, digested, and goes on working on it.
struct Beside {
    store: Store,
    shared: Arc<SharedFs>,
    honest: Writer,
    directory: InodeNumber,
    file: InodeNumber,
    made: usize,
}

impl Beside {
    fn new() -> Beside {
        let store = Store::new();
        let shared = store.open();
        let mut honest = Writer::attach(&shared);
        let directory = honest.directory(b"honest");
        let file = honest.create_in(directory, b"file", 0o100_600);
        honest.write(file, 0, &CONTENT);
        honest.digest();
        Beside { store, shared, honest, directory, file, made: 0 }
    }

    /// The honest session makes one more file, and everything of it is what it was.
    fn goes_on(&mut self, after: &str) {
        self.honest.resync_if_fenced();
        let name = format!("file{}", self.made);
        let file = self.honest.create_in(self.directory, name.as_bytes(), 0o100_600);
        self.honest.write(file, 0, name.as_bytes());
        self.honest.digest();
        self.honest.retire(self.honest.at);
        self.made += 1;
        assert!(content(&self.shared, "honest/file") == CONTENT, "{after}");
        for number in 0..self.made {
            let name = format!("file{number}");
            assert_eq!(content(&self.shared, &format!("honest/{name}")), name.as_bytes(), "{after}");
        }
        let record = self.shared.inode_record(self.file).unwrap().unwrap();
        assert_eq!((record.mode, record.uid, record.links), (0o100_600, 1, 1), "{after}");
    }

    /// All are gone, and what the hostile sessions left is sound.
    fn finish(self, others: Vec<Writer>) {
        let Beside { store, shared, honest, .. } = self;
        drop((shared, honest, others));
        let report = check(&store.tier(), Mode::Repair).unwrap();
        assert!(report.is_clean(), "{report:?}");
    }
}

fn is_over(writer: &mut Writer) -> bool {
    writer.request(&Request::Resync) == Response::Failed(Refusal::SessionEnded)
}

/// A log spoke of any inode whose number it knew, even if another session worked on it.
#[test]
fn a_log_that_changes_a_foreign_inode_is_given_up_there() {
    type Forged = fn(&mut Writer, InodeNumber, InodeNumber);
    let forged: [(&str, Forged); 15] = [
        ("writes", |it, _, inode| it.append_forged(Operation::Write { inode, offset: 0, data: b"forged" })),
        ("cuts", |it, _, inode| it.append_forged(Operation::Truncate { inode, size: 1 })),
        ("clears", |it, _, inode| {
            it.append_forged(Operation::Clear { inode, offset: 0, length: 4096, grow: false });
        }),
        ("shifts", |it, _, inode| {
            it.append_forged(Operation::Shift { inode, offset: 0, length: 4096, insert: true });
        }),
        ("sets the owner", |it, _, inode| {
            let attributes = Attributes { uid: Some(0), gid: Some(0), ..Attributes::default() };
            it.append_forged(Operation::SetAttributes { inode, attributes });
        }),
        ("sets the set-id bit", |it, _, inode| {
            let attributes = Attributes { mode: Some(0o4777), ..Attributes::default() };
            it.append_forged(Operation::SetAttributes { inode, attributes });
        }),
        ("sets an extended attribute", |it, _, inode| {
            it.append_forged(Operation::SetExtended { inode, name: b"user.forged", value: b"x" });
        }),
        ("sets an access list", |it, _, inode| {
            it.append_forged(Operation::SetAccessList { inode, mode: 0o777, list: b"" });
        }),
        ("removes an extended attribute", |it, _, inode| {
            it.append_forged(Operation::RemoveExtended { inode, name: b"user.forged" });
        }),
        ("makes", |it, parent, _| {
            let inode = it.number();
            let (mode, name): (_, &[u8]) = (0o104_777, b"forged");
            let made = Operation::Create {
                parent,
                inode,
                mode,
                uid: 0,
                gid: 0,
                device: 0,
                name,
                target: b"",
                list: b"",
            };
            it.append_forged(made);
        }),
        ("links here", |it, parent, _| {
            let inode = it.file(b"own");
            it.append_forged(Operation::Link { parent, inode, name: b"forged" });
        }),
        ("links from there", |it, _, inode| {
            it.acquire(ROOT, LeaseMode::Write);
            it.append_forged(Operation::Link { parent: ROOT, inode, name: b"forged" });
        }),
        ("unlinks", |it, parent, inode| {
            it.append_forged(Operation::Unlink { parent, inode, name: b"file", orphan: false });
        }),
        ("renames away", |it, parent, inode| {
            it.acquire(ROOT, LeaseMode::Write);
            it.append_forged(renamed(inode, (parent, b"file"), (ROOT, b"stolen"), InodeNumber::NONE));
        }),
        ("renames over", |it, parent, inode| {
            let own = it.file(b"own");
            it.append_forged(renamed(own, (ROOT, b"own"), (parent, b"file"), inode));
        }),
    ];
    let mut beside = Beside::new();
    for (what, forge) in forged {
        let mut hostile = Writer::attach(&beside.shared);
        let own = format!("before it {what}");
        hostile.file(own.as_bytes());
        let (directory, file) = (beside.directory, beside.file);
        let before = dump(&beside.shared);
        forge(&mut hostile, directory, file);
        hostile.file(b"behind it");
        hostile.digest_to_its_end();
        assert!(is_over(&mut hostile), "it {what}");
        assert!(find(&beside.shared, &own).is_some(), "what came before it {what}");
        assert!(find(&beside.shared, "behind it").is_none() && find(&beside.shared, "stolen").is_none());
        let untouched = |line: &&String| line.starts_with("/honest/");
        let after = dump(&beside.shared);
        assert!(before.iter().filter(untouched).eq(after.iter().filter(untouched)), "it {what}");
        beside.goes_on(what);
        let mut next = Writer::attach(&beside.shared);
        if let Some(own) = find(&beside.shared, "own") {
            next.unlink(ROOT, b"own", own, false);
        }
        next.request(&Request::Detach);
    }
    beside.finish(Vec::new());
}

fn renamed<'a>(
    inode: InodeNumber,
    (parent, name): (InodeNumber, &'a [u8]),
    (new_parent, new_name): (InodeNumber, &'a [u8]),
    replaced: InodeNumber,
) -> Operation<'a> {
    Operation::Rename { parent, name, new_parent, new_name, inode, replaced, orphan: false, exchange: false }
}

/// A session that holds both directories may change both, and yet not which quota an inode counts for.
#[test]
fn a_log_that_moves_something_out_of_a_quota_is_given_up_there() {
    type Forged = fn(&mut Writer, InodeNumber, InodeNumber);
    let forged: [(&str, Forged); 3] = [
        ("renames", |it, directory, inode| {
            it.append_forged(renamed(inode, (directory, b"file"), (ROOT, b"stolen"), InodeNumber::NONE));
        }),
        ("exchanges", |it, directory, inode| {
            let replaced = it.file(b"own");
            let rename = renamed(inode, (directory, b"file"), (ROOT, b"own"), replaced);
            let Operation::Rename { parent, name, new_parent, new_name, .. } = rename else { unreachable!() };
            let (orphan, exchange) = (false, true);
            it.append_forged(Operation::Rename {
                parent,
                name,
                new_parent,
                new_name,
                inode,
                replaced,
                orphan,
                exchange,
            });
        }),
        ("links", |it, _, inode| {
            it.append_forged(Operation::Link { parent: ROOT, inode, name: b"stolen" });
        }),
    ];
    for (what, forge) in forged {
        let mut beside = Beside::new();
        let limits = Some(Limits::hard(Amounts { blocks: 1000, inodes: 0 }));
        let of = Limited::Directory(b"limited".to_vec());
        let mut hostile = Writer::attach(&beside.shared);
        let directory = hostile.directory(b"limited");
        let file = hostile.create_in(directory, b"file", 0o100_600);
        hostile.digest();
        let set = Request::SetQuota { of, limits };
        assert_eq!(beside.shared.handle(SessionId::NOBODY, &set, &mut Vec::new()), Response::Done);
        hostile.resync();
        for inode in [ROOT, directory, file] {
            hostile.acquire(inode, LeaseMode::Write);
        }
        forge(&mut hostile, directory, file);
        hostile.digest_to_its_end();
        assert!(is_over(&mut hostile), "it {what}");
        assert!(find(&beside.shared, "stolen").is_none() && find(&beside.shared, "limited/file").is_some());
        beside.goes_on(what);
        beside.finish(Vec::new());
    }
}

/// One thread makes an unnamed file in a directory while another removes that: the log has it the other way round, and is
/// as honest as any.
#[test]
fn an_unnamed_file_counts_for_the_quota_it_gets_its_first_name_under() {
    let mut beside = Beside::new();
    let mut writer = Writer::attach(&beside.shared);
    let limited = writer.directory(b"limited");
    writer.digest();
    let of = Limited::Directory(b"limited".to_vec());
    let limits = Limits::hard(Amounts { blocks: 1000, inodes: 0 });
    let set = Request::SetQuota { of, limits: Some(limits) };
    assert_eq!(beside.shared.handle(SessionId::NOBODY, &set, &mut Vec::new()), Response::Done);
    writer.resync();
    for inode in [ROOT, limited] {
        writer.acquire(inode, LeaseMode::Write);
    }
    let removed = writer.create_in(limited, b"removed", 0o040_755);
    writer.unlink(limited, b"removed", removed, false);
    let inode = writer.number();
    let (mode, list) = (0o100_600, b"".as_slice());
    writer.append(Operation::CreateUnnamed {
        parent: removed,
        exclusive: false,
        inode,
        mode,
        uid: 0,
        gid: 0,
        list,
    });
    writer.append(Operation::Link { parent: limited, inode, name: b"named" });
    writer.file(b"behind");
    writer.digest();
    assert!(find(&beside.shared, "limited/named").is_some() && find(&beside.shared, "behind").is_some());
    assert_eq!(beside.shared.inode_record(inode).unwrap().unwrap().tree, limited);
    beside.goes_on("an unnamed file");
    beside.finish(vec![writer]);
}

/// The same found in the middle of a batch: entries before it count, entries behind it do not.
#[test]
fn a_forged_batch_is_kept_up_to_the_forged_entry() {
    let mut beside = Beside::new();
    let mut hostile = Writer::attach(&beside.shared);
    for number in 0..100 {
        hostile.file(format!("a{number:03}").as_bytes());
    }
    let good = hostile.at;
    hostile.append_forged(Operation::Write { inode: beside.file, offset: 5, data: b"forged" });
    for number in 0..100 {
        hostile.file(format!("b{number:03}").as_bytes());
    }
    hostile.digest_to_its_end();
    assert_eq!(hostile.digested(), good);
    let names = beside.shared.read_directory(ROOT).unwrap();
    assert_eq!(names.iter().filter(|entry| entry.name[0] == b'a').count(), 100);
    assert_eq!(names.iter().filter(|entry| entry.name[0] == b'b').count(), 0);
    beside.goes_on("a batch");
    beside.finish(vec![hostile]);
}

/// A lease to read let its holder change what others read, too.
#[test]
fn a_reader_changes_nothing_even_after_giving_its_lease_back() {
    let mut beside = Beside::new();
    // Two that read: neither of them may write.
    let file = beside.file;
    let mut hostile = Writer::attach(&beside.shared);
    hostile.acquire(file, LeaseMode::Read);
    let Response::Granted { grant, .. } = beside.honest.request(&Request::Acquire {
        inode: file,
        mode: LeaseMode::Read,
        ahead: 0,
        beside: Vec::new(),
        kept: None,
        sends: Sends::Nothing,
    }) else {
        panic!("not granted")
    };
    assert_eq!(grant.mode, LeaseMode::Read);
    hostile.append_forged(Operation::Write { inode: file, offset: 0, data: b"forged" });
    hostile.request(&Request::GiveBack { inodes: vec![file] });
    hostile.digest_to_its_end();
    beside.goes_on("a reader");
    beside.finish(vec![hostile]);
}

/// Numbers granted to one session were used first by another one, and the owner's log was given up for it.
#[test]
fn numbers_of_another_session_are_its_own() {
    let mut beside = Beside::new();
    let mut hostile = Writer::attach(&beside.shared);
    let mut victim = Writer::attach(&beside.shared);
    let next = InodeNumber(victim.next_inode);
    hostile.create_as(ROOT, b"stolen number", 0o100_644, next);
    hostile.digest_to_its_end();
    assert!(find(&beside.shared, "stolen number").is_none());
    let made = victim.file(b"victim");
    assert_eq!(made, next);
    victim.write(made, 0, b"its own");
    victim.digest();
    assert_eq!(content(&beside.shared, "victim"), b"its own");
    let mut unnamed = Writer::attach(&beside.shared);
    let inode = InodeNumber(victim.next_inode);
    let operation = Operation::CreateUnnamed {
        parent: ROOT,
        exclusive: false,
        inode,
        mode: 0o100_600,
        uid: 0,
        gid: 0,
        list: b"",
    };
    unnamed.append_forged(operation);
    unnamed.digest_to_its_end();
    beside.goes_on("stolen numbers");
    beside.finish(vec![hostile, victim, unnamed]);
}

/// A session that guessed the number of an inode that was not made yet was granted it. Its maker, which thinks it
/// its own from the first, was not asked to let go of it any more.
#[test]
fn an_inode_that_is_not_made_yet_is_granted_to_nobody() {
    let mut beside = Beside::new();
    let mut maker = Writer::attach(&beside.shared);
    let mut hostile = Writer::attach(&beside.shared);
    let generation = maker.generation();
    let acquire = |inode, mode| Request::Acquire {
        inode,
        mode,
        ahead: 64,
        beside: vec![inode],
        kept: None,
        sends: Sends::Nothing,
    };
    let not_found = Response::Failed(Refusal::NotFound);
    for ahead in 0..10 {
        let unborn = InodeNumber(maker.next_inode + ahead);
        assert_eq!(hostile.request(&acquire(unborn, LeaseMode::Write)), not_found);
        assert_eq!(hostile.request(&Request::Map { inode: unborn }), not_found);
    }
    for never in [InodeNumber(u64::MAX), InodeNumber(1 << 40), InodeNumber::NONE] {
        assert_eq!(hostile.request(&acquire(never, LeaseMode::Read)), not_found);
        assert_eq!(hostile.request(&Request::Map { inode: never }), not_found);
    }
    assert_eq!(maker.generation(), generation, "nothing was taken from it");
    let file = maker.file(b"made");
    maker.write(file, 0, b"first");
    // Made, and not digested: now it can be had, with what its maker wrote.
    let grant = hostile.acquire(file, LeaseMode::Read);
    assert_eq!(grant.record.size, 5);
    assert!(maker.generation() > generation, "its maker was fenced for it");
    beside.goes_on("guessed numbers");
    beside.finish(vec![maker, hostile]);
}

/// Two moves that are sound each, and a cycle together: the second one is wrong, whatever its session had seen.
#[test]
fn two_sessions_do_not_build_a_cycle_of_directories() {
    let mut beside = Beside::new();
    let mut maker = Writer::attach(&beside.shared);
    let [a, b] = [b"a", b"b"].map(|name| maker.directory(name));
    let inner = [a, b].map(|parent| maker.create_in(parent, b"inner", 0o040_755));
    maker.digest();
    maker.request(&Request::Detach);
    let sessions = [Writer::attach(&beside.shared), Writer::attach(&beside.shared)];
    // Each moves one below the other, as if it alone had leases.
    let [mut first, mut second] = sessions;
    first.rename(a, (ROOT, b"a"), (inner[1], b"moved"));
    let moved = first.at;
    second.acquire(ROOT, LeaseMode::Write);
    second.append(renamed(b, (ROOT, b"b"), (inner[0], b"moved"), InodeNumber::NONE));
    second.digest_to_its_end();
    assert_eq!(first.digested(), moved, "it was fenced for the root");
    assert_eq!(find(&beside.shared, "b/inner/moved"), Some(a));
    assert_eq!(find(&beside.shared, "a"), None);
    beside.goes_on("a cycle");
    beside.finish(vec![maker, first, second]);
}

/// Bytes of chance over log and control page, while the daemon digests and others ask.
#[test]
fn rubbish_in_logs_and_control_pages_costs_its_session_only() {
    let seed = std::env::var("SEED").map_or(3, |seed| seed.parse().unwrap());
    let mut random = fastrand::Rng::with_seed(seed);
    let mut beside = Beside::new();
    for round in 0..60 {
        let mut hostile = Writer::attach(&beside.shared);
        hostile.acquire(ROOT, LeaseMode::Read);
        let file = hostile.file(format!("r{round}").as_bytes());
        for _ in 0..random.usize(1..6) {
            hostile.write(file, random.u64(0..50_000), &vec![random.u8(..); random.usize(1..9000)]);
        }
        let word = |random: &mut fastrand::Rng| random.u64(..) >> random.u32(0..64);
        for _ in 0..random.usize(1..8) {
            let junk: Vec<u8> = (0..random.usize(1..3000)).map(|_| random.u8(..)).collect();
            match random.u8(0..8) {
                0 => hostile.write_raw(LogPosition(random.u64(0..hostile.at.0 + 500)), &junk),
                1 => hostile.complete(LogPosition(word(&mut random))),
                2 => hostile.retire(LogPosition(word(&mut random))),
                3 => hostile.client_page(random.u64(0..4096), &junk[..junk.len().min(100)]),
                4 => drop(hostile.request(&Request::Digest)),
                5 => hostile.cut_segment(random.usize(0..8), random.u64(0..70_000)),
                6 => drop(beside.shared.digest_step().unwrap()),
                _ => beside.goes_on("rubbish"),
            }
        }
        while beside.shared.digest_step().unwrap() != Progress::Idle {}
        let ask = |request: &Request| beside.shared.handle(SessionId::NOBODY, request, &mut Vec::new());
        assert!(matches!(ask(&Request::Status), Response::Status(_)), "seed {seed}, round {round}");
        if round % 3 > 0 {
            hostile.request(&Request::Detach);
        }
        beside.goes_on(&format!("seed {seed}, round {round}"));
    }
    beside.finish(Vec::new());
}

/// All a session may ask for, as much of it as there is.
#[test]
fn a_greedy_session_leaves_others_the_blocks_they_need() {
    let mut beside = Beside::new();
    let mut hostile = Writer::attach_without_credit(&beside.shared);
    for blocks in [u64::MAX, 1 << 40, 100_000, 100, 1, 1, 0] {
        hostile.request(&Request::Credit { blocks });
    }
    for slots in [u32::MAX, 9, 0] {
        let request = Request::GrowLog { have: 8, slots };
        assert_eq!(hostile.request(&request), Response::Grown { offsets: Vec::new() });
    }
    for have in [u32::MAX, 9] {
        assert!(matches!(hostile.request(&Request::GrowLog { have, slots: 8 }), Response::Failed(_)));
    }
    for _ in 0..2000 {
        let answer = hostile.request(&Request::InodeNumbers { count: u32::MAX });
        assert!(matches!(answer, Response::InodeNumbers { count: 65_536, .. } | Response::Failed(_)));
    }
    for number in 0..10_000 {
        let request = Request::Pass { number, inode: ROOT, description: vec![0; 100] };
        hostile.request(&request);
    }
    let answer = hostile.request(&Request::GiveBack { inodes: (0..1 << 16).map(InodeNumber).collect() });
    assert_eq!(answer, Response::Done);
    for inode in [InodeNumber::NONE, ROOT, InodeNumber(u64::MAX)] {
        for address in [0, 1, 1 << 40, u64::MAX].map(BlockAddress) {
            let answer = hostile.request(&Request::Verify { inode, address });
            let is_refused = matches!(answer, Response::Failed(_) | Response::Verified { is_damaged: false });
            assert!(is_refused, "{answer:?}");
        }
        for block in [0, u64::MAX] {
            let from = ScrubPlace { inode, block };
            assert!(matches!(hostile.request(&Request::Scrub { from }), Response::Scrubbed(_)));
        }
    }
    beside.goes_on("all that can be asked for");
    // Unused promises are taken back for a session that needs them.
    let mut needy = Writer::attach_without_credit(&beside.shared);
    assert_eq!(needy.request(&Request::Credit { blocks: 300 }), Response::Done);
    let file = needy.file(b"needy");
    needy.write(file, 0, &[1; 100_000]);
    needy.digest();
    assert_eq!(content(&beside.shared, "needy"), [1; 100_000]);
    beside.finish(vec![hostile, needy]);
}

/// A session that wrote lap after lap and never said that it was done with its reports had all of them kept.
#[test]
fn reports_a_session_never_retires_are_not_kept_for_ever() {
    let mut beside = Beside::new();
    let mut hostile = Writer::attach(&beside.shared);
    let file = hostile.file(b"lap after lap");
    let laps = 5;
    let mut written = 0;
    while hostile.at.0 < laps * hostile.geometry.ring_bytes() {
        hostile.write(file, 0, &[written as u8; 4096]);
        hostile.write(file, 8192, &[written as u8; 4096]);
        hostile.request(&Request::Credit { blocks: 2 });
        hostile.digest();
        written += 1;
    }
    let kept = hostile.report(LogPosition(0)).placed.len() as u64;
    assert!(kept <= 2 * (written / laps + 1), "{kept} of {written} writes in {laps} laps");
    assert_eq!(content(&beside.shared, "lap after lap")[8192..], [(written - 1) as u8; 4096]);
    beside.goes_on("laps");
    beside.finish(vec![hostile]);
}

/// Each loss that a session did not ask about was remembered once for each time.
#[test]
fn a_lease_lost_again_and_again_is_told_once() {
    let mut beside = Beside::new();
    let mut hostile = Writer::attach(&beside.shared);
    for _ in 0..20 {
        hostile.acquire(ROOT, LeaseMode::Write);
        beside.honest.acquire(ROOT, LeaseMode::Write);
        beside.honest.resync();
    }
    assert_eq!(hostile.resync().revoked, [ROOT]);
    beside.goes_on("fences");
    beside.finish(vec![hostile]);
}
