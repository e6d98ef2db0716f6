//! The number by which a call is executed exactly once ([`cuesta_format::call_tag`]).

use cuesta_format::{CallerId, LogDependency};
use serde::{Deserialize, Serialize};

/// Which of its caller's calls a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Once {
    /// The caller, in the first call of a connection.
    pub caller: Option<CallerId>,
    /// The slot: which of its calls in flight.
    pub slot: u16,
    /// Each call of a slot has a larger number than the one before, at most [`cuesta_format::CallTag::NUMBER_MAX`].
    pub number: u64,
    /// It was asked for before, and not answered: it may have been executed.
    pub again: bool,
    /// It was sent behind this part of its sender's own log, which the disk may lack.
    pub behind: Option<LogDependency>,
}
