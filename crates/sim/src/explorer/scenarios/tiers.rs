//! Content of a lower tier: the ways by which it gets there, and calls that change it before a digest and after.
//!
//! At the sizes of a small store with a lower tier
//!
//! | content goes below | if |
//! |---|---|
//! | into blocks of a window | its whole blocks are 32 KiB at first, or one block behind such a write |
//! | by the digest | it goes through the log, and is a run of four blocks |
//! | by the digest | it goes through the log, and the fast tier is full |
//! | by a migration | a step says so |
//!
//! Content that a program waits for goes to the fast tier, while that has room.

use super::workloads::{path, with_other_bytes};
use crate::explorer::Bounds;
use crate::explorer::crashes::store::Step;
use crate::explorer::crashes::tiered::{FastTier, Workload};
use crate::operations::operation::{FallocateMode, OpenFlags, Operation, Pattern, Slot};
use crate::operations::random::Random;
use cuesta_format::TierNumber;

/// The file that is written, and one that is appended to.
const WRITTEN: Slot = 0;
const APPENDED: Slot = 1;
/// A small file, of which a program waits for each change.
const SMALL: Slot = 2;
/// A file that takes up the fast tier.
const FILLS: Slot = 3;
/// The written file, as another client has it open.
const OTHERS: Slot = 4;
/// Bytes of a write that is large at first sight.
const LARGE_BYTES: u32 = 32 << 10;
/// Bytes that fill the fast tier nearly, and where its last blocks are not held for windows, altogether.
const FULL_BYTES: u64 = 59 * 4096;
/// Bytes of one write that fills it.
const FILL_BYTES: u64 = 12 << 10;
/// Calls of a drawn run, and where its writes go.
const DRAWN_CALLS: usize = 9;
const OFFSET_MAX: u64 = 48 << 10;

/// The states that are tried. Now and then recovery is crashed, too. Memory is crashed in one way only, so at each store.
pub fn bounds(fast: FastTier) -> Bounds {
    let deaths_one_in = if fast == FastTier::Memory { 1 } else { 3 };
    Bounds { deaths_one_in, recoveries_one_in: 400, ..Bounds::quick() }
}

fn pwrite(offset: u64, length: u32) -> Operation {
    Operation::Pwrite {
        slot: WRITTEN,
        offset,
        data: Pattern { seed: 70 + offset + u64::from(length), length },
    }
}

fn append(seed: u64, length: u32) -> Operation {
    Operation::Write { slot: APPENDED, data: Pattern { seed, length } }
}

fn fsync(slot: Slot) -> Operation {
    Operation::Fsync { slot }
}

fn fallocate(mode: FallocateMode, offset: u64, length: u64) -> Operation {
    Operation::Fallocate { slot: WRITTEN, mode, offset, length }
}

fn calls(calls: impl IntoIterator<Item = Operation>) -> Vec<Step> {
    calls.into_iter().map(|call| Step::Call(0, call)).collect()
}

/// The files: two that are empty, and a small one.
fn population() -> Vec<Step> {
    let write = OpenFlags { read: true, write: true, create: true, ..OpenFlags::default() };
    let append_only = OpenFlags { append: true, ..write };
    let open = |slot, name, flags| Operation::Open { slot, path: path(name), flags, mode: 0o644 };
    let mut steps = calls([
        open(WRITTEN, "/f", write),
        open(APPENDED, "/g", append_only),
        open(SMALL, "/small", append_only),
        Operation::Write { slot: SMALL, data: Pattern { seed: 61, length: 50 } },
        fsync(SMALL),
    ]);
    steps.push(Step::Digest(0));
    steps
}

/// A file, waited for, that takes nearly all of the fast tier.
fn filling() -> Vec<Step> {
    let flags = OpenFlags { read: true, write: true, create: true, ..OpenFlags::default() };
    let write = |offset, length| Operation::Pwrite {
        slot: FILLS,
        offset,
        data: Pattern { seed: 62 + offset, length },
    };
    let mut steps = calls([
        Operation::Open { slot: FILLS, path: path("/full"), flags, mode: 0o644 },
        write(0, 100),
        fsync(FILLS),
    ]);
    for offset in (0..FULL_BYTES).step_by(FILL_BYTES as usize) {
        steps.push(Step::Call(0, write(offset, FILL_BYTES.min(FULL_BYTES - offset) as u32)));
        steps.push(Step::Digest(0));
    }
    steps
}

/// The ways by which content gets below: in windows, with whole blocks only and with edges; and by the log, in a run.
fn ways() -> Vec<(&'static str, Vec<Operation>)> {
    vec![
        ("a window's blocks", vec![pwrite(0, LARGE_BYTES)]),
        ("a window's blocks between edges", vec![pwrite(100, 36_500)]),
        ("a run of the log's", vec![pwrite(1, 8190), pwrite(8193, 8190)]),
    ]
}

/// Calls that follow.
fn disturbances() -> Vec<(&'static str, Operation)> {
    vec![
        ("more of it", pwrite(LARGE_BYTES.into(), 9000)),
        ("another large one", append(64, LARGE_BYTES)),
        ("a little more", append(65, 300)),
        ("a little inside", pwrite(9000, 200)),
        ("a block inside", pwrite(8192, 4096)),
        ("half of it again", pwrite(4096, 20_000)),
        ("over its end", pwrite(14_000, 22_000)),
        ("cut", Operation::Ftruncate { slot: WRITTEN, length: 9000 }),
        ("cut to nothing", Operation::Ftruncate { slot: WRITTEN, length: 0 }),
        ("removed", Operation::Unlink { path: path("/f") }),
        ("replaced", Operation::Rename { from: path("/small"), to: path("/g") }),
        ("a hole", fallocate(FallocateMode::PunchHole, 5000, 9000)),
        ("moved up", fallocate(FallocateMode::InsertRange, 4096, 8192)),
        ("moved down", fallocate(FallocateMode::CollapseRange, 0, 4096)),
        ("another file is waited for", fsync(SMALL)),
        ("it is waited for", fsync(WRITTEN)),
    ]
}

/// Each way alone: the program waits for it, then it is digested.
fn alone() -> Vec<(String, Vec<Step>, Vec<Step>)> {
    let steps = |writes| [calls(writes), calls([fsync(SMALL)]), vec![Step::Digest(0)]].concat();
    ways().into_iter().map(|(way, writes)| (way.to_owned(), population(), steps(writes))).collect()
}

/// Each way, and each disturbance before the digest or behind it; then the same once more with other bytes.
fn disturbed() -> Vec<(String, Vec<Step>, Vec<Step>)> {
    let mut all = Vec::new();
    for (way, writes) in ways() {
        for (disturbance, next) in disturbances() {
            let again = calls(writes.iter().cloned().map(with_other_bytes));
            let next = calls([next]);
            let (writes, digest) = (calls(writes.clone()), vec![Step::Digest(0)]);
            let before = [&writes[..], &next, &digest, &again, &digest].concat();
            all.push((format!("{way}, before the digest: {disturbance}"), population(), before));
            let setup = [population(), writes, digest.clone()].concat();
            let behind = [&next[..], &again, &calls([fsync(SMALL)]), &digest].concat();
            all.push((format!("{way}, behind the digest: {disturbance}"), setup, behind));
        }
    }
    all
}

/// A full fast tier: content goes below, whoever waits for it, and to the fast tier again once that has room.
fn full() -> Vec<(String, Vec<Step>, Vec<Step>)> {
    let waited_for = || Operation::Write { slot: SMALL, data: Pattern { seed: 66, length: 5000 } };
    let setup = || [population(), filling()].concat();
    let digest = || vec![Step::Digest(0)];
    let small = [calls([append(67, 3000), waited_for(), fsync(SMALL)]), digest()].concat();
    let again = [calls([append(68, 3000), pwrite(0, 3000), pwrite(2000, 3000)]), digest()].concat();
    let large = [calls([pwrite(0, LARGE_BYTES), append(69, 9000)]), digest()].concat();
    let room = calls([Operation::Unlink { path: path("/full") }, Operation::Close { slot: FILLS }]);
    let over = Operation::Pwrite { slot: FILLS, offset: 100, data: Pattern { seed: 71, length: 6000 } };
    let cut = Operation::Ftruncate { slot: FILLS, length: 10_000 };
    vec![
        ("full: small writes".to_owned(), setup(), [&small[..], &again].concat()),
        ("full: large writes".to_owned(), setup(), [&large[..], &small].concat()),
        ("full: an overwrite".to_owned(), setup(), [calls([over, fsync(FILLS)]), small.clone()].concat()),
        ("full, then not".to_owned(), setup(), [&small[..], &room, &digest(), &again].concat()),
        ("full, then cut".to_owned(), setup(), [calls([cut]), small, again, large].concat()),
    ]
}

/// A file that begins in the fast tier and goes on below, and is changed across the border.
fn across() -> Vec<(String, Vec<Step>, Vec<Step>)> {
    let begins = calls([pwrite(0, 3000), pwrite(4096, 3000)]);
    let setup = [&population()[..], &begins, &[Step::Digest(0)]].concat();
    let goes_on = pwrite(8192, LARGE_BYTES);
    let changes = [
        ("written", pwrite(6000, 6000)),
        ("a hole", fallocate(FallocateMode::PunchHole, 3000, 12_000)),
        ("zeros", fallocate(FallocateMode::ZeroRange, 7000, 9000)),
        ("cut", Operation::Ftruncate { slot: WRITTEN, length: 25_000 }),
    ];
    let workload = |(name, change): (&str, Operation)| {
        let digest = [Step::Digest(0)];
        let steps = [
            &calls([goes_on.clone(), change])[..],
            &digest,
            &calls([pwrite(5000, 9000), fsync(SMALL)]),
            &digest,
        ];
        (format!("across the border: {name}"), setup.clone(), steps.concat())
    };
    changes.into_iter().map(workload).collect()
}

/// Content that moves up and down, and is changed before it moves and between.
fn migrated() -> Vec<(String, Vec<Step>, Vec<Step>)> {
    let [up, down] = [TierNumber::FAST, TierNumber(1)].map(|tier| Step::Migrate(0, "/", tier));
    let mut all = Vec::new();
    for (way, writes) in ways() {
        let setup = [population(), calls(writes.clone()), vec![Step::Digest(0)]].concat();
        let steps = vec![up.clone(), down.clone(), Step::Migrate(0, "/small", TierNumber::FAST)];
        all.push((format!("{way}, moved"), setup, steps));
    }
    let (way, writes) = ways().swap_remove(1);
    let setup = [population(), calls(writes.clone()), vec![Step::Digest(0)]].concat();
    for (disturbance, next) in disturbances() {
        let copy = Step::CopyUp(0, "/");
        let read = Operation::Pread { slot: WRITTEN, offset: 0, length: OFFSET_MAX as u32 };
        let steps = [
            &[copy.clone()][..],
            &calls([next.clone(), pwrite(5000, 9000), fsync(SMALL)]),
            &[Step::Digest(0)],
            &calls([read.clone()]),
            &[copy, down.clone()],
            &calls([next, read]),
        ];
        all.push((format!("{way}, copied up, and then: {disturbance}"), setup.clone(), steps.concat()));
    }
    for (disturbance, next) in disturbances() {
        let again = calls(writes.iter().cloned().map(with_other_bytes));
        let steps = [
            &calls([next])[..],
            std::slice::from_ref(&up),
            &again,
            std::slice::from_ref(&down),
            &calls([pwrite(5000, 9000), fsync(SMALL)]),
            &[Step::Digest(0), up.clone()],
        ];
        all.push((format!("{way}, moved, and before it: {disturbance}"), setup.clone(), steps.concat()));
    }
    all
}

/// Two clients take turns on a file that one of them got below: its lease moves, so its log is digested.
pub fn handed_over() -> Vec<(String, Vec<Step>, Vec<Step>)> {
    let write = OpenFlags { read: true, write: true, ..OpenFlags::default() };
    let open = Operation::Open { slot: OTHERS, path: path("/f"), flags: write, mode: 0 };
    let setup = [&population()[..], &[Step::Call(1, open)]].concat();
    let other = |offset, length| {
        let data = Pattern { seed: 73 + offset, length };
        Step::Call(1, Operation::Pwrite { slot: OTHERS, offset, data })
    };
    let steps = |writes: Vec<Operation>| {
        let turns = [
            other(9000, 200),
            Step::Call(0, pwrite(20_000, 9000)),
            other(0, LARGE_BYTES),
            Step::Call(0, Operation::Ftruncate { slot: WRITTEN, length: 25_000 }),
            Step::Digest(0),
            Step::Call(1, Operation::Unlink { path: path("/f") }),
            Step::Digest(1),
        ];
        [&calls(writes)[..], &turns].concat()
    };
    let all = ways().into_iter();
    all.map(|(way, writes)| (format!("{way}, handed over"), setup.clone(), steps(writes))).collect()
}

/// All scenarios of one client: their names, the steps before recording starts, and those that are recorded.
pub fn scenarios() -> Vec<(String, Vec<Step>, Vec<Step>)> {
    [alone(), disturbed(), full(), across(), migrated()].concat()
}

/// A scenario on a fast tier.
pub fn scenario(name: &str, fast: FastTier) -> Option<Workload> {
    let found = scenarios().into_iter().find(|(found, ..)| found == name);
    found.map(|(_, setup, steps)| Workload { fast, setup, steps })
}

/// A drawn run.
pub fn drawn(seed: u64, fast: FastTier) -> Workload {
    let mut random = Random::new(seed);
    let mut setup = population();
    if random.one_in(3) {
        setup.extend(filling());
    }
    if random.one_in(2) {
        setup.extend(calls([pwrite(0, LARGE_BYTES), append(72, LARGE_BYTES)]));
        setup.push(Step::Digest(0));
    }
    let mut steps = Vec::new();
    for _ in 0..DRAWN_CALLS {
        if random.one_in(4) {
            steps.push(Step::Digest(0));
        }
        if random.one_in(4) {
            steps.push(match random.below(3) {
                2 => Step::CopyUp(0, "/"),
                tier => Step::Migrate(0, "/", TierNumber(tier as u8)),
            });
        }
        steps.push(Step::Call(0, drawn_call(&mut random)));
    }
    steps.push(Step::Digest(0));
    Workload { fast, setup, steps }
}

fn drawn_call(random: &mut Random) -> Operation {
    let slot = random.below(2) as Slot;
    let length = *random.pick(&[300, 3000, 5000, 8190, 12_288, 20_000, LARGE_BYTES]);
    let data = Pattern { seed: random.below(1000), length };
    let offset = match random.below(3) {
        0 => random.below(OFFSET_MAX),
        1 => random.below(OFFSET_MAX) / 4096 * 4096,
        _ => 0,
    };
    let small = |data: Pattern| Operation::Write { slot: SMALL, data: Pattern { length: 200, ..data } };
    match random.below(18) {
        0..=5 => Operation::Pwrite { slot: WRITTEN, offset, data },
        6..=7 => Operation::Write { slot: APPENDED, data },
        8 => small(data),
        9 => fsync(SMALL),
        10 => fsync(slot),
        11 => Operation::Ftruncate { slot, length: offset },
        12 => Operation::Unlink { path: path(random.pick::<&str>(&["/f", "/g", "/small", "/full"])) },
        13 => Operation::Rename { from: path(random.pick::<&str>(&["/f", "/small"])), to: path("/g") },
        14 => fallocate(
            *random.pick(&[FallocateMode::PunchHole, FallocateMode::ZeroRange]),
            offset,
            length.into(),
        ),
        15..=16 => Operation::Pread { slot: WRITTEN, offset: 0, length: OFFSET_MAX as u32 },
        _ => fallocate(FallocateMode::InsertRange, offset / 4096 * 4096, 4096),
    }
}
