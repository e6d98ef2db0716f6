//! A descriptor of this library's own for the length of a call that may wait.

use crate::descriptors::{self, kernel};
use rustix::io::Errno;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};

/// A descriptor of this library's own for the length of a call that may wait: out of the application's way.
#[derive(Debug)]
pub struct Aside(OwnedFd);

impl Aside {
    /// In the place of `file`.
    pub fn new(file: OwnedFd) -> Result<Self, Errno> {
        let aside = kernel::set_aside(file.as_fd())?;
        descriptors::hide(aside.as_raw_fd(), true);
        Ok(Self(aside))
    }

    /// Its number.
    pub fn number(&self) -> i32 {
        self.0.as_raw_fd()
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        descriptors::hide(self.0.as_raw_fd(), false);
    }
}
