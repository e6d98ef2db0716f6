//! Seeded random operations over a small set of names, so that sequences collide often: renames
//! over what exists, links to what is open, paths through files, symlinks that loop.

use crate::operations::lists::{Entry, Whom, list_name};
use crate::operations::operation::{
    FallocateMode, Kind, OpenFlags, Operation, PathText, Pattern, SetCondition, Slot, Timestamp,
};
use crate::operations::random::Random;

/// The operations that the generator may draw.
#[derive(Clone, Debug)]
pub struct Repertoire {
    /// Handles in use at once.
    pub slots: u8,
    /// Writes and truncates stay below this offset.
    pub offset_max: u64,
    /// The longest single write.
    pub write_bytes_max: u32,
    /// The longest value of an extended attribute: ext4 has room for 4 KiB of them beside an inode, in all.
    pub extended_bytes_max: u32,
    /// Whether paths may climb with `..` or name the root, and symlinks may be absolute: what means
    /// the same only where the tree under test is the whole world.
    pub climbing: bool,
    /// Whether to add calls that must fail: long names, empty paths, odd last components.
    pub hostile: bool,
}

impl Default for Repertoire {
    fn default() -> Repertoire {
        Repertoire {
            slots: 4,
            offset_max: 40_000,
            write_bytes_max: 12_000,
            extended_bytes_max: 400,
            climbing: true,
            hostile: true,
        }
    }
}

/// An endless, seeded sequence of operations.
pub struct Generator {
    repertoire: Repertoire,
    random: Random,
}

impl Generator {
    /// The sequence of `seed`.
    pub fn new(repertoire: Repertoire, seed: u64) -> Generator {
        Generator { repertoire, random: Random::new(seed) }
    }

    /// The next operation.
    pub fn next_operation(&mut self) -> Operation {
        match self.random.below(47) {
            0..=5 => self.open(),
            6 => Operation::Close { slot: self.slot() },
            7..=9 => Operation::Write { slot: self.slot(), data: self.pattern() },
            10..=12 => Operation::Pwrite { slot: self.slot(), offset: self.offset(), data: self.pattern() },
            13 => Operation::Read { slot: self.slot(), length: self.random.below(20_000) as u32 },
            14 => Operation::Pread {
                slot: self.slot(),
                offset: self.offset(),
                length: self.random.below(20_000) as u32,
            },
            15 => Operation::Seek { slot: self.slot(), offset: self.offset() },
            16 => Operation::Truncate { path: self.path(), length: self.offset() },
            17 => Operation::Ftruncate { slot: self.slot(), length: self.offset() },
            18 => self.fallocate(),
            19 => Operation::Fsync { slot: self.slot() },
            20 => Operation::Mkdir { path: self.path(), mode: self.mode() },
            21 => self.make(),
            22 => Operation::Rmdir { path: self.path() },
            23..=24 => Operation::Link { existing: self.path(), new: self.path() },
            25 => Operation::Symlink { target: self.target(), path: self.path() },
            26..=27 => Operation::Unlink { path: self.path() },
            28..=31 => Operation::Rename { from: self.path(), to: self.path() },
            32 => Operation::RenameNoReplace { from: self.path(), to: self.path() },
            33 => Operation::Chmod { path: self.path(), mode: self.mode() },
            34 => Operation::Lchown { path: self.path(), uid: self.id(), gid: self.id() },
            35 => Operation::Utimens { path: self.path(), modified: self.time() },
            36 => Operation::Lstat { path: self.path() },
            37 => Operation::Fstat { slot: self.slot() },
            38 => Operation::Readdir { path: self.path() },
            39..=41 => self.extended(),
            45..=46 => self.list(),
            42 => Operation::RenameExchange { from: self.path(), to: self.path() },
            43 => self.unnamed(),
            _ => self.rare(),
        }
    }

    fn rare(&mut self) -> Operation {
        match self.random.below(4) {
            0 => Operation::Stat { path: self.path() },
            1 => Operation::Readlink { path: self.path() },
            _ => Operation::Fchmod { slot: self.slot(), mode: self.mode() },
        }
    }

    fn extended(&mut self) -> Operation {
        let (path, follow) = (self.path(), !self.random.one_in(4));
        match self.random.below(8) {
            0..=2 => Operation::SetExtended {
                path,
                follow,
                name: self.attribute(),
                value: self.value(),
                condition: *self.random.pick(&[
                    SetCondition::Either,
                    SetCondition::Either,
                    SetCondition::Create,
                    SetCondition::Replace,
                ]),
            },
            3 => Operation::FsetExtended { slot: self.slot(), name: self.attribute(), value: self.value() },
            4 => Operation::RemoveExtended { path, follow, name: self.attribute_or_list() },
            5 => Operation::GetExtended { path, follow, name: self.attribute_or_list() },
            6 => Operation::ListExtended { path, follow },
            _ => Operation::FlistExtended { slot: self.slot() },
        }
    }

    /// An access control list, often one that is none.
    fn list(&mut self) -> Operation {
        let (path, default) = (self.path(), self.random.one_in(2));
        if self.random.one_in(6) {
            return Operation::SetList { path, default, list: Vec::new() };
        }
        let mut list = Vec::new();
        let mut entry = |random: &mut Random, whom| {
            let permissions = if random.one_in(2) { 7 } else { random.below(8) as u32 };
            list.push(Entry { whom, permissions });
        };
        let ids = [0, 1, 1000, 1001];
        entry(&mut self.random, Whom::Owner);
        let users = self.random.below(3);
        for _ in 0..users {
            let whom = Whom::User(*self.random.pick(&ids));
            entry(&mut self.random, whom);
        }
        entry(&mut self.random, Whom::OwningGroup);
        let groups = self.random.below(3);
        for _ in 0..groups {
            let whom = Whom::Group(*self.random.pick(&ids));
            entry(&mut self.random, whom);
        }
        if users + groups > 0 || self.random.one_in(3) {
            entry(&mut self.random, Whom::Mask);
        }
        entry(&mut self.random, Whom::Others);
        if self.repertoire.hostile && self.random.one_in(10) {
            let at = self.random.below(list.len() as u64) as usize;
            match self.random.below(3) {
                0 => drop(list.remove(at)),
                1 => list.swap(0, at),
                _ => list[at].permissions |= 8,
            }
        }
        Operation::SetList { path, default, list }
    }

    /// A directory, or a node of mknod: nothing that would wait for another process when it is opened.
    fn make(&mut self) -> Operation {
        let (path, mode) = (self.path(), self.mode());
        match self.random.below(4) {
            0 => Operation::MakeNode { path, kind: Kind::Socket, mode, device: 0 },
            1 => Operation::MakeNode { path, kind: Kind::File, mode, device: 0 },
            _ => Operation::Mkdir { path, mode },
        }
    }

    /// A name of an extended attribute.
    fn attribute(&mut self) -> PathText {
        if self.repertoire.hostile && self.random.one_in(10) {
            let long = [&b"user."[..], &[b'n'; 251]].concat();
            return PathText(self.random.pick(&[&b""[..], b"user.", b"trusted.", b"odd", &long]).to_vec());
        }
        PathText::from(*self.random.pick(&["user.a", "user.a", "user.b", "user.caf%e9", "trusted.a"]))
    }

    /// The same, of those that are access control lists, too.
    fn attribute_or_list(&mut self) -> PathText {
        if self.random.one_in(3) { list_name(self.random.one_in(2)) } else { self.attribute() }
    }

    fn value(&mut self) -> Pattern {
        let length = if self.random.one_in(6) {
            0
        } else {
            self.random.below(u64::from(self.repertoire.extended_bytes_max)) as u32
        };
        Pattern { seed: self.random.next(), length }
    }

    fn open(&mut self) -> Operation {
        let access = self.random.below(6);
        let write = access > 0;
        let flags = OpenFlags {
            read: access != 1,
            write,
            append: write && self.random.one_in(4),
            create: !self.random.one_in(3),
            exclusive: self.random.one_in(8),
            truncate: write && self.random.one_in(5),
            direct: false,
        };
        let flags = OpenFlags { exclusive: flags.exclusive && flags.create, ..flags };
        Operation::Open { slot: self.slot(), path: self.path(), flags, mode: self.mode() }
    }

    fn unnamed(&mut self) -> Operation {
        match self.random.one_in(2) {
            true => Operation::OpenUnnamed {
                slot: self.slot(),
                path: self.path(),
                mode: self.mode(),
                exclusive: self.random.one_in(4),
            },
            false => Operation::LinkOpen { slot: self.slot(), new: self.path() },
        }
    }

    fn fallocate(&mut self) -> Operation {
        let modes = [
            FallocateMode::Extend,
            FallocateMode::KeepSize,
            FallocateMode::PunchHole,
            FallocateMode::ZeroRange,
            FallocateMode::ZeroKeepSize,
            FallocateMode::CollapseRange,
            FallocateMode::InsertRange,
        ];
        let mode = *self.random.pick(&modes);
        let (mut offset, mut length) = (self.offset(), self.offset());
        let shifts = matches!(mode, FallocateMode::CollapseRange | FallocateMode::InsertRange);
        if shifts && !self.random.one_in(4) {
            // A range that is not of whole blocks is refused.
            offset = offset / 4 / 4096 * 4096;
            length = (length / 4 / 4096 + 1) * 4096;
        }
        Operation::Fallocate { slot: self.slot(), mode, offset, length }
    }

    fn slot(&mut self) -> Slot {
        self.random.below(u64::from(self.repertoire.slots)) as Slot
    }

    /// Often on or beside a block boundary.
    fn offset(&mut self) -> u64 {
        let offset = self.random.below(self.repertoire.offset_max);
        match self.random.below(4) {
            0 => 0,
            1 => offset / 4096 * 4096,
            2 => (offset / 4096 * 4096 + self.random.below(3)).saturating_sub(1),
            _ => offset,
        }
    }

    fn pattern(&mut self) -> Pattern {
        let max = u64::from(self.repertoire.write_bytes_max);
        let length = match self.random.below(5) {
            0 => self.random.below(64.min(max)),
            1 => 4096.min(max),
            _ => self.random.below(max),
        };
        Pattern { seed: self.random.next(), length: length as u32 }
    }

    fn mode(&mut self) -> u32 {
        match self.random.below(4) {
            0 => self.random.below(0o10000) as u32,
            1 => 0o755,
            _ => 0o644,
        }
    }

    fn id(&mut self) -> u32 {
        *self.random.pick(&[u32::MAX, 0, 1, 1000])
    }

    fn time(&mut self) -> Timestamp {
        Timestamp {
            seconds: self.random.below(2_000_000_000) as i64,
            nanoseconds: self.random.below(1_000_000_000) as u32,
        }
    }

    fn name(&mut self) -> Vec<u8> {
        self.random.pick(&[&b"a"[..], b"b", b"c", b"d", b"e", b"caf\xe9 x"]).to_vec()
    }

    /// Up to three components.
    fn path(&mut self) -> PathText {
        let mut path = Vec::new();
        for _ in 0..1 + self.random.below(3).min(self.random.below(3)) {
            path.push(b'/');
            path.extend(self.name());
        }
        if self.repertoire.hostile && self.random.one_in(25) {
            match self.random.below(7) {
                0 => path.extend(b"/"),
                1 => path.extend(b"/."),
                2 if self.repertoire.climbing => path.extend(b"/.."),
                3 if self.repertoire.climbing => path = b"/".to_vec(),
                4 => path.clear(),
                5 => path.extend([b'n'; 256]),
                _ => path.extend(b"/./a".repeat(1100)),
            }
        } else if self.repertoire.climbing && self.random.one_in(12) {
            path.extend(b"/../");
            path.extend(self.name());
        }
        PathText(path)
    }

    fn target(&mut self) -> PathText {
        let path = self.path();
        match path.as_bytes() {
            [b'/', relative @ ..] if !self.repertoire.climbing || self.random.one_in(2) => {
                PathText(relative.to_vec())
            }
            _ => path,
        }
    }
}
