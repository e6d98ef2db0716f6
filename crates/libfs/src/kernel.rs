//! A session that is a mount's: what it loses, SharedFS tells the kernel ([`cuesta_format::kernel_notice`]), all but names
//! of directories that were taken lately, of which the kernel is to keep none ([`TakenNames`]).

use crate::client::Client;
use crate::errno::Error;
use crate::session::unexpected;
use crate::sync::{Mutex, RwLock};
use cuesta_format::wire::{Request, Response};
use cuesta_format::{FileKind, InodeNumber, TakenNames};
use rustix::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};

/// What a session has that is a mount's.
#[derive(Debug)]
pub(crate) struct Kernel {
    mount: Mutex<Option<Mount>>,
    taken: RwLock<TakenNames>,
}

impl Default for Kernel {
    fn default() -> Kernel {
        Kernel { mount: Mutex::new(None), taken: RwLock::new(TakenNames::of_door()) }
    }
}

/// The mount.
#[derive(Debug)]
struct Mount {
    device: OwnedFd,
    names: bool,
}

impl Client {
    /// Hands SharedFS a descriptor of the mount this session serves; `names`: its kernel can be told that names are doubtful. From
    /// then on the kernel may believe what is said under this session's leases for as long as is answered, and no longer.
    pub fn keep_in_kernel(&self, device: OwnedFd, names: bool) -> Result<Duration, Error> {
        self.check_alive()?;
        *self.kernel.mount.lock() = Some(Mount { device, names });
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

    /// Whether the kernel may keep a name of this directory, which is the answer to a request that came when it `began`.
    pub fn is_quiet(&self, directory: InodeNumber, began: Instant) -> bool {
        self.kernel.taken.read().is_quiet(directory, began)
    }

    /// The kernel is to keep no names of this directory for a while.
    pub fn call_taken(&self, directory: InodeNumber) {
        self.kernel.taken.write().note(directory, Instant::now());
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
            self.call_taken(inode);
        }
    }

    fn hand_over_mount(&self) -> Result<Duration, Error> {
        let kernel = self.kernel.mount.lock();
        let Some(mount) = kernel.as_ref() else { return Ok(Duration::ZERO) };
        let request = Request::KeepInKernel { names: mount.names };
        let session = &self.session;
        match session.asking.call_handing(&request, mount.device.as_fd(), session)? {
            Response::KeptInKernel { term_ms } => Ok(Duration::from_millis(term_ms.into())),
            other => Err(unexpected(&other)),
        }
    }

    /// The next daemon knows nothing of it yet, and must before any lease is had from it. The kernel has been told how long
    /// it may believe things: the daemon must be of the same mind.
    pub(crate) fn keep_in_kernel_again(&self) -> Result<(), Error> {
        self.hand_over_mount()?;
        self.kernel.taken.write().note_all(Instant::now());
        Ok(())
    }
}
