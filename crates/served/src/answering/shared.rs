//! The state that all connections of a daemon share: one session, the open files, and the counts of each user.
//!
//! The file does not know connections. `server.rs` makes the value, and a thread for each connection.

use super::callers::Callers;
use super::files::Files;
use super::first_calls::FirstCallCounter;
use crate::shares::complaints::Complaints;
use cuesta_format::wire;
use cuesta_libfs::{Client, Error, Link, LinkError, SocketLink};
use parking_lot::Mutex;
use rustix::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::Arc;

/// What `cuesta status` calls the session.
const PROGRAM: &str = "(served)";

/// The session's link. There is no next daemon to go on with: this process is the daemon.
struct Inward(SocketLink);

impl Link for Inward {
    fn call(
        &mut self,
        request: &wire::Request,
        files: &mut Vec<OwnedFd>,
    ) -> Result<wire::Response, LinkError> {
        self.0.call(request, files)
    }

    fn post(&mut self, request: &wire::Request) -> Result<bool, LinkError> {
        self.0.post(request)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.0.descriptor()
    }

    fn replace_descriptor(&mut self, copy: OwnedFd) -> OwnedFd {
        self.0.replace_descriptor(copy)
    }

    fn collect(&mut self, wait: bool) -> Result<Option<wire::Response>, LinkError> {
        self.0.collect(wait)
    }
}

/// What connections share.
pub(crate) struct Shared {
    /// Where SharedFS listens for its own user and root.
    sharedfs: PathBuf,
    session: Mutex<Option<Arc<Client>>>,
    pub(crate) files: Files,
    pub(crate) complaints: Complaints,
    pub(crate) callers: Arc<Callers>,
    pub(crate) first_calls: Arc<dyn FirstCallCounter>,
}

impl Shared {
    pub(super) fn new(sharedfs: PathBuf, files: Files, first_calls: Arc<dyn FirstCallCounter>) -> Shared {
        Shared {
            sharedfs,
            session: Mutex::new(None),
            files,
            complaints: Complaints::default(),
            callers: Arc::default(),
            first_calls,
        }
    }

    /// The session.
    pub(crate) fn client(&self) -> Result<Arc<Client>, Error> {
        let mut session = self.session.lock();
        if let Some(client) = session.as_ref().filter(|client| client.is_attached()) {
            return Ok(Arc::clone(client));
        }
        let link = SocketLink::connect(self.sharedfs.as_os_str().as_bytes(), 0)?;
        let client = Client::attach(Box::new(Inward(link)), PROGRAM)?;
        client.tell_of_giving_up(|why| tracing::error!(why, "a call of another user's fails"));
        client.execute_for_callers();
        *session = Some(Arc::clone(&client));
        Ok(client)
    }

    /// This session executes the calls, as long as it is attached.
    pub(super) fn use_session(&self, session: Arc<Client>) {
        session.execute_for_callers();
        *self.session.lock() = Some(session);
    }
}
