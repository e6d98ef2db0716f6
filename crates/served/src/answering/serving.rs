//! The thread of a connection: greets, takes requests from the socket, and makes the ring and the threads of its lanes.

use crate::answering::connection::{Answer, Connection, InHand};
use crate::answering::peer::{self, Peer};
use crate::answering::shared::Shared;
use crate::protocol::call::Call;
use crate::protocol::frames::{Bounds, FrameError, Frames};
use crate::protocol::messages::{Answered, Request, Response};
use crate::ring::daemon::Ring;
use crate::shares::accounts::Holder;
use crate::shares::complaints::Complaint;
use cuesta_libfs::{Credentials, Error};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::thread::Scope;

/// Serves a process until it hangs up, or sends what is no request.
pub(crate) fn serve(socket: OwnedFd, who: Credentials, shared: &Shared) {
    let holder = Holder::of(&who);
    let bounds = Bounds { accounts: Arc::clone(shared.files.accounts()), holder };
    let process = peer::process(&socket);
    let peer = Arc::new(Peer { socket, process });
    let connection = Connection::new(shared, who, holder, process, peer.clone());
    let mut frames = Frames::bounded(&peer.socket, bounds);
    let ring = OnceLock::new();
    let ended = std::thread::scope(|scope| {
        let _ending = EndOfRing(&ring);
        connection.run(&mut frames, &ring, scope)
    });
    connection.first_calls.end(&*shared.first_calls);
    connection.forget_caller(!connection.is_cut.load(Ordering::Acquire));
    let ended = match ended {
        Err(FrameError::Ended(_)) if ring.get().is_some_and(Ring::is_broken) => Err(FrameError::Malformed),
        ended => ended,
    };
    if let Err(error @ (FrameError::Malformed | FrameError::Late)) = ended
        && let Some(left_out) = shared.complaints.is_told(Complaint::Message, holder.user)
    {
        tracing::warn!(user = holder.user, left_out, %error, "a connection is closed");
    }
}

/// The credentials that a connection is served with, if it may be served at all.
pub(crate) fn who(socket: &OwnedFd) -> Option<Credentials> {
    peer::credentials(socket)
        .inspect_err(|error| tracing::warn!(%error, "a connection without credentials is closed"))
        .ok()
}

/// The connection ends, in order or by a panic: so do the threads of its lanes.
struct EndOfRing<'r>(&'r OnceLock<Ring>);

impl Drop for EndOfRing<'_> {
    fn drop(&mut self) {
        self.0.get().into_iter().for_each(Ring::end);
    }
}

impl Connection<'_> {
    fn run<'scope>(
        &'scope self,
        frames: &mut Frames<&OwnedFd>,
        ring: &'scope OnceLock<Ring>,
        scope: &'scope Scope<'scope, '_>,
    ) -> Result<(), FrameError> {
        let mut is_greeted = false;
        loop {
            let (call, token) = frames.receive::<Call<'_>>()?;
            if !is_greeted && !matches!(call.request, Request::Hello { .. }) {
                return Err(FrameError::Malformed);
            }
            is_greeted = true;
            let mut in_hand = InHand::default();
            let answer = match call.request {
                Request::Ring => self.make_ring(frames.socket, ring, scope),
                Request::Lane { lane } => self.start_lane(ring.get(), lane, scope),
                Request::Unheard => {
                    ring.get().into_iter().for_each(Ring::let_go);
                    Ok((Response::Done, None))
                }
                request => self.answer_call(Call { request, ..call }, token, &mut in_hand),
            };
            if matches!(answer, Err(Error::Withdrawn)) {
                return Err(FrameError::Ended(Errno::CONNRESET));
            }
            if matches!(answer, Err(Error::Disconnected | Error::SessionEnded)) {
                // SharedFS goes away beneath us: the process has to ask the next daemon.
                self.is_cut.store(true, Ordering::Release);
                return Err(FrameError::Ended(Errno::CONNRESET));
            }
            let (response, token) = answer.unwrap_or_else(|error| (Response::Failed(error), None));
            let sending = token.is_some().then(|| self.shared.files.sendings().begin());
            let log_end = self.log_end();
            let sent = frames.send(&Answered { response, log_end }, token.as_ref().map(AsFd::as_fd));
            drop(token);
            drop(sending);
            sent?;
        }
    }

    /// Does a call, exactly once if it asks for that.
    pub(crate) fn answer_call(&self, call: Call<'_>, token: Option<OwnedFd>, in_hand: &mut InHand) -> Answer {
        if self.holder.is_trusted {
            self.first_calls.count(&*self.shared.first_calls, self.process, &call.request);
        }
        match call.once {
            Some(once) => self.answer_once(once, call.request, token, in_hand),
            None => self.answer(call.request, token, in_hand),
        }
    }

    /// Makes the connection's ring, with a thread for its first lane.
    fn make_ring<'scope>(
        &'scope self,
        socket: &OwnedFd,
        ring: &'scope OnceLock<Ring>,
        scope: &'scope Scope<'scope, '_>,
    ) -> Answer {
        if ring.get().is_some() {
            return Err(Error::Invalid);
        }
        let (made, file) = Ring::make(socket, self.shared.files.accounts(), self.holder)?;
        ring.get_or_init(|| made).start(0, self, scope)?;
        Ok((Response::Done, Some(file)))
    }

    fn start_lane<'scope>(
        &'scope self,
        ring: Option<&'scope Ring>,
        lane: u32,
        scope: &'scope Scope<'scope, '_>,
    ) -> Answer {
        ring.ok_or(Error::Invalid)?.start(lane as usize, self, scope)?;
        Ok((Response::Done, None))
    }
}
