//! The result of a request for a lease.

use cuesta_format::wire::LeaseMode;
use cuesta_format::{LogPosition, SessionId};
use std::time::Duration;

/// The result of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The lease is granted, in this mode or a stronger one.
    Granted(LeaseMode),
    /// These sessions must be fenced and [revoked](super::table::Leases::revoke) first; then ask again.
    Fence(Vec<SessionId>),
    /// The holders of the inode may keep it so much longer; then ask again.
    Hold(Duration),
    /// Another session has waited longer for what the holders have; ask again after this pause.
    Queue(Duration),
    /// This session's log must be digested up to the position first; then ask again.
    Drain(SessionId, LogPosition),
}
