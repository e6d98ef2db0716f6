//! The workloads a campaign is made of: each mutating call, all pairs of them, with a digest at
//! every position, and runs long enough for the log to wrap; by one client, by two that take turns, and by
//! threads whose calls overlap.

use crate::explorer::crashes::deaths::Death;
use crate::explorer::crashes::lanes::Overlapping;
use crate::explorer::crashes::store::{ClientNumber, Step, Workload};
use crate::operations::generate::{Generator, Repertoire};
use crate::operations::lists::{Entry, Whom};
use crate::operations::operation::{
    FallocateMode, Kind, OpenFlags, Operation, PathText, Pattern, SetCondition, Slot, Timestamp,
};
use crate::operations::random::Random;

/// Where a digest comes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DigestAt {
    /// Nowhere: everything comes from the log.
    Never,
    /// Before the steps: everything before them comes from the shared area.
    First,
    /// Behind the first step.
    Between,
    /// Behind the last step.
    Last,
}

impl DigestAt {
    /// Every position.
    pub const ALL: [DigestAt; 4] = [DigestAt::Never, DigestAt::First, DigestAt::Between, DigestAt::Last];
}

/// The calls to crash in, alone and with each other, on the tree that [`population`] makes.
pub fn calls() -> Vec<Operation> {
    use Operation::*;
    let data = |seed, length| Pattern { seed, length };
    let write = OpenFlags { read: true, write: true, ..OpenFlags::default() };
    vec![
        Open { slot: 2, path: path("/new"), flags: OpenFlags { create: true, ..write }, mode: 0o640 },
        Open { slot: 2, path: path("/g"), flags: OpenFlags { truncate: true, ..write }, mode: 0 },
        Write { slot: 0, data: data(1, 700) },
        Write { slot: 1, data: data(2, 5000) },
        Pwrite { slot: 0, offset: 4000, data: data(3, 200) },
        Pwrite { slot: 0, offset: 4096, data: data(4, 4096) },
        Pwrite { slot: 0, offset: 20_001, data: data(5, 37) },
        Fallocate { slot: 0, mode: FallocateMode::Extend, offset: 5000, length: 4000 },
        Fallocate { slot: 0, mode: FallocateMode::PunchHole, offset: 100, length: 4500 },
        Fallocate { slot: 1, mode: FallocateMode::ZeroRange, offset: 1000, length: 9000 },
        Fallocate { slot: 0, mode: FallocateMode::CollapseRange, offset: 0, length: 4096 },
        Fallocate { slot: 0, mode: FallocateMode::InsertRange, offset: 4096, length: 8192 },
        OpenUnnamed { slot: 2, path: path("/d"), mode: 0o600, exclusive: false },
        LinkOpen { slot: 3, new: path("/d/named") },
        RenameExchange { from: path("/f"), to: path("/d/x") },
        RenameExchange { from: path("/d"), to: path("/g") },
        Truncate { path: path("/f"), length: 100 },
        Ftruncate { slot: 0, length: 9000 },
        Mkdir { path: path("/d/sub"), mode: 0o750 },
        MakeNode { path: path("/pipe"), kind: Kind::Pipe, mode: 0o622, device: 0 },
        Rmdir { path: path("/empty") },
        Link { existing: path("/f"), new: path("/d/linked") },
        Symlink { target: path("d/x"), path: path("/sym") },
        Unlink { path: path("/d/x") },
        Unlink { path: path("/f") },
        Unlink { path: path("/hard") },
        Rename { from: path("/g"), to: path("/renamed") },
        Rename { from: path("/f"), to: path("/d/x") },
        Rename { from: path("/d/x"), to: path("/g") },
        Rename { from: path("/d"), to: path("/empty") },
        Rename { from: path("/empty"), to: path("/d/moved") },
        Chmod { path: path("/f"), mode: 0o4711 },
        Lchown { path: path("/g"), uid: 12, gid: 34 },
        Utimens { path: path("/d"), modified: Timestamp { seconds: 1_000_000, nanoseconds: 7 } },
        Close { slot: 1 },
        Close { slot: 3 },
        set_extended("/f", "user.new", data(6, 300)),
        set_extended("/g", "user.large", data(7, 20)),
        RemoveExtended { path: path("/g"), follow: true, name: path("user.old") },
        SetList { path: path("/f"), default: false, list: list(0o640) },
        Mkdir { path: path("/listed/sub"), mode: 0o755 },
    ]
}

/// Calls that differ from one of [`calls`] in what becomes of them only, not in whom they meet: crashed in alone.
pub fn details() -> Vec<Operation> {
    use Operation::*;
    vec![
        Write { slot: 1, data: Pattern { seed: 9, length: 13_000 } },
        Fallocate { slot: 0, mode: FallocateMode::KeepSize, offset: 4096, length: 9000 },
        Fallocate { slot: 0, mode: FallocateMode::ZeroKeepSize, offset: 5000, length: 9000 },
        OpenUnnamed { slot: 2, path: path("/"), mode: 0o600, exclusive: true },
        RenameNoReplace { from: path("/g"), to: path("/d/only") },
        MakeNode { path: path("/d/file"), kind: Kind::File, mode: 0o600, device: 0 },
        MakeNode { path: path("/d/socket"), kind: Kind::Socket, mode: 0o700, device: 0 },
        MakeNode { path: path("/d/device"), kind: Kind::CharacterDevice, mode: 0o666, device: 0x103 },
        MakeNode { path: path("/disk"), kind: Kind::BlockDevice, mode: 0o660, device: 0x800 },
        Fchmod { slot: 1, mode: 0o2755 },
        FsetExtended { slot: 1, name: path("user.old"), value: Pattern { seed: 8, length: 40 } },
        SetList { path: path("/listed"), default: false, list: Vec::new() },
        SetList { path: path("/d"), default: true, list: list(0o777) },
        Chmod { path: path("/listed"), mode: 0o2711 },
        Open {
            slot: 2,
            path: path("/listed/f"),
            flags: OpenFlags { write: true, create: true, ..OpenFlags::default() },
            mode: 0o666,
        },
        OpenUnnamed { slot: 2, path: path("/listed"), mode: 0o666, exclusive: false },
    ]
}

/// A list that names a user and a group, and goes with a mode.
fn list(mode: u32) -> Vec<Entry> {
    let whoms = [Whom::Owner, Whom::User(7), Whom::OwningGroup, Whom::Group(8), Whom::Mask, Whom::Others];
    let permissions = [mode >> 6 & 7, 6, 5, 4, mode >> 3 & 7, mode & 7];
    whoms.into_iter().zip(permissions).map(|(whom, permissions)| Entry { whom, permissions }).collect()
}

fn set_extended(file: &str, name: &str, value: Pattern) -> Operation {
    let condition = SetCondition::Either;
    Operation::SetExtended { path: path(file), follow: true, name: path(name), value, condition }
}

/// The files before: with content, open ones among them, a hard link, directories, extended
/// attributes, access control lists.
pub fn population() -> Vec<Step> {
    use Operation::*;
    let write = OpenFlags { read: true, write: true, create: true, ..OpenFlags::default() };
    let append = OpenFlags { append: true, ..write };
    let calls = [
        Mkdir { path: path("/d"), mode: 0o755 },
        Mkdir { path: path("/empty"), mode: 0o755 },
        Mkdir { path: path("/listed"), mode: 0o755 },
        SetList { path: path("/listed"), default: false, list: list(0o751) },
        SetList { path: path("/listed"), default: true, list: list(0o770) },
        Open { slot: 0, path: path("/f"), flags: write, mode: 0o644 },
        Write { slot: 0, data: Pattern { seed: 90, length: 6000 } },
        Open { slot: 1, path: path("/g"), flags: append, mode: 0o644 },
        Write { slot: 1, data: Pattern { seed: 91, length: 3000 } },
        Open { slot: 3, path: path("/d/x"), flags: write, mode: 0o600 },
        Write { slot: 3, data: Pattern { seed: 92, length: 100 } },
        Link { existing: path("/d/x"), new: path("/hard") },
        Close { slot: 3 },
        set_extended("/g", "user.old", Pattern { seed: 93, length: 10 }),
        set_extended("/g", "user.large", Pattern { seed: 94, length: 3000 }),
        OpenUnnamed { slot: 3, path: path("/"), mode: 0o640, exclusive: false },
        Write { slot: 3, data: Pattern { seed: 95, length: 5000 } },
    ];
    calls.map(|call| Step::Call(0, call)).into()
}

/// Files the second client has open: the first one's, and one without a name of its own.
fn second_clients_files() -> Vec<Step> {
    let write = OpenFlags { read: true, write: true, ..OpenFlags::default() };
    let append = OpenFlags { append: true, ..write };
    let calls = [
        Operation::Open { slot: 4, path: path("/f"), flags: write, mode: 0 },
        Operation::Open { slot: 5, path: path("/g"), flags: append, mode: 0 },
        Operation::OpenUnnamed { slot: 7, path: path("/d"), mode: 0o600, exclusive: false },
        Operation::Write { slot: 7, data: Pattern { seed: 96, length: 4500 } },
    ];
    calls.map(|call| Step::Call(1, call)).into()
}

/// What both clients have open, and keep open.
fn population_of_two() -> Vec<Step> {
    population().into_iter().chain(second_clients_files()).collect()
}

/// The calls that name what they change by its path: any client may make them.
fn path_calls() -> Vec<Operation> {
    let by_path = |call: &Operation| call.clone().path_mut(false).is_some();
    calls().into_iter().filter(by_path).collect()
}

/// The second client's open files are in slots from here on.
const SECOND_CLIENTS_SLOTS: Slot = 4;

/// The same call with a slot of its own, so many slots on.
fn in_slots_from(mut call: Operation, first: Slot) -> Operation {
    if let Some(slot) = call.slot_mut() {
        *slot += first;
    }
    call
}

/// `first` by one client, `second` by another, and once more something by the first where both have been, also in a file
/// it has open, which the other may have removed; each rests on what the other was told had happened. With `digest` what
/// the first did is digested before the second begins.
pub fn passed_on(first: &Operation, second: &Operation, digest: bool) -> Workload {
    let last = Operation::Mkdir { path: path("/d/last"), mode: 0o700 };
    let over = Operation::Rename { from: path("/hard"), to: path("/last") };
    let open = Operation::Pwrite { slot: 0, offset: 5000, data: Pattern { seed: 93, length: 3000 } };
    let mut steps = vec![Step::Call(0, first.clone())];
    if digest {
        steps.push(Step::Digest(0));
    }
    let second = in_slots_from(second.clone(), SECOND_CLIENTS_SLOTS);
    steps.extend([Step::Call(1, second), Step::Call(0, open), Step::Call(0, last)]);
    steps.extend([Step::Call(1, over), Step::Detach(1)]);
    Workload { setup: population_of_two(), steps, ..Workload::default() }
}

/// `first` by one client, `second` by another, both of which live when the daemon crashes.
pub fn outliving(first: &Operation, second: &Operation, digest: bool) -> Workload {
    let workload = passed_on(first, second, digest);
    let mut steps = workload.steps;
    // All clients are alive: none ends in order.
    steps.pop();
    Workload { steps, processes_live: true, ..workload }
}

/// `call` by one client that dies in it, or in what it does next; which may be the one that made everything, or the one
/// that came to it.
pub fn death(call: &Operation, dies: ClientNumber, digest: bool) -> Death {
    let own =
        |call: Operation, client: ClientNumber| in_slots_from(call, client as Slot * SECOND_CLIENTS_SLOTS);
    let other = 1 - dies;
    let unlink = Operation::Unlink { path: path("/g") };
    let write = |slot| Operation::Pwrite { slot, offset: 2000, data: Pattern { seed: 97, length: 3000 } };
    let calls = [call.clone(), unlink, write(0), write(1)];
    let then = [
        write(0),
        write(1),
        Operation::Mkdir { path: path("/d/last"), mode: 0o700 },
        Operation::Rename { from: path("/hard"), to: path("/last") },
        Operation::LinkOpen { slot: 3, new: path("/named at last") },
    ];
    let mut setup = population_of_two();
    if digest {
        setup.extend([Step::Digest(0), Step::Digest(1)]);
    }
    let first = other as Slot * SECOND_CLIENTS_SLOTS;
    Death {
        setup,
        dies,
        kept: (first, first + SECOND_CLIENTS_SLOTS),
        calls: calls.map(|call| own(call, dies)).into(),
        then: then.map(|call| own(call, other)).into(),
        unnoticed: false,
    }
}

/// The calls that leave open what is open.
pub fn calls_beside_open_files() -> Vec<Operation> {
    let stay = |call: &Operation| !matches!(call, Operation::Close { .. });
    calls().into_iter().filter(stay).collect()
}

/// Two or three calls on each of two lanes: threads of a client or clients, with or without a digest beside them.
pub fn overlapping(seed: u64) -> Overlapping {
    let mut random = Random::new(seed);
    let (clients, digests) = (random.one_in(2), random.one_in(2));
    let write = OpenFlags { read: true, write: true, ..OpenFlags::default() };
    let mut setup = population();
    for (slot, name) in [(4, "/f"), (5, "/g")] {
        let flags = OpenFlags { append: slot == 5, ..write };
        setup.push(Step::Call(0, Operation::Open { slot, path: path(name), flags, mode: 0 }));
    }
    let unnamed = Operation::OpenUnnamed { slot: 7, path: path("/d"), mode: 0o600, exclusive: false };
    setup.push(Step::Call(0, unnamed));
    // Half of them use no open files: what only makes and moves names does not wait for SharedFS, and so overlaps more
    // closely.
    let firsts = if random.one_in(2) { path_calls() } else { calls() };
    let mut lane = |first: Slot| {
        let count = 2 + random.below(2) as usize;
        let call = |_| in_slots_from(random.pick(&firsts).clone(), first);
        (0..count).map(call).collect::<Vec<_>>()
    };
    let lanes = vec![lane(0), lane(SECOND_CLIENTS_SLOTS)];
    if random.one_in(4) {
        setup.push(Step::Digest(0));
    }
    Overlapping { setup, lanes, clients, digests }
}

/// Writes over what was committed, and what makes such blocks move: whole blocks, parts of one, over several, at the end
/// of a file and beyond it.
fn overwrites() -> Vec<Operation> {
    let write = |offset, length| {
        let data = Pattern { seed: 60 + offset + u64::from(length), length };
        Operation::Pwrite { slot: 0, offset, data }
    };
    let append =
        |length| Operation::Write { slot: 1, data: Pattern { seed: 60 + u64::from(length), length } };
    vec![
        write(4096, 4096),
        write(8192, 8192),
        write(100, 300),
        write(3000, 2500),
        write(4096, 700),
        write(7000, 1192),
        write(2000, 9000),
        write(16_384, 4096),
        write(19_000, 5000),
        append(400),
        append(2000),
        Operation::Ftruncate { slot: 0, length: 6000 },
        Operation::Fallocate { slot: 0, mode: FallocateMode::PunchHole, offset: 5000, length: 6000 },
    ]
}

/// The population, with a file of five blocks, committed.
fn committed_population() -> Vec<Step> {
    let data = Pattern { seed: 59, length: 20_000 };
    let write = Step::Call(0, Operation::Pwrite { slot: 0, offset: 0, data });
    population().into_iter().chain([write, Step::Digest(0)]).collect()
}

/// The same call with other bytes.
pub(super) fn with_other_bytes(mut call: Operation) -> Operation {
    if let Operation::Write { data, .. } | Operation::Pwrite { data, .. } = &mut call {
        data.seed += 1000;
    }
    call
}

/// Every pair of overwrites in one batch, and once more the first one's in another.
pub fn overwriting() -> Vec<Workload> {
    let calls = overwrites();
    let pairs = calls.iter().flat_map(|first| calls.iter().map(move |second| (first, second)));
    let workload = |(first, second): (&Operation, &Operation)| {
        let again = with_other_bytes(first.clone());
        let call = |call: &Operation| Step::Call(0, call.clone());
        let steps = vec![call(first), call(second), Step::Digest(0), call(&again), Step::Digest(0)];
        Workload { setup: committed_population(), steps, ..Workload::default() }
    };
    pairs.map(workload).collect()
}

/// Each overwrite by a client that dies in it, or in doing it once more with other bytes.
pub fn lost_overwrites() -> Vec<Death> {
    let death = |call: Operation| {
        let calls = vec![call.clone(), with_other_bytes(call)];
        Death { setup: committed_population(), calls, ..Death::default() }
    };
    overwrites().into_iter().map(death).collect()
}

/// Overwrites on two lanes, of one client or two, and a digest beside them.
pub fn overwriting_overlapping(seed: u64) -> Overlapping {
    let mut random = Random::new(seed);
    let write = OpenFlags { read: true, write: true, ..OpenFlags::default() };
    let mut setup = committed_population();
    for (slot, name) in [(4, "/f"), (5, "/g")] {
        let flags = OpenFlags { append: slot == 5, ..write };
        setup.push(Step::Call(0, Operation::Open { slot, path: path(name), flags, mode: 0 }));
    }
    let calls = overwrites();
    let mut lane = |first: Slot| {
        let count = 2 + random.below(2) as usize;
        (0..count).map(|_| in_slots_from(random.pick(&calls).clone(), first)).collect::<Vec<_>>()
    };
    let lanes = vec![lane(0), lane(SECOND_CLIENTS_SLOTS)];
    Overlapping { setup, lanes, clients: random.one_in(2), digests: true }
}

/// The first things that are done on a new store, for which it makes parts of the log and arenas.
pub fn growing() -> Workload {
    let write = OpenFlags { write: true, create: true, ..OpenFlags::default() };
    let data = |seed| Pattern { seed, length: 10_000 };
    let steps = vec![
        Step::Call(0, Operation::Open { slot: 0, path: path("/f"), flags: write, mode: 0o644 }),
        Step::Call(0, Operation::Write { slot: 0, data: data(1) }),
        Step::Digest(0),
        Step::Call(0, Operation::Write { slot: 0, data: data(2) }),
    ];
    Workload { steps, ..Workload::default() }
}

/// One workload: `calls` on the population, with a digest somewhere.
pub fn workload(calls: &[Operation], digest: DigestAt) -> Workload {
    let mut steps: Vec<Step> = calls.iter().map(|call| Step::Call(0, call.clone())).collect();
    match digest {
        DigestAt::Never => {}
        DigestAt::First => steps.insert(0, Step::Digest(0)),
        DigestAt::Between => steps.insert(1, Step::Digest(0)),
        DigestAt::Last => steps.push(Step::Digest(0)),
    }
    Workload { setup: population(), steps, ..Workload::default() }
}

/// A seeded run of clients that take turns, which goes around a single one's log at least once, digested when it is
/// full and now and then.
pub fn wrapping(seed: u64, calls: usize, clients: u64) -> Workload {
    let repertoire = Repertoire {
        offset_max: 20_000,
        write_bytes_max: 8000,
        climbing: false,
        hostile: false,
        ..Repertoire::default()
    };
    let mut generator = Generator::new(repertoire, seed);
    let mut turns = Random::new(!seed);
    let mut steps = Vec::new();
    let mutations = std::iter::from_fn(|| Some(generator.next_operation())).filter(Operation::is_mutation);
    for (number, operation) in mutations.take(calls).enumerate() {
        let client = turns.below(clients) as ClientNumber;
        if number % 17 == 16 {
            steps.push(Step::Digest(client));
        }
        steps.push(Step::Call(client, in_slots_from(operation, client as Slot * SECOND_CLIENTS_SLOTS)));
    }
    Workload { setup: population(), steps, ..Workload::default() }
}

pub(super) fn path(text: &str) -> PathText {
    PathText::from(text)
}
