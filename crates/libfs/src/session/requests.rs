//! Requests to SharedFS: those that a thread waits for, and one at a time that no thread waits for.
//!
//! SharedFS answers while it digests, on a busy processor, so an answer can take milliseconds. The session
//! therefore asks ahead for what it will need soon: it *posts* the request. The next thread that comes by
//! takes the answer.

use crate::errno::Error;
use crate::session::link::Link;
use crate::sync::{AtomicU32, Mutex, Ordering};
use cuesta_format::wire::{Request, Response};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsRawFd as _, BorrowedFd, OwnedFd};

/// A poll looks for the answer if its number is a power of two or a multiple of this.
const POLL_EVERY: u32 = 64;

/// The subject of a posted request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// Blocks to debit.
    Credit,
    /// Inode numbers.
    Numbers,
    /// Where digests placed content.
    Report,
    /// Leases on the inodes that a walk comes to next.
    Ahead,
}

/// The link to SharedFS, and the posted request.
pub(crate) struct Requests {
    line: Mutex<Line>,
    /// Whether an answer is outstanding, readable without the lock.
    outstanding: AtomicU32,
    /// Polls since the request was posted.
    polls: AtomicU32,
}

struct Line {
    link: Box<dyn Link>,
    posted: Option<Subject>,
}

/// Takes the answer to a posted request.
pub(crate) trait Deliver {
    /// Called with the link locked, so it must not ask SharedFS.
    fn deliver(&self, subject: Subject, answer: Result<Response, Error>);
}

impl Requests {
    pub(crate) fn new(link: Box<dyn Link>) -> Requests {
        let line = Line { link, posted: None };
        Requests { line: Mutex::new(line), outstanding: AtomicU32::new(0), polls: AtomicU32::new(0) }
    }

    /// The number of the link's descriptor.
    pub(crate) fn descriptor(&self) -> Option<i32> {
        self.line.lock().link.descriptor().map(|descriptor| descriptor.as_raw_fd())
    }

    /// Replaces that descriptor by a copy, and answers the old one.
    pub(crate) fn replace_descriptor(&self, copy: OwnedFd) -> OwnedFd {
        self.line.lock().link.replace_descriptor(copy)
    }

    /// Asks, and waits for the answer. It collects an outstanding answer first.
    pub(crate) fn call(
        &self,
        request: &Request,
        descriptors: &mut Vec<OwnedFd>,
        to: &impl Deliver,
    ) -> Result<Response, Error> {
        let mut line = self.line.lock();
        self.collect(&mut line, true, to);
        refusals_as_errors(line.link.call(request, descriptors)?)
    }

    /// Asks with a descriptor that goes along, and waits for the answer.
    pub(crate) fn call_handing(
        &self,
        request: &Request,
        handed: BorrowedFd<'_>,
        to: &impl Deliver,
    ) -> Result<Response, Error> {
        let mut line = self.line.lock();
        self.collect(&mut line, true, to);
        refusals_as_errors(line.link.call_handing(request, handed)?)
    }

    /// Connects again, and asks as the first question on the new connection. An outstanding answer never
    /// arrives. If no daemon listens, nothing changes. `None`: this link cannot connect again.
    pub(crate) fn reconnect(
        &self,
        request: &Request,
        descriptors: &mut Vec<OwnedFd>,
        to: &impl Deliver,
    ) -> Result<Option<Response>, Error> {
        let mut line = self.line.lock();
        if !line.link.reconnect()? {
            return Ok(None);
        }
        if let Some(subject) = line.posted.take() {
            self.outstanding.store(0, Ordering::Release);
            to.deliver(subject, Err(Error::Disconnected));
        }
        refusals_as_errors(line.link.call(request, descriptors)?).map(Some)
    }

    /// Asks, unless another thread's answer or the outstanding one brings the same first: `known` is checked
    /// before the request is sent. `take` gets the answer before another thread can ask. The request that
    /// `then` makes is posted under the same lock.
    pub(crate) fn call_unless<R>(
        &self,
        known: impl Fn() -> Option<R>,
        request: impl FnOnce() -> Request,
        take: impl FnOnce(Response) -> Result<R, Error>,
        then: impl FnOnce() -> Option<(Subject, Request)>,
        to: &impl Deliver,
    ) -> Result<R, Error> {
        let mut line = self.line.lock();
        let mut found = known();
        if found.is_none() {
            self.collect(&mut line, true, to);
            found = known();
        }
        let found = match found {
            Some(found) => found,
            None => take(refusals_as_errors(line.link.call(&request(), &mut Vec::new())?)?)?,
        };
        if line.posted.is_none()
            && let Some((subject, request)) = then()
        {
            self.post_on(&mut line, subject, &request, to);
        }
        Ok(found)
    }

    /// Posts a request. `false`: an answer is outstanding, or another thread is asking.
    pub(crate) fn post(&self, subject: Subject, request: &Request, to: &impl Deliver) -> bool {
        let Some(mut line) = self.line.try_lock().filter(|line| line.posted.is_none()) else {
            return false;
        };
        self.post_on(&mut line, subject, request, to);
        true
    }

    fn post_on(&self, line: &mut Line, subject: Subject, request: &Request, to: &impl Deliver) {
        match line.link.post(request) {
            Ok(true) => {
                line.posted = Some(subject);
                self.polls.store(0, Ordering::Relaxed);
                self.outstanding.store(1, Ordering::Release);
            }
            Ok(false) => {
                let answer = line.link.call(request, &mut Vec::new()).map_err(Error::from);
                to.deliver(subject, answer.and_then(refusals_as_errors));
            }
            Err(error) => to.deliver(subject, Err(error.into())),
        }
    }

    /// Sends the session's last message, without waiting for an answer.
    pub(crate) fn send_last(&self, request: &Request) {
        let mut line = self.line.lock();
        if let Ok(false) = line.link.post(request) {
            let _ = line.link.call(request, &mut Vec::new());
        }
    }

    #[inline]
    pub(crate) fn is_outstanding(&self) -> bool {
        self.outstanding.load(Ordering::Relaxed) != 0
    }

    /// Takes the outstanding answer if it has arrived. Most calls do not even look.
    #[inline]
    pub(crate) fn poll(&self, to: &impl Deliver) {
        let count = self.polls.load(Ordering::Relaxed).wrapping_add(1);
        self.polls.store(count, Ordering::Relaxed);
        if (count.is_power_of_two() || count.is_multiple_of(POLL_EVERY))
            && let Some(mut line) = self.line.try_lock()
        {
            self.collect(&mut line, false, to);
        }
    }

    /// Whether the other side has hung up. A thread that waits for an answer sees it for itself.
    pub(crate) fn is_hung_up(&self) -> bool {
        let Some(line) = self.line.try_lock() else { return false };
        let Some(descriptor) = line.link.descriptor() else { return false };
        let mut polled = [PollFd::new(&descriptor, PollFlags::RDHUP)];
        matches!(poll(&mut polled, Some(&Timespec::default())), Ok(1..))
    }

    /// Waits for the outstanding answer, if there is one, and takes it.
    pub(crate) fn await_posted(&self, to: &impl Deliver) {
        self.collect(&mut self.line.lock(), true, to);
    }

    fn collect(&self, line: &mut Line, wait: bool, to: &impl Deliver) {
        let Some(subject) = line.posted else { return };
        let answer = match line.link.collect(wait) {
            Ok(None) => return,
            Ok(Some(answer)) => refusals_as_errors(answer),
            Err(error) => Err(error.into()),
        };
        line.posted = None;
        self.outstanding.store(0, Ordering::Release);
        to.deliver(subject, answer);
    }
}

fn refusals_as_errors(response: Response) -> Result<Response, Error> {
    match response {
        Response::Failed(refusal) => Err(refusal.into()),
        response => Ok(response),
    }
}
