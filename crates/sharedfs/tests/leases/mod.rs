//! Leases, from the side of sessions.
//!
//! | file | tests |
//! |---|---|
//! | `ahead` | leases granted ahead |
//! | `wanted_together` | contended directories that change hands together |
//! | `meanwhile` | sessions that take back what they said while the daemon is at work on it |

mod ahead;
mod meanwhile;
mod wanted_together;
