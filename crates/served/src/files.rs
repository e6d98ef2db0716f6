//! Open files, and who may use them.
//!
//! The token of a file is the reading end of a pipe ([`crate::kept`]). We keep the writing end: it breaks when nobody has the
//! token any more, and then the file is closed. Who shows a token is asked to prove it, since numbers of pipes may come
//! again: what we write into our end must come out of theirs. A file whose token somebody has when the daemon ends is open
//! with the next one, unless its inode lost its last name.

use crate::kept::{Found, Kept, Made, Record, Slot};
use cuesta_libfs::{Client, Credentials, Error, HeldOffset, OpenFile, SharedOffset};
use cuesta_media::lock_files::{self, Access, Mark};
use parking_lot::{Mutex, MutexGuard};
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd};
use rustix::fd::OwnedFd;
use rustix::fs::{FileType, OFlags, fcntl_setfl, fstat};
use rustix::io::Errno;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Files one user may have open.
const FILES_OF_USER_MAX: usize = 8 << 10;
/// How long a proof waits for another's of the same file.
const PROOF_WAIT: Duration = Duration::from_secs(2);
/// Bytes of a proof.
const PROOF_BYTES: usize = 16;
/// Breaks taken from the kernel at once.
const EVENTS_MAX: usize = 64;
/// What stops the watch is known by this: no pipe has the number.
const STOP: u64 = 0;

/// An open file, until nobody has its token.
pub(crate) struct File {
    /// Its number in requests.
    pub(crate) number: u64,
    /// The session it is open in.
    pub(crate) client: Arc<Client>,
    file: Option<Arc<OpenFile>>,
    pipe: OwnedFd,
    pipe_number: u64,
    kept: Arc<Kept>,
    slot: Slot,
    user: u32,
    proving: Mutex<()>,
    /// Where its offset is, if processes share it by memory.
    shared_offset: Option<SharedOffset>,
    /// It was, with the daemon before: now nobody here knows it.
    is_offset_lost: bool,
    /// Held while a call moves the offset.
    moving: Mutex<()>,
    /// What the kernel has its locks on, once somebody asked for it: one open file description, whoever has the file.
    locks: Mutex<Option<OwnedFd>>,
}

/// All of them.
pub(crate) struct Files {
    known: Mutex<Known>,
    kept: Arc<Kept>,
    watched: OwnedFd,
    stop: OwnedFd,
}

#[derive(Default)]
struct Known {
    by_pipe: HashMap<u64, Arc<File>>,
    of_user: HashMap<u32, usize>,
    next: u64,
}

impl Known {
    fn remove(&mut self, pipe_number: u64) -> Option<Arc<File>> {
        let gone = self.by_pipe.remove(&pipe_number)?;
        if let Some(count) = self.of_user.get_mut(&gone.user) {
            *count -= 1;
            if *count == 0 {
                self.of_user.remove(&gone.user);
            }
        }
        Some(gone)
    }
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
        let copy = rustix::io::fcntl_dupfd_cloexec(&taken, 0);
        *locks = Some(taken);
        copy.map_err(|_| Error::Descriptors)
    }

    /// Locks are on this from now on, unless they are somewhere already.
    pub(crate) fn adopt_locks(&self, locks: OwnedFd) {
        let mut kept = self.locks.lock();
        if kept.is_none() {
            // Without the mark it is only found later that nobody has the file any more.
            let _ = lock_files::mark(&locks, Mark::Served);
            *kept = Some(locks);
        }
    }

    fn take_lock_file(&self) -> Result<OwnedFd, Error> {
        let open = self.open()?;
        open.check_not_path()?;
        let access = match open.flags() & libc::O_ACCMODE {
            libc::O_RDONLY => Access::Read,
            _ => Access::Write,
        };
        self.client.note_lock_file();
        let taken = lock_files::take(&*self.client.references(), open.inode(), access)
            .map_err(|_| Error::Descriptors)?;
        lock_files::mark(&taken, Mark::Served).map_err(|_| Error::Descriptors)?;
        Ok(taken)
    }

    /// Whether nobody has the token.
    fn is_let_go(&self) -> bool {
        let mut ends = [PollFd::new(&self.pipe, PollFlags::empty())];
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
    pub(crate) fn new(kept: Kept) -> io::Result<Files> {
        let watched = epoll::create(CreateFlags::CLOEXEC)?;
        let stop = eventfd(0, EventfdFlags::CLOEXEC)?;
        epoll::add(&watched, &stop, EventData::new_u64(STOP), EventFlags::IN)?;
        Ok(Files { known: Mutex::default(), kept: Arc::new(kept), watched, stop })
    }

    /// Keeps a file for whoever has the token that is answered along.
    pub(crate) fn add(
        &self,
        client: Arc<Client>,
        file: Arc<OpenFile>,
        who: &Credentials,
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
        let has_room = known.of_user.get(&who.uid).is_none_or(|&count| count < FILES_OF_USER_MAX);
        let made = if has_room { self.kept.make(&record).ok() } else { None };
        drop(known);
        let Some(Made { slot, token, pipe }) = made else {
            client.close(file)?;
            return Err(Error::Descriptors);
        };
        let found = Found { slot, record, pipe };
        self.watch_over(client, file, found, shared_offset).map(|file| (file, token))
    }

    /// Opens what was open with the daemon before and somebody has: what of it is still there.
    pub(crate) fn restore(&self, client: &Arc<Client>, found: Vec<Found>) {
        for found in found {
            let Record { number, inode, flags, user, group, offset, .. } = found.record;
            {
                let mut known = self.known.lock();
                known.next = known.next.max(number);
            }
            let who = Credentials::of_user(user, group, Vec::new());
            let kept = match client.reopen(&who, inode, flags, offset) {
                Ok(file) => self.watch_over(Arc::clone(client), file, found, None).map(drop),
                Err(error) => {
                    self.kept.give_back(found.slot);
                    Err(error)
                }
            };
            if let Err(error) = kept {
                tracing::debug!(%error, inode = inode.0, "a file of another user's is lost to who has it");
            }
        }
    }

    /// Watches whether somebody has the file; gives its slot back if that cannot be.
    fn watch_over(
        &self,
        client: Arc<Client>,
        file: Arc<OpenFile>,
        Found { slot, record, pipe }: Found,
        shared_offset: Option<SharedOffset>,
    ) -> Result<Arc<File>, Error> {
        let Ok(pipe_number) = fstat(&pipe).map(|found| found.st_ino) else {
            self.kept.give_back(slot);
            client.close(file)?;
            return Err(Error::Descriptors);
        };
        let file = Arc::new(File {
            number: record.number,
            client,
            file: Some(file),
            pipe,
            pipe_number,
            kept: Arc::clone(&self.kept),
            slot,
            user: record.user,
            proving: Mutex::new(()),
            is_offset_lost: record.has_cell && shared_offset.is_none(),
            shared_offset,
            moving: Mutex::new(()),
            locks: Mutex::new(None),
        });
        let mut known = self.known.lock();
        // What had a pipe of this number is gone, and about to be seen to be.
        let before = known.remove(pipe_number);
        *known.of_user.entry(record.user).or_default() += 1;
        known.by_pipe.insert(pipe_number, Arc::clone(&file));
        drop(known);
        if let Some(before) = before {
            self.kept.give_back(before.slot);
        }
        let flags = EventFlags::ERR | EventFlags::ET;
        if epoll::add(&self.watched, &file.pipe, EventData::new_u64(pipe_number), flags).is_err() {
            self.forget(&file);
            return Err(Error::Descriptors);
        }
        Ok(file)
    }

    /// The file whose token this is.
    pub(crate) fn redeem(&self, token: &OwnedFd) -> Option<Arc<File>> {
        let found = fstat(token).ok()?;
        if FileType::from_raw_mode(found.st_mode) != FileType::Fifo {
            return None;
        }
        let file = Arc::clone(self.known.lock().by_pipe.get(&found.st_ino)?);
        let is_proved = {
            // Processes that share it come back at once after a daemon's end; who has it may also make it block.
            let _proving = file.proving.try_lock_for(PROOF_WAIT)?;
            proves(&file.pipe, token)
        };
        is_proved.then_some(file)
    }

    /// Closes a file whose token nobody has any more.
    pub(crate) fn close(&self, file: &Arc<File>) {
        if file.is_let_go() {
            // Before it is forgotten: who then asks for a lock that was on it finds the file no more, and must find no lock.
            // Closed under the lock: who finds none there, either.
            let mut locks = file.locks.lock();
            drop(locks.take());
            drop(locks);
            self.forget(file);
        }
    }

    /// Closes all files whose tokens nobody has any more and that may be locked.
    pub(crate) fn close_released(&self) {
        let may_be_locked = |file: &&Arc<File>| file.locks.lock().is_some();
        let locked: Vec<_> = self.known.lock().by_pipe.values().filter(may_be_locked).cloned().collect();
        locked.iter().for_each(|file| self.close(file));
    }

    fn forget(&self, file: &File) {
        let mut known = self.known.lock();
        let is_known = known.by_pipe.get(&file.pipe_number).is_some_and(|it| it.number == file.number);
        let gone = if is_known { known.remove(file.pipe_number) } else { None };
        drop(known);
        if let Some(gone) = gone {
            self.kept.give_back(gone.slot);
            // Closing asks SharedFS, perhaps.
            drop(gone);
        }
    }

    /// Closes files as their tokens go, until [`Files::stop`].
    pub(crate) fn watch(&self) {
        let mut events = Vec::with_capacity(EVENTS_MAX);
        loop {
            events.clear();
            match epoll::wait(&self.watched, rustix::buffer::spare_capacity(&mut events), None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return tracing::error!(%error, "files of other users stay open"),
            }
            for &Event { data, .. } in &events {
                match data.u64() {
                    STOP => return,
                    pipe => {
                        let found = self.known.lock().by_pipe.get(&pipe).cloned();
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

/// Whether what goes into our end of a pipe comes out of theirs.
fn proves(pipe: &OwnedFd, token: &OwnedFd) -> bool {
    let mut proof = [0; PROOF_BYTES];
    let is_random = rustix::rand::getrandom(&mut proof[..], rustix::rand::GetRandomFlags::empty());
    // Whoever made it block waits for itself.
    let is_ready = fcntl_setfl(token, OFlags::NONBLOCK).is_ok();
    if is_random != Ok(PROOF_BYTES) || !is_ready || rustix::io::write(pipe, &proof) != Ok(PROOF_BYTES) {
        return false;
    }
    let mut shown = [0; PROOF_BYTES];
    rustix::io::read(token, &mut shown[..]) == Ok(PROOF_BYTES) && shown == proof
}
