//! The operations a test is made of: one mutating (or observing) call each, in a form that can be
//! written to a file as a line of JSON and read back as a named regression.
//!
//! An operation carries no bulk data: the bytes of a write are a [`Pattern`], and a file that stays
//! open across operations is a small slot number, so that unlinked-but-open files are covered.

pub use crate::operations::path_text::PathText;
use cuesta_format::access_list::Entry;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// The number under which a test keeps an open file.
pub type Slot = u8;

/// The bytes of a write: `length` of them, reproducible from a seed and never zero, so that a hole
/// cannot be mistaken for data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pattern {
    /// Chooses the bytes.
    pub seed: u64,
    /// How many bytes.
    pub length: u32,
}

/// How a file is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OpenFlags {
    /// May read.
    #[serde(skip_serializing_if = "is_false")]
    pub read: bool,
    /// May write.
    #[serde(skip_serializing_if = "is_false")]
    pub write: bool,
    /// Every write goes to the end (O_APPEND).
    #[serde(skip_serializing_if = "is_false")]
    pub append: bool,
    /// O_CREAT.
    #[serde(skip_serializing_if = "is_false")]
    pub create: bool,
    /// O_EXCL.
    #[serde(skip_serializing_if = "is_false")]
    pub exclusive: bool,
    /// O_TRUNC.
    #[serde(skip_serializing_if = "is_false")]
    pub truncate: bool,
    /// O_DIRECT.
    #[serde(skip_serializing_if = "is_false")]
    pub direct: bool,
}

impl OpenFlags {
    /// As open(2) takes them.
    #[must_use]
    pub fn bits(self) -> i32 {
        let access = match (self.read, self.write) {
            (true, true) => libc::O_RDWR,
            (false, true) => libc::O_WRONLY,
            _ => libc::O_RDONLY,
        };
        let wanted = [
            (self.append, libc::O_APPEND),
            (self.create, libc::O_CREAT),
            (self.exclusive, libc::O_EXCL),
            (self.truncate, libc::O_TRUNC),
            (self.direct, libc::O_DIRECT),
        ];
        wanted.iter().filter(|(on, _)| *on).fold(access, |bits, (_, bit)| bits | bit)
    }
}

/// What `fallocate` is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FallocateMode {
    /// Allocate, growing the file.
    Extend,
    /// Allocate, leaving the size alone.
    KeepSize,
    /// Make a hole, leaving the size alone.
    PunchHole,
    /// Zero the range, growing the file.
    ZeroRange,
    /// Zero the range, leaving the size alone.
    ZeroKeepSize,
    /// Take the range out.
    CollapseRange,
    /// Make room.
    InsertRange,
}

/// What setting an extended attribute requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SetCondition {
    /// Nothing.
    Either,
    /// That it is not there (XATTR_CREATE).
    Create,
    /// That it is there (XATTR_REPLACE).
    Replace,
}

/// Extended attributes, by name.
pub type Extended = BTreeMap<PathText, Vec<u8>>;

/// A point in time as `utimensat` takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Timestamp {
    /// Seconds since 1970.
    pub seconds: i64,
    /// Nanoseconds within the second.
    pub nanoseconds: u32,
}

impl FallocateMode {
    /// As fallocate(2) takes it.
    #[must_use]
    pub fn bits(self) -> i32 {
        match self {
            FallocateMode::Extend => 0,
            FallocateMode::KeepSize => libc::FALLOC_FL_KEEP_SIZE,
            FallocateMode::PunchHole => libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE,
            FallocateMode::ZeroRange => libc::FALLOC_FL_ZERO_RANGE,
            FallocateMode::ZeroKeepSize => libc::FALLOC_FL_ZERO_RANGE | libc::FALLOC_FL_KEEP_SIZE,
            FallocateMode::CollapseRange => libc::FALLOC_FL_COLLAPSE_RANGE,
            FallocateMode::InsertRange => libc::FALLOC_FL_INSERT_RANGE,
        }
    }
}

/// One call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the fields are the parameters of the calls, by their names")]
pub enum Operation {
    /// Opens into a slot; a file that was open there is closed first.
    Open {
        slot: Slot,
        path: PathText,
        flags: OpenFlags,
        mode: u32,
    },
    /// Opens a new file without a name, in a directory (O_TMPFILE), to read and write.
    OpenUnnamed {
        slot: Slot,
        path: PathText,
        mode: u32,
        /// It must never get a name (O_EXCL).
        exclusive: bool,
    },
    /// linkat of an open file.
    LinkOpen {
        slot: Slot,
        new: PathText,
    },
    Close {
        slot: Slot,
    },
    /// At the handle's offset, or at the end if it was opened for appending.
    Write {
        slot: Slot,
        data: Pattern,
    },
    Pwrite {
        slot: Slot,
        offset: u64,
        data: Pattern,
    },
    Read {
        slot: Slot,
        length: u32,
    },
    Pread {
        slot: Slot,
        offset: u64,
        length: u32,
    },
    /// lseek(SEEK_SET).
    Seek {
        slot: Slot,
        offset: u64,
    },
    Truncate {
        path: PathText,
        length: u64,
    },
    Ftruncate {
        slot: Slot,
        length: u64,
    },
    Fallocate {
        slot: Slot,
        mode: FallocateMode,
        offset: u64,
        length: u64,
    },
    Fsync {
        slot: Slot,
    },
    Mkdir {
        path: PathText,
        mode: u32,
    },
    /// mknod of anything but a directory and a symlink.
    MakeNode {
        path: PathText,
        kind: Kind,
        mode: u32,
        /// Of a device.
        device: u64,
    },
    Rmdir {
        path: PathText,
    },
    Link {
        existing: PathText,
        new: PathText,
    },
    Symlink {
        target: PathText,
        path: PathText,
    },
    Unlink {
        path: PathText,
    },
    Rename {
        from: PathText,
        to: PathText,
    },
    /// renameat2 with RENAME_EXCHANGE.
    RenameExchange {
        from: PathText,
        to: PathText,
    },
    /// renameat2 with RENAME_NOREPLACE.
    RenameNoReplace {
        from: PathText,
        to: PathText,
    },
    Chmod {
        path: PathText,
        mode: u32,
    },
    Fchmod {
        slot: Slot,
        mode: u32,
    },
    /// `u32::MAX` leaves an id alone. Follows no symlink.
    Lchown {
        path: PathText,
        uid: u32,
        gid: u32,
    },
    /// Sets the modification time (and the access time to the same).
    Utimens {
        path: PathText,
        modified: Timestamp,
    },
    Stat {
        path: PathText,
    },
    Lstat {
        path: PathText,
    },
    Fstat {
        slot: Slot,
    },
    Readlink {
        path: PathText,
    },
    Readdir {
        path: PathText,
    },
    /// setxattr, or lsetxattr where it does not follow.
    SetExtended {
        path: PathText,
        follow: bool,
        name: PathText,
        value: Pattern,
        condition: SetCondition,
    },
    /// fsetxattr.
    FsetExtended {
        slot: Slot,
        name: PathText,
        value: Pattern,
    },
    RemoveExtended {
        path: PathText,
        follow: bool,
        name: PathText,
    },
    GetExtended {
        path: PathText,
        follow: bool,
        name: PathText,
    },
    ListExtended {
        path: PathText,
        follow: bool,
    },
    FlistExtended {
        slot: Slot,
    },
    /// Sets the access control list of what a path names, or the default list of a directory; no entries: takes it
    /// away.
    SetList {
        path: PathText,
        default: bool,
        list: Vec<Entry>,
    },
}

/// The kind of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A named pipe.
    Pipe,
    /// The name of a socket.
    Socket,
    /// A device that takes characters.
    CharacterDevice,
    /// A device that takes blocks.
    BlockDevice,
}

impl Kind {
    /// As `st_mode` has it.
    #[must_use]
    pub fn bits(self) -> u32 {
        match self {
            Kind::File => libc::S_IFREG,
            Kind::Directory => libc::S_IFDIR,
            Kind::Symlink => libc::S_IFLNK,
            Kind::Pipe => libc::S_IFIFO,
            Kind::Socket => libc::S_IFSOCK,
            Kind::CharacterDevice => libc::S_IFCHR,
            Kind::BlockDevice => libc::S_IFBLK,
        }
    }

    /// What `st_mode` says; of a mode that names no kind, a file.
    #[must_use]
    pub fn of_mode(mode: u32) -> Kind {
        let kinds = [
            Kind::Directory,
            Kind::Symlink,
            Kind::Pipe,
            Kind::Socket,
            Kind::CharacterDevice,
            Kind::BlockDevice,
        ];
        kinds.into_iter().find(|kind| kind.bits() == mode & libc::S_IFMT).unwrap_or(Kind::File)
    }
}

/// The result of a stat, as far as it is compared.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Attributes {
    /// File, directory, symlink or another.
    pub kind: Kind,
    /// Permission bits, set-id and sticky bits.
    pub mode: u32,
    /// Number of links; a directory has two and one more for each sub-directory.
    pub links: u32,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// The size in bytes; 0 for directories, as no size is promised for these.
    pub size: u64,
    /// The modification time; `None` where it is "some time of the run".
    pub modified: Option<Timestamp>,
}

/// The answer of a successful operation.
#[derive(Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing but success.
    Done,
    /// How many bytes were written.
    Written(usize),
    /// The bytes that were read.
    Bytes(Vec<u8>),
    /// A stat.
    Attributes(Attributes),
    /// A symlink's target.
    Target(PathText),
    /// The names in a directory, without `.` and `..`, or those of extended attributes; sorted.
    Names(Vec<PathText>),
}

impl Operation {
    /// The slot of the open file it is about.
    pub fn slot_mut(&mut self) -> Option<&mut Slot> {
        use Operation::*;
        match self {
            Open { slot, .. }
            | OpenUnnamed { slot, .. }
            | LinkOpen { slot, .. }
            | Close { slot }
            | Write { slot, .. }
            | Pwrite { slot, .. }
            | Read { slot, .. }
            | Pread { slot, .. }
            | Seek { slot, .. }
            | Ftruncate { slot, .. }
            | Fallocate { slot, .. }
            | Fsync { slot }
            | Fchmod { slot, .. }
            | FsetExtended { slot, .. }
            | FlistExtended { slot }
            | Fstat { slot } => Some(slot),
            _ => None,
        }
    }

    /// The name of the extended attribute it is about.
    pub fn attribute_mut(&mut self) -> Option<&mut PathText> {
        use Operation::*;
        match self {
            SetExtended { name, .. }
            | FsetExtended { name, .. }
            | RemoveExtended { name, .. }
            | GetExtended { name, .. } => Some(name),
            _ => None,
        }
    }

    /// Its path, or the second one of two.
    pub fn path_mut(&mut self, second: bool) -> Option<&mut PathText> {
        use Operation::*;
        match self {
            Link { existing: first, new: other }
            | Rename { from: first, to: other }
            | RenameExchange { from: first, to: other }
            | RenameNoReplace { from: first, to: other } => Some(if second { other } else { first }),
            _ if second => None,
            Open { path, .. }
            | OpenUnnamed { path, .. }
            | LinkOpen { new: path, .. }
            | Truncate { path, .. }
            | Mkdir { path, .. }
            | MakeNode { path, .. }
            | Rmdir { path }
            | Symlink { path, .. }
            | Unlink { path }
            | Chmod { path, .. }
            | Lchown { path, .. }
            | Utimens { path, .. }
            | Stat { path }
            | Lstat { path }
            | Readlink { path }
            | SetExtended { path, .. }
            | RemoveExtended { path, .. }
            | GetExtended { path, .. }
            | ListExtended { path, .. }
            | SetList { path, .. }
            | Readdir { path } => Some(path),
            _ => None,
        }
    }

    /// Whether the call may change what is on the store.
    pub fn is_mutation(&self) -> bool {
        use Operation::*;
        !matches!(
            self,
            Close { .. }
                | Read { .. }
                | Pread { .. }
                | Seek { .. }
                | Fsync { .. }
                | Stat { .. }
                | Lstat { .. }
                | Fstat { .. }
                | Readlink { .. }
                | Readdir { .. }
                | GetExtended { .. }
                | ListExtended { .. }
                | FlistExtended { .. }
        )
    }
}

impl Pattern {
    /// The bytes themselves.
    pub fn bytes(&self) -> Vec<u8> {
        let mut random = crate::operations::random::Random::new(self.seed);
        let mut bytes = Vec::with_capacity(self.length as usize + 8);
        while bytes.len() < self.length as usize {
            let word = random.next() | 0x0101_0101_0101_0101;
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes.truncate(self.length as usize);
        bytes
    }
}

impl Attributes {
    /// Whether `self`, as observed, is what `expected` allows: a modification time is compared
    /// only where it is known.
    pub fn agrees_with(&self, expected: &Attributes) -> bool {
        let modified = expected.modified.and(self.modified);
        Attributes { modified, ..self.clone() } == *expected
    }

    /// The same with no modification time known.
    #[must_use]
    pub fn without_time(self) -> Attributes {
        Attributes { modified: None, ..self }
    }
}

impl Outcome {
    /// Whether `self`, as observed, is what `expected` allows.
    pub fn agrees_with(&self, expected: &Outcome) -> bool {
        match (self, expected) {
            (Outcome::Attributes(left), Outcome::Attributes(right)) => left.agrees_with(right),
            _ => self == expected,
        }
    }
}

/// Whether a call that answered `found` answered what `expected` allows.
pub fn answers_agree(found: &Result<Outcome, Errno>, expected: &Result<Outcome, Errno>) -> bool {
    match (found, expected) {
        (Ok(found), Ok(expected)) => found.agrees_with(expected),
        (found, expected) => found == expected,
    }
}

impl fmt::Debug for Outcome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Done => write!(formatter, "Done"),
            Outcome::Written(count) => write!(formatter, "Written({count})"),
            Outcome::Bytes(bytes) => {
                let head = &bytes[..bytes.len().min(16)];
                write!(formatter, "Bytes({} bytes, {head:02x?}…)", bytes.len())
            }
            Outcome::Attributes(attributes) => write!(formatter, "{attributes:?}"),
            Outcome::Target(target) => write!(formatter, "Target({target})"),
            Outcome::Names(names) => write!(formatter, "Names({names:?})"),
        }
    }
}

fn is_false(value: &bool) -> bool {
    !value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_survive_their_text_form() {
        let operations = [
            Operation::Open {
                slot: 1,
                path: PathText(b"/a b%\xff".to_vec()),
                flags: OpenFlags { write: true, create: true, ..OpenFlags::default() },
                mode: 0o644,
            },
            Operation::Pwrite { slot: 1, offset: 4095, data: Pattern { seed: 7, length: 3 } },
        ];
        for operation in operations {
            let text = serde_json::to_string(&operation).unwrap();
            assert_eq!(serde_json::from_str::<Operation>(&text).unwrap(), operation, "{text}");
        }
    }

    #[test]
    fn patterns_hold_no_zero() {
        let bytes = Pattern { seed: 3, length: 10_001 }.bytes();
        assert_eq!(bytes.len(), 10_001);
        assert!(bytes.iter().all(|byte| *byte != 0));
    }
}
