//! A copy of a program, for one exec.

use std::os::fd::OwnedFd;

/// Whether a copy names the loader that `loaders` makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Redirection {
    /// That one, by its number.
    Done(u64),
    /// It has no room for it.
    Impossible,
    /// It was not worth it yet.
    Untried,
}

/// A copy to execute.
#[derive(Debug)]
pub struct ProgramCopy {
    pub(crate) fd: i32,
    /// Made for this one exec.
    pub(crate) _own: Option<OwnedFd>,
    pub(crate) redirection: Redirection,
    pub(crate) is_without_sites: bool,
}
