//! Why the daemon stops, and how that is told.

use std::sync::mpsc::{Receiver, Sender};

/// Why the daemon stops.
#[derive(Debug)]
pub enum StopReason {
    /// `cuesta stop`.
    Asked(Farewell),
    /// A signal.
    Signal(i32),
    /// The store failed: nothing can be digested until it is opened anew.
    Failed(String),
    /// The store's folder was removed.
    Removed,
}

impl std::fmt::Display for StopReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            StopReason::Asked(_) => f.write_str("cuesta stop"),
            StopReason::Signal(signal) => write!(f, "signal {signal}"),
            StopReason::Failed(why) => write!(f, "the store failed: {why}"),
            StopReason::Removed => f.write_str("the store was removed"),
        }
    }
}

/// The last words between the daemon and the connection of `cuesta stop`.
#[derive(Debug)]
pub struct Farewell {
    pub(super) digested: Sender<()>,
    pub(super) answered: Receiver<()>,
}

/// How the outside asks the daemon to stop.
pub type StopSender = Sender<StopReason>;
