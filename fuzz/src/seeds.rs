//! Where each target begins: logs, messages and tables as the real code writes them.

use crate::script::{self, Step};
use crate::world::World;
use crate::world::common::Writer;
use cuesta_format::account::{Account, Barrier, Kind, Outcome};
use cuesta_format::durability::DurabilityWish;
use cuesta_format::operation::Attributes;
use cuesta_format::session_table::{SessionRecord, TableHead};
use cuesta_format::superblock::{Medium, Superblock};
use cuesta_format::wire::{self, LeaseMode, PROTOCOL_VERSION, Question, Request, Response, Sends};
use cuesta_format::{
    ArenaId, BlockAddress, Caller, CallerId, Geometry, InodeNumber, LeaseGeneration, LogDependency,
    LogGeneration, LogPosition, Operation, SegmentId, SessionId, StoreId, TierNumber, Timestamp,
};
use cuesta_libfs::{Allocation, Whence};
use cuesta_served::{Offset, Once, PathBase, Request as ServedRequest, Subject};
use std::path::Path;
use zerocopy::IntoBytes;

const ROOT: InodeNumber = InodeNumber::ROOT;
/// Of a log, in what `log_scan` takes.
const SALT_BITS: u8 = 7;

/// Writes the seeds of a target into the folder that the environment names, and leaves; goes on if it names none.
pub fn write_if_asked(target: &str) {
    let Some(folder) = std::env::var_os("CUESTA_SEEDS") else { return };
    let folder = Path::new(&folder);
    for (number, seed) in of(target).into_iter().enumerate() {
        let path = folder.join(format!("seed-{number:02}"));
        std::fs::write(path, seed).expect("a seed can be written");
    }
    std::process::exit(0);
}

fn of(target: &str) -> Vec<Vec<u8>> {
    match target {
        "log_scan" => logs(),
        "digest" => scripts(),
        "messages" => questions(),
        "superblock" => superblocks(),
        "answers" => answers(),
        "served" => served(),
        "asked" => asked(),
        "ring" => crate::rings::seeds(&served()),
        "kept" => crate::users::seeds(),
        "account" => accounts(),
        other => panic!("there is no target {other}"),
    }
}

/// One of each kind of operation, on inodes with numbers from `first` on.
fn operations(first: u64) -> Vec<Operation<'static>> {
    let number = |ahead| InodeNumber(first + ahead);
    let create = |ahead, mode, name, target| Operation::Create {
        parent: ROOT,
        inode: number(ahead),
        mode,
        uid: 1,
        gid: 2,
        device: 0,
        name,
        target,
        list: b"",
    };
    let rename = |inode, name, new_name, replaced, exchange| {
        let (parent, new_parent, orphan) = (ROOT, ROOT, false);
        Operation::Rename { parent, name, new_parent, new_name, inode, replaced, orphan, exchange }
    };
    let attributes = Attributes {
        mode: Some(0o4755),
        uid: Some(3),
        gid: Some(4),
        accessed: Some(Timestamp(5)),
        modified: Some(Timestamp(6)),
    };
    let inode = number(0);
    vec![
        create(0, 0o100_644, b"file", b""),
        Operation::Write { inode, offset: 0, data: &[7; 5000] },
        Operation::Write { inode, offset: 4096, data: b"tail" },
        create(1, 0o040_755, b"directory", b""),
        create(2, 0o120_777, b"link", b"file"),
        Operation::Truncate { inode, size: 9000 },
        Operation::Clear { inode, offset: 100, length: 5000, grow: true },
        Operation::Shift { inode, offset: 0, length: 4096, insert: true },
        Operation::Link { parent: ROOT, inode, name: b"second" },
        rename(inode, b"file", b"renamed", InodeNumber::NONE, false),
        rename(inode, b"renamed", b"link", number(2), true),
        Operation::SetAttributes { inode, attributes },
        Operation::SetExtended { inode, name: b"user.one", value: b"value" },
        Operation::RemoveExtended { inode, name: b"user.one" },
        Operation::SetAccessList { inode, mode: 0o640, list: b"" },
        Operation::CreateUnnamed {
            parent: ROOT,
            exclusive: false,
            inode: number(3),
            mode: 0o100_600,
            uid: 1,
            gid: 2,
            list: b"",
        },
        Operation::Link { parent: ROOT, inode: number(3), name: b"named" },
        Operation::Void,
        Operation::Unlink { parent: ROOT, inode, name: b"second", orphan: false },
        Operation::Unlink { parent: ROOT, inode, name: b"link", orphan: true },
        Operation::Release { inode },
        Operation::ForgetCaller { caller: Caller { user: 1000, id: CallerId([7; 16]) } },
        Operation::DependOn {
            dependency: LogDependency {
                session: SessionId(1),
                generation: LogGeneration(1),
                position: LogPosition(64),
            },
        },
    ]
}

fn logs() -> Vec<Vec<u8>> {
    let mut world = World::new();
    let hostile = &mut world.hostile;
    for operation in operations(hostile.next_inode) {
        hostile.append_forged(operation);
    }
    let log: Vec<u8> = (0..hostile.at.0).map(|at| hostile.read_raw(LogPosition(at))).collect();
    // As it is, but that its salt is not known; and each entry alone.
    let mut seeds = vec![[&[SALT_BITS, 0], &log[..]].concat()];
    let mut at = 0;
    for operation in operations(hostile.next_inode) {
        let end = at + hostile.header(&operation, 0).entry_bytes() as usize;
        seeds.push([&[SALT_BITS, 3], &log[at..end]].concat());
        at = end;
    }
    seeds
}

fn entry(hostile: &Writer, operation: &Operation<'_>) -> Step {
    let header = hostile.header(operation, 3);
    let mut body = vec![0; operation.body_bytes()];
    operation.encode_body(&mut body);
    body.truncate(4096);
    Step::Entry {
        kind: header.kind as u8 - 1,
        flags: header.flags,
        inode: header.inode.0 as u16,
        argument: header.argument,
        debit: 3,
        body,
    }
}

fn scripts() -> Vec<Vec<u8>> {
    let world = World::new();
    let hostile = &world.hostile;
    let acquire = |inode: InodeNumber| Step::Acquire { inode: inode.0 as u16, write: true };
    let entries: Vec<Step> =
        operations(hostile.next_inode).iter().map(|operation| entry(hostile, operation)).collect();
    let whole = [&[acquire(ROOT)], &entries[..], &[Step::Digest]].concat();
    let mut one_by_one = vec![acquire(ROOT)];
    for step in &entries {
        one_by_one.extend([step.clone(), Step::Digest]);
    }
    let mut beside = vec![acquire(ROOT)];
    for step in &entries {
        beside.extend([step.clone(), Step::Honest, acquire(ROOT)]);
    }
    // The honest session's file and directory, as the world makes them.
    let theirs = operations(2).into_iter().map(|operation| vec![entry(hostile, &operation), Step::Digest]);
    let page = vec![
        acquire(ROOT),
        entries[0].clone(),
        Step::Complete { at: 1 << 40 },
        Step::Retire { at: u64::MAX },
        Step::Open { slots: u32::MAX, slot: 3, inode: 3, unlisted: 1 },
        Step::Rewrite { back: 30, bytes: vec![9; 40] },
        Step::Digest,
        Step::Honest,
    ];
    let ends = vec![
        acquire(ROOT),
        entries[0].clone(),
        entries[1].clone(),
        Step::Digest,
        Step::Map { inode: hostile.next_inode as u16 },
        entries[2].clone(),
        Step::GiveBack { inode: ROOT.0 as u16 },
        Step::Cut { slot: 0, bytes: 100 },
        Step::Restart,
        Step::Honest,
    ];
    // Numbers beyond what a file can have, each in a log of its own: it ends there.
    let inode = InodeNumber(hostile.next_inode);
    let (most, blocks) = (u64::MAX, u64::MAX - 4095);
    let extremes = [
        Operation::Write { inode, offset: most - 3, data: b"behind the end" },
        Operation::Truncate { inode, size: most },
        Operation::Clear { inode, offset: most - 100, length: 5000, grow: true },
        Operation::Shift { inode, offset: 4096, length: blocks, insert: true },
        Operation::Shift { inode, offset: blocks, length: 4096, insert: false },
    ];
    let extremes = extremes.map(|operation| {
        vec![acquire(ROOT), entries[0].clone(), entry(hostile, &operation), Step::Digest, Step::Honest]
    });
    let scripts = [whole, one_by_one, beside, page, ends].into_iter().chain(extremes).chain(theirs);
    scripts.map(|steps| script::encode(&steps)).collect()
}

fn requests(file: InodeNumber) -> Vec<Request> {
    vec![
        Request::GrowLog { have: 8, slots: 8 },
        Request::CommitFile,
        Request::Acquire {
            inode: ROOT,
            mode: LeaseMode::Read,
            ahead: 64,
            beside: vec![file],
            kept: None,
            sends: Sends::Nothing,
        },
        Request::Acquire {
            inode: file,
            mode: LeaseMode::Write,
            ahead: 0,
            beside: Vec::new(),
            kept: None,
            sends: Sends::Nothing,
        },
        Request::Ahead { near: file, count: 128 },
        Request::Lookup { parent: ROOT, name: b"honest".to_vec() },
        Request::List { parent: ROOT, after: Vec::new() },
        Request::Extents { inode: file, from_block: 0 },
        Request::Extended { inode: file },
        Request::Map { inode: file },
        Request::IsWritten { inode: file },
        Request::TakeLoss { inode: file },
        Request::Pass { number: 5, inode: file, description: b"open".to_vec() },
        Request::Passed { number: 5 },
        Request::GiveBack { inodes: vec![ROOT, file] },
        Request::InodeNumbers { count: 10 },
        Request::Credit { blocks: 20 },
        Request::Window { tier: TierNumber::FAST, blocks: 64, done: vec![(BlockAddress(0), LogPosition(0))] },
        Request::Report { from: LogPosition(0), skip: 0 },
        Request::Arenas { arenas: vec![ArenaId(0)] },
        Request::Digest,
        Request::Resync,
        Request::Statfs { tree: ROOT },
        Request::Status,
        Request::Explain { path: b"honest/file".to_vec() },
        Request::Trace { from: 0, wait_ms: 0 },
        Request::Attach {
            version: PROTOCOL_VERSION,
            pid: 1,
            program: "program".into(),
            first: ROOT,
            resume: SessionId::NOBODY,
            durability: DurabilityWish::NONE,
        },
        Request::Stop,
        Request::Unheard,
        Request::Detach,
    ]
}

/// Questions about what there is not, and more of it than there can be.
fn wrong_requests() -> Vec<Request> {
    let none = InodeNumber(1 << 40);
    let (mode, ahead, kept) = (LeaseMode::Write, u32::MAX, None);
    vec![
        Request::GrowLog { have: u32::MAX, slots: u32::MAX },
        Request::Acquire { inode: none, mode, ahead, beside: vec![none; 100], kept, sends: Sends::Nothing },
        Request::Ahead { near: InodeNumber(u64::MAX), count: u32::MAX },
        Request::Lookup { parent: none, name: vec![b'x'; 256] },
        Request::List { parent: ROOT, after: vec![0xff; 300] },
        Request::Extents { inode: ROOT, from_block: u64::MAX },
        Request::Map { inode: ROOT },
        Request::Passed { number: u64::MAX },
        Request::InodeNumbers { count: u32::MAX },
        Request::Credit { blocks: u64::MAX },
        Request::Report { from: LogPosition(u64::MAX), skip: u64::MAX },
        Request::Arenas { arenas: vec![ArenaId(u32::MAX), ArenaId(0)] },
        Request::Arenas { arenas: vec![ArenaId(0); 300] },
        Request::Statfs { tree: none },
        Request::Explain { path: b"//../honest/file/x".to_vec() },
    ]
}

fn questions() -> Vec<Vec<u8>> {
    let frame = |request: Request| {
        let question = Question { processor: None, request };
        let content = postcard::to_stdvec(&question).expect("a question can be written");
        [&(content.len() as u16).to_le_bytes(), &content[..]].concat()
    };
    let file = InodeNumber(3);
    let each: Vec<Vec<u8>> = requests(file).into_iter().map(frame).collect();
    let wrong = wrong_requests().into_iter().map(frame).collect::<Vec<_>>().concat();
    let mut seeds = vec![each.concat(), wrong];
    seeds.extend(each);
    seeds
}

fn superblocks() -> Vec<Vec<u8>> {
    let superblock =
        Superblock { store: StoreId([3; 16]), medium: Medium::Memory, geometry: Geometry::default() };
    let head = TableHead {
        next_session: SessionId(3),
        inode_limit: InodeNumber(4),
        store: StoreId([1; 16]),
        incarnation: 2,
        boot: 3,
    };
    let record = SessionRecord {
        session: SessionId(3),
        pid: 4,
        log_generation: LogGeneration(5),
        lease_generation: LeaseGeneration(6),
        start: LogPosition(640),
        ended: false,
        away_below: InodeNumber(77),
        segments: vec![SegmentId(1), SegmentId(9)],
        commit_file: Some(SegmentId(5)),
    };
    let mut written = Vec::new();
    record.encode(8, &mut written);
    vec![superblock.encode().to_vec(), head.encode(7).to_vec(), written]
}

fn answers() -> Vec<Vec<u8>> {
    let mut world = World::new();
    for number in 0..20 {
        world.hostile.file(format!("file{number}").as_bytes());
    }
    world.hostile.digest();
    world.hostile.request(&Request::Detach);
    world.renew_hostile();
    let mut seeds = Vec::new();
    for request in requests(InodeNumber(3)) {
        let answer = world.ask(&request);
        if let Response::Granted { ahead, .. } | Response::Ahead(ahead) = &answer {
            seeds.push(ahead.clone());
        }
        let mut frame = Vec::new();
        wire::encode(&answer, &mut frame).expect("an answer fits a frame");
        seeds.push(frame.split_off(4));
    }
    seeds.sort_unstable();
    seeds.dedup();
    seeds
}

fn served() -> Vec<Vec<u8>> {
    let subject = Subject::Path { place: PathBase::Root, path: b"some/path", follow: true };
    let requests = [
        ServedRequest::Hello { version: cuesta_served::VERSION },
        ServedRequest::Limit { bytes: 1 << 30 },
        ServedRequest::Read { file: 3, count: 4096, place: Offset::At(7) },
        ServedRequest::Write { file: 3, place: Offset::Own { operation: 9 }, appends: false, data: b"bytes" },
        ServedRequest::Truncate { subject, size: 100 },
        ServedRequest::Stat { subject: Subject::File(3) },
        ServedRequest::List { file: 3, bytes: 4096 },
        ServedRequest::Link { from: subject, place: PathBase::Directory(4), path: b"name" },
        ServedRequest::GetExtended { subject, name: b"user.one" },
        ServedRequest::Adopt { inode: InodeNumber(3), flags: 2, offset: 9, cell: Some(8) },
        ServedRequest::Reopen { file: 1, flags: 2 },
        ServedRequest::Write { file: 1, place: Offset::At(-1), appends: true, data: b"bytes" },
        ServedRequest::Read { file: 1, count: u32::MAX, place: Offset::Own { operation: 9 } },
        ServedRequest::Seek { file: 1, offset: i64::MAX, whence: Whence::End },
        ServedRequest::SetFlags { file: 1, flags: -1 },
        ServedRequest::Allocate { file: 1, what: Allocation::Insert, offset: 4096, length: i64::MAX },
        ServedRequest::Allocate { file: 1, what: Allocation::Zero, offset: 100, length: 5000 },
        ServedRequest::List { file: 2, bytes: u32::MAX },
        ServedRequest::Access { subject: Subject::File(2), rights: u32::MAX },
        ServedRequest::SetExtended {
            subject: Subject::File(1),
            name: b"user.x",
            value: b"y",
            flags: Default::default(),
        },
        ServedRequest::ListExtended { subject: Subject::File(1) },
        ServedRequest::LockFile { file: 1 },
        ServedRequest::DirectoryPath { file: 2, guess: b"directory" },
        ServedRequest::Close { file: 3 },
        ServedRequest::Settle,
        ServedRequest::Identify { caller: CallerId([7; 16]) },
        ServedRequest::Statfs { subject },
    ];
    let numbers = (1..).flat_map(|number| [false, true].map(|again| (number, again)));
    let numbered = requests.iter().zip(numbers).map(|(request, (number, again))| {
        let once = Once { caller: Some(CallerId([7; 16])), slot: 0, number, again, behind: None };
        postcard::to_stdvec(&(ServedRequest::Once(once), request))
    });
    let alone = requests.iter().map(|request| postcard::to_stdvec(request));
    alone.chain(numbered).map(|written| written.expect("a request can be written")).collect()
}

/// One program's questions, one after the other, on files it has opened; and each alone.
fn asked() -> Vec<Vec<u8>> {
    let frame = |content: &[u8]| [&(content.len() as u16).to_le_bytes(), content].concat();
    let open = |path, flags| {
        let (place, mode, resolve) = (PathBase::Root, 0o644.into(), Default::default());
        let open = ServedRequest::Open { place, path, flags, mode, resolve };
        frame(&postcard::to_stdvec(&open).expect("a request can be written"))
    };
    let opens = [open(b"asked", 0o102), open(b"directory", 0o200_000), open(b"read", 0)].concat();
    let each: Vec<Vec<u8>> = served().iter().map(|content| frame(content)).collect();
    let mut seeds = vec![[&opens[..], &each.concat()[..]].concat()];
    seeds.extend(each.into_iter().map(|one| [&opens[..], &one[..]].concat()));
    seeds
}

fn accounts() -> Vec<Vec<u8>> {
    let Some(mut account) = Account::new() else { return Vec::new() };
    let program = account.program(b"/bin/sh");
    if let Some(program) = program {
        account.executes(program);
        account.watches(program);
        account.is_barred(program, Barrier::SetId);
    }
    for (number, outcome) in [Outcome::Served, Outcome::Failed, Outcome::Unserved].into_iter().enumerate() {
        let kind = Kind { number: number as u32, outcome, errno: 2 };
        account.count(kind, program, || b"/cuesta/file".to_vec());
    }
    vec![account.as_mut_bytes().to_vec()]
}
