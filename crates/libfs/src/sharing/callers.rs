//! A session that executes calls of other processes (callers): whose call a thread executes, and what SharedFS remembers of a caller.

use crate::client::client::Client;
use crate::errno::{Error, unexpected};
use crate::sharing::call_tags::{is_withdrawn, tag_of_thread};
use crate::sync::Ordering;
use cuesta_format::call_tag::TAG_BYTES;
use cuesta_format::wire::{Request, Response};
use cuesta_format::{CallRecord, CallSlot, CallTag, Caller, Operation};

impl Client {
    /// This session executes calls of others, for whom [`tagged`] speaks.
    pub fn execute_for_callers(&self) {
        self.has_callers.store(true, Ordering::Relaxed);
    }

    /// Whose call this thread executes.
    #[inline]
    pub(crate) fn tag(&self) -> Option<CallTag> {
        if self.has_callers.load(Ordering::Relaxed) { tag_of_thread() } else { None }
    }

    /// Fails if the process is gone whose call this thread executes.
    pub(crate) fn check_wanted(&self) -> Result<(), Error> {
        if self.tag().is_some() && is_withdrawn() { Err(Error::Withdrawn) } else { Ok(()) }
    }

    /// Bytes that the effect of a call of this thread takes beyond its body.
    #[inline]
    pub(crate) fn tag_bytes(&self) -> usize {
        if self.tag().is_some() { TAG_BYTES } else { 0 }
    }

    /// The last call of a slot that took effect. Everything is known that this session did, or one that ended before.
    pub fn last_call(&self, slot: CallSlot) -> Result<Option<CallRecord>, Error> {
        self.check_alive()?;
        self.with_daemon(|| {
            self.digest_own_log()?;
            match self.session.ask(&Request::Call { slot })? {
                Response::Call(record) => Ok(record),
                other => Err(unexpected(&other)),
            }
        })
    }

    /// What is kept of a caller's calls goes: it is gone, and asks for none of them again.
    pub fn forget_caller(&self, caller: Caller) -> Result<(), Error> {
        self.operate(|attempt| {
            let operation = Operation::ForgetCaller { caller };
            attempt.prepare(operation.body_bytes(), 0)?;
            attempt.append(&operation).map(drop)
        })
    }
}
