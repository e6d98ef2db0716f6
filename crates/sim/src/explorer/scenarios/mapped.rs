//! Workloads of files in mapped mode: stores through mappings, syncs, calls of the same and other programs on the
//! file meanwhile, and how it comes into the mode and out of it again. And one of two programs dies in such a call.

use crate::explorer::crashes::deaths::Death;
use crate::explorer::crashes::store::{ClientNumber, Step, Workload};
use crate::operations::operation::{FallocateMode, OpenFlags, Operation, PathText, Pattern, Slot};
use crate::operations::random::Random;

/// The file's first size: three pages and a part of one.
const SIZE: u32 = 3 * 4096 + 100;
/// So much of it is mapped: where it may grow to, too.
const MAPPED_BYTES: u64 = 6 * 4096;

/// Where the first program has it open, and mapped.
const FIRST: Slot = 0;
/// Where the second one has.
const SECOND: Slot = 4;
/// Where the second one has it open for appending.
const APPENDS: Slot = 5;
/// Where a third one opens it when the others are gone.
const LAST: Slot = 8;

fn path(text: &str) -> PathText {
    PathText::from(text)
}

fn open(slot: Slot, name: &str, append: bool) -> Operation {
    let flags = OpenFlags { read: true, write: true, create: true, append, ..OpenFlags::default() };
    Operation::Open { slot, path: path(name), flags, mode: 0o644 }
}

fn pwrite(slot: Slot, offset: u64, length: u32) -> Operation {
    Operation::Pwrite { slot, offset, data: Pattern { seed: 700 + offset, length } }
}

fn store(client: ClientNumber, slot: Slot, offset: u64, length: u32) -> Step {
    Step::StoreMapped(client, slot, offset, Pattern { seed: 800 + offset + u64::from(length), length })
}

/// A file with two names, open in two programs, and another one.
fn setup() -> Vec<Step> {
    let first = [open(FIRST, "/m", false), pwrite(FIRST, 0, SIZE), open(1, "/g", false), pwrite(1, 0, 3000)];
    let link = Operation::Link { existing: path("/m"), new: path("/hard") };
    let first = first.into_iter().chain([link]).map(|call| Step::Call(0, call));
    let second = [open(SECOND, "/m", false), open(APPENDS, "/m", true)].map(|call| Step::Call(1, call));
    first.chain(second).collect()
}

/// The steps on the file while the first program has it mapped.
pub fn touches() -> Vec<Vec<Step>> {
    let fallocate = |slot, mode, offset, length| Operation::Fallocate { slot, mode, offset, length };
    let first = |call| vec![Step::Call(0, call)];
    let second = |call| vec![Step::Call(1, call)];
    vec![
        vec![store(0, FIRST, 100, 700)],
        vec![store(0, FIRST, 4090, 12)],
        // Half of it lies behind the end, and must never come to light.
        vec![store(0, FIRST, u64::from(SIZE) - 50, 100)],
        vec![store(0, FIRST, 8000, 300), Step::SyncMapped(0, FIRST), store(0, FIRST, 8100, 20)],
        vec![Step::Map(1, SECOND, MAPPED_BYTES), store(1, SECOND, 96, 40), Step::SyncMapped(1, SECOND)],
        first(pwrite(FIRST, 4106, 200)),
        second(pwrite(SECOND, 300, 64)),
        first(pwrite(FIRST, 100, 9000)),
        second(pwrite(SECOND, 4000, 6000)),
        first(pwrite(FIRST, 14_000, 100)),
        second(pwrite(SECOND, 15_000, 5000)),
        second(Operation::Write { slot: APPENDS, data: Pattern { seed: 701, length: 300 } }),
        first(Operation::Ftruncate { slot: FIRST, length: 5000 }),
        second(Operation::Ftruncate { slot: SECOND, length: 20_000 }),
        first(fallocate(FIRST, FallocateMode::PunchHole, 1000, 8000)),
        second(fallocate(SECOND, FallocateMode::ZeroRange, 12_000, 4000)),
        first(fallocate(FIRST, FallocateMode::Extend, 10_000, 9000)),
        second(Operation::Rename { from: path("/m"), to: path("/g") }),
        first(Operation::Unlink { path: path("/m") }),
        first(Operation::Chmod { path: path("/hard"), mode: 0o4711 }),
        vec![Step::Digest(0), Step::Digest(1)],
    ]
}

/// Two touches of a mapped file, a part of which is synced. The content before lies in a log, or was `digested`. The program that
/// maps it outlives the crash, which is the daemon's; or all go, a third opens it as any file, and maps it again.
pub fn mapped(touches: [&[Step]; 2], digested: bool, processes_live: bool) -> Workload {
    let mut setup = setup();
    if digested {
        setup.push(Step::Digest(0));
    }
    let mut steps = vec![Step::Map(0, FIRST, MAPPED_BYTES), store(0, FIRST, 50, 120)];
    steps.extend(touches[0].iter().cloned());
    steps.push(Step::SyncMapped(0, FIRST));
    steps.extend(touches[1].iter().cloned());
    if !processes_live {
        steps.extend([Step::Unmap(0, FIRST), Step::Detach(0), Step::Detach(1)]);
        steps.extend([open(LAST, "/hard", false), pwrite(LAST, 4000, 300)].map(|call| Step::Call(2, call)));
        let again = [Step::Map(2, LAST, MAPPED_BYTES), store(2, LAST, 4050, 100), Step::SyncMapped(2, LAST)];
        steps.extend(std::iter::once(Step::FindNoneMapped(2)).chain(again));
    }
    Workload { setup, steps, processes_live, ..Workload::default() }
}

/// A seeded run of two programs that map the file, change it in every way and let go of it, again and again.
pub fn in_and_out(seed: u64, rounds: usize) -> Workload {
    let mut random = Random::new(seed);
    let touches = touches();
    let mut steps = Vec::new();
    let mut setup = setup();
    setup.push(Step::Call(2, open(LAST, "/hard", false)));
    for _ in 0..rounds {
        steps.push(Step::Map(0, FIRST, MAPPED_BYTES));
        for _ in 0..1 + random.below(3) {
            steps.extend(random.pick(&touches).iter().cloned());
        }
        if random.one_in(2) {
            steps.push(Step::SyncMapped(0, FIRST));
        }
        steps.push(Step::Unmap(0, FIRST));
        let length = random.below(9000) as u32 + 1;
        steps.push(Step::Call(2, pwrite(LAST, random.below(9000), length)));
        if random.one_in(3) {
            steps.push(Step::Digest(2));
        }
    }
    Workload { setup, steps, ..Workload::default() }
}

/// One of two programs dies in a call on a file that one of them has mapped; the other goes on with it.
pub fn deaths() -> Vec<Death> {
    let read = |slot| Operation::Pread { slot, offset: 0, length: 30_000 };
    let append = Operation::Write { slot: APPENDS, data: Pattern { seed: 702, length: 500 } };
    let of_first = vec![read(FIRST), pwrite(FIRST, 4000, 5000), read(FIRST), pwrite(FIRST, 18_000, 10)];
    let of_second = vec![read(SECOND), append, pwrite(SECOND, 200, 9000), read(SECOND)];
    let mut deaths = Vec::new();
    for call in touches().into_iter().flatten() {
        let Step::Call(dies, call) = call else { continue };
        for (maps, slot) in [(0, FIRST), (1, SECOND)] {
            let mut setup = setup();
            setup.extend([Step::Map(maps, slot, MAPPED_BYTES), store(maps, slot, 50, 120)]);
            let (first, then) = if dies == 0 { (SECOND, &of_second) } else { (FIRST, &of_first) };
            let (kept, calls, then) = ((first, first + 4), vec![call.clone()], then.clone());
            for unnoticed in [false, true] {
                let (setup, calls, then) = (setup.clone(), calls.clone(), then.clone());
                deaths.push(Death { setup, dies, kept, calls, then, unnoticed });
            }
        }
    }
    deaths
}
