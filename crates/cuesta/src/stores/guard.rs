//! Watches over a store's folder while a daemon serves it. Between changes its thread sleeps in the kernel.
//!
//! | a user removes | the daemon |
//! |---|---|
//! | the store (`rm -rf`) | ends, and frees the memory of the fast tier |
//! | its socket | puts the socket back, by a second name that it keeps for that |
//! | the lock file | puts it back (the folder itself is locked, so no second daemon came in) |
//!
//! `rm -rf` removes those first, too, and could not remove a folder in which they come back. So they are put back only when
//! nothing else was removed for a while.

use cuesta_format::geometry::{CONFIGURATION_FILE, LOCK_FILE, SOCKET_FILE, USERS_FOLDER, USERS_SOCKET_FILE};
use cuesta_sharedfs::server::{StopReason, StopSender, StoreLock};
use cuesta_sharedfs::trust::{TIER_NAME, TrustedStore};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::fs::{AtFlags, linkat, unlinkat};
use rustix::io::Errno;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Builder;

/// After a removal the folder is looked at once nothing more was removed for so long.
const SETTLED: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// The daemon puts back a missing socket or lock file after so much longer.
const QUIET: Timespec = Timespec { tv_sec: 2, tv_nsec: 0 };
const STACK_BYTES: usize = 256 << 10;

/// The entries that every store has in its folder.
const MARKS: [&str; 2] = [CONFIGURATION_FILE, TIER_NAME];

/// A daemon's hold on the store, for as long as its process lives.
#[derive(Debug)]
pub struct Guarded {
    /// Its folders.
    pub trusted: TrustedStore,
    lock: Mutex<StoreLock>,
    is_over: AtomicBool,
}

impl Guarded {
    /// The store is this process's.
    pub fn new(trusted: TrustedStore, lock: StoreLock) -> Arc<Guarded> {
        Arc::new(Guarded { trusted, lock: Mutex::new(lock), is_over: AtomicBool::new(false) })
    }

    /// Watches over it; has the daemon stop by `stop` when the store is removed.
    pub fn watch(self: &Arc<Guarded>, stop: StopSender) -> std::io::Result<()> {
        for (_, spare) in sockets() {
            // That of a daemon before leads nowhere.
            let _ = unlinkat(self.trusted.folder(), spare, AtFlags::empty());
        }
        let watch = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let flags = WatchFlags::DELETE | WatchFlags::MOVED_FROM | WatchFlags::ONLYDIR;
        let folder = self.trusted.folder();
        inotify::add_watch(&watch, folder.path(), flags)?;
        // Other users are served or not: that is not what the store's own depends on.
        let _ = inotify::add_watch(&watch, folder.path().join(USERS_FOLDER), flags);
        self.put_back();
        let guarded = Arc::clone(self);
        let thread = Builder::new().name("guard".into()).stack_size(STACK_BYTES);
        thread.spawn(move || guarded.run(&watch, &stop)).map(drop)
    }

    /// The daemon leaves: from now on nothing is put back.
    pub fn release(&self) {
        self.is_over.store(true, Ordering::Release);
        for (name, spare) in sockets() {
            let _ = unlinkat(self.trusted.folder(), spare, AtFlags::empty());
            if self.is_gone() {
                let _ = unlinkat(self.trusted.folder(), name, AtFlags::empty());
            }
        }
    }

    fn run(&self, watch: &OwnedFd, stop: &StopSender) {
        loop {
            if wait(watch, None).is_err() {
                return;
            }
            while wait(watch, Some(&SETTLED)) == Ok(true) {}
            if self.is_over.load(Ordering::Acquire) {
                return;
            }
            if self.is_gone() {
                // An error means that the daemon is stopping already.
                let _ = stop.send(StopReason::Removed);
                return;
            }
            if self.lacks_anything() && wait(watch, Some(&QUIET)) == Ok(false) {
                self.put_back();
            }
        }
    }

    /// Whether there is no store any more.
    fn is_gone(&self) -> bool {
        let folder = self.trusted.folder();
        folder.is_removed() || !MARKS.iter().any(|mark| folder.has(mark))
    }

    fn lacks_anything(&self) -> bool {
        let folder = self.trusted.folder();
        let links = sockets().into_iter().flat_map(|(name, spare)| [name, spare]);
        !folder.has(LOCK_FILE) || links.into_iter().any(|name| !folder.has(&name))
    }

    fn put_back(&self) {
        let folder = self.trusted.folder();
        if self.is_over.load(Ordering::Acquire) || !MARKS.iter().all(|mark| folder.has(mark)) {
            return;
        }
        if !folder.has(LOCK_FILE) {
            match self.lock.lock().unwrap_or_else(PoisonError::into_inner).put_back(folder) {
                Ok(()) => tracing::warn!("the lock file was removed: it is put back"),
                Err(error) => tracing::error!(%error, "the lock file was removed, and cannot be put back"),
            }
        }
        for (name, spare) in sockets() {
            let link = |from: &str, to: &str| linkat(folder, from, folder, to, AtFlags::empty());
            match (folder.has(&name), folder.has(&spare)) {
                (true, true) => {}
                (true, false) => drop(link(&name, &spare)),
                (false, true) => match link(&spare, &name) {
                    Ok(()) | Err(Errno::EXIST) => {
                        tracing::warn!(name, "the daemon's socket was removed: it is put back")
                    }
                    Err(error) => {
                        tracing::error!(name, %error, "the daemon's socket was removed, and cannot be put back")
                    }
                },
                (false, false) => {
                    tracing::error!(
                        name,
                        "the daemon's socket was removed: cuesta stop ends the daemon all the same"
                    );
                }
            }
        }
    }
}

/// The sockets in the store's folder, each with its second name.
fn sockets() -> [(String, String); 2] {
    [
        (SOCKET_FILE.to_owned(), format!(".{SOCKET_FILE}")),
        (format!("{USERS_FOLDER}/{USERS_SOCKET_FILE}"), format!("{USERS_FOLDER}/.{USERS_SOCKET_FILE}")),
    ]
}

/// Waits for removals, and takes note of all there were. `false`: there was none for so long.
fn wait(watch: &OwnedFd, limit: Option<&Timespec>) -> Result<bool, Errno> {
    let mut ready = [PollFd::new(watch, PollFlags::IN)];
    loop {
        match poll(&mut ready, limit) {
            Ok(0) => return Ok(false),
            Ok(_) => break,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let mut events = inotify::Reader::new(watch, &mut buffer);
    loop {
        match events.next() {
            Ok(_) | Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok(true),
            Err(errno) => return Err(errno),
        }
    }
}
