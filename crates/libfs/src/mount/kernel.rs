//! The promises to the kernel of a mount. It keeps inodes until SharedFS tells it otherwise
//! ([`cuesta_format::kernel_notice`]), and names for a short term ([`cuesta_format::kept_names`]). A session
//! that loses a directory waits until the kernel keeps none of its names.

use crate::client::client::Client;
use crate::errno::{Error, unexpected};
use crate::mount::state::Moment;
use crate::sync::Ordering;
use cuesta_format::wire::{Request, Response};
use cuesta_format::{FileKind, InodeNumber};
use rustix::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};

impl Client {
    /// Hands SharedFS a descriptor of the mount that this session serves. From then on the kernel may rely on
    /// answers about inodes under this session's leases, for the time that this call answers.
    pub fn keep_in_kernel(&self, device: OwnedFd) -> Result<Duration, Error> {
        self.check_alive()?;
        *self.kernel.mount.lock() = Some(device);
        self.with_daemon(|| self.hand_over_mount())
    }

    /// Tells SharedFS that the mount was removed in order.
    pub fn keep_nothing_in_kernel(&self) -> Result<(), Error> {
        self.check_alive()?;
        *self.kernel.mount.lock() = None;
        match self.session.ask(&Request::NothingInKernel)? {
            Response::Done => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// The present moment.
    #[must_use]
    pub fn moment(&self) -> Moment {
        Moment {
            generation: self.session.generation.load(Ordering::SeqCst),
            given_back: self.session.given_back.load(Ordering::SeqCst),
        }
    }

    /// Whether the kernel may keep a name of this directory for [`cuesta_format::kept_names::NAME_TERM`]. The
    /// name is the answer to a request that arrived at `began`, when the session's moment was `moment`. The
    /// door must send the answer at once.
    #[must_use]
    pub fn may_keep_name(&self, directory: InodeNumber, moment: Moment, began: Instant) -> bool {
        let session = &self.session;
        let is_left_alone =
            || !session.is_wanted(directory) && self.kernel.taken.read().is_quiet(directory, began);
        // The first check saves a mark: a directory whose names cannot be kept must not make other sessions
        // wait.
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

    /// Notes the directories that SharedFS took from this session.
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
        match session.requests.call_handing(&Request::KeepInKernel, mount.as_fd(), session)? {
            Response::KeptInKernel { term_ms } => Ok(Duration::from_millis(term_ms.into())),
            other => Err(unexpected(&other)),
        }
    }

    /// Hands the mount to the next daemon, before the session gets a lease from it. The kernel has been told
    /// how long it may rely on answers, and the daemon must respect the same term.
    pub(crate) fn keep_in_kernel_again(&self) -> Result<(), Error> {
        self.hand_over_mount().map(drop)
    }
}
