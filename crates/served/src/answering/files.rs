//! Open files, and the tokens that allow their use.
//!
//! The token of a file is the reading end of a pipe ([`crate::answering::file_table`]). We keep the writing end: it breaks when no process has the
//! token any more, and then the file is closed. A token that is shown is looked for by its file system and its number. Some file
//! systems in memory give a number twice, so the process also has to prove it: bytes that the daemon writes into its end must come out
//! of the token. The bytes of an earlier proof are read first; a proof by another pipe leaves nothing that counts.
//! A file whose token a process has when the daemon ends is open with the next one, unless its inode lost its last name.

use crate::answering::file_table::{FileTable, Made, Record, Slot, SurvivingFile};
use crate::answering::sending::Sendings;
use crate::shares::accounts::{Accounts, Holder, Share};
use crate::shares::limits::DESCRIPTORS_OF_FILE;
use crate::shares::resource::Resource;
use cuesta_format::InodeNumber;
use cuesta_libfs::{Client, Credentials, Error, HeldOffset, OpenFile, SharedOffset};
use cuesta_media::lock_files::{self, Access, Mark};
use parking_lot::{Mutex, MutexGuard};
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd};
use rustix::fd::OwnedFd;
use rustix::fs::{FileType, OFlags, fcntl_setfl, fstat};
use rustix::io::Errno;
use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// How long a proof waits for another's of the same file.
const PROOF_WAIT: Duration = Duration::from_secs(2);
/// Bytes of a proof.
const PROOF_BYTES: usize = 16;
/// The largest capacity of a pipe; a larger one is root's.
const PIPE_BYTES_MAX: usize = 1 << 20;
/// Breaks taken from the kernel at once.
const EVENTS_MAX: usize = 64;
/// Between two looks for files that were let go.
const WATCH_PAUSE_NS: i64 = 5_000_000;
/// What stops the watch is known by this: no pipe has the number.
const STOP: u64 = 0;

/// An open file, as long as a process has its token.
pub(crate) struct File {
    /// Its number in requests.
    pub(crate) number: u64,
    /// The session it is open in.
    pub(crate) client: Arc<Client>,
    file: Option<Arc<OpenFile>>,
    pipe: Arc<OwnedFd>,
    pipe_identity: PipeIdentity,
    accounts: Arc<Accounts>,
    kept: Arc<FileTable>,
    slot: Slot,
    holder: Holder,
    /// Its shares of the daemon, which count for its user.
    _shares: [Share; 2],
    proving: Mutex<()>,
    /// Where its offset is, if processes share it by memory.
    shared_offset: Option<SharedOffset>,
    /// It was, with the daemon before: this daemon does not know it.
    is_offset_lost: bool,
    /// Held while a call moves the offset.
    moving: Mutex<()>,
    /// The description that the kernel has its locks on, once a process asked for it: one for all processes that have the file.
    locks: Mutex<Option<Locks>>,
}

/// The pipe of an open file, and the record of the file.
struct KeptFile {
    slot: Slot,
    record: Record,
    pipe: Arc<OwnedFd>,
    is_watched: bool,
}

/// The description that the kernel has a file's locks on.
struct Locks {
    file: OwnedFd,
    /// Its share, which counts for the file's user; none if another process took it.
    _share: Option<Share>,
}

/// All of them.
pub(crate) struct Files {
    known: Mutex<FilesByPipe>,
    accounts: Arc<Accounts>,
    lent: Lent,
    sendings: Sendings,
    kept: Arc<FileTable>,
    watched: OwnedFd,
    stop: OwnedFd,
}

/// Which pipe it is: no other one is it while this one is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct PipeIdentity {
    device: u64,
    number: u64,
}

impl PipeIdentity {
    /// `None`: it is no pipe.
    fn of(file: &OwnedFd) -> Option<PipeIdentity> {
        let found = fstat(file).ok()?;
        let is_pipe = FileType::from_raw_mode(found.st_mode) == FileType::Fifo;
        is_pipe.then_some(PipeIdentity { device: found.st_dev, number: found.st_ino })
    }
}

#[derive(Default)]
struct FilesByPipe {
    by_pipe: HashMap<PipeIdentity, Arc<File>>,
    next: u64,
}

impl File {
    /// The file in its session.
    pub(crate) fn open(&self) -> Result<&Arc<OpenFile>, Error> {
        self.file.as_ref().ok_or(Error::Disconnected)
    }

    /// For a call that moves the file's offset: `operation` is what its like is known by if it was asked before. Takes
    /// the offset from where processes share it, and puts it where it belongs when the result is dropped.
    pub(crate) fn moving(&self, operation: u64) -> Result<Moving<'_>, Error> {
        if self.is_offset_lost {
            return Err(Error::Daemon("the offset was shared by way of a daemon that is gone".into()));
        }
        let guard = self.moving.lock();
        let open = self.open()?;
        let held = self.shared_offset.as_ref().map(|shared| shared.hold(open)).transpose()?;
        let offset = open.offset();
        let from = self.kept.begin_move(self.slot, operation, offset);
        if from != offset {
            open.set_offset(from);
        }
        Ok(Moving { file: self, open, _held: held, _guard: guard })
    }

    /// The call `operation` moved the offset to `offset`, and the daemon died before it noted that. Calls that came behind it
    /// count.
    pub(crate) fn end_move_of(&self, operation: u64, offset: u64) -> Result<(), Error> {
        let _guard = self.moving.lock();
        if self.is_offset_lost || !self.kept.is_last_move(self.slot, operation) {
            return Ok(());
        }
        let open = self.open()?;
        let _held = self.shared_offset.as_ref().map(|shared| shared.hold(open)).transpose()?;
        open.set_offset(offset);
        self.kept.end_move(self.slot, offset);
        Ok(())
    }

    /// `fcntl(F_SETFL)`.
    pub(crate) fn set_flags(&self, flags: i32) -> Result<(), Error> {
        let open = self.open()?;
        open.set_flags(flags);
        self.kept.set_flags(self.slot, open.flags());
        Ok(())
    }

    /// A descriptor that locks on the file are set on ([`cuesta_media::lock_files`]): always of the same description.
    pub(crate) fn locks(&self) -> Result<OwnedFd, Error> {
        let mut locks = self.locks.lock();
        let taken = match locks.take() {
            Some(taken) => taken,
            None => self.take_lock_file()?,
        };
        let copy = rustix::io::fcntl_dupfd_cloexec(&taken.file, 0);
        *locks = Some(taken);
        copy.map_err(|_| Error::Descriptors)
    }

    /// Locks are on this from now on, unless they are somewhere already.
    pub(crate) fn adopt_locks(&self, locks: OwnedFd) {
        let mut kept = self.locks.lock();
        if kept.is_none() {
            // Without the mark SharedFS only finds out later that no process has the file any more.
            let _ = lock_files::mark(&locks, Mark::Served);
            *kept = Some(Locks { file: locks, _share: None });
        }
    }

    fn take_lock_file(&self) -> Result<Locks, Error> {
        let share = self.accounts.take(self.holder, Resource::Descriptors, 1).ok_or(Error::Descriptors)?;
        let open = self.open()?;
        open.check_not_path()?;
        let access = match open.flags() & libc::O_ACCMODE {
            libc::O_RDONLY => Access::Read,
            // That it is open for writing this session says itself.
            _ => Access::Locks,
        };
        self.client.note_lock_file();
        let taken = lock_files::take(&*self.client.references(), open.inode(), access)
            .map_err(|_| Error::Descriptors)?;
        lock_files::mark(&taken, Mark::Served).map_err(|_| Error::Descriptors)?;
        Ok(Locks { file: taken, _share: Some(share) })
    }

    /// Whether the pipe can serve another file: no process has the token, and none left a proof in it unread. The next
    /// holder would read that proof instead of its own.
    fn is_clean(&self) -> bool {
        self.is_let_go() && rustix::io::ioctl_fionread(&*self.pipe) == Ok(0)
    }

    /// Whether no process has the token.
    fn is_let_go(&self) -> bool {
        let mut ends = [PollFd::new(&*self.pipe, PollFlags::empty())];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        matches!(rustix::event::poll(&mut ends, Some(&now)), Ok(1..))
    }
}

/// A call that moves the offset.
pub(crate) struct Moving<'f> {
    file: &'f File,
    open: &'f OpenFile,
    _held: Option<HeldOffset<'f>>,
    _guard: MutexGuard<'f, ()>,
}

impl Drop for Moving<'_> {
    fn drop(&mut self) {
        self.file.kept.end_move(self.file.slot, self.open.offset());
    }
}

impl Drop for File {
    fn drop(&mut self) {
        if let Some(file) = self.file.take()
            && let Err(error) = self.client.close(file)
        {
            tracing::debug!(%error, "a file of another user's is not closed in order");
        }
    }
}

impl Files {
    pub(crate) fn new(kept: FileTable, accounts: Arc<Accounts>) -> io::Result<Files> {
        let watched = epoll::create(CreateFlags::CLOEXEC)?;
        let stop = eventfd(0, EventfdFlags::CLOEXEC)?;
        epoll::add(&watched, &stop, EventData::new_u64(STOP), EventFlags::IN)?;
        let (lent, sendings) = (Lent::default(), Sendings::default());
        Ok(Files { known: Mutex::default(), accounts, lent, sendings, kept: Arc::new(kept), watched, stop })
    }

    /// Descriptors that are being sent.
    pub(crate) fn sendings(&self) -> &Sendings {
        &self.sendings
    }

    /// What counts how much of the daemon each user has.
    pub(crate) fn accounts(&self) -> &Arc<Accounts> {
        &self.accounts
    }

    /// What an open file counts as; `None`: its user has enough.
    fn take_shares(&self, holder: Holder) -> Option<[Share; 2]> {
        let file = self.accounts.take(holder, Resource::Files, 1)?;
        Some([file, self.accounts.take(holder, Resource::Descriptors, DESCRIPTORS_OF_FILE)?])
    }

    /// Keeps a file for the holders of the token that is answered along.
    pub(crate) fn add(
        &self,
        client: Arc<Client>,
        file: Arc<OpenFile>,
        (who, holder): (&Credentials, Holder),
        shared_offset: Option<SharedOffset>,
    ) -> Result<(Arc<File>, OwnedFd), Error> {
        let mut known = self.known.lock();
        known.next += 1;
        let record = Record {
            number: known.next,
            inode: file.inode(),
            flags: file.flags(),
            user: who.uid,
            group: who.gid,
            offset: file.offset(),
            has_cell: shared_offset.is_some(),
        };
        let shares = self.take_shares(holder);
        let made = shares.and_then(|shares| Some((self.kept.make(&record).ok()?, shares)));
        drop(known);
        let Some((Made { slot, token, pipe, is_used }, shares)) = made else {
            client.close(file)?;
            return Err(Error::Descriptors);
        };
        let kept = KeptFile { slot, record, pipe, is_watched: is_used };
        self.watch_over(client, file, kept, (holder, shares), shared_offset).map(|file| (file, token))
    }

    /// Opens the files again that were open with the daemon before, that a process has, and that are still there.
    pub(crate) fn restore(&self, client: &Arc<Client>, found: Vec<SurvivingFile>) {
        for found in found {
            let SurvivingFile { slot, record, pipe } = found;
            let Record { number, inode, flags, user, group, offset, .. } = record;
            {
                let mut known = self.known.lock();
                known.next = known.next.max(number);
            }
            let who = Credentials::of_user(user, group, Vec::new());
            let holder = Holder::of(&who);
            let reopened = self.take_shares(holder).ok_or(Error::Descriptors).and_then(|shares| {
                let file = client.reopen(&who, inode, flags, offset)?;
                Ok((file, shares))
            });
            let kept = match reopened {
                Ok((file, shares)) => {
                    let kept = KeptFile { slot, record, pipe: Arc::new(pipe), is_watched: false };
                    self.watch_over(Arc::clone(client), file, kept, (holder, shares), None).map(drop)
                }
                Err(error) => {
                    self.kept.give_back(slot);
                    Err(error)
                }
            };
            if let Err(error) = kept {
                tracing::debug!(%error, inode = inode.0, "a file of another user's is lost to who has it");
            }
        }
    }

    /// What locks on the file are set on, for a process to use: as long as it likes, even when the file is closed.
    pub(crate) fn lend_locks(&self, file: &File) -> Result<OwnedFd, Error> {
        let inode = file.open()?.inode();
        let most = self.accounts.limits().files_of_user;
        if !file.holder.is_trusted && !self.lent.note(file.holder.user, inode, most, &file.client) {
            return Err(Error::Descriptors);
        }
        file.locks()
    }

    /// Watches whether a process has the file; gives its slot back if that cannot be watched.
    fn watch_over(
        &self,
        client: Arc<Client>,
        file: Arc<OpenFile>,
        KeptFile { slot, record, pipe, is_watched }: KeptFile,
        (holder, shares): (Holder, [Share; 2]),
        shared_offset: Option<SharedOffset>,
    ) -> Result<Arc<File>, Error> {
        let Some(pipe_identity) = PipeIdentity::of(&pipe) else {
            self.kept.give_back(slot);
            client.close(file)?;
            return Err(Error::Descriptors);
        };
        let file = Arc::new(File {
            number: record.number,
            client,
            file: Some(file),
            pipe,
            pipe_identity,
            accounts: Arc::clone(&self.accounts),
            kept: Arc::clone(&self.kept),
            slot,
            holder,
            _shares: shares,
            proving: Mutex::new(()),
            is_offset_lost: record.has_cell && shared_offset.is_none(),
            shared_offset,
            moving: Mutex::new(()),
            locks: Mutex::new(None),
        });
        let mut known = self.known.lock();
        // The file that had a pipe of this number is gone, and the watch is about to see that.
        let before = known.by_pipe.insert(pipe_identity, Arc::clone(&file));
        drop(known);
        if let Some(before) = before {
            self.kept.give_back(before.slot);
        }
        let (flags, number) = (EventFlags::ERR | EventFlags::ET, EventData::new_u64(pipe_identity.number));
        if !is_watched && epoll::add(&self.watched, &*file.pipe, number, flags).is_err() {
            self.forget(&file);
            return Err(Error::Descriptors);
        }
        Ok(file)
    }

    /// The file whose token this is.
    pub(crate) fn redeem(&self, token: &OwnedFd) -> Option<Arc<File>> {
        let identity = PipeIdentity::of(token)?;
        let file = Arc::clone(self.known.lock().by_pipe.get(&identity)?);
        let is_proved = {
            // Processes that share it come back at once after a daemon's end; a holder may also make it block.
            let _proving = file.proving.try_lock_for(PROOF_WAIT)?;
            proves(&file.pipe, token)
        };
        is_proved.then_some(file)
    }

    /// Closes a file whose token no process has any more.
    pub(crate) fn close(&self, file: &Arc<File>) {
        if file.is_let_go() {
            // Before it is forgotten: a process that then asks for a lock that was on it does not find the file, and must find no lock.
            // Closed under the lock, so that a process which finds none there finds no lock, either.
            let mut locks = file.locks.lock();
            drop(locks.take());
            drop(locks);
            self.forget(file);
        }
    }

    /// Closes all files that may be locked and whose tokens no process has any more.
    pub(crate) fn close_released(&self) {
        let may_be_locked = |file: &&Arc<File>| file.locks.lock().is_some();
        let locked: Vec<_> = self.known.lock().by_pipe.values().filter(may_be_locked).cloned().collect();
        locked.iter().for_each(|file| self.close(file));
    }

    fn forget(&self, file: &File) {
        let mut known = self.known.lock();
        let is_known = known.by_pipe.get(&file.pipe_identity).is_some_and(|it| it.number == file.number);
        let gone = if is_known { known.by_pipe.remove(&file.pipe_identity) } else { None };
        drop(known);
        if let Some(gone) = gone {
            // A file that a process has was not watched, and is closed for that.
            match gone.is_clean() {
                true => self.kept.keep_pipe(gone.slot, &gone.pipe),
                false => self.kept.give_back(gone.slot),
            }
            // Closing asks SharedFS, perhaps.
            drop(gone);
        }
    }

    /// Closes files as their tokens go, until [`Files::stop`].
    pub(crate) fn watch(&self) {
        let mut events = Vec::with_capacity(EVENTS_MAX);
        let pause = Timespec { tv_sec: 0, tv_nsec: WATCH_PAUSE_NS };
        loop {
            events.clear();
            // A process that closes a file also asks to have the file closed. This thread leaves the work to the thread that is asked.
            let _ = rustix::event::poll(&mut [PollFd::new(&self.stop, PollFlags::IN)], Some(&pause));
            match epoll::wait(&self.watched, rustix::buffer::spare_capacity(&mut events), None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return tracing::error!(%error, "files of other users stay open"),
            }
            for &Event { data, .. } in &events {
                match data.u64() {
                    STOP => return,
                    number => {
                        let device = self.kept.device();
                        let identity = PipeIdentity { device, number };
                        let found = self.known.lock().by_pipe.get(&identity).cloned();
                        found.into_iter().for_each(|file| self.close(&file));
                    }
                }
            }
        }
    }

    /// Ends the watch.
    pub(crate) fn stop(&self) {
        let _ = rustix::io::write(&self.stop, &1u64.to_ne_bytes());
    }
}

/// Lock files that processes of other users were given, and may have still.
#[derive(Default)]
struct Lent(Mutex<HashMap<u32, LentToUser>>);

#[derive(Default)]
struct LentToUser {
    inodes: HashSet<InodeNumber>,
    /// A thread looks which of them are still there: that takes a while, and no other thread waits for it.
    is_looked_at: bool,
}

impl Lent {
    /// Notes one more. `false`: the user has as many as it may, and all of them are there still.
    fn note(&self, user: u32, inode: InodeNumber, most: u64, client: &Client) -> bool {
        let mut lent = self.0.lock();
        let of_user = lent.entry(user).or_default();
        if (of_user.inodes.len() as u64) < most || of_user.inodes.contains(&inode) {
            of_user.inodes.insert(inode);
            return true;
        }
        if std::mem::replace(&mut of_user.is_looked_at, true) {
            return false;
        }
        let all: Vec<InodeNumber> = of_user.inodes.iter().copied().collect();
        drop(lent);
        let folder = client.references();
        let is_gone =
            |inode: &InodeNumber| lock_files::is_marked(&*folder, *inode, Mark::Opener) == Ok(false);
        let gone: Vec<InodeNumber> = all.into_iter().filter(is_gone).collect();
        let mut lent = self.0.lock();
        let of_user = lent.entry(user).or_default();
        of_user.is_looked_at = false;
        gone.iter().for_each(|inode| {
            of_user.inodes.remove(inode);
        });
        (of_user.inodes.len() as u64) < most && of_user.inodes.insert(inode)
    }
}

/// Whether what goes into our end of a pipe comes out of theirs.
fn proves(pipe: &OwnedFd, token: &OwnedFd) -> bool {
    let mut proof = [0; PROOF_BYTES];
    let is_random = rustix::rand::getrandom(&mut proof[..], rustix::rand::GetRandomFlags::empty());
    // Whoever made it block waits for itself.
    let is_ready = fcntl_setfl(token, OFlags::NONBLOCK).is_ok();
    if is_random != Ok(PROOF_BYTES)
        || !is_ready
        || !is_emptied(token)
        || rustix::io::write(pipe, &proof) != Ok(PROOF_BYTES)
    {
        return false;
    }
    let mut shown = [0; PROOF_BYTES];
    rustix::io::read(token, &mut shown[..]) == Ok(PROOF_BYTES) && shown == proof
}

/// Reads the bytes that an earlier proof left in a pipe. A pipe that is filled all the while is none of ours.
fn is_emptied(token: &OwnedFd) -> bool {
    let mut bytes = [0; 4096];
    let read = |_| rustix::io::read(token, &mut bytes[..]);
    (0..=PIPE_BYTES_MAX / 4096).map(read).find(|read| !matches!(read, Ok(1..))) == Some(Err(Errno::AGAIN))
}
