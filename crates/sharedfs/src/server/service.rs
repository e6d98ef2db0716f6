//! What the server needs of the core, and nothing more.

use cuesta_format::SessionId;
use cuesta_format::wire::{Refusal, Request, Response};
use std::os::fd::OwnedFd;

/// Who is at the other end, as the kernel tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its process.
    pub pid: u32,
    /// Its user.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
}

/// A response and the descriptors beside it.
#[derive(Debug)]
pub struct Answer {
    /// The message.
    pub response: Response,
    /// What travels along, in order.
    pub descriptors: Vec<OwnedFd>,
}

impl From<Response> for Answer {
    fn from(response: Response) -> Answer {
        Answer { response, descriptors: Vec::new() }
    }
}

impl From<Refusal> for Answer {
    fn from(refusal: Refusal) -> Answer {
        Response::Failed(refusal).into()
    }
}

/// A session that has just begun.
#[derive(Debug)]
pub struct Attached {
    /// The session.
    pub session: SessionId,
    /// What its client gets.
    pub answer: Answer,
    /// The eventfd its client raises when its log wants a digest.
    pub kick: OwnedFd,
}

/// The core, as the server sees it. Every call may come from any thread.
pub trait Service: Send + Sync + std::fmt::Debug + 'static {
    /// Begins a session for `peer`.
    fn attach(&self, peer: Peer, program: &str) -> Result<Attached, Refusal>;

    /// Answers `request` of a session, or of somebody who has none (`cuesta status` and the like). Never
    /// gets `Attach`, `Detach` or `Stop`, which the server handles.
    fn handle(&self, session: Option<SessionId>, request: Request) -> Answer;

    /// Ends a session whose client is gone: what its log holds is digested.
    fn end_session(&self, session: SessionId);

    /// Bytes in the session's log that are completed and not digested; 0 if there is no such session.
    fn pending_bytes(&self, session: SessionId) -> u64;

    /// Digests one batch of the session's log.
    fn digest_batch(&self, session: SessionId);

    /// From this many pending bytes on, a digest does not wait.
    fn kick_bytes(&self) -> u64;

    /// How long fewer bytes may wait.
    fn digest_idle(&self) -> std::time::Duration;

    /// The daemon leaves: everything is digested, every session is told that it is over.
    fn stop(&self);
}
