//! How a call gets its answer: by the ring, by the socket, or from the next daemon.

use crate::asking::client::{Client, Holder};
use crate::asking::content::gather;
use crate::asking::line::{Line, Loss, greet, lift};
use crate::protocol::call::Call;
use crate::protocol::frames::{FrameError, Frames};
use crate::protocol::messages::{Answered, Request, Response};
use crate::protocol::once::Once;
use crate::ring::CALLS_BEFORE_RING;
use crate::ring::client::{Answer, NotAnswered, Ring};
use cuesta_libfs::{Error, RESUME_WAIT, patiently};
use cuesta_media::UserSlice;
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::io::DupFlags;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How long to wait before asking a daemon again that did not answer.
const PAUSE: Duration = Duration::from_millis(5);

impl Client {
    pub(crate) fn ask(&self, request: &Request<'_>) -> Result<Response, Error> {
        match self.ask_then(request, |answer| answer.decode().map(Err::<std::convert::Infallible, _>))? {
            Err(response) => Ok(response),
        }
    }

    /// Asks, and has `take` read the answer in the lane of a ring, which may be none. An answer by the socket is itself.
    pub(crate) fn ask_then<T>(
        &self,
        request: &Request<'_>,
        mut take: impl FnMut(&Answer<'_>) -> Option<Result<T, Response>>,
    ) -> Result<Result<T, Response>, Error> {
        self.ask_behind_show(|loss| match self.ask_by_ring(request, &[], loss, &mut take)? {
            Some(Err(Response::Failed(error))) => Err(error),
            Some(answer) => Ok(answer),
            None => self.ask_by_socket(request, None, loss).map(|(response, _)| Err(response)),
        })
    }

    /// Asks what `request` makes of bytes of the application's, with which it ends.
    pub(crate) fn ask_writing(
        &self,
        data: &[UserSlice<'_>],
        request: impl Fn(&[u8]) -> Request<'_>,
    ) -> Result<Response, Error> {
        self.ask_behind_show(|loss| {
            let answer = self.ask_by_ring(&request(&[]), data, loss, |answer| answer.decode())?;
            match answer {
                Some(Response::Failed(error)) => Err(error),
                Some(response) => Ok(response),
                None => Ok(self.ask_by_socket(&request(&gather(data)?), None, loss)?.0),
            }
        })
    }

    pub(crate) fn ask_with(
        &self,
        request: &Request<'_>,
        descriptor: Option<BorrowedFd<'_>>,
    ) -> Result<(Response, Option<OwnedFd>), Error> {
        self.ask_behind_show(|loss| self.ask_by_socket(request, descriptor, loss))
    }

    /// Makes a call, and makes it again if the daemon does not know the file: the daemon before may have opened that just as it died, when
    /// the others were shown to this one.
    fn ask_behind_show<T>(&self, mut ask: impl FnMut(&mut Loss) -> Result<T, Error>) -> Result<T, Error> {
        let mut loss = Loss::default();
        let mut answer = ask(&mut loss);
        if matches!(answer, Err(Error::AccessMode)) && self.show_again() {
            loss.begun = None;
            answer = ask(&mut loss);
        }
        match answer {
            // The file it is about is one that the next daemon does not have.
            Err(Error::AccessMode) if loss.has_lost_files => Err(Error::Disconnected),
            answer => answer,
        }
    }

    /// Shows all open files to the daemon. `false`: it is the one that opened them.
    #[cold]
    fn show_again(&self) -> bool {
        let mut line = self.line.lock();
        let Some(holder) = self.holder.as_ref().filter(|_| line.is_next) else { return false };
        // If the daemon is gone the call finds that out by itself.
        if let Ok(has_lost_files) = show(&mut line.frames, &**holder) {
            line.has_lost_files |= has_lost_files;
        }
        true
    }

    /// Asks by the ring. Nothing: it is to be asked by the socket.
    fn ask_by_ring<T>(
        &self,
        request: &Request<'_>,
        payload: &[UserSlice<'_>],
        loss: &mut Loss,
        take: impl FnOnce(&Answer<'_>) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let ring = self.ring.read().clone();
        let Some(ring) = ring else { return Ok(None) };
        match ring.ask(request, payload, &self.line, take) {
            Ok(answer) => return Ok(Some(answer)),
            Err(NotAnswered::BadAddress) => return Err(Error::Fault),
            Err(NotAnswered::Unsuited) => {}
            Err(NotAnswered::Ended(begun)) => {
                loss.begun = begun;
                self.renew_after(&ring, &mut self.line.lock(), loss)?;
            }
        }
        Ok(None)
    }

    fn ask_by_socket(
        &self,
        request: &Request<'_>,
        descriptor: Option<BorrowedFd<'_>>,
        loss: &mut Loss,
    ) -> Result<(Response, Option<OwnedFd>), Error> {
        let mut line = self.line.lock();
        let mut call = match &loss.begun {
            Some(begun) => {
                Call { once: begun.once.map(|once| Once { again: true, ..once }), request: *request }
            }
            None => line.numbering.call(request),
        };
        loop {
            line.numbering.introduce(&mut call);
            let sent = line.frames.send(&call, descriptor);
            let error = match sent.and_then(|()| line.frames.receive::<Answered>()) {
                Ok((Answered { response, log_end }, token)) => {
                    self.numbers.note_end(log_end);
                    self.count_call(&mut line);
                    return match response {
                        Response::Failed(error) => Err(error),
                        response => Ok((response, token.map(|token| lift(token, self.descriptor_floor)))),
                    };
                }
                Err(error) => error,
            };
            let FrameError::Ended(_) = error else { return Err(error.into()) };
            self.renew_in_time(&mut line, loss)?;
            call.once = call.once.map(|once| Once { again: true, ..once });
        }
    }

    /// A call was answered by the socket: after some of them a ring is worth its while.
    fn count_call(&self, line: &mut Line) {
        match line.calls_before_ring {
            0 => {}
            1 => self.ask_for_ring(line),
            more => line.calls_before_ring = more - 1,
        }
    }

    /// Asks for a ring, once for each daemon. Without one the socket serves on.
    fn ask_for_ring(&self, line: &mut Line) {
        line.calls_before_ring = 0;
        match self.try_ask_for_ring(line) {
            Ok(ring) => *self.ring.write() = ring.map(Arc::new),
            // A daemon that knows of no rings hangs up. If it is gone the next call finds that out.
            Err(_) => drop(self.renew(line)),
        }
    }

    fn try_ask_for_ring(&self, line: &mut Line) -> Result<Option<Ring>, FrameError> {
        // The calls of lanes do not say whose they are.
        if let Some(introduction) = line.numbering.introduction() {
            line.frames.send(&introduction, None)?;
            let (Response::Done, _) = line.frames.receive_answer()? else { return Ok(None) };
            line.numbering.note_introduction();
        }
        line.frames.send(&Request::Ring, None)?;
        Ok(match line.frames.receive_answer()? {
            (Response::Done, Some(memory)) => {
                Ring::map(&memory, Arc::clone(&self.numbers), Arc::clone(&self.lanes))
            }
            _ => None,
        })
    }

    /// A ring's daemon is gone: goes on with the next one, unless another thread has done so.
    fn renew_after(&self, ring: &Arc<Ring>, line: &mut Line, loss: &mut Loss) -> Result<(), Error> {
        let is_current = self.ring.read().as_ref().is_some_and(|current| Arc::ptr_eq(current, ring));
        if is_current {
            return self.renew_in_time(line, loss);
        }
        loss.has_lost_files |= line.has_lost_files;
        Ok(())
    }

    /// Goes on with the next daemon, until so long after the connection was first `lost`: one that is about to end may take
    /// connections, and answer nothing.
    fn renew_in_time(&self, line: &mut Line, loss: &mut Loss) -> Result<(), Error> {
        if self.holder.is_none() {
            return Err(Error::Disconnected);
        }
        let patience = line.patience;
        let began = match loss.since {
            None => *loss.since.insert(Instant::now()),
            Some(began) if began.elapsed() < patience => {
                std::thread::sleep(PAUSE);
                began
            }
            Some(_) => return Err(Error::Disconnected),
        };
        loop {
            match self.renew(line) {
                Err(Error::Disconnected) if began.elapsed() < line.patience => std::thread::sleep(PAUSE),
                renewed => {
                    renewed?;
                    loss.has_lost_files |= line.has_lost_files;
                    if self.ring.read().is_none() {
                        line.calls_before_ring = CALLS_BEFORE_RING;
                    }
                    return Ok(());
                }
            }
        }
    }

    /// Goes on with the next daemon, and notes whether it has not all the files that were open.
    fn renew(&self, line: &mut Line) -> Result<(), Error> {
        let holder = self.holder.as_deref().ok_or(Error::Disconnected)?;
        let greet = || greet(&holder.path(), self.descriptor_floor);
        let greeted = patiently(line.patience, || match greet() {
            Err(Error::Disconnected) if holder.start_daemon() => greet(),
            greeted => greeted,
        });
        line.patience = if greeted.is_ok() { RESUME_WAIT } else { Duration::ZERO };
        let (mut frames, store) = greeted?;
        if store != self.store {
            return Err(Error::Disconnected);
        }
        if let Some(caller) = line.numbering.reintroduction() {
            frames.send(&caller, None)?;
            frames.receive_answer()?;
        }
        if let Some(capabilities) = self.capabilities {
            frames.send(&Request::Capabilities { bits: capabilities.bits() }, None)?;
            frames.receive_answer()?;
        }
        let limit = self.limit.load(Ordering::Relaxed);
        if limit != u64::MAX {
            frames.send(&Request::Limit { bytes: limit }, None)?;
            frames.receive_answer()?;
        }
        let has_lost_files = show(&mut frames, holder)?;
        // The number stays: it is known as one of this library's own.
        rustix::io::dup3(&frames.socket, &mut line.frames.socket, DupFlags::CLOEXEC)
            .map_err(|_| Error::Descriptors)?;
        line.has_lost_files = has_lost_files;
        line.is_next = true;
        let ring = self.ring.write().take();
        if let Some(ring) = ring {
            ring.end();
            self.ask_for_ring(line);
        }
        Ok(())
    }
}

/// Shows all files that `holder` has open to a daemon, which knows them by their tokens. Answers whether it lacks one.
fn show(frames: &mut Frames, holder: &dyn Holder) -> Result<bool, FrameError> {
    let (mut shown, mut has_lost_files) = (Ok(()), false);
    holder.show(&mut |file, token| {
        if shown.is_err() {
            return;
        }
        shown = frames.send(&Request::Redeem, Some(token)).and_then(|()| {
            let is_known = matches!(frames.receive_answer()?.0,
                Response::Opened { file: number, .. } if number == file.number());
            file.note_whether_lost(!is_known);
            has_lost_files |= !is_known;
            Ok(())
        });
    });
    shown.map(|()| has_lost_files)
}
