//! What this side and the kernel agree on when a mount begins.

/// What this side and the kernel agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// The minor version of the protocol.
    pub minor: u32,
    /// Of [`crate::abi::init`].
    pub flags: u64,
}
