//! The asking end: calls of a process that is another user than the store's, as LibFS has them.

use crate::frames::{FrameError, Frames};
use crate::open_file::OpenFile;
use crate::protocol::{Offset, Place, READ_BYTES_MAX, Request, Response, Subject, VERSION};
use crate::ring::CALLS_BEFORE_RING;
use crate::ring::client::{NotAnswered, Ring, Socket, Started};
use cuesta_format::wire::StoreTotals;
use cuesta_format::{InodeNumber, InodeRecord, StoreId, WRITE_BYTES_MAX};
use cuesta_libfs::{
    Allocation, DirectoryItem, Error, ExtendedFlags, NewMode, RESUME_WAIT, RenameFlags, Resolve,
    SetAttributes, Whence, patiently,
};
use cuesta_media::{UserSlice, UserSliceMut};
use parking_lot::{Mutex, RwLock};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use rustix::io::{DupFlags, Errno};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// About so many bytes of names are asked for at once.
const LIST_BYTES: u32 = 32 << 10;
/// How long to wait before asking a daemon again that did not answer.
const PAUSE: Duration = Duration::from_millis(5);

/// Who has files open by a connection, and can do with the next daemon what it did with the last.
pub trait Holder: std::fmt::Debug + Send + Sync {
    /// Where the daemon listens.
    fn path(&self) -> Vec<u8>;
    /// Shows every file that is open, with its token.
    fn show(&self, see: &mut dyn FnMut(&OpenFile, BorrowedFd<'_>));
}

/// A connection to the daemon.
#[derive(Debug)]
pub struct Client {
    line: Mutex<Line>,
    /// The ring beside the line, once the process has asked often enough.
    ring: RwLock<Option<Arc<Ring>>>,
    descriptor_floor: i32,
    store: StoreId,
    holder: Option<&'static dyn Holder>,
    /// What the next call is known by that moves an offset.
    operation: AtomicU64,
    /// The largest a file may get.
    limit: AtomicU64,
}

/// The way to the daemon there is.
#[derive(Debug)]
struct Line {
    frames: Frames,
    /// How long the next daemon is waited for. Who waited in vain once asks only once from then on.
    patience: Duration,
    /// Calls until a ring is asked for; 0: it was.
    calls_before_ring: u32,
    /// The daemon that is asked now does not have all the files that were open when it was first asked.
    has_lost_files: bool,
}

/// What a call knows of a daemon that went away while it asked.
#[derive(Debug, Default)]
struct Loss {
    has_lost_files: bool,
    since: Option<Instant>,
}

impl Socket for Mutex<Line> {
    fn start(&self, lane: usize) -> Started {
        let Some(mut line) = self.try_lock() else { return Started::NotNow };
        let request = Request::Lane { lane: lane as u32 };
        let answer = line.frames.send(&request, None).and_then(|()| line.frames.receive::<Response>());
        match answer {
            Ok((Response::Done, _)) => Started::Yes,
            _ => Started::No,
        }
    }

    fn has_hung_up(&self) -> bool {
        let Some(line) = self.try_lock() else { return false };
        let mut socket = [PollFd::new(&line.frames.socket, PollFlags::empty())];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        matches!(poll(&mut socket, Some(&now)), Ok(1..))
    }

    fn tell_unheard(&self) {
        let Some(mut line) = self.try_lock() else { return };
        // If the daemon is gone the next look at the socket shows it.
        let _ = line.frames.send(&Request::Unheard, None).and_then(|()| line.frames.receive::<Response>());
    }
}

impl From<FrameError> for Error {
    fn from(_: FrameError) -> Self {
        Error::Disconnected
    }
}

impl Client {
    /// Connects to the socket at `path`. Every descriptor that comes is `descriptor_floor` or higher.
    pub fn connect(path: &[u8], descriptor_floor: i32) -> Result<Client, Error> {
        let (frames, store) = greet(path, descriptor_floor)?;
        let mut random = [0; 8];
        rustix::rand::getrandom(&mut random[..], rustix::rand::GetRandomFlags::empty())
            .map_err(|errno| Error::Daemon(format!("no random numbers: {errno}")))?;
        Ok(Client {
            line: Mutex::new(Line {
                frames,
                patience: RESUME_WAIT,
                calls_before_ring: CALLS_BEFORE_RING,
                has_lost_files: false,
            }),
            ring: RwLock::new(None),
            descriptor_floor,
            store,
            holder: None,
            operation: AtomicU64::new(u64::from_ne_bytes(random)),
            limit: AtomicU64::new(u64::MAX),
        })
    }

    /// It outlives its daemon: `holder` knows what to tell the next one.
    #[must_use]
    pub fn held_by(self, holder: &'static dyn Holder) -> Client {
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

    pub(crate) fn ask(&self, request: &Request<'_>) -> Result<Response, Error> {
        let mut loss = Loss::default();
        let ring = self.ring.read().clone();
        if let Some(ring) = ring {
            match ring.ask(request, &self.line) {
                Ok(Response::Failed(error)) => return Err(error),
                Ok(response) => return Ok(response),
                Err(NotAnswered::Unsuited) => {}
                Err(NotAnswered::Ended { is_undone }) => {
                    let mut line = self.line.lock();
                    self.renew_after(&ring, &mut line, &mut loss)?;
                    if !is_undone && !request.is_repeatable() {
                        return Err(Error::Disconnected);
                    }
                }
            }
        }
        self.ask_by_socket(request, None, loss).map(|(response, _)| response)
    }

    fn ask_with(
        &self,
        request: &Request<'_>,
        descriptor: Option<BorrowedFd<'_>>,
    ) -> Result<(Response, Option<OwnedFd>), Error> {
        self.ask_by_socket(request, descriptor, Loss::default())
    }

    fn ask_by_socket(
        &self,
        request: &Request<'_>,
        descriptor: Option<BorrowedFd<'_>>,
        mut loss: Loss,
    ) -> Result<(Response, Option<OwnedFd>), Error> {
        let mut line = self.line.lock();
        loop {
            let (error, is_known_undone) = match line.frames.send(request, descriptor) {
                Err(error) => (error, true),
                Ok(()) => match line.frames.receive::<Response>() {
                    Ok((response, token)) => {
                        self.count_call(&mut line);
                        return match response {
                            // The file it is about is one that the next daemon does not have.
                            Response::Failed(Error::AccessMode) if loss.has_lost_files => {
                                Err(Error::Disconnected)
                            }
                            Response::Failed(error) => Err(error),
                            response => Ok((response, token.map(|token| lift(token, self.descriptor_floor)))),
                        };
                    }
                    Err(error) => (error, false),
                },
            };
            let FrameError::Ended(_) = error else { return Err(error.into()) };
            self.renew_in_time(&mut line, &mut loss)?;
            if !is_known_undone && !request.is_repeatable() {
                return Err(Error::Disconnected);
            }
        }
    }

    /// A call was answered by the socket: after some of them a ring is worth its while.
    fn count_call(&self, line: &mut Line) {
        match line.calls_before_ring {
            0 => {}
            1 => self.ask_for_ring(line),
            more => line.calls_before_ring = more - 1,
        }
    }

    /// Asks for a ring, once for each daemon. Without one the socket serves on.
    fn ask_for_ring(&self, line: &mut Line) {
        line.calls_before_ring = 0;
        let answer = line.frames.send(&Request::Ring, None).and_then(|()| line.frames.receive::<Response>());
        match answer {
            Ok((Response::Done, Some(memory))) => *self.ring.write() = Ring::map(&memory).map(Arc::new),
            Ok(_) => {}
            // A daemon that knows of no rings hangs up. If it is gone the next call finds that out.
            Err(_) => drop(self.renew(line)),
        }
    }

    /// A ring's daemon is gone: goes on with the next one, unless another thread has done so.
    fn renew_after(&self, ring: &Arc<Ring>, line: &mut Line, loss: &mut Loss) -> Result<(), Error> {
        let is_current = self.ring.read().as_ref().is_some_and(|current| Arc::ptr_eq(current, ring));
        if is_current {
            return self.renew_in_time(line, loss);
        }
        loss.has_lost_files |= line.has_lost_files;
        Ok(())
    }

    /// Goes on with the next daemon, until so long after the connection was first `lost`: one that is about to end may take
    /// connections, and answer nothing.
    fn renew_in_time(&self, line: &mut Line, loss: &mut Loss) -> Result<(), Error> {
        if self.holder.is_none() {
            return Err(Error::Disconnected);
        }
        let patience = line.patience;
        let began = match loss.since {
            None => *loss.since.insert(Instant::now()),
            Some(began) if began.elapsed() < patience => {
                std::thread::sleep(PAUSE);
                began
            }
            Some(_) => return Err(Error::Disconnected),
        };
        loop {
            match self.renew(line) {
                Err(Error::Disconnected) if began.elapsed() < line.patience => std::thread::sleep(PAUSE),
                renewed => {
                    renewed?;
                    loss.has_lost_files |= line.has_lost_files;
                    if self.ring.read().is_none() {
                        line.calls_before_ring = CALLS_BEFORE_RING;
                    }
                    return Ok(());
                }
            }
        }
    }

    /// Goes on with the next daemon, and notes whether it has not all the files that were open.
    fn renew(&self, line: &mut Line) -> Result<(), Error> {
        let holder = self.holder.ok_or(Error::Disconnected)?;
        let greeted = patiently(line.patience, || greet(&holder.path(), self.descriptor_floor));
        line.patience = if greeted.is_ok() { RESUME_WAIT } else { Duration::ZERO };
        let (mut frames, store) = greeted?;
        if store != self.store {
            return Err(Error::Disconnected);
        }
        let limit = self.limit.load(Ordering::Relaxed);
        if limit != u64::MAX {
            frames.send(&Request::Limit { bytes: limit }, None)?;
            frames.receive::<Response>()?;
        }
        let mut shown = Ok(());
        let mut has_lost_files = false;
        holder.show(&mut |file, token| {
            if shown.is_err() {
                return;
            }
            shown = frames.send(&Request::Redeem, Some(token)).and_then(|()| {
                let is_known = matches!(frames.receive::<Response>()?.0,
                    Response::Opened { file: number, .. } if number == file.number());
                file.note_whether_lost(!is_known);
                has_lost_files |= !is_known;
                Ok(())
            });
        });
        shown?;
        // The number stays: it is known as one of this library's own.
        rustix::io::dup3(&frames.socket, &mut line.frames.socket, DupFlags::CLOEXEC)
            .map_err(|_| Error::Descriptors)?;
        line.has_lost_files = has_lost_files;
        let ring = self.ring.write().take();
        if let Some(ring) = ring {
            ring.end();
            self.ask_for_ring(line);
        }
        Ok(())
    }

    pub(crate) fn done(&self, request: &Request<'_>) -> Result<(), Error> {
        match self.ask(request)? {
            Response::Done => Ok(()),
            _ => Err(unexpected()),
        }
    }

    fn number(&self, request: &Request<'_>) -> Result<u64, Error> {
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
        place: Place,
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
            let bytes = match self.bytes(&Request::Read { file: file.number(), count, place }) {
                Err(_) if done > 0 => return Ok(done),
                read => read?,
            };
            match scatter(&bytes, out, done) {
                Ok(()) => done += bytes.len(),
                Err(copied) if done + copied > 0 => return Ok(done + copied),
                Err(_) => return Err(Error::Fault),
            }
            if bytes.len() < count as usize || done >= wanted {
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
        let bytes = gather(data)?;
        let request = Request::Write { file: file.number(), place: self.place(at), appends, data: &bytes };
        self.number(&request).map(|written| written as usize)
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
    pub fn make_directory(&self, place: Place, path: &[u8], mode: NewMode) -> Result<(), Error> {
        self.done(&Request::MakeDirectory { place, path, mode })
    }

    /// `mknod`.
    pub fn make_node(
        &self,
        place: Place,
        path: &[u8],
        mode: NewMode,
        device: u64,
    ) -> Result<InodeNumber, Error> {
        self.number(&Request::MakeNode { place, path, mode, device }).map(InodeNumber)
    }

    /// `symlink`.
    pub fn symlink(&self, target: &[u8], place: Place, path: &[u8]) -> Result<(), Error> {
        self.done(&Request::MakeLink { target, place, path })
    }

    /// `link`.
    pub fn link(&self, from: Subject<'_>, place: Place, path: &[u8]) -> Result<(), Error> {
        self.done(&Request::Link { from, place, path })
    }

    /// `unlink`, or `rmdir` of a `directory`.
    pub fn unlink(&self, place: Place, path: &[u8], directory: bool) -> Result<(), Error> {
        self.done(&Request::Unlink { place, path, directory })
    }

    /// `rename`.
    pub fn rename(
        &self,
        (place, path): (Place, &[u8]),
        (new_place, new_path): (Place, &[u8]),
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

    /// Has files closed, with their locks, that nobody has any more.
    pub fn settle(&self) -> Result<(), Error> {
        self.done(&Request::Settle)
    }

    /// Where an open directory lies.
    pub fn whereabouts(&self, file: &OpenFile, guess: &[u8]) -> Result<Vec<u8>, Error> {
        self.bytes(&Request::Whereabouts { file: file.number(), guess })
    }

    /// `statfs`.
    pub fn statfs(&self, subject: Subject<'_>) -> Result<StoreTotals, Error> {
        match self.ask(&Request::Statfs { subject })? {
            Response::Totals(totals) => Ok(totals),
            _ => Err(unexpected()),
        }
    }
}

/// Connects, and says which protocol is spoken.
fn greet(path: &[u8], descriptor_floor: i32) -> Result<(Frames, StoreId), Error> {
    let socket = connect(path, descriptor_floor).map_err(|errno| match errno {
        Errno::ACCESS | Errno::PERM => Error::Denied,
        _ => Error::Disconnected,
    })?;
    let mut frames = Frames::new(socket);
    frames.send(&Request::Hello { version: VERSION }, None)?;
    match frames.receive::<Response>()?.0 {
        Response::Welcome { store } => Ok((frames, store)),
        Response::Failed(error) => Err(error),
        _ => Err(unexpected()),
    }
}

fn connect(path: &[u8], descriptor_floor: i32) -> Result<OwnedFd, Errno> {
    let address = SocketAddrUnix::new(path)?;
    let socket =
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    let socket = lift(socket, descriptor_floor);
    loop {
        match rustix::net::connect(&socket, &address) {
            Err(Errno::INTR) => {}
            connected => return connected.map(|()| socket),
        }
    }
}

/// Moves a descriptor out of the application's way; where its limit leaves no room above, it stays in the way.
fn lift(file: OwnedFd, floor: i32) -> OwnedFd {
    if floor == 0 {
        return file;
    }
    rustix::io::fcntl_dupfd_cloexec(file.as_fd(), floor).unwrap_or(file)
}

pub(crate) fn unexpected() -> Error {
    Error::Daemon("the answer does not fit the request".into())
}

/// What one write takes of the application's memory; what lies before a bad address, if something does.
pub(crate) fn gather(data: &[UserSlice<'_>]) -> Result<Vec<u8>, Error> {
    let wanted: usize = data.iter().map(UserSlice::len).sum();
    let mut bytes = vec![0; wanted.min(WRITE_BYTES_MAX)];
    let mut filled = 0;
    for slice in data {
        let (part, _) = slice.split_at(bytes.len() - filled);
        let end = filled + part.len();
        if let Err(fault) = part.copy_in(&mut bytes[filled..end]) {
            bytes.truncate(filled + fault.copied);
            return if bytes.is_empty() { Err(Error::Fault) } else { Ok(bytes) };
        }
        filled = end;
    }
    Ok(bytes)
}

/// Copies `bytes` to the application's memory, `skip` bytes into it. `Err`: how many were copied before a bad address.
pub(crate) fn scatter(bytes: &[u8], out: &mut [UserSliceMut<'_>], skip: usize) -> Result<(), usize> {
    let (mut skip, mut done) = (skip, 0);
    for slice in out {
        if skip >= slice.len() {
            skip -= slice.len();
            continue;
        }
        let mut part = slice.part(skip, bytes.len() - done);
        let end = done + part.len();
        part.copy_out(&bytes[done..end]).map_err(|fault| done + fault.copied)?;
        (skip, done) = (0, end);
    }
    Ok(())
}
