//! What an observer sees: events in order, and totals. Nothing here ever blocks the data path.

mod counters;
mod events;
mod waits;

pub use counters::Counters;
pub use events::Events;
pub use waits::RequestTimes;
