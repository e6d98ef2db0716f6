//! Seeded calls in a few places that have nothing to do with one another.
//!
//! A place is a directory. In most lies one file, which every process has open twice, once for appending, and which
//! stays where it is; in the others two directories of names, with files of many links in them and a directory that moves
//! from one to the other. An inode of the latter is known by its mode, which is chosen by chance.
//!
//! By a mount the kernel goes along a path name by name, and looks up two names one after the other, as with any file
//! system; nor is a page that it keeps read and written at one instant. So calls by a mount are such as take effect at one
//! instant there: they read and write with O_DIRECT, name what lies in the directories that stay, and ask of a name only
//! whether it is there. Where files have many links they rename none: two names of one file the kernel leaves as they are
//! (without links that happens, too, and is known: `Past::may_have_moved_nothing`).

use crate::model::Model;
use crate::operations::operation::{Kind, OpenFlags, Operation, PathText, Pattern, Slot};
use crate::operations::random::Random;
use crate::programs::doors::{Door, Doors};
use std::time::Duration;

/// How many places there are.
pub const PLACES: usize = 6;

/// Slots of a place: for reading and writing anywhere, and for appending.
const ANYWHERE: Slot = 0;
const APPENDING: Slot = 1;
const SLOTS: Slot = 2;

/// Calls a process makes in one place before it goes to another.
const CALLS_IN_A_ROW: u64 = 6;
/// And the longest it rests before that.
const PAUSE_MICROSECONDS: u64 = 400;

/// More than any file holds.
const LOOK_BYTES: u32 = 1 << 20;

/// Where the file of a place lies.
const CONTENT: &str = "/content";

/// The purpose of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// A file of some hundred bytes.
    Small,
    /// A file of some pages, so that a torn write would be seen.
    Large,
    /// Names of files with one link each, where some come by a mount,
    Names,
    /// and of files with many.
    Links,
}

impl Purpose {
    fn of(place: usize) -> Purpose {
        match place {
            0..=2 => Purpose::Small,
            3 => Purpose::Large,
            4 => Purpose::Names,
            _ => Purpose::Links,
        }
    }
}

/// A call of a process.
#[derive(Clone, Debug)]
pub struct Call {
    /// Where.
    pub place: usize,
    /// What, as seen from there.
    pub operation: Operation,
    /// How long the process rests before it.
    pub pause: Duration,
}

/// The operations that prepare a place before any process works there, as seen from it.
#[must_use]
pub fn preparation(place: usize) -> Vec<Operation> {
    match Purpose::of(place) {
        Purpose::Small | Purpose::Large => {
            vec![Operation::MakeNode { path: CONTENT.into(), kind: Kind::File, mode: 0o644, device: 0 }]
        }
        Purpose::Names | Purpose::Links => {
            ["/a", "/b"].map(|path| Operation::Mkdir { path: path.into(), mode: 0o755 }).into()
        }
    }
}

/// What every process has open in a place, as seen from it.
#[must_use]
pub fn openings(place: usize, door: Door) -> Vec<Operation> {
    let open = |slot, append: bool| {
        let direct = door == Door::Mount;
        let flags = OpenFlags { read: !append, write: true, append, direct, ..OpenFlags::default() };
        Operation::Open { slot, path: CONTENT.into(), flags, mode: 0 }
    };
    match Purpose::of(place) {
        Purpose::Small | Purpose::Large => vec![open(ANYWHERE, false), open(APPENDING, true)],
        Purpose::Names | Purpose::Links => Vec::new(),
    }
}

/// A place before any process worked there. No call uses the offset of an open file, so that one stands for those of all
/// processes.
#[must_use]
pub fn initial(place: usize) -> Model {
    let mut model = Model::new();
    for operation in preparation(place).iter().chain(&openings(place, Door::Run)) {
        model.apply(operation).expect("the preparation of a place succeeds");
    }
    model
}

/// The call as seen from above the places.
#[must_use]
pub fn from_above(place: usize, operation: &Operation) -> Operation {
    let mut operation = operation.clone();
    for second in [false, true] {
        if let Some(path) = operation.path_mut(second) {
            *path = PathText([folder(place).as_bytes(), path.as_bytes()].concat());
        }
    }
    if let Some(slot) = operation.slot_mut() {
        *slot += SLOTS * place as Slot;
    }
    operation
}

/// The place's directory.
#[must_use]
pub fn folder(place: usize) -> PathText {
    PathText(format!("/place-{place}").into_bytes())
}

/// The calls of one process, endless.
pub fn calls(seed: u64, lane: usize, doors: Doors) -> impl Iterator<Item = Call> {
    let mut random = Random::new(seed ^ (lane as u64 + 1).wrapping_mul(0xd6e8_feb8_6659_fd93));
    let (mut place, mut left) = (0, 0);
    std::iter::from_fn(move || {
        let mut pause = Duration::ZERO;
        if left == 0 {
            left = 1 + random.below(CALLS_IN_A_ROW);
            place = random.below(PLACES as u64) as usize;
            pause = Duration::from_micros(random.below(PAUSE_MICROSECONDS));
        }
        left -= 1;
        let purpose = Purpose::of(place);
        let operation = match purpose {
            Purpose::Small => on_file(&mut random, 200, 24),
            Purpose::Large => on_file(&mut random, 20_000, 9_000),
            Purpose::Names | Purpose::Links => {
                let linked = purpose == Purpose::Links || !doors.has_mount();
                match doors.of(lane as u64) {
                    Door::Run => on_names(&mut random, linked),
                    Door::Mount => on_names_by_mount(&mut random, linked),
                }
            }
        };
        Some(Call { place, operation, pause })
    })
}

/// Calls that show all there is, for the end.
#[must_use]
pub fn looks() -> Vec<Call> {
    let in_place = |place| {
        let operations = match Purpose::of(place) {
            Purpose::Small | Purpose::Large => vec![
                Operation::Fstat { slot: ANYWHERE },
                Operation::Pread { slot: ANYWHERE, offset: 0, length: LOOK_BYTES },
            ],
            Purpose::Names | Purpose::Links => {
                let lists = ["/a", "/b"].map(|path| Operation::Readdir { path: path.into() });
                let stats = FOLDERS
                    .iter()
                    .flat_map(|folder| NAMES.map(|name| Operation::Stat { path: path_of(folder, name) }));
                lists.into_iter().chain(stats).collect()
            }
        };
        operations.into_iter().map(move |operation| Call { place, operation, pause: Duration::ZERO })
    };
    (0..PLACES).flat_map(in_place).collect()
}

fn on_file(random: &mut Random, bytes_max: u64, write_bytes_max: u64) -> Operation {
    let slot = ANYWHERE;
    let data = |random: &mut Random| Pattern {
        seed: random.next(),
        length: 1 + random.below(write_bytes_max) as u32,
    };
    match random.below(16) {
        0..=4 => Operation::Pread { slot, offset: 0, length: 4 * bytes_max as u32 },
        5 => Operation::Pread { slot, offset: random.below(bytes_max), length: write_bytes_max as u32 },
        6..=9 => Operation::Pwrite { slot, offset: random.below(bytes_max), data: data(random) },
        10..=12 => Operation::Write { slot: APPENDING, data: data(random) },
        13 => Operation::Ftruncate { slot, length: random.below(bytes_max / 2) },
        14 => Operation::Fstat { slot },
        _ if random.one_in(2) => {
            Operation::Truncate { path: CONTENT.into(), length: random.below(bytes_max) }
        }
        _ => Operation::Stat { path: CONTENT.into() },
    }
}

/// Where names are: two directories that stay, and two places of one that moves.
const FOLDERS: [&str; 4] = ["/a", "/b", "/a/moving", "/b/moving"];
const NAMES: [&str; 3] = ["x", "y", "z"];

fn path_of(folder: &str, name: &str) -> PathText {
    format!("{folder}/{name}").as_str().into()
}

fn file_in(random: &mut Random, folders: &[&str]) -> PathText {
    let folder: &str = random.pick::<&str>(folders);
    path_of(folder, random.pick::<&str>(&NAMES))
}

fn moving(random: &mut Random) -> PathText {
    (*random.pick::<&str>(&FOLDERS[2..])).into()
}

fn node(random: &mut Random, path: PathText) -> Operation {
    Operation::MakeNode { path, kind: Kind::File, mode: random.below(0o1000) as u32, device: 0 }
}

/// `linked`: files may have many links.
fn on_names(random: &mut Random, linked: bool) -> Operation {
    let path = |random: &mut Random| {
        // Most are in the directories that stay.
        let folders = if random.one_in(4) { &FOLDERS[2..] } else { &FOLDERS[..2] };
        file_in(random, folders)
    };
    match random.below(24) {
        0..=3 => {
            let path = path(random);
            node(random, path)
        }
        4..=6 => Operation::Unlink { path: path(random) },
        7..=8 if linked => Operation::Link { existing: path(random), new: path(random) },
        7..=12 => Operation::Rename { from: path(random), to: path(random) },
        13 => Operation::RenameNoReplace { from: path(random), to: path(random) },
        14 => Operation::RenameExchange { from: path(random), to: path(random) },
        15 => Operation::Chmod { path: path(random), mode: random.below(0o1000) as u32 },
        16..=18 => Operation::Stat { path: path(random) },
        19..=20 => Operation::Readdir { path: (*random.pick::<&str>(&FOLDERS[..2])).into() },
        21 => Operation::Mkdir { path: moving(random), mode: 0o755 },
        22 => Operation::Rename { from: moving(random), to: moving(random) },
        _ if random.one_in(3) => Operation::Rmdir { path: moving(random) },
        _ => Operation::Stat { path: moving(random) },
    }
}

/// There is no symbolic link: to read one tells whether something is there.
fn on_names_by_mount(random: &mut Random, linked: bool) -> Operation {
    let path = |random: &mut Random| file_in(random, &FOLDERS[..2]);
    match random.below(24) {
        0..=4 => {
            let path = path(random);
            node(random, path)
        }
        5..=8 => Operation::Unlink { path: path(random) },
        9..=14 if !linked => Operation::Rename { from: path(random), to: path(random) },
        15 if !linked => Operation::RenameExchange { from: path(random), to: path(random) },
        9..=18 => Operation::Readlink { path: path(random) },
        19..=20 => Operation::Readdir { path: (*random.pick::<&str>(&FOLDERS[..2])).into() },
        21 => Operation::Mkdir { path: moving(random), mode: 0o755 },
        22 => Operation::Rename { from: moving(random), to: moving(random) },
        _ if random.one_in(3) => Operation::Rmdir { path: moving(random) },
        _ => Operation::Readlink { path: moving(random) },
    }
}
