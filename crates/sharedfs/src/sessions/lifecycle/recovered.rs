//! What recovery did, for `cuesta status` and the daemon's log.

/// What recovery did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Sessions whose logs were found.
    pub sessions: u64,
    /// Entries they still held.
    pub entries: u64,
    /// Logs among them that were damaged.
    pub damaged_logs: u64,
    /// How long it took.
    pub milliseconds: u64,
}
