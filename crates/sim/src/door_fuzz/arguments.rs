//! Draws sequences: usual arguments mostly, hostile ones often enough.

use super::place::{self, PAGE, ROOM, ROOM_BYTES, WINDOW};
use super::sequence::{Argument, Call};
use super::table::{self, Entry, Kind, TABLE};
use crate::operations::random::Random;

/// Paths that sequences name.
pub const NAMES: &[&str] = &[
    "f",
    "g",
    "empty",
    "d",
    "d/a",
    "d/b",
    "l",
    "ld",
    "ld/a",
    "loop",
    "dangling",
    "p",
    "s",
    "none",
    "none/x",
    "f/x",
    "f/",
    "d/",
    "l/",
    "ld/",
    "d/.",
    "d/..",
    ".",
    "..",
    "/",
    "",
    "./f",
    "d//a",
    "d/../f",
    "$D/f",
    "$D/d",
    "$D",
    "$E/f",
    "$E",
    "$D/../w/f",
    "../..",
    "(n*255)",
    "(n*256)",
    "(n*255)/x",
    "(./*2046)f",
    "(./*2047)f",
    "(./*2048)f",
    "(n*5000)",
    "/proc/self/fd/3",
    "/proc/self/fd/7",
    "/proc/self/fd/11",
    "/proc/self/fd/14",
    "/dev/null",
    "new1",
    "new2",
    "new3",
    "d/new1",
    "d/b/new2",
    "$E/new1",
    "new1/",
    "new1/x",
    "sparse",
    "suid",
    "h",
    "outside/f",
    "outside",
    "$E/back/a",
    "$E/back",
    "/dev/null/x",
    "secret",
    "secret/x",
    "new1/..",
    "d/b/..",
    "d/b/../a",
    "new1/.",
    "/proc/self/cwd/f",
    "/proc/self/fd/3/x",
    "/proc/self/fd/999",
];
/// Names that are drawn more often than the others.
const USUAL_NAMES: &[&str] = &[
    "f", "g", "empty", "d", "d/a", "d/b", "l", "ld", "new1", "new2", "d/new1", "$D/f", "$E/f", "h", "sparse",
];
const HOSTILE: &[u64] = &[
    0,
    1,
    u64::MAX,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    1 << 32,
    1 << 63,
    i64::MAX as u64,
    place::UNMAPPED,
    place::CLOSED,
    place::READ_ONLY,
    ROOM + ROOM_BYTES,
    ROOM + ROOM_BYTES - 1,
];
const DESCRIPTORS: &[u64] = &[
    3, 3, 3, 4, 5, 6, 7, 8, 9, 10, 11, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 24, 25, 26, 27, 28,
    29, 30, 31, 32, 33,
];
const NO_DESCRIPTORS: &[u64] = &[
    u64::MAX,
    0xffff_ffff,
    -100i64 as u64,
    999,
    63,
    1 << 20,
    1 << 30,
    0x8000_0000,
    0x1_0000_0003,
    0xffff_ffff_0000_0003,
    -2i64 as u64,
];
const DIRECTORIES: &[u64] = &[
    -100i64 as u64,
    -100i64 as u64,
    -100i64 as u64,
    0xffff_ff9c,
    6,
    6,
    7,
    7,
    9,
    12,
    12,
    28,
    3,
    8,
    10,
    14,
    11,
];
/// Sizes that files may come to, and such as none may.
const OFFSETS: &[u64] = &[
    0,
    0,
    0,
    1,
    10,
    100,
    4095,
    4096,
    5000,
    8192,
    10_000,
    65_536,
    1 << 20,
    4 << 20,
    1 << 50,
    1 << 62,
    i64::MAX as u64,
    i64::MAX as u64 - 4096,
    u64::MAX,
    -100i64 as u64,
    1 << 63,
];
const LENGTHS: &[u64] = &[
    0,
    1,
    7,
    8,
    16,
    100,
    255,
    4095,
    4096,
    4097,
    10_000,
    65_536,
    65_537,
    200_000,
    u64::MAX,
    1 << 63,
    0x7fff_ffff,
    i64::MAX as u64,
    1 << 32,
];

/// The sequence of a seed.
#[must_use]
pub fn generate(seed: u64, calls: usize) -> Vec<Call> {
    let mut random = Random::new(seed);
    let total = TABLE.iter().map(|entry| entry.weight).sum();
    (0..calls).map(|_| draw(&mut random, total)).collect()
}

fn draw(random: &mut Random, total: u64) -> Call {
    let mut left = random.below(total);
    let entry = TABLE.iter().find(|entry| match left.checked_sub(entry.weight) {
        Some(rest) => {
            left = rest;
            false
        }
        None => true,
    });
    let entry = entry.expect("the weights are the table's");
    call(random, entry)
}

fn call(random: &mut Random, entry: &'static Entry) -> Call {
    let by_wrapper = entry.has_wrapper && random.one_in(2);
    let arguments = entry.kinds.iter().map(|kind| argument(random, *kind)).collect();
    // Several entries may have one name: its text means the first.
    let entry = table::find(entry.name).unwrap_or(entry);
    Call { entry, by_wrapper, arguments }
}

fn argument(random: &mut Random, kind: Kind) -> Argument {
    use Argument::{Number, Path, Words};
    let is_hostile =
        !matches!(kind, Kind::Only(_) | Kind::Node | Kind::Window | Kind::WindowLength) && random.one_in(24);
    if is_hostile {
        return Number(*random.pick(HOSTILE));
    }
    match kind {
        Kind::Descriptor if random.one_in(12) => Number(*random.pick(NO_DESCRIPTORS)),
        Kind::Descriptor => Number(*random.pick(DESCRIPTORS)),
        Kind::Directory if random.one_in(8) => Number(*random.pick(NO_DESCRIPTORS)),
        Kind::Directory => Number(*random.pick(DIRECTORIES)),
        Kind::Path if random.one_in(2) => Path((*random.pick(NAMES)).to_owned()),
        Kind::Path => Path((*random.pick(USUAL_NAMES)).to_owned()),
        Kind::Out | Kind::In => Number(address(random)),
        Kind::VectorLength => {
            Number(*random.pick(&[0, 1, 1, 2, 2, 3, 4, 100, 1024, 1025, u64::MAX, 1 << 31]))
        }
        Kind::Length => Number(*random.pick(LENGTHS)),
        Kind::Offset => Number(*random.pick(OFFSETS)),
        Kind::OffsetPointer if random.one_in(2) => Number(0),
        Kind::OffsetPointer => Words(vec![*random.pick(OFFSETS)]),
        Kind::Mode => Number(*random.pick(&[
            0o644,
            0o755,
            0o600,
            0o700,
            0,
            0o777,
            0o4755,
            0o2755,
            0o1777,
            0o6711,
            0o100_644,
            u64::MAX,
        ])),
        Kind::Node => Number(
            *random
                .pick(&[0o100_644, 0o644, 0o010_600, 0o140_600, 0o020_600, 0o040_755, 0o120_777, 0o170_000]),
        ),
        Kind::Vector => {
            let parts = (0..random.below(4)).flat_map(|_| [address(random), *random.pick(LENGTHS)]);
            Words(parts.collect())
        }
        Kind::Name => Path(
            (*random.pick(&[
                "user.a",
                "user.b",
                "user.",
                "user",
                "trusted.t",
                "security.s",
                "",
                "nonsense.x",
                "user.(n*249)",
                "user.(n*250)",
                "user.(n*251)",
                "user.(n*300)",
                "system.posix_acl_access",
                "system.nothing",
            ]))
            .to_owned(),
        ),
        Kind::Times if random.one_in(4) => Number(0),
        Kind::Times => {
            let mut time = || {
                let seconds =
                    *random.pick(&[0, 1, 1_000_000_000, 1_500_000_000, 4_000_000_000, -1i64 as u64]);
                [
                    seconds,
                    *random.pick(&[0, 1, 999_999_999, 1_000_000_000, 0x3fff_ffff, 0x3fff_fffe, u64::MAX]),
                ]
            };
            Words([time(), time()].concat())
        }
        Kind::How => {
            let Number(flags) = argument(random, Kind::Bits(table::OPEN_BITS)) else { return Number(0) };
            let mode = if flags & 0x40 != 0 { 0o644 } else { 0 };
            let mode = if random.one_in(8) { *random.pick(&[0o644, 0o10_000, u64::MAX]) } else { mode };
            let Number(resolve) = argument(random, Kind::Bits(&[1, 2, 4, 8, 0x10, 0x20])) else {
                return Number(0);
            };
            Words(vec![flags, mode, resolve, u64::from(random.one_in(4))])
        }
        Kind::Lock => {
            let kind = *random.pick(&[0, 1, 2, 3]);
            let whence = *random.pick(&[0, 0, 0, 1, 2, 3]);
            Words(vec![kind | whence << 16, *random.pick(OFFSETS), *random.pick(OFFSETS), 0])
        }
        Kind::Polled => {
            let polled = (0..random.below(5)).map(|_| {
                let events = *random.pick(&[0, 1, 4, 5, 0x3ff]);
                (*random.pick(DESCRIPTORS)) | events << 32
            });
            Words(polled.collect())
        }
        Kind::DescriptorSet if random.one_in(3) => Number(0),
        Kind::DescriptorSet => Words(vec![random.next() & random.next() & 0xffff_fff8, 0]),
        // Packed: the events, then 64 bits, of which the lower ones are above them.
        Kind::Event => {
            Words(vec![*random.pick(&[0, 1, 4, 5, 0x8000_0001, 0x4000_0005, 0x1000_0001]) | 7 << 32, 0])
        }
        Kind::AttributeArguments => Words(vec![
            address(random),
            *random.pick(&[0, 1, 8, 100, 5000, 65_536, 65_537, 8 | 1 << 32, 8 | 2 << 32, 8 | 3 << 32]),
        ]),
        Kind::Owner => Number(*random.pick(&[0, 0, u64::MAX, u64::MAX, 1000, 65_534, 0xffff_ffff])),
        Kind::Window => Number(WINDOW + PAGE * random.below(16)),
        Kind::WindowLength => Number(*random.pick(&[0, 1, PAGE, 2 * PAGE, 10_000, 1 << 16])),
        Kind::Bits(known) => {
            let mut flags = 0;
            for _ in 0..random.below(4) {
                flags |= *random.pick(known);
            }
            if random.one_in(16) {
                flags |= 1 << random.below(64);
            }
            Number(flags)
        }
        Kind::One(_) if random.one_in(12) => Number(*random.pick(HOSTILE)),
        Kind::One(known) | Kind::Only(known) => Number(*random.pick(known)),
    }
}

/// Memory for content, mostly.
fn address(random: &mut Random) -> u64 {
    const END: u64 = ROOM + ROOM_BYTES;
    match random.below(16) {
        0 => 0,
        1 => *random.pick(&[
            place::UNMAPPED,
            place::CLOSED,
            place::READ_ONLY,
            u64::MAX,
            1 << 63,
            ROOM + ROOM_BYTES,
        ]),
        2 => END - *random.pick(&[1, 8, 100, PAGE, 5000]),
        3 => ROOM + random.below(4096),
        _ => ROOM,
    }
}
