//! Calls that are executed exactly once ([`cuesta_format::call_tag`]).
//!
//! | asked | what happens |
//! |---|---|
//! | for the first time | the call is executed, and the entry by which it takes effect carries its number |
//! | again, and the last call of the slot that took effect has its number | it is answered as it would have been then |
//! | again, else | it is executed: whatever came of it before took no effect |
//!
//! A call that fails takes no effect, so what it was answered need not be kept.

use super::{Answer, Connection, InHand};
use crate::protocol::messages::{Offset, Request, Response};
use crate::protocol::once::Once;
use cuesta_format::{CallRecord, CallSlot, CallTag, Caller, CallerId, InodeNumber};
use cuesta_libfs::{CallByNumber, Error, OPEN_FLAGS, OPENING_FLAGS, behind, tagged, while_wanted};
use cuesta_media::planted::{self, Death};
use rustix::fd::OwnedFd;
use rustix::process::{Signal, getpid, kill_process};
use std::sync::Arc;

impl Connection<'_> {
    /// The process says which caller it is. `is_back`: it has been one before.
    pub(super) fn identify(&self, id: CallerId, is_back: bool) -> Result<(), Error> {
        let caller = Caller { user: self.who().uid, id };
        let mut connected = self.caller.lock();
        match &*connected {
            None => *connected = Some(Arc::new(self.shared.callers.connect(caller, is_back))),
            Some(known) if known.caller == caller => {}
            Some(_) => return Err(Error::Invalid),
        }
        Ok(())
    }

    /// Executes a call unless it was executed before.
    pub(crate) fn answer_once(
        &self,
        once: Once,
        request: Request<'_>,
        token: Option<OwnedFd>,
        in_hand: &mut InHand,
    ) -> Answer {
        if let Some(id) = once.caller {
            self.identify(id, once.again)?;
        }
        let connected = self.caller.lock().clone().ok_or(Error::Invalid)?;
        let slot = CallSlot { caller: connected.caller, slot: once.slot };
        let executing = connected.execute(slot).filter(|_| once.number <= CallTag::NUMBER_MAX);
        let _executing = executing.ok_or(Error::Invalid)?;
        let tag = CallTag { slot, process: self.process, number: once.number };
        let sent_behind = once.behind.filter(|_| self.holder.is_trusted);
        behind(sent_behind, || self.execute_once(tag, once.again, request, token, in_hand))
    }

    fn execute_once(
        &self,
        tag: CallTag,
        again: bool,
        request: Request<'_>,
        token: Option<OwnedFd>,
        in_hand: &mut InHand,
    ) -> Answer {
        die_if_planted(Death::Unexecuted);
        let known = if again { self.shared.client()?.last_call(tag.slot)? } else { None };
        let answer = match known {
            Some(record) if record.number > tag.number => Err(Error::Invalid),
            Some(record) if record.number == tag.number => self.answer_executed(request, record),
            _ => {
                in_hand.operation = moved_by(&tag);
                while_wanted(&self.peer, || tagged(tag, || self.answer(request, token, in_hand)))
            }
        };
        if answer.is_ok() {
            die_if_planted(Death::Executed);
            if planted::is_time_for(Death::Digested) {
                self.shared.client()?.digest()?;
                die();
            }
        }
        answer
    }

    /// The answer of a call that took effect, whether or not it was sent.
    fn answer_executed(&self, request: Request<'_>, record: CallRecord) -> Answer {
        let response = match request {
            Request::Open { flags, .. } => {
                let client = self.shared.client()?;
                let flags = flags & OPEN_FLAGS & !OPENING_FLAGS;
                // Its rights were checked when it was made.
                let opened = client.reopen(self.who(), InodeNumber(record.value), flags, 0);
                return self.keep(client, opened.map_err(lost)?);
            }
            Request::MakeNode { .. } => Response::Number(record.value),
            Request::MakeFile { .. } => {
                let made = self.shared.client()?.stat_inode(InodeNumber(record.value)).map_err(lost)?;
                Response::Made { record: made.0.record, next: self.reserve()? }
            }
            Request::ByNumber { call, .. } => self.done_by_number(&call, record)?,
            Request::ShippedWrite { .. } => Response::Written { count: record.value, end: record.end },
            Request::Write { file, place, .. } => {
                if let Offset::Own { operation } = place {
                    self.file(file)?.end_move_of(operation, record.end)?;
                }
                Response::Number(record.value)
            }
            _ => Response::Done,
        };
        Ok((response, None))
    }

    /// The answer of a call by number that took effect.
    fn done_by_number(&self, call: &CallByNumber<'_>, record: CallRecord) -> Result<Response, Error> {
        let inode = match *call {
            CallByNumber::MakeDirectory { .. }
            | CallByNumber::MakeNode { .. }
            | CallByNumber::MakeLink { .. } => InodeNumber(record.value),
            CallByNumber::Link { inode, .. } | CallByNumber::TakeRights { inode } => inode,
            CallByNumber::Unlink { .. }
            | CallByNumber::RemoveDirectory { .. }
            | CallByNumber::Rename { .. }
            | CallByNumber::SetAttributes { .. }
            | CallByNumber::Truncate { .. }
            | CallByNumber::Stat { .. }
            | CallByNumber::LookUp { .. } => return Ok(Response::Done),
        };
        Ok(Response::Record(self.shared.client()?.stat_inode(inode).map_err(lost)?.0.record))
    }

    /// The connection has ended. `has_hung_up`: the process is gone, or has no use for it any more.
    pub(crate) fn forget_caller(&self, has_hung_up: bool) {
        let Some(connected) = self.caller.lock().take() else { return };
        if !connected.leave() || !has_hung_up {
            return;
        }
        let forgotten = self.shared.client().and_then(|client| client.forget_caller(connected.caller));
        if let Err(error) = forgotten {
            // The next daemon finds that its process is gone.
            tracing::debug!(%error, "what is kept of a process's calls stays for now");
        }
    }
}

/// The number of a call that moves an offset: neither another call has it, nor one of those that begin at the first
/// half of a caller's number ([`Offset::Own`]).
fn moved_by(tag: &CallTag) -> u64 {
    let random = tag.slot.caller.id.0.last_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes));
    random.wrapping_add(u64::from(tag.slot.slot) << 48).wrapping_add(tag.number).max(1)
}

fn die_if_planted(death: Death) {
    if planted::is_time_for(death) {
        die();
    }
}

/// Dies as by SIGKILL.
#[cold]
fn die() {
    let _ = kill_process(getpid(), Signal::KILL);
}

/// A file that lost its last name while there was no daemon is gone: no session had it open.
fn lost(error: Error) -> Error {
    match error {
        Error::NotFound => Error::Daemon("the file that was made is gone by now".into()),
        error => error,
    }
}
