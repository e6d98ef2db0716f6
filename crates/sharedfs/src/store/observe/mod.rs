//! What an observer sees: events in order, and totals.
//!
//! | file | idea |
//! |---|---|
//! | `events` | the last events, for `cuesta trace` |
//! | `counters` | totals since the daemon started |
//! | `waits` | how long requests took |
//!
//! Nothing here ever blocks the data path, or knows what events mean.

mod counters;
mod events;
mod waits;

pub use counters::Counters;
pub use events::Events;
pub use waits::RequestTimes;
