//! The resources of the daemon that are counted for each user.

/// What users make the daemon hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Resource {
    Connections,
    Files,
    Descriptors,
    /// Of messages that have begun to arrive, and of answers that were not taken.
    MessageBytes,
    /// Memory of rings.
    RingBytes,
    /// Threads that serve lanes of rings.
    LaneThreads,
}

/// How many there are.
pub(super) const RESOURCES: usize = 6;
