//! When a ring is worth making, and how long its ends look before they sleep: the policy. The mechanism is elsewhere.

use std::time::Duration;

/// A process that has asked so often by the socket asks for a ring. A ring costs as much as it saves in so many calls.
pub(crate) const CALLS_BEFORE_RING: u32 = 12;
/// A client that waits for an answer looks after so long whether the daemon is still there.
pub(crate) const CLIENT_SLEEP: Duration = Duration::from_millis(30);
/// A thread that waits for a lane looks for another way after so long,
pub(crate) const LANE_WAIT: Duration = Duration::from_millis(10);
/// and goes by the socket, if that is free, when it has waited so often.
pub(crate) const LANE_WAITS: u32 = 2;
/// The daemon's thread of a lane looks after so long whether its connection has ended. It is woken when that happens,
/// but a hostile client can have the kernel wake another word instead.
pub(crate) const DAEMON_SLEEP: Duration = Duration::from_secs(5);
