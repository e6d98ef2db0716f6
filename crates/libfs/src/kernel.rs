//! A session that is a mount's: what it loses of inodes SharedFS tells the kernel ([`cuesta_format::kernel_notice`]), and of
//! names it waits until the kernel keeps none any more ([`cuesta_format::kept_names`]).

use crate::client::Client;
use crate::errno::Error;
use crate::session::unexpected;
use crate::sync::{Mutex, Ordering, RwLock};
use crate::taken_names::TakenNames;
use cuesta_format::wire::{Request, Response};
use cuesta_format::{FileKind, InodeNumber};
use rustix::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};

/// What a session has that is a mount's.
#[derive(Debug, Default)]
pub(crate) struct Kernel {
    /// A descriptor of the mount.
    mount: Mutex<Option<OwnedFd>>,
    taken: RwLock<TakenNames>,
}

/// A moment of a session: as long as it has lost no lease since, nor given one back, what it found out still holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    generation: u64,
    given_back: u64,
}

impl Client {
    /// Hands SharedFS a descriptor of the mount this session serves. From then on the kernel may believe what is said of inodes
    /// under this session's leases for as long as is answered, and no longer.
    pub fn keep_in_kernel(&self, device: OwnedFd) -> Result<Duration, Error> {
        self.check_alive()?;
        *self.kernel.mount.lock() = Some(device);
        self.asking(|| self.hand_over_mount())
    }

    /// The mount is gone, in order.
    pub fn keep_nothing_in_kernel(&self) -> Result<(), Error> {
        self.check_alive()?;
        *self.kernel.mount.lock() = None;
        match self.session.ask(&Request::NothingInKernel)? {
            Response::Done => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// Now.
    #[must_use]
    pub fn moment(&self) -> Moment {
        Moment {
            generation: self.session.generation.load(Ordering::SeqCst),
            given_back: self.session.given_back.load(Ordering::SeqCst),
        }
    }

    /// Whether the kernel may keep a name of this directory for [`cuesta_format::kept_names::NAME_TERM`]: it is the answer to a
    /// request that came at a `moment` when it `began`, and goes out at once.
    #[must_use]
    pub fn may_keep_name(&self, directory: InodeNumber, moment: Moment, began: Instant) -> bool {
        let session = &self.session;
        let is_left_alone =
            || !session.is_wanted(directory) && self.kernel.taken.read().is_quiet(directory, began);
        // Who finds that it cannot be kept must not have others wait for it.
        is_left_alone() && session.mark_names(directory) && is_left_alone() && {
            let generation = session.shown_generation();
            moment == Moment { generation, ..self.moment() }
        }
    }

    /// How long the kernel may still keep names of this directory.
    #[must_use]
    pub fn names_left(&self, directory: InodeNumber) -> Option<Duration> {
        self.session.names_left(directory)
    }

    /// Waits until the kernel keeps no names of this directory, and lets it keep none for a while.
    pub fn await_names(&self, directory: InodeNumber) {
        self.kernel.taken.write().note(directory, Instant::now());
        while let Some(left) = self.names_left(directory) {
            std::thread::sleep(left);
        }
    }

    /// These were taken from this session.
    pub(crate) fn note_taken(&self, inodes: &[InodeNumber]) {
        if self.kernel.mount.lock().is_none() {
            return;
        }
        let is_other = |inode| {
            self.cache.get(inode).is_some_and(|known| {
                let state = known.state.read();
                state.lease.is_some() && state.record.kind() != FileKind::Directory
            })
        };
        for &inode in inodes.iter().filter(|&&inode| !is_other(inode)) {
            self.kernel.taken.write().note(inode, Instant::now());
        }
    }

    fn hand_over_mount(&self) -> Result<Duration, Error> {
        let kernel = self.kernel.mount.lock();
        let Some(mount) = kernel.as_ref() else { return Ok(Duration::ZERO) };
        let session = &self.session;
        match session.asking.call_handing(&Request::KeepInKernel, mount.as_fd(), session)? {
            Response::KeptInKernel { term_ms } => Ok(Duration::from_millis(term_ms.into())),
            other => Err(unexpected(&other)),
        }
    }

    /// The next daemon knows nothing of it yet, and must before any lease is had from it. The kernel has been told how long
    /// it may believe things: the daemon must be of the same mind.
    pub(crate) fn keep_in_kernel_again(&self) -> Result<(), Error> {
        self.hand_over_mount().map(drop)
    }
}
