//! The requests of a process, and their responses.
//!
//! A frame is a little-endian u32 length, then that many bytes of postcard.

use super::once::Once;
use cuesta_format::wire::StoreTotals;
use cuesta_format::{CallerId, FileKind, InodeNumber, InodeRecord, LogDependency, StoreId, WRITE_BYTES_MAX};
use cuesta_libfs::{
    Allocation, Asker, CallByNumber, Error, ExtendedFlags, NewMode, RenameFlags, Resolve, SetAttributes,
    ShippedChange, ShippedFile, Whence,
};
use serde::{Deserialize, Serialize};

/// Version of the protocol; both sides must agree.
pub const VERSION: u32 = 10;
/// Most bytes of one read.
pub const READ_BYTES_MAX: usize = 1 << 20;
/// Longest frame, in bytes: a whole write and what says where it goes.
pub(crate) const FRAME_BYTES_MAX: usize = WRITE_BYTES_MAX + (64 << 10);

/// Where a path starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PathBase {
    /// The store's root.
    Root,
    /// An open directory.
    Directory(u64),
    /// A directory that the process has open in a session: for the store's own user and root.
    Inode(InodeNumber),
}

/// The subject of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Subject<'a> {
    /// The inode that a path names.
    Path {
        /// Where it starts.
        place: PathBase,
        /// The path.
        #[serde(borrow, with = "serde_bytes")]
        path: &'a [u8],
        /// Whether a symbolic link at its end is followed.
        follow: bool,
    },
    /// An open file.
    File(u64),
}

/// Where in a file is read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Offset {
    /// There.
    At(i64),
    /// At the file's own offset, which moves. A client without an answer asks the next daemon for the same `operation`: a number that
    /// no other call has.
    #[allow(missing_docs)]
    Own { operation: u64 },
}

/// A request. Open files go by the numbers their answers gave, which only this connection knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum Request<'a> {
    /// First message. Answered [`Response::Welcome`].
    Hello {
        version: u32,
    },
    /// No file is to grow beyond so many bytes (`RLIMIT_FSIZE`).
    Limit {
        bytes: u64,
    },
    /// Answered [`Response::Opened`]; descriptor: the token.
    Open {
        place: PathBase,
        #[serde(borrow, with = "serde_bytes")]
        path: &'a [u8],
        flags: i32,
        mode: NewMode,
        resolve: Resolve,
    },
    /// Opens what an open file is of once more, if its mode allows it. Answered as `Open`.
    Reopen {
        file: u64,
        flags: i32,
    },
    /// The file whose token comes with the message. Answered [`Response::Opened`], without a token.
    Redeem,
    /// A process of the store's own user or of root, which is about to become another user, keeps a file it has open.
    /// Nobody else may ask that. Answered as `Open`.
    /// If processes share the offset, a memory file comes with the message, and `cell` is where in it the offset is.
    Adopt {
        inode: InodeNumber,
        flags: i32,
        offset: u64,
        cell: Option<u64>,
    },
    /// The process has let go of the token.
    Close {
        file: u64,
    },
    Read {
        file: u64,
        count: u32,
        place: Offset,
    },
    Write {
        file: u64,
        place: Offset,
        appends: bool,
        #[serde(borrow, with = "serde_bytes")]
        data: &'a [u8],
    },
    Seek {
        file: u64,
        offset: i64,
        whence: Whence,
    },
    SetFlags {
        file: u64,
        flags: i32,
    },
    Truncate {
        subject: Subject<'a>,
        size: i64,
    },
    Allocate {
        file: u64,
        what: Allocation,
        offset: i64,
        length: i64,
    },
    Fsync {
        file: u64,
    },
    /// The disk has everything that SharedFS performed when it is answered. Answered [`Response::Done`].
    Sync,
    /// The disk has everything that had returned in the store before this was asked. Answered [`Response::Done`].
    Dsync,
    /// Names from the file's offset on, about so many bytes of them. Answered [`Response::Entries`].
    List {
        file: u64,
        bytes: u32,
    },
    Stat {
        subject: Subject<'a>,
    },
    Access {
        subject: Subject<'a>,
        rights: u32,
    },
    ReadLink {
        subject: Subject<'a>,
    },
    SetAttributes {
        subject: Subject<'a>,
        set: SetAttributes,
    },
    MakeDirectory {
        place: PathBase,
        #[serde(borrow, with = "serde_bytes")]
        path: &'a [u8],
        mode: NewMode,
    },
    MakeNode {
        place: PathBase,
        #[serde(borrow, with = "serde_bytes")]
        path: &'a [u8],
        mode: NewMode,
        device: u64,
    },
    MakeLink {
        #[serde(borrow, with = "serde_bytes")]
        target: &'a [u8],
        place: PathBase,
        #[serde(borrow, with = "serde_bytes")]
        path: &'a [u8],
    },
    Link {
        from: Subject<'a>,
        place: PathBase,
        #[serde(borrow, with = "serde_bytes")]
        path: &'a [u8],
    },
    Unlink {
        place: PathBase,
        #[serde(borrow, with = "serde_bytes")]
        path: &'a [u8],
        directory: bool,
    },
    Rename {
        place: PathBase,
        #[serde(borrow, with = "serde_bytes")]
        path: &'a [u8],
        new_place: PathBase,
        #[serde(borrow, with = "serde_bytes")]
        new_path: &'a [u8],
        flags: RenameFlags,
    },
    GetExtended {
        subject: Subject<'a>,
        #[serde(borrow, with = "serde_bytes")]
        name: &'a [u8],
    },
    ListExtended {
        subject: Subject<'a>,
    },
    SetExtended {
        subject: Subject<'a>,
        #[serde(borrow, with = "serde_bytes")]
        name: &'a [u8],
        #[serde(borrow, with = "serde_bytes")]
        value: &'a [u8],
        flags: ExtendedFlags,
    },
    RemoveExtended {
        subject: Subject<'a>,
        #[serde(borrow, with = "serde_bytes")]
        name: &'a [u8],
    },
    /// Answered [`Response::Done`]; descriptor: the one that the kernel has the file's locks on.
    LockFile {
        file: u64,
    },
    /// The descriptor that comes with the message is what the kernel has the locks on of a file just kept by `Adopt`.
    AdoptLocks {
        file: u64,
    },
    /// Files that no process has any more are closed, and their locks gone, when it is answered. Times of last access are told.
    Settle,
    /// Where an open directory lies. Answered [`Response::Bytes`].
    DirectoryPath {
        file: u64,
        #[serde(borrow, with = "serde_bytes")]
        guess: &'a [u8],
    },
    /// Totals, as far as what it is about may have them. Answered [`Response::Totals`].
    Statfs {
        subject: Subject<'a>,
    },
    /// Reads a file that SharedFS keeps for sessions that share it. This and the next three are for the store's own user and
    /// root. Answered [`Response::Bytes`].
    ShippedRead {
        file: ShippedFile,
        at: u64,
        count: u32,
    },
    /// Writes to such a file, at the end without an offset. Answered [`Response::Written`].
    ShippedWrite {
        file: ShippedFile,
        at: Option<u64>,
        #[serde(borrow, with = "serde_bytes")]
        data: &'a [u8],
    },
    /// Changes such a file otherwise.
    ShippedChange {
        file: ShippedFile,
        change: ShippedChange,
    },
    /// Answered [`Response::Record`].
    ShippedStat {
        file: ShippedFile,
    },
    /// A call that names inodes by their numbers, for a process whose rights the sender's kernel has checked. This is for the
    /// store's own user and root. Answered [`Response::Record`] or [`Response::Done`].
    ByNumber {
        who: Asker,
        #[serde(borrow)]
        call: CallByNumber<'a>,
    },
    /// The process has no other capabilities than these, whatever goes with its user.
    Capabilities {
        bits: u64,
    },
    /// The process is a caller of before, which the last daemon knew. Answered [`Response::Done`].
    Identify {
        caller: CallerId,
    },
    /// No message of its own: the call that follows in the same one is executed exactly once.
    Once(Once),
    /// A ring beside the socket. Answered [`Response::Done`]; descriptor: its memory. Its lane 0 is served.
    Ring,
    /// Another lane of the ring, which is served once it is answered.
    Lane {
        lane: u32,
    },
    /// A request in a lane waits for long: perhaps its thread waits for a processor. From now on they may use all.
    Unheard,
    /// A number for a file that is to be made. This and the next one are for the store's own user and root.
    Reserve,
    /// Makes a file that the process has open already, with a number that was reserved. Answered [`Response::Made`].
    MakeFile {
        place: PathBase,
        #[serde(borrow, with = "serde_bytes")]
        path: &'a [u8],
        mode: NewMode,
        inode: InodeNumber,
        /// For a process whose rights the sender's kernel has checked; else for the sender.
        who: Option<Asker>,
    },
}

impl Request<'_> {
    /// Whether it may change what other processes see. Then it is sent with a number, by which a daemon that is asked again
    /// knows whether it was executed: executed twice, it could undo what others did between.
    pub(crate) fn may_change(&self) -> bool {
        match self {
            Request::Open { flags, .. } => flags & (libc::O_CREAT | libc::O_TRUNC) != 0,
            Request::Seek { offset, whence, .. } => *whence == Whence::Current && *offset != 0,
            Request::ShippedChange { change, .. } => *change != ShippedChange::Sync,
            Request::ByNumber { call, .. } => call.may_change(),
            Request::Write { .. }
            | Request::ShippedWrite { .. }
            | Request::Truncate { .. }
            | Request::Allocate { .. }
            | Request::SetAttributes { .. }
            | Request::MakeDirectory { .. }
            | Request::MakeNode { .. }
            | Request::MakeFile { .. }
            | Request::MakeLink { .. }
            | Request::Link { .. }
            | Request::Unlink { .. }
            | Request::Rename { .. }
            | Request::SetExtended { .. }
            | Request::RemoveExtended { .. } => true,
            // The adopted file went with the token, which no process has.
            Request::Adopt { .. }
            | Request::AdoptLocks { .. }
            | Request::Hello { .. }
            | Request::Limit { .. }
            | Request::Reopen { .. }
            | Request::Redeem
            | Request::Close { .. }
            | Request::Read { .. }
            | Request::SetFlags { .. }
            | Request::Fsync { .. }
            | Request::Sync
            | Request::Dsync
            | Request::List { .. }
            | Request::Stat { .. }
            | Request::Access { .. }
            | Request::ReadLink { .. }
            | Request::GetExtended { .. }
            | Request::ListExtended { .. }
            | Request::LockFile { .. }
            | Request::Settle
            | Request::DirectoryPath { .. }
            | Request::Capabilities { .. }
            | Request::Identify { .. }
            | Request::Once(_)
            | Request::ShippedRead { .. }
            | Request::ShippedStat { .. }
            | Request::Statfs { .. }
            | Request::Ring
            | Request::Lane { .. }
            | Request::Reserve
            | Request::Unheard => false,
        }
    }

    /// Whether a ring can carry it: the request, or its answer, has no descriptor beside it.
    pub(crate) fn goes_by_ring(&self) -> bool {
        !matches!(
            self,
            Request::Hello { .. }
                | Request::Capabilities { .. }
                | Request::Identify { .. }
                | Request::Once(_)
                | Request::Open { .. }
                | Request::Reopen { .. }
                | Request::Redeem
                | Request::Adopt { .. }
                | Request::AdoptLocks { .. }
                | Request::LockFile { .. }
                | Request::Ring
                | Request::Lane { .. }
                | Request::Unheard
        )
    }
}

/// One name of a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The inode it names.
    pub inode: InodeNumber,
    /// The offset at which reading goes on behind it.
    pub next_cookie: u64,
    /// The kind of what it names.
    pub kind: FileKind,
    /// The name.
    #[serde(with = "serde_bytes")]
    pub name: Vec<u8>,
}

/// An answer by the socket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Answered {
    pub(crate) response: Response,
    /// The part of the log of SharedFS's session that it rests on, if the disk may lack some of it.
    pub(crate) log_end: Option<LogDependency>,
}

/// A response.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum Response {
    Welcome {
        store: StoreId,
    },
    Opened {
        file: u64,
        inode: InodeNumber,
        kind: FileKind,
        flags: i32,
    },
    Done,
    /// The bytes of a read, and other strings of bytes.
    Bytes(#[serde(with = "serde_bytes")] Vec<u8>),
    /// Bytes written, or an offset.
    Number(u64),
    Entries(Vec<Entry>),
    Record(InodeRecord),
    Totals(StoreTotals),
    Failed(Error),
    /// So many bytes, up to an offset.
    Written {
        count: u64,
        end: u64,
    },
    /// The file, and a number for the next one.
    Made {
        record: InodeRecord,
        next: InodeNumber,
    },
}
