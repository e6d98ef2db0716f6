//! First calls of a connection: those that a process of the store's own user or of root makes before it has a session.
//!
//! SharedFS knows the sessions, and keeps the count. This file says which requests are calls.

use crate::protocol::messages::Request;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Keeps the count of first calls. A process is known by a ticket.
pub trait FirstCallCounter: Send + Sync {
    /// A ticket for a process, unless it has a session.
    fn begin(&self, process: u32) -> Option<u64>;
    /// Counts a call. `false` if the process has a session by now.
    fn note_call(&self, ticket: u64) -> bool;
    /// The process hung up.
    fn end(&self, ticket: u64);
}

/// A daemon that keeps no count.
impl FirstCallCounter for () {
    fn begin(&self, _: u32) -> Option<u64> {
        None
    }

    fn note_call(&self, _: u64) -> bool {
        false
    }

    fn end(&self, _: u64) {}
}

/// What a connection knows of its process.
#[derive(Debug, Default)]
pub(crate) struct Caller {
    ticket: OnceLock<Option<u64>>,
    has_session: AtomicBool,
}

/// Whether the request is a call of the program. The others set up the connection, or come from a session.
fn is_call(request: &Request<'_>) -> bool {
    !matches!(
        request,
        Request::Hello { .. }
            | Request::Capabilities { .. }
            | Request::Limit { .. }
            | Request::Identify { .. }
            | Request::Reserve
            | Request::Settle
            | Request::Ring
            | Request::Lane { .. }
            | Request::Unheard
            | Request::ShippedRead { .. }
            | Request::ShippedWrite { .. }
            | Request::ShippedChange { .. }
            | Request::ShippedStat { .. }
            | Request::MakeFile { .. }
    )
}

impl Caller {
    /// Counts the request if it is a first call of `process`.
    pub(super) fn count(&self, counter: &dyn FirstCallCounter, process: u32, request: &Request<'_>) {
        if self.has_session.load(Ordering::Relaxed) || !is_call(request) {
            return;
        }
        let ticket = *self.ticket.get_or_init(|| counter.begin(process));
        if !ticket.is_some_and(|ticket| counter.note_call(ticket)) {
            self.has_session.store(true, Ordering::Relaxed);
        }
    }

    /// The connection ends.
    pub(super) fn end(&self, counter: &dyn FirstCallCounter) {
        if let Some(Some(ticket)) = self.ticket.get() {
            counter.end(*ticket);
        }
    }
}
