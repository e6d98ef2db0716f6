//! The files of the store that the kernel was given for an exec.

use crate::descriptors::Pin;
use std::os::fd::OwnedFd;

/// Descriptors and a working directory, put in the kernel's hands for an exec and taken back when this is dropped.
#[derive(Debug, Default)]
pub struct Entered {
    pub(crate) replaced: Vec<Replaced>,
    /// Copies of descriptors that have locks.
    pub(crate) kept: Vec<OwnedFd>,
    /// Where the kernel was.
    pub(crate) directory: Option<OwnedFd>,
}

#[derive(Debug)]
pub(crate) struct Replaced {
    pub(crate) fd: i32,
    pub(crate) pin: Pin,
    /// The descriptor that was there.
    pub(crate) before: OwnedFd,
    /// The description whose cell does not count this process any more.
    pub(crate) counted_out: Option<Pin>,
}

impl Entered {
    /// Ends in a process whose descriptors these are not.
    pub fn let_go(mut self) {
        for Replaced { before, .. } in self.replaced.drain(..) {
            std::mem::forget(before);
        }
        self.kept.drain(..).chain(self.directory.take()).for_each(std::mem::forget);
    }
}
