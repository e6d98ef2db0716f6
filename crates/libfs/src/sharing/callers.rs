//! A session that executes calls of other processes (callers): the tag of the present call, and SharedFS's
//! record of a caller.

use crate::client::client::Client;
use crate::errno::{Error, unexpected};
use crate::sharing::call_tags::{is_withdrawn, tag_of_thread};
use crate::sync::Ordering;
use cuesta_format::call_tag::TAG_BYTES;
use cuesta_format::wire::{Request, Response};
use cuesta_format::{CallRecord, CallSlot, CallTag, Caller, Operation};

impl Client {
    /// From now on this session executes calls of other processes, each within [`crate::tagged`].
    pub fn execute_for_callers(&self) {
        self.has_callers.store(true, Ordering::Relaxed);
    }

    /// The tag of the call that this thread executes.
    #[inline]
    pub(crate) fn tag(&self) -> Option<CallTag> {
        if self.has_callers.load(Ordering::Relaxed) { tag_of_thread() } else { None }
    }

    /// Fails if the process of the call that this thread executes is gone.
    pub(crate) fn check_wanted(&self) -> Result<(), Error> {
        if self.tag().is_some() && is_withdrawn() { Err(Error::Withdrawn) } else { Ok(()) }
    }

    /// Bytes that the entry of this thread's call needs for the tag.
    #[inline]
    pub(crate) fn tag_bytes(&self) -> usize {
        if self.tag().is_some() { TAG_BYTES } else { 0 }
    }

    /// The last call of a slot that took effect. SharedFS first digests what this session did. It also knows
    /// what ended sessions did.
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

    /// Drops the record of a caller's calls. The caller is gone, and will ask for none of them again.
    pub fn forget_caller(&self, caller: Caller) -> Result<(), Error> {
        self.operate(|attempt| {
            let operation = Operation::ForgetCaller { caller };
            attempt.prepare(operation.body_bytes(), 0)?;
            attempt.append(&operation).map(drop)
        })
    }
}
