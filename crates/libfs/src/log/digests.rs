//! Digests that a client asks for, and its waits for them.

use crate::client::client::Client;
use crate::errno::{Error, unexpected};
use cuesta_format::wire::{Request, Response};
use std::time::Duration;

impl Client {
    /// Has SharedFS digest everything this session did, and lets go of the log's space.
    pub fn digest(&self) -> Result<(), Error> {
        self.check_alive()?;
        self.with_daemon(|| {
            self.digest_log()?;
            self.retire_all()
        })
    }

    /// Has SharedFS digest what this session's log holds, if it holds anything.
    pub(crate) fn digest_own_log(&self) -> Result<(), Error> {
        if self.session.digested() < self.session.appender.completed() { self.digest_log() } else { Ok(()) }
    }

    fn digest_log(&self) -> Result<(), Error> {
        match self.session.ask(&Request::Digest)? {
            Response::Done => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// Has who waits for a digest ask for one when none came in `look`: 250 ms, unless this is called.
    pub fn look_for_digest_after(&self, look: Duration) {
        self.session.look_for_digest_after(look);
    }

    /// Waits for a digest so far, and how many of them ended because their time was up: the digest was slow, or nobody woke
    /// who waited.
    #[must_use]
    pub fn digest_waits(&self) -> (u64, u64) {
        self.session.digest_waits()
    }
}
