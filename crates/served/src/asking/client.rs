//! The asking end: calls of a process that is another user than the store's, as LibFS has them.

use crate::asking::line::{Line, greet, unexpected};
use crate::protocol::call::{Numbering, Numbers, OwnSession};

use crate::asking::content::Content;
use crate::asking::open_file::OpenFile;
use crate::protocol::messages::{Offset, PathBase, READ_BYTES_MAX, Request, Response, Subject};
use crate::ring::client::Ring;
use crate::ring::free::FreeLanes;
use cuesta_format::wire::StoreTotals;
use cuesta_format::{InodeNumber, InodeRecord, StoreId};
use cuesta_libfs::{
    Allocation, Capabilities, DirectoryItem, Error, ExtendedFlags, NewMode, RenameFlags, Resolve,
    SetAttributes, Whence,
};
use cuesta_media::{UserSlice, UserSliceMut};
use parking_lot::{Mutex, RwLock};
use rustix::fd::{AsRawFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// About so many bytes of names are asked for at once.
const LIST_BYTES: u32 = 32 << 10;

/// The owner of files that are open by a connection. It can go on with the next daemon as it did with the last.
pub trait Holder: std::fmt::Debug + Send + Sync {
    /// Where the daemon listens.
    fn path(&self) -> Vec<u8>;
    /// Shows every file that is open, with its token.
    fn show(&self, see: &mut dyn FnMut(&OpenFile, BorrowedFd<'_>));
    /// Starts a daemon, if the process starts any. Says whether one listens now.
    fn start_daemon(&self) -> bool {
        false
    }
}

/// A connection to the daemon.
#[derive(Debug)]
pub struct Client {
    pub(crate) line: Mutex<Line>,
    /// The ring beside the line, once the process has asked often enough.
    pub(crate) ring: RwLock<Option<Arc<Ring>>>,
    pub(crate) descriptor_floor: i32,
    pub(crate) store: StoreId,
    pub(crate) holder: Option<Arc<dyn Holder>>,
    /// The number of the next call that moves an offset.
    operation: AtomicU64,
    /// The largest a file may get.
    pub(crate) limit: AtomicU64,
    /// What calls are known by.
    pub(crate) numbers: Arc<Numbers>,
    /// The lanes of the ring that no thread has; those of the next ring, too.
    pub(crate) lanes: Arc<FreeLanes<AtomicU32>>,
    /// The capabilities of the process, if it has fewer than its user.
    pub(crate) capabilities: Option<Capabilities>,
    /// Numbers for files that are to be made.
    pub(crate) reserved: Mutex<Vec<InodeNumber>>,
}

impl Client {
    /// Connects to the socket at `path`. Every descriptor that comes is `descriptor_floor` or higher.
    pub fn connect(path: &[u8], descriptor_floor: i32) -> Result<Client, Error> {
        let (frames, store) = greet(path, descriptor_floor)?;
        let numbering = Numbering::new()?;
        let operation = AtomicU64::new(numbering.random());
        Ok(Client {
            numbers: numbering.numbers(),
            lanes: Arc::default(),
            line: Mutex::new(Line::new(frames, numbering)),
            ring: RwLock::new(None),
            descriptor_floor,
            store,
            holder: None,
            operation,
            limit: AtomicU64::new(u64::MAX),
            capabilities: None,
            reserved: Mutex::default(),
        })
    }

    /// Calls are judged by no other capabilities than these, of those that go with the user.
    pub fn within(self, capabilities: Capabilities) -> Result<Client, Error> {
        self.done(&Request::Capabilities { bits: capabilities.bits() })?;
        Ok(Client { capabilities: Some(capabilities), ..self })
    }

    /// Its calls go beside those of a session of the process: on a disk the logs of both depend on each other.
    #[must_use]
    pub fn beside(self, session: Arc<dyn OwnSession>) -> Client {
        let _ = self.numbers.beside.set(session);
        self
    }

    /// It outlives its daemon: `holder` knows what to tell the next one.
    #[must_use]
    pub fn held_by(self, holder: Arc<dyn Holder>) -> Client {
        Client { holder: Some(holder), ..self }
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> StoreId {
        self.store
    }

    /// The connection, by its number.
    #[must_use]
    pub fn descriptor(&self) -> i32 {
        self.line.lock().frames.socket.as_raw_fd()
    }

    /// Ends the connection: calls fail from now on.
    pub fn hang_up(&self) {
        let _ = rustix::net::shutdown(&self.line.lock().frames.socket, rustix::net::Shutdown::Both);
    }

    /// Goes on with `copy` for the descriptor `number`, which is answered; `copy` itself if it is not ours.
    #[must_use]
    pub fn replace_descriptor(&self, number: i32, copy: OwnedFd) -> OwnedFd {
        let socket = &mut self.line.lock().frames.socket;
        if socket.as_raw_fd() == number { std::mem::replace(socket, copy) } else { copy }
    }

    /// Whether calls go by a ring.
    #[must_use]
    pub fn has_ring(&self) -> bool {
        self.ring.read().is_some()
    }

    pub(crate) fn done(&self, request: &Request<'_>) -> Result<(), Error> {
        match self.ask(request)? {
            Response::Done => Ok(()),
            _ => Err(unexpected()),
        }
    }

    pub(crate) fn number(&self, request: &Request<'_>) -> Result<u64, Error> {
        match self.ask(request)? {
            Response::Number(number) => Ok(number),
            _ => Err(unexpected()),
        }
    }

    pub(crate) fn bytes(&self, request: &Request<'_>) -> Result<Vec<u8>, Error> {
        match self.ask(request)? {
            Response::Bytes(bytes) => Ok(bytes),
            _ => Err(unexpected()),
        }
    }

    /// Asks for bytes, and has `take` take them from where they lie.
    pub(crate) fn content<T>(
        &self,
        request: &Request<'_>,
        mut take: impl FnMut(Content<'_>) -> T,
    ) -> Result<T, Error> {
        let answer = self.ask_then(request, |answer| match answer.content() {
            Some(content) => Some(Ok(take(content))),
            None => answer.decode().map(Err),
        })?;
        match answer {
            Ok(taken) => Ok(taken),
            Err(Response::Bytes(bytes)) => Ok(take(Content::Message(&bytes))),
            Err(_) => Err(unexpected()),
        }
    }

    fn opened(&self, request: &Request<'_>) -> Result<(OpenFile, OwnedFd), Error> {
        match self.ask_with(request, None)? {
            (Response::Opened { file, inode, kind, flags }, Some(token)) => {
                Ok((OpenFile::new(file, inode, kind, flags), token))
            }
            (Response::Opened { .. }, None) => Err(Error::Descriptors),
            _ => Err(unexpected()),
        }
    }

    /// No file is to grow beyond so many bytes.
    pub fn limit_files(&self, bytes: u64) {
        self.limit.store(bytes, Ordering::Relaxed);
        // That the daemon is gone shows elsewhere.
        let _ = self.done(&Request::Limit { bytes });
    }

    /// `open`. Answers the file and its token.
    pub fn open(
        &self,
        place: PathBase,
        path: &[u8],
        flags: i32,
        mode: NewMode,
        resolve: Resolve,
    ) -> Result<(OpenFile, OwnedFd), Error> {
        self.opened(&Request::Open { place, path, flags, mode, resolve })
    }

    /// Opens what an open file is of once more.
    pub fn reopen(&self, file: &OpenFile, flags: i32) -> Result<(OpenFile, OwnedFd), Error> {
        self.opened(&Request::Reopen { file: file.number(), flags })
    }

    /// The file whose token this is.
    pub fn redeem(&self, token: BorrowedFd<'_>) -> Result<OpenFile, Error> {
        match self.ask_with(&Request::Redeem, Some(token))? {
            (Response::Opened { file, inode, kind, flags }, _) => Ok(OpenFile::new(file, inode, kind, flags)),
            _ => Err(unexpected()),
        }
    }

    /// For a process that is about to become another user: the token of a file it has open. `shared` is the memory
    /// file in which the offset is at a place, if it is shared by memory; `locks` what the kernel has its locks on, if
    /// it may have some.
    pub fn adopt(
        &self,
        inode: InodeNumber,
        flags: i32,
        offset: u64,
        shared: Option<(BorrowedFd<'_>, u64)>,
        locks: Option<BorrowedFd<'_>>,
    ) -> Result<OwnedFd, Error> {
        let cell = shared.map(|(_, place)| place);
        let request = Request::Adopt { inode, flags, offset, cell };
        let (file, token) = match self.ask_with(&request, shared.map(|(file, _)| file))? {
            (Response::Opened { file, .. }, Some(token)) => (file, token),
            (Response::Opened { .. }, None) => return Err(Error::Descriptors),
            _ => return Err(unexpected()),
        };
        if let Some(locks) = locks {
            match self.ask_with(&Request::AdoptLocks { file }, Some(locks))? {
                (Response::Done, _) => {}
                _ => return Err(unexpected()),
            }
        }
        Ok(token)
    }

    /// The process has let go of the file's token.
    pub fn close(&self, file: &OpenFile) -> Result<(), Error> {
        self.done(&Request::Close { file: file.number() })
    }

    /// Where a call reads or writes.
    fn place(&self, at: Option<i64>) -> Offset {
        at.map_or_else(
            || Offset::Own { operation: self.operation.fetch_add(1, Ordering::Relaxed).max(1) },
            Offset::At,
        )
    }

    /// Reads at `at`, or at the file's offset, which moves.
    pub fn read(
        &self,
        file: &OpenFile,
        out: &mut [UserSliceMut<'_>],
        at: Option<i64>,
    ) -> Result<usize, Error> {
        file.check_readable()?;
        let wanted: usize = out.iter().map(UserSliceMut::len).sum();
        let mut done = 0;
        loop {
            let count = (wanted - done).min(READ_BYTES_MAX) as u32;
            let place = self.place(at.map(|at| at.saturating_add(done as i64)));
            let request = Request::Read { file: file.number(), count, place };
            let read = match self.content(&request, |content| (content.len(), content.scatter(out, done))) {
                Err(_) if done > 0 => return Ok(done),
                Err(error) => return Err(error),
                Ok((read, Ok(()))) => read,
                Ok((_, Err(copied))) if done + copied > 0 => return Ok(done + copied),
                Ok((_, Err(_))) => return Err(Error::Fault),
            };
            done += read;
            if read < count as usize || done >= wanted {
                return Ok(done);
            }
        }
    }

    /// Writes at `at`, or at the file's offset, which moves; at the end, if it `appends`.
    pub fn write(
        &self,
        file: &OpenFile,
        data: &[UserSlice<'_>],
        at: Option<i64>,
        appends: bool,
    ) -> Result<usize, Error> {
        file.check_writable()?;
        let (file, place) = (file.number(), self.place(at));
        match self.ask_writing(data, |data| Request::Write { file, place, appends, data })? {
            Response::Number(written) => Ok(written as usize),
            _ => Err(unexpected()),
        }
    }

    /// `lseek`.
    pub fn seek(&self, file: &OpenFile, offset: i64, whence: Whence) -> Result<u64, Error> {
        self.number(&Request::Seek { file: file.number(), offset, whence })
    }

    /// `fcntl(F_SETFL)`.
    pub fn set_flags(&self, file: &OpenFile, flags: i32) -> Result<(), Error> {
        self.done(&Request::SetFlags { file: file.number(), flags })?;
        file.note_flags(flags);
        Ok(())
    }

    /// `truncate` and `ftruncate`.
    pub fn truncate(&self, subject: Subject<'_>, size: i64) -> Result<(), Error> {
        self.done(&Request::Truncate { subject, size })
    }

    /// `fallocate`.
    pub fn allocate(&self, file: &OpenFile, what: Allocation, offset: i64, length: i64) -> Result<(), Error> {
        self.done(&Request::Allocate { file: file.number(), what, offset, length })
    }

    /// `fsync`.
    pub fn fsync(&self, file: &OpenFile) -> Result<(), Error> {
        file.check_not_path()?;
        self.done(&Request::Fsync { file: file.number() })
    }

    /// Waits until the disk has everything that had returned in the store before.
    pub fn dsync(&self) -> Result<(), Error> {
        self.done(&Request::Dsync)
    }

    /// Hands names to `sink`, from the file's offset on, until it takes no more.
    pub fn read_directory(
        &self,
        file: &OpenFile,
        sink: &mut dyn FnMut(DirectoryItem<'_>) -> bool,
    ) -> Result<(), Error> {
        loop {
            let request = Request::List { file: file.number(), bytes: LIST_BYTES };
            let Response::Entries(entries) = self.ask(&request)? else {
                return Err(unexpected());
            };
            let mut taken = None;
            let mut is_over = entries.is_empty();
            for entry in &entries {
                let next_cookie = entry.next_cookie;
                let item =
                    DirectoryItem { inode: entry.inode, next_cookie, kind: entry.kind, name: &entry.name };
                if !sink(item) {
                    is_over = true;
                    break;
                }
                taken = Some(next_cookie);
            }
            if let Some(cookie) = taken {
                self.seek(file, cookie as i64, Whence::Set)?;
            }
            if is_over {
                return Ok(());
            }
        }
    }

    /// `stat` and its kin.
    pub fn stat(&self, subject: Subject<'_>) -> Result<InodeRecord, Error> {
        match self.ask(&Request::Stat { subject })? {
            Response::Record(record) => Ok(record),
            _ => Err(unexpected()),
        }
    }

    /// `access`.
    pub fn access(&self, subject: Subject<'_>, rights: u32) -> Result<(), Error> {
        self.done(&Request::Access { subject, rights })
    }

    /// `readlink`.
    pub fn read_link(&self, subject: Subject<'_>) -> Result<Vec<u8>, Error> {
        self.bytes(&Request::ReadLink { subject })
    }

    /// `chmod`, `chown` and `utimensat` in one.
    pub fn set_attributes(&self, subject: Subject<'_>, set: SetAttributes) -> Result<(), Error> {
        self.done(&Request::SetAttributes { subject, set })
    }

    /// `mkdir`.
    pub fn make_directory(&self, place: PathBase, path: &[u8], mode: NewMode) -> Result<(), Error> {
        self.done(&Request::MakeDirectory { place, path, mode })
    }

    /// `mknod`.
    pub fn make_node(
        &self,
        place: PathBase,
        path: &[u8],
        mode: NewMode,
        device: u64,
    ) -> Result<InodeNumber, Error> {
        self.number(&Request::MakeNode { place, path, mode, device }).map(InodeNumber)
    }

    /// `symlink`.
    pub fn symlink(&self, target: &[u8], place: PathBase, path: &[u8]) -> Result<(), Error> {
        self.done(&Request::MakeLink { target, place, path })
    }

    /// `link`.
    pub fn link(&self, from: Subject<'_>, place: PathBase, path: &[u8]) -> Result<(), Error> {
        self.done(&Request::Link { from, place, path })
    }

    /// `unlink`, or `rmdir` of a `directory`.
    pub fn unlink(&self, place: PathBase, path: &[u8], directory: bool) -> Result<(), Error> {
        self.done(&Request::Unlink { place, path, directory })
    }

    /// `rename`.
    pub fn rename(
        &self,
        (place, path): (PathBase, &[u8]),
        (new_place, new_path): (PathBase, &[u8]),
        flags: RenameFlags,
    ) -> Result<(), Error> {
        self.done(&Request::Rename { place, path, new_place, new_path, flags })
    }

    /// The value of an extended attribute.
    pub fn get_extended(&self, subject: Subject<'_>, name: &[u8]) -> Result<Vec<u8>, Error> {
        self.bytes(&Request::GetExtended { subject, name })
    }

    /// The names of extended attributes, each with a zero byte behind it.
    pub fn list_extended(&self, subject: Subject<'_>) -> Result<Vec<u8>, Error> {
        self.bytes(&Request::ListExtended { subject })
    }

    /// Gives a file an extended attribute.
    pub fn set_extended(
        &self,
        subject: Subject<'_>,
        name: &[u8],
        value: &[u8],
        flags: ExtendedFlags,
    ) -> Result<(), Error> {
        self.done(&Request::SetExtended { subject, name, value, flags })
    }

    /// Takes an extended attribute away.
    pub fn remove_extended(&self, subject: Subject<'_>, name: &[u8]) -> Result<(), Error> {
        self.done(&Request::RemoveExtended { subject, name })
    }

    /// The descriptor that the kernel has the file's locks on: the same for all who have the file.
    pub fn lock_file(&self, file: &OpenFile) -> Result<OwnedFd, Error> {
        match self.ask_with(&Request::LockFile { file: file.number() }, None)? {
            (Response::Done, Some(locks)) => Ok(locks),
            (Response::Done, None) => Err(Error::Descriptors),
            _ => Err(unexpected()),
        }
    }

    /// Has files closed, with their locks, that no process has any more.
    pub fn settle(&self) -> Result<(), Error> {
        self.done(&Request::Settle)
    }

    /// Where an open directory lies.
    pub fn directory_path(&self, file: &OpenFile, guess: &[u8]) -> Result<Vec<u8>, Error> {
        self.bytes(&Request::DirectoryPath { file: file.number(), guess })
    }

    /// `statfs`.
    pub fn statfs(&self, subject: Subject<'_>) -> Result<StoreTotals, Error> {
        match self.ask(&Request::Statfs { subject })? {
            Response::Totals(totals) => Ok(totals),
            _ => Err(unexpected()),
        }
    }
}
