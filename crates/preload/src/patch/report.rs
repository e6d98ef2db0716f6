//! What patching found and did.

/// Counts of what patching did, for diagnosis and tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Libraries looked at.
    pub images: usize,
    /// Sites patched.
    pub patched: usize,
    /// Sites left alone because their number is known and of no interest.
    pub left: usize,
    /// Sites of interest that cannot be patched.
    pub missed: usize,
    /// Libraries that had to be swept, because no valid cache was found.
    pub swept: usize,
    /// Libraries replaced by a copy patched before.
    pub mapped: usize,
    /// Sites patched in the program and in libraries outside the family.
    pub patched_elsewhere: usize,
    /// Sites there that cannot be patched.
    pub missed_elsewhere: usize,
}

/// The state of knowledge about the program's own sites.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// Nothing.
    IsToBeSearched,
    /// The process that started it knows that it makes no system calls itself.
    IsWithoutSites,
}
