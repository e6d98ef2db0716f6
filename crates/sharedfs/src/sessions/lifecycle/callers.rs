//! Callers ([`cuesta_format::call_tag`]): which of them may still ask for a call again, and the results of their calls.
//!
//! The service that executes their calls logs the end of a caller that leaves while there is a daemon. Of those that end
//! while there is none the next daemon finds that their processes are gone. After a boot all are.

use super::processes::{Process, process};
use crate::requests::Trouble;
use crate::{Error, SharedFs};
use cuesta_format::event::Step;
use cuesta_format::wire::Response;
use cuesta_format::{CallSlot, Caller};
use std::collections::BTreeMap;

/// Callers of one user that a daemon keeps from before it started: 4 times as many as a user has connections.
const CALLERS_OF_USER: usize = 1024;

impl SharedFs {
    /// A process is about to have the daemon perform its first call: a ticket for it, unless it has a session.
    #[must_use]
    pub fn begin_first_calls(&self, pid: u32) -> Option<u64> {
        if self.core.lock().sessions.values().any(|session| session.pid == pid) {
            return None;
        }
        self.events.record(Step::FirstCalls { pid });
        Some(self.first_calls.begin(pid))
    }

    /// Counts a first call; `false` if the process attached meanwhile.
    #[must_use]
    pub fn note_first_call(&self, ticket: u64) -> bool {
        self.first_calls.note_call(ticket)
    }

    /// The process behind the ticket hung up.
    pub fn end_first_calls(&self, ticket: u64) {
        if let Some((pid, calls)) = self.first_calls.end(ticket) {
            self.events.record(Step::NeverAttached { pid, calls });
        }
    }

    /// The last call of a slot that took effect. A session that executed calls and could not end in time ends first: its log
    /// may speak of the slot.
    pub(crate) fn last_call(&self, slot: CallSlot) -> Result<Response, Trouble> {
        if self.has_rest() {
            self.end_the_rest()?;
        }
        Ok(Response::Call(self.metadata.read()?.call(slot)?))
    }

    /// Forgets callers whose processes are gone, once every log was recovered. On a full medium they go at a later start.
    pub(crate) fn forget_callers(&self, all_dead: bool) -> Result<(), Error> {
        let callers = self.metadata.read()?.callers()?;
        let mut kept: BTreeMap<u32, usize> = BTreeMap::new();
        let mut goes = |&&(caller, pid): &&(Caller, u32)| {
            if all_dead || pid != 0 && matches!(process(pid), Process::Dead) {
                return true;
            }
            let of_user = kept.entry(caller.user).or_default();
            *of_user += 1;
            // A user with so many has them connect and stay away on purpose, and fools no other user.
            *of_user > CALLERS_OF_USER
        };
        let gone: Vec<Caller> = callers.iter().filter(&mut goes).map(|&(caller, _)| caller).collect();
        if gone.is_empty() {
            return Ok(());
        }
        let mut transaction = self.metadata.begin()?;
        for caller in gone {
            transaction.remove_caller(caller)?;
        }
        match transaction.commit().map_err(Error::from) {
            Err(Error::NoSpace) => Ok(()),
            committed => committed,
        }
    }
}
