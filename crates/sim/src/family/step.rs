//! The steps that a member can be told to do, and how a step is chosen.

use super::MEMBERS;
use crate::operations::operation::Pattern;
use crate::operations::random::Random;
use serde::{Deserialize, Serialize};

/// Steps are about descriptors below this.
const DESCRIPTORS: u64 = 8;
const OFFSET_MAX: u64 = 20_000;
const BYTES_MAX: u64 = 9_000;
const LOCKED_MAX: u64 = 20;

/// One call. A path that begins with a slash is below the family's root.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the fields are the parameters of the calls, by their names")]
pub enum Step {
    Open {
        at: Option<i32>,
        path: String,
        flags: i32,
        mode: u32,
    },
    Close {
        fd: i32,
    },
    CloseRange {
        first: i32,
        last: i32,
        close_on_exec: bool,
    },
    Dup {
        fd: i32,
    },
    DupOnto {
        fd: i32,
        onto: i32,
        close_on_exec: bool,
    },
    DupAbove {
        fd: i32,
        least: i32,
        close_on_exec: bool,
    },
    GetCloseOnExec {
        fd: i32,
    },
    SetCloseOnExec {
        fd: i32,
        on: bool,
    },
    GetFlags {
        fd: i32,
    },
    SetFlags {
        fd: i32,
        flags: i32,
    },
    Read {
        fd: i32,
        length: u32,
    },
    ReadAt {
        fd: i32,
        offset: i64,
        length: u32,
    },
    Write {
        fd: i32,
        data: Pattern,
    },
    WriteAt {
        fd: i32,
        offset: i64,
        data: Pattern,
    },
    Seek {
        fd: i32,
        offset: i64,
        whence: i32,
    },
    Truncate {
        fd: i32,
        length: i64,
    },
    Copy {
        from: i32,
        to: i32,
        length: u32,
    },
    Send {
        from: i32,
        to: i32,
        length: u32,
    },
    Map {
        fd: i32,
        length: u32,
    },
    Stat {
        fd: i32,
    },
    StatPath {
        at: Option<i32>,
        path: String,
        follow: bool,
    },
    Access {
        path: String,
        mode: i32,
    },
    List {
        path: String,
    },
    MakeDirectory {
        at: Option<i32>,
        path: String,
        mode: u32,
    },
    Unlink {
        at: Option<i32>,
        path: String,
        directory: bool,
    },
    Rename {
        from: String,
        to: String,
    },
    Link {
        from: String,
        to: String,
    },
    Symlink {
        target: String,
        path: String,
    },
    ReadLink {
        path: String,
    },
    ChangeMode {
        path: String,
        mode: u32,
    },
    ChangeDirectory {
        path: String,
    },
    ChangeDirectoryTo {
        fd: i32,
    },
    WorkingDirectory,
    Umask {
        mask: u32,
    },
    LockWhole {
        fd: i32,
        operation: i32,
    },
    LockRecord {
        fd: i32,
        by_description: bool,
        kind: i32,
        whence: i32,
        start: i64,
        length: i64,
    },
    AskForLock {
        fd: i32,
        by_description: bool,
        kind: i32,
        start: i64,
        length: i64,
    },
    /// Another member begins as a copy of this one.
    Fork {
        member: usize,
    },
    /// Another member begins as a program this one starts.
    Spawn {
        member: usize,
    },
    /// The member becomes a new program.
    Exec,
    /// The member ends.
    Exit,
}

/// Chooses steps.
#[derive(Debug)]
pub struct Chooser {
    random: Random,
}

impl Chooser {
    /// All of its choices follow from `seed`.
    pub fn new(seed: u64) -> Chooser {
        Chooser { random: Random::new(seed) }
    }

    /// The next member and its step; `alive` says which members there are.
    pub fn next(&mut self, alive: &[bool; MEMBERS]) -> (usize, Step) {
        let those = |wanted: bool| (0..MEMBERS).filter(move |&member| alive[member] == wanted);
        let members: Vec<usize> = those(true).collect();
        let absent: Vec<usize> = those(false).collect();
        let member = *self.random.pick(&members);
        let step = match self.random.below(37) {
            0 | 1 if !absent.is_empty() => Step::Fork { member: *self.random.pick(&absent) },
            2 if !absent.is_empty() => Step::Spawn { member: *self.random.pick(&absent) },
            3 => Step::Exec,
            4 if members.len() > 1 => Step::Exit,
            5..12 => self.on_descriptor(),
            12..20 => self.on_content(),
            20..27 => self.on_locks(),
            _ => self.on_path(),
        };
        (member, step)
    }

    fn on_descriptor(&mut self) -> Step {
        let fd = self.fd();
        match self.random.below(11) {
            0 => Step::Close { fd },
            1 if self.random.one_in(3) => Step::CloseRange {
                first: fd,
                last: fd + self.random.below(3) as i32,
                close_on_exec: self.random.one_in(2),
            },
            1..4 => Step::Dup { fd },
            4 | 5 => Step::DupOnto { fd, onto: self.fd(), close_on_exec: self.random.one_in(3) },
            6 => Step::DupAbove { fd, least: self.fd(), close_on_exec: self.random.one_in(3) },
            7 => Step::GetCloseOnExec { fd },
            8 => Step::SetCloseOnExec { fd, on: self.random.one_in(2) },
            9 => Step::GetFlags { fd },
            _ => Step::SetFlags { fd, flags: *self.random.pick(&[0, libc::O_APPEND, libc::O_NONBLOCK]) },
        }
    }

    /// Locks that meet, in few bytes. Nobody waits for one: there is one step at a time.
    fn on_locks(&mut self) -> Step {
        let fd = self.fd();
        let by_description = self.random.one_in(3);
        let kind = i32::from(*self.random.pick(&[libc::F_RDLCK, libc::F_WRLCK, libc::F_UNLCK]) as i16);
        let start = self.random.below(LOCKED_MAX) as i64;
        let length = self.random.below(LOCKED_MAX) as i64 - LOCKED_MAX as i64 / 5;
        match self.random.below(8) {
            0..3 => {
                let operation =
                    *self.random.pick(&[libc::LOCK_SH, libc::LOCK_EX, libc::LOCK_EX, libc::LOCK_UN]);
                Step::LockWhole { fd, operation: operation | libc::LOCK_NB }
            }
            3 => Step::AskForLock { fd, by_description, kind, start, length },
            _ => {
                let whence = if self.random.one_in(4) { libc::SEEK_CUR } else { libc::SEEK_SET };
                Step::LockRecord { fd, by_description, kind, whence, start, length }
            }
        }
    }

    fn on_content(&mut self) -> Step {
        let fd = self.fd();
        let length = self.random.below(BYTES_MAX) as u32;
        match self.random.below(12) {
            0 | 1 => Step::Read { fd, length },
            2 => Step::ReadAt { fd, offset: self.offset(), length },
            3..6 => Step::Write { fd, data: self.data() },
            6 => Step::WriteAt { fd, offset: self.offset(), data: self.data() },
            7 => {
                let whence = *self.random.pick(&[libc::SEEK_SET, libc::SEEK_CUR, libc::SEEK_END]);
                let offset = self.offset() - if whence == libc::SEEK_SET { 0 } else { OFFSET_MAX as i64 / 2 };
                Step::Seek { fd, offset, whence }
            }
            8 => Step::Truncate { fd, length: self.offset() },
            9 => Step::Copy { from: fd, to: self.fd(), length },
            10 => Step::Send { from: fd, to: self.fd(), length },
            _ => Step::Map { fd, length: length + 1 },
        }
    }

    fn on_path(&mut self) -> Step {
        let path = self.path();
        match self.random.below(22) {
            0..7 => Step::Open { at: self.at(), path, flags: self.open_flags(), mode: self.mode() },
            7 => Step::Stat { fd: self.fd() },
            8 => Step::StatPath { at: self.at(), path, follow: self.random.one_in(2) },
            9 => Step::Access { path, mode: *self.random.pick(&[libc::F_OK, libc::R_OK, libc::X_OK]) },
            10 => Step::List { path },
            11 | 12 => Step::MakeDirectory { at: self.at(), path, mode: self.mode() | 0o700 },
            13 => Step::Unlink { at: self.at(), path, directory: self.random.one_in(3) },
            14 => Step::Rename { from: path, to: self.path() },
            15 => Step::Link { from: path, to: self.path() },
            16 => Step::Symlink { target: self.relative_path(&["d/", "e/"]), path },
            17 => Step::ReadLink { path },
            18 => Step::ChangeMode { path, mode: self.mode() },
            19 => Step::ChangeDirectory { path },
            20 => Step::ChangeDirectoryTo { fd: self.fd() },
            _ if self.random.one_in(2) => Step::Umask { mask: *self.random.pick(&[0, 0o022, 0o077]) },
            _ => Step::WorkingDirectory,
        }
    }

    fn open_flags(&mut self) -> i32 {
        let access = *self.random.pick(&[libc::O_RDONLY, libc::O_RDWR, libc::O_RDWR, libc::O_WRONLY]);
        let mut flags = access;
        for (flag, one_in) in [
            (libc::O_CREAT, 2),
            (libc::O_EXCL, 8),
            (libc::O_TRUNC, 6),
            (libc::O_APPEND, 5),
            (libc::O_DIRECTORY, 8),
            (libc::O_NOFOLLOW, 12),
            (libc::O_CLOEXEC, 3),
        ] {
            if self.random.one_in(one_in) {
                flags |= flag;
            }
        }
        flags
    }

    fn fd(&mut self) -> i32 {
        self.random.below(DESCRIPTORS) as i32
    }

    /// Where a path begins: mostly the working directory.
    fn at(&mut self) -> Option<i32> {
        self.random.one_in(4).then(|| self.fd())
    }

    fn offset(&mut self) -> i64 {
        self.random.below(OFFSET_MAX) as i64
    }

    fn mode(&mut self) -> u32 {
        *self.random.pick(&[0o644, 0o600, 0o755, 0o666])
    }

    fn data(&mut self) -> Pattern {
        Pattern { seed: self.random.next(), length: self.random.below(BYTES_MAX) as u32 }
    }

    fn path(&mut self) -> String {
        let path = self.relative_path(&["d/", "e/", "../", "./"]);
        if self.random.one_in(3) { format!("/{path}") } else { path }
    }

    /// Two components at most, so that paths meet; the first, if there are two, is one of `directories`.
    fn relative_path(&mut self, directories: &[&str]) -> String {
        let directory = if self.random.one_in(3) { *self.random.pick(directories) } else { "" };
        let name = *self.random.pick(&["a", "b", "c", "d", "e"]);
        format!("{directory}{name}")
    }
}
