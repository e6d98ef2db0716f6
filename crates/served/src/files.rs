//! Open files, and who may use them.
//!
//! The token of a file is the reading end of a pipe. We keep the writing end: it breaks when nobody has the token any
//! more, and then the file is closed. Who shows a token is asked to prove it, since numbers of pipes may come again:
//! what we write into our end must come out of theirs.

use crate::shared_offset::{HeldOffset, SharedOffset};
use cuesta_libfs::{Client, Error, OpenFile};
use cuesta_media::lock_files::{self, Access};
use parking_lot::Mutex;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd};
use rustix::fd::OwnedFd;
use rustix::fs::{FileType, OFlags, fcntl_setfl, fstat};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use std::collections::HashMap;
use std::io;
use std::sync::Arc;

/// Files one user may have open.
const FILES_OF_USER_MAX: usize = 8 << 10;
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
    user: u32,
    proving: Mutex<()>,
    /// Where its offset is, if processes share it by memory.
    shared_offset: Option<SharedOffset>,
    /// What the kernel has its locks on, once somebody asked for it: one open file description, whoever has the file.
    locks: Mutex<Option<OwnedFd>>,
}

/// All of them.
pub(crate) struct Files {
    known: Mutex<Known>,
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

    /// Takes the file's offset from where processes share it, and puts it back there when the result is dropped.
    pub(crate) fn at_shared_offset(&self) -> Result<Option<HeldOffset<'_>>, Error> {
        self.shared_offset.as_ref().map(|shared| shared.hold(self.open()?)).transpose()
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
        self.locks.lock().get_or_insert(locks);
    }

    fn take_lock_file(&self) -> Result<OwnedFd, Error> {
        let open = self.open()?;
        open.check_not_path()?;
        let access = match open.flags() & libc::O_ACCMODE {
            libc::O_RDONLY => Access::Read,
            _ => Access::Write,
        };
        self.client.note_lock_file();
        lock_files::take(&*self.client.references(), open.inode(), access).map_err(|_| Error::Descriptors)
    }

    /// Whether nobody has the token.
    fn is_let_go(&self) -> bool {
        let mut ends = [PollFd::new(&self.pipe, PollFlags::empty())];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        matches!(rustix::event::poll(&mut ends, Some(&now)), Ok(1..))
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
    pub(crate) fn new() -> io::Result<Files> {
        let watched = epoll::create(CreateFlags::CLOEXEC)?;
        let stop = eventfd(0, EventfdFlags::CLOEXEC)?;
        epoll::add(&watched, &stop, EventData::new_u64(STOP), EventFlags::IN)?;
        Ok(Files { known: Mutex::default(), watched, stop })
    }

    /// Keeps a file for whoever has the token that is answered along.
    pub(crate) fn add(
        &self,
        client: Arc<Client>,
        file: Arc<OpenFile>,
        user: u32,
        shared_offset: Option<SharedOffset>,
    ) -> Result<(Arc<File>, OwnedFd), Error> {
        let made = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK);
        let made = made.and_then(|(token, pipe)| Ok((token, fstat(&pipe)?.st_ino, pipe)));
        let Ok((token, pipe_number, pipe)) = made else {
            client.close(file)?;
            return Err(Error::Descriptors);
        };
        let mut known = self.known.lock();
        known.next += 1;
        let number = known.next;
        let file = Arc::new(File {
            number,
            client,
            file: Some(file),
            pipe,
            pipe_number,
            user,
            proving: Mutex::new(()),
            shared_offset,
            locks: Mutex::new(None),
        });
        if known.of_user.get(&user).is_some_and(|&count| count >= FILES_OF_USER_MAX) {
            drop(known);
            return Err(Error::Descriptors);
        }
        // What had a pipe of this number is gone, and about to be seen to be.
        let before = known.remove(pipe_number);
        *known.of_user.entry(user).or_default() += 1;
        known.by_pipe.insert(pipe_number, Arc::clone(&file));
        drop(known);
        drop(before);
        let flags = EventFlags::ERR | EventFlags::ET;
        if epoll::add(&self.watched, &file.pipe, EventData::new_u64(pipe_number), flags).is_err() {
            self.forget(&file);
            return Err(Error::Descriptors);
        }
        Ok((file, token))
    }

    /// The file whose token this is.
    pub(crate) fn redeem(&self, token: &OwnedFd) -> Option<Arc<File>> {
        let found = fstat(token).ok()?;
        if FileType::from_raw_mode(found.st_mode) != FileType::Fifo {
            return None;
        }
        let file = Arc::clone(self.known.lock().by_pipe.get(&found.st_ino)?);
        let is_proved = {
            let _proving = file.proving.try_lock()?;
            proves(&file.pipe, token)
        };
        is_proved.then_some(file)
    }

    /// Closes a file whose token nobody has any more.
    pub(crate) fn close(&self, file: &Arc<File>) {
        if file.is_let_go() {
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
        // Closing asks SharedFS, perhaps.
        drop(known);
        drop(gone);
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
