//! One connection, from its first frame to the end of its session.
//!
//! A connection has at most one session, begun here or with an earlier daemon. A session lives as long as its
//! connection, or this daemon. When the client is gone, by an orderly `Detach` or by dying, the core ends the
//! session and digests its log.

use super::digester::DigesterHandle;
use super::frames::{FrameError, Frames};
use super::nearness::{Nearness, Neighbours};
use super::preparer::PreparerHandle;
use super::service::{Answer, Service};
use super::stopping::{Farewell, StopReason, StopSender};
use crate::Ending;
use cuesta_format::durability::DurabilityWish;
use cuesta_format::wire::{PROTOCOL_VERSION, Question, Refusal, Request, Response, WireError};
use cuesta_format::{InodeNumber, SessionId};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, Uid, pidfd_open};
use std::sync::{Arc, mpsc};

/// How long a process that closed its socket may take to be dead.
const DYING: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// What stands behind a connection.
#[derive(Debug)]
pub(super) struct Behind<'a, S> {
    pub service: &'a S,
    pub digester: &'a DigesterHandle,
    pub preparer: &'a PreparerHandle,
    pub stop: &'a StopSender,
    pub neighbours: &'a Neighbours,
}

/// Serves `socket` until its client hangs up, detaches, or sends something that is no request.
pub(super) fn serve<S: Service>(socket: Arc<OwnedFd>, behind: Behind<'_, S>) {
    let process = match rustix::net::sockopt::socket_peercred(&socket) {
        Ok(credentials) if is_trusted(credentials.uid) => credentials.pid,
        Ok(credentials) => {
            tracing::warn!(user = %credentials.uid.as_raw(), "a connection of another user is closed");
            return;
        }
        Err(error) => {
            tracing::warn!(%error, "a connection without credentials is closed");
            return;
        }
    };
    let nearness = Nearness::new(behind.neighbours, process);
    let mut connection = Connection { frames: Frames::new(socket), behind, nearness, process, session: None };
    match connection.run() {
        Ok(()) | Err(FrameError::Closed) => {}
        Err(error @ FrameError::Malformed(WireError::Version(_))) => {
            tracing::warn!(%process, %error, "a connection is closed");
            // Any answer says which version this is.
            let _ = connection.frames.send(&Response::Done, &[]);
        }
        Err(error @ FrameError::Broken(_)) => tracing::debug!(%process, %error, "hung up"),
        Err(error) => tracing::warn!(%process, %error, "a connection is closed"),
    }
}

struct Connection<'a, S: Service> {
    frames: Frames,
    behind: Behind<'a, S>,
    nearness: Nearness<'a>,
    process: Pid,
    session: Option<SessionId>,
}

impl<S: Service> Connection<'_, S> {
    fn run(&mut self) -> Result<(), FrameError> {
        loop {
            let Question { processor, request } = self.frames.receive()?;
            let handed = self.frames.take_descriptor();
            tracing::trace!(process = %self.process, ?request, "request");
            match request {
                Request::Stop => return self.stop_daemon(),
                Request::Detach => {
                    self.nearness.stand_back();
                    self.end(Ending::Gone);
                    if self.behind.service.is_left() {
                        return Err(FrameError::Closed);
                    }
                    return self.frames.send(&Response::Done, &[]);
                }
                Request::Unheard => {
                    self.behind.neighbours.let_go(self.process, self.nearness.home());
                    self.frames.send(&Response::Done, &[])?;
                }
                request => {
                    let takes = matches!(
                        request,
                        Request::Credit { .. } | Request::GrowLog { .. } | Request::InodeNumbers { .. }
                    );
                    let grants = matches!(
                        request,
                        Request::Attach { .. }
                            | Request::Acquire { .. }
                            | Request::Lookup { .. }
                            | Request::Map { .. }
                    );
                    let answer = match request {
                        Request::Attach { version, program, first, resume, durability, .. } => {
                            self.attach(version, &program, first, resume, durability)
                        }
                        Request::KeepInKernel => self.behind.service.keep_in_kernel(self.session, handed),
                        request => self.behind.service.handle(self.session, &request),
                    };
                    if self.behind.service.is_left() {
                        // Whatever was answered, the next daemon is asked.
                        return Err(FrameError::Closed);
                    }
                    self.frames.send(&answer.response, &answer.descriptors)?;
                    if grants {
                        self.behind.service.answered(self.session);
                    }
                    self.nearness.answered(processor);
                    if takes {
                        self.behind.preparer.wake();
                    }
                }
            }
        }
    }

    fn attach(
        &mut self,
        version: u32,
        program: &str,
        first: InodeNumber,
        resume: SessionId,
        wish: DurabilityWish,
    ) -> Answer {
        if version != PROTOCOL_VERSION {
            return Refusal::Version { daemon: PROTOCOL_VERSION }.into();
        }
        if self.session.is_some() {
            return Refusal::Invalid("this connection has a session already".into()).into();
        }
        let process = self.process.as_raw_nonzero().get().unsigned_abs();
        let attached = match resume {
            SessionId::NOBODY => self.behind.service.attach(process, program, first, wish),
            session => self.behind.service.resume(session, process, program, wish),
        };
        match attached {
            Ok(attached) => {
                self.session = Some(attached.session);
                if let Err(error) = self.behind.digester.watch(attached.session, attached.kick) {
                    self.end(Ending::Gone);
                    return Refusal::Internal(error.to_string()).into();
                }
                attached.answer
            }
            Err(error) => {
                tracing::warn!(process = %self.process, %error, "cannot attach");
                Refusal::from(error).into()
            }
        }
    }

    fn end(&mut self, ending: Ending) {
        if let Some(session) = self.session.take() {
            self.behind.digester.forget(session);
            match self.behind.service.end_session(session, ending) {
                Ok(()) => {}
                Err(error) if error.is_left() => {
                    tracing::debug!(session = session.0, "it is the next daemon's")
                }
                Err(error) => tracing::error!(session = session.0, %error, "cannot end a session"),
            }
            // It may have left lock files, and the next one needs what this one had.
            self.behind.preparer.wake();
        }
    }

    /// Answers only when everything is digested: the reader of the answer may take the power away.
    fn stop_daemon(&mut self) -> Result<(), FrameError> {
        let (digested, wait) = mpsc::channel();
        let (answer, answered) = mpsc::channel();
        if self.behind.stop.send(StopReason::Asked(Farewell { digested, answered })).is_ok() {
            // An error means that the daemon is leaving for another reason: the answer is the same.
            let _ = wait.recv();
        }
        let sent = self.frames.send(&Response::Done, &[]);
        // The listener may be gone.
        let _ = answer.send(());
        sent
    }
}

impl<S: Service> Drop for Connection<'_, S> {
    /// Also reached by a panic in the service: its session must not outlive its thread.
    fn drop(&mut self) {
        // Of a store that was left it is the next daemon's.
        if self.session.is_some() && !self.behind.service.is_left() {
            self.end(if is_gone(self.process) { Ending::Gone } else { Ending::GivenUp });
        }
    }
}

/// Whether a user's processes may have sessions: those of the daemon's own user and of root. The socket's mode lets
/// in no other user either.
fn is_trusted(user: Uid) -> bool {
    user.is_root() || user == rustix::process::geteuid()
}

/// Whether a client that hung up is a dead process. A dying one closes its socket a moment before it is seen
/// to be dead; one that lives on could still write to its log.
fn is_gone(process: Pid) -> bool {
    let Ok(process) = pidfd_open(process, PidfdFlags::empty()) else { return true };
    let mut ended = [PollFd::new(&process, PollFlags::IN)];
    matches!(rustix::event::poll(&mut ended, Some(&DYING)), Ok(1..))
}
