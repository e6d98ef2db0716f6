//! Workloads in which leases change hands again and again: two clients take turns on the same file, the same names, the same
//! tree, each looking at the other's result before it goes on. The holder's operations lie in its log when the other
//! asks, or was digested before: the fence finds something to digest, or nothing.
//!
//! Or the holder lets go by itself: it gives back what it does not use while its log is not digested, so that this lingers
//! until it is; or its session ends.
//!
//! Steps follow each other, so what a crash leaves is what some number of them leave: nothing a client built on may be
//! missing under what it built.

use crate::explorer::crashes::deaths::Death;
use crate::explorer::crashes::store::{ClientNumber, Step, Workload};
use crate::operations::operation::{FallocateMode, OpenFlags, Operation, PathText, Pattern, Slot};

/// A call of one of the two clients; their slots are four each.
type ClientCall = (ClientNumber, Operation);

/// When logs are digested, apart from what a fence does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Digests {
    /// Never.
    None,
    /// Before a lease changes hands: the fence finds nothing.
    BeforeHandOvers,
    /// By the second client, once the lease is its own.
    BehindHandOvers,
}

impl Digests {
    /// Each of them.
    pub const ALL: [Digests; 3] = [Digests::None, Digests::BeforeHandOvers, Digests::BehindHandOvers];
}

const A: ClientNumber = 0;
const B: ClientNumber = 1;
/// How many slots a client has.
const SLOTS: Slot = 4;

fn path(text: &str) -> PathText {
    PathText::from(text)
}

fn open(slot: Slot, name: &str, append: bool) -> Operation {
    let flags = OpenFlags { read: true, write: true, create: true, append, ..OpenFlags::default() };
    Operation::Open { slot, path: path(name), flags, mode: 0o644 }
}

fn pwrite(slot: Slot, offset: u64, length: u32, seed: u64) -> Operation {
    Operation::Pwrite { slot, offset, data: Pattern { seed, length } }
}

fn write(slot: Slot, length: u32, seed: u64) -> Operation {
    Operation::Write { slot, data: Pattern { seed, length } }
}

fn read(slot: Slot) -> Operation {
    Operation::Pread { slot, offset: 0, length: 30_000 }
}

fn mkdir(name: &str) -> Operation {
    Operation::Mkdir { path: path(name), mode: 0o755 }
}

fn unlink(name: &str) -> Operation {
    Operation::Unlink { path: path(name) }
}

fn rename(from: &str, to: &str) -> Operation {
    Operation::Rename { from: path(from), to: path(to) }
}

fn list(name: &str) -> Operation {
    Operation::Readdir { path: path(name) }
}

fn stat(name: &str) -> Operation {
    Operation::Stat { path: path(name) }
}

/// A file both have open, to write and to append, and two directories with files and a directory in each.
fn setup() -> Vec<Step> {
    let both = |first: Slot| [open(first, "/shared", false), open(first + 1, "/shared", true)];
    let mut calls: Vec<ClientCall> = both(0).map(|call| (A, call)).into();
    calls.push((A, pwrite(0, 0, 6000, 1)));
    for folder in ["/one", "/two"] {
        calls.push((A, mkdir(folder)));
        calls.push((A, mkdir(&format!("{folder}/sub"))));
        for name in ["f", "g", "h"] {
            calls.push((A, open(2, &format!("{folder}/{name}"), false)));
            calls.push((A, write(2, 700, 2)));
        }
    }
    calls.push((A, Operation::Close { slot: 2 }));
    calls.extend(both(SLOTS).map(|call| (B, call)));
    calls.into_iter().map(|(client, call)| Step::Call(client, call)).collect()
}

/// The turns of the two clients, by the object they change.
pub fn scenarios() -> Vec<(&'static str, Vec<ClientCall>)> {
    let fallocate = |slot, mode, offset, length| Operation::Fallocate { slot, mode, offset, length };
    let punch = fallocate(4, FallocateMode::PunchHole, 3000, 5000);
    let collapse = fallocate(0, FallocateMode::CollapseRange, 0, 4096);
    let exchange = Operation::RenameExchange { from: path("/one/sub"), to: path("/two/g") };
    let link = Operation::Link { existing: path("/shared"), new: path("/two/linked") };
    let attribute =
        Operation::FsetExtended { slot: 0, name: path("user.by"), value: Pattern { seed: 3, length: 30 } };
    let remove = Operation::RemoveExtended { path: path("/shared"), follow: true, name: path("user.by") };
    vec![
        (
            "the same range",
            vec![
                (A, pwrite(0, 0, 5000, 10)),
                (B, read(4)),
                (B, pwrite(4, 1000, 5000, 11)),
                (A, read(0)),
                (A, pwrite(0, 2000, 300, 12)),
                (B, pwrite(4, 2100, 4096, 13)),
                (A, read(0)),
            ],
        ),
        (
            "the end of a file",
            vec![
                (A, write(1, 500, 20)),
                (B, write(5, 4000, 21)),
                (A, write(1, 100, 22)),
                (B, read(4)),
                (B, write(5, 9000, 23)),
                (A, write(1, 1, 24)),
            ],
        ),
        (
            "a file that is cut",
            vec![
                (A, pwrite(0, 5000, 9000, 30)),
                (B, Operation::Ftruncate { slot: 4, length: 7000 }),
                (A, write(1, 3000, 31)),
                (B, punch),
                (A, read(0)),
                (A, collapse),
                (B, write(5, 200, 32)),
            ],
        ),
        (
            "names of a directory",
            vec![
                (A, mkdir("/one/a")),
                (B, open(6, "/one/b", false)),
                (B, Operation::Rmdir { path: path("/one/a") }),
                (A, list("/one")),
                (A, rename("/one/b", "/one/a")),
                (B, list("/one")),
                (B, unlink("/one/f")),
                (A, open(2, "/one/f", false)),
            ],
        ),
        (
            "two directories",
            vec![
                (A, mkdir("/one/mine")),
                (B, mkdir("/two/mine")),
                (A, rename("/one/f", "/two/f")),
                (B, open(6, "/two/f", true)),
                (B, write(6, 900, 40)),
                (B, rename("/two/f", "/one/mine/f")),
                (A, rename("/two/mine", "/one/mine/sub")),
                (B, exchange),
                (A, list("/two")),
            ],
        ),
        (
            "a directory that moves",
            vec![
                (A, open(2, "/one/sub/x", false)),
                (B, rename("/one/sub", "/two/sub/moved")),
                (A, open(3, "/two/sub/moved/y", false)),
                (A, write(3, 600, 50)),
                (B, rename("/two/sub", "/one/sub")),
                (A, write(2, 800, 51)),
                (B, list("/one/sub/moved")),
                (B, unlink("/one/sub/moved/x")),
            ],
        ),
        (
            "a file without a name",
            vec![
                (A, open(2, "/doc", false)),
                (A, write(2, 5000, 60)),
                (B, open(6, "/doc", false)),
                (A, unlink("/doc")),
                (B, pwrite(6, 100, 300, 61)),
                (A, read(2)),
                (A, open(3, "/doc", false)),
                (B, read(6)),
                (B, Operation::Close { slot: 6 }),
                (A, Operation::Close { slot: 2 }),
                (B, stat("/doc")),
            ],
        ),
        (
            "a file that is replaced",
            vec![
                (A, open(2, "/doc.new", false)),
                (A, write(2, 3000, 70)),
                (A, rename("/doc.new", "/doc")),
                (B, open(6, "/doc", false)),
                (B, read(6)),
                (B, open(7, "/doc.new", false)),
                (B, write(7, 4500, 71)),
                (B, rename("/doc.new", "/doc")),
                (A, stat("/doc")),
                (A, rename("/doc", "/one/f")),
            ],
        ),
        (
            "a tree",
            vec![
                (A, mkdir("/one/sub/deep")),
                (A, open(2, "/one/sub/deep/x", false)),
                (A, write(2, 700, 80)),
                (A, Operation::Chmod { path: path("/one/g"), mode: 0o600 }),
                (B, stat("/one/sub/deep/x")),
                (B, stat("/one/g")),
                (B, Operation::Chmod { path: path("/one/h"), mode: 0o640 }),
                (B, Operation::Truncate { path: path("/one/sub/deep/x"), length: 100 }),
                (A, write(2, 700, 81)),
                (A, unlink("/one/sub/deep/x")),
                (B, Operation::Rmdir { path: path("/one/sub/deep") }),
                (A, list("/one/sub")),
            ],
        ),
        (
            "attributes and links",
            vec![
                (A, attribute),
                (B, link),
                (A, Operation::Fchmod { slot: 0, mode: 0o4755 }),
                (B, write(5, 10, 90)),
                (A, unlink("/shared")),
                (B, remove),
                (A, Operation::Fchmod { slot: 0, mode: 0o600 }),
                (B, stat("/two/linked")),
                (B, unlink("/two/linked")),
                (A, write(1, 10, 91)),
            ],
        ),
    ]
}

/// Steps of the turns with their digests.
fn steps(turns: &[ClientCall], digests: Digests) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut last = None;
    for (client, call) in turns {
        let from = last.replace(*client).filter(|last| last != client);
        match (digests, from) {
            (Digests::BeforeHandOvers, Some(from)) => steps.push(Step::Digest(from)),
            (Digests::BehindHandOvers, Some(_)) => {
                steps.extend([Step::Call(*client, call.clone()), Step::Digest(*client)]);
                continue;
            }
            _ => {}
        }
        steps.push(Step::Call(*client, call.clone()));
    }
    steps
}

/// All of it crashes.
pub fn hand_over(turns: &[ClientCall], digests: Digests) -> Workload {
    Workload { setup: setup(), steps: steps(turns, digests), ..Workload::default() }
}

/// The same by clients that give back what they do not use as soon as their logs say nothing of it: behind a digest, and
/// while the next entry is not digested yet.
pub fn given_back(turns: &[ClientCall], digests: Digests) -> Workload {
    let mut setup = setup();
    setup.extend([Step::ForgetEarly(A), Step::ForgetEarly(B)]);
    Workload { setup, ..hand_over(turns, digests) }
}

/// Behind each turn the client that had it ends its session, with its operations in its log; the other takes the leases it needs.
pub fn ended(turns: &[ClientCall], digests: Digests) -> Vec<Workload> {
    let ended = |number: usize| {
        let ends = turns[number].0;
        let mut steps = steps(&turns[..=number], digests);
        steps.push(Step::Detach(ends));
        let others = turns[number + 1..].iter().filter(|(client, _)| *client != ends);
        steps.extend(others.map(|(client, call)| Step::Call(*client, call.clone())));
        Workload { setup: setup(), steps, ..Workload::default() }
    };
    (0..turns.len()).filter(|&number| turns[number].1.is_mutation()).map(ended).collect()
}

/// In each turn the client that has it dies; the other goes on with its own, once the daemon has learnt of the death,
/// or before that.
pub fn deaths_of(turns: &[ClientCall], digests: Digests, unnoticed: bool) -> Vec<Death> {
    let death = |(number, (dies, call)): (usize, &ClientCall)| {
        let other = 1 - dies;
        let then = turns[number + 1..].iter().filter(|(client, _)| *client == other);
        let first = other as Slot * SLOTS;
        Death {
            setup: setup().into_iter().chain(steps(&turns[..number], digests)).collect(),
            dies: *dies,
            kept: (first, first + SLOTS),
            calls: vec![call.clone()],
            then: then.map(|(_, call)| call.clone()).collect(),
            unnoticed,
        }
    };
    let changing = |(_, (_, call)): &(usize, &ClientCall)| call.is_mutation();
    turns.iter().enumerate().filter(changing).map(death).collect()
}
