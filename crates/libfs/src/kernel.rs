//! A session that is a mount's: what it loses, SharedFS tells the kernel ([`cuesta_format::kernel_notice`]).

use crate::client::Client;
use crate::errno::Error;
use crate::session::unexpected;
use cuesta_format::wire::{Request, Response};
use rustix::fd::{AsFd as _, OwnedFd};
use std::time::Duration;

/// The mount.
#[derive(Debug)]
pub(crate) struct Mount {
    device: OwnedFd,
    names: bool,
}

impl Client {
    /// Hands SharedFS a descriptor of the mount this session serves; `names`: its kernel can be told that names are doubtful. From
    /// then on the kernel may believe what is said under this session's leases for as long as is answered, and no longer.
    pub fn keep_in_kernel(&self, device: OwnedFd, names: bool) -> Result<Duration, Error> {
        self.check_alive()?;
        *self.kernel.lock() = Some(Mount { device, names });
        self.asking(|| self.hand_over_mount())
    }

    /// The mount is gone, in order.
    pub fn keep_nothing_in_kernel(&self) -> Result<(), Error> {
        self.check_alive()?;
        *self.kernel.lock() = None;
        match self.session.ask(&Request::NothingInKernel)? {
            Response::Done => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    fn hand_over_mount(&self) -> Result<Duration, Error> {
        let kernel = self.kernel.lock();
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
        self.hand_over_mount().map(drop)
    }
}
