//! Digests that a client asks for, and its waits for them.

use crate::client::client::Client;
use crate::errno::{Error, unexpected};
use cuesta_format::wire::{Request, Response};
use std::time::Duration;

impl Client {
    /// Has SharedFS digest everything that this session did, and frees the log space.
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

    /// Sets how long a wait for a digest sleeps before it asks for one. The default is 250 ms.
    pub fn look_for_digest_after(&self, look: Duration) {
        self.session.look_for_digest_after(look);
    }

    /// How many waits for a digest there were, and how many of them timed out, because the digest was slow or
    /// a wake-up was missed.
    #[must_use]
    pub fn digest_waits(&self) -> (u64, u64) {
        self.session.digest_waits()
    }
}
