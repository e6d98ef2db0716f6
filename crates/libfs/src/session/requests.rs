//! Requests SharedFS: questions that are waited for, and one at a time that is not.
//!
//! SharedFS answers while it digests, on a processor that is busy: whoever waits for that waits milliseconds. So what
//! will be needed soon is asked for ahead (*posted*), and its answer is taken by whoever comes by later.

use crate::errno::Error;
use crate::session::link::Link;
use crate::sync::{AtomicU32, Mutex, Ordering};
use cuesta_format::wire::{Request, Response};
use rustix::fd::{AsRawFd as _, BorrowedFd, OwnedFd};

/// Looks for an answer are made at every such turn, and at the first few.
const POLL_EVERY: u32 = 64;

/// What was asked for ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// Blocks to debit.
    Credit,
    /// Inode numbers.
    Numbers,
    /// Where digests placed what.
    Report,
    /// Leases on what a walk comes to next.
    Ahead,
}

/// The way to SharedFS.
pub(crate) struct Requests {
    line: Mutex<Line>,
    /// Whether an answer is outstanding, to look at without the lock.
    outstanding: AtomicU32,
    /// Looks since the question.
    polls: AtomicU32,
}

struct Line {
    link: Box<dyn Link>,
    posted: Option<Subject>,
}

/// Who takes the answer to a question posted earlier.
pub(crate) trait Deliver {
    /// Called with the line held: it must not ask.
    fn deliver(&self, subject: Subject, answer: Result<Response, Error>);
}

impl Requests {
    pub(crate) fn new(link: Box<dyn Link>) -> Requests {
        let line = Line { link, posted: None };
        Requests { line: Mutex::new(line), outstanding: AtomicU32::new(0), polls: AtomicU32::new(0) }
    }

    /// The descriptor of the way, by its number.
    pub(crate) fn descriptor(&self) -> Option<i32> {
        self.line.lock().link.descriptor().map(|descriptor| descriptor.as_raw_fd())
    }

    /// Goes on with a copy of that descriptor, and answers the old one.
    pub(crate) fn replace_descriptor(&self, copy: OwnedFd) -> OwnedFd {
        self.line.lock().link.replace_descriptor(copy)
    }

    /// Asks and waits for the answer; one that is outstanding comes first.
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

    /// Connects anew and asks, as the first question there. An answer that was outstanding never comes. Nothing changes
    /// if nobody listens. `None`: there is no other daemon on this way.
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

    /// Asks what another's answer may have told by the time it is our turn, or one that is outstanding: `known` is looked
    /// at then. `take` gets the answer before anybody else asks; what is asked for ahead `then` is sent in the same breath.
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

    /// Asks without waiting. `false`: not now, an answer is outstanding or somebody is asking.
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

    /// Says what nobody waits to be answered: the last word.
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

    /// Takes the outstanding answer if it is there; most times it does not even look.
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

    /// Takes the outstanding answer, if there is to be one, as soon as it comes.
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
