//! How a session ends.

/// How a session ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It said so, or its socket closed because its process is gone: it writes no more.
    Gone,
    /// It is given up while its process may live on and write.
    GivenUp,
}
