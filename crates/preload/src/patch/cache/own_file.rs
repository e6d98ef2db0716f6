//! A file of our own while the program starts, closed by the kernel's call: libc's `close` is ours, and
//! looking up the one behind it costs more than the rest of the start.

use std::mem::ManuallyDrop;

use rustix::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};

/// An open file.
#[derive(Debug)]
pub struct Descriptor(ManuallyDrop<OwnedFd>);

impl Descriptor {
    /// Takes over `file`.
    pub fn new(file: OwnedFd) -> Self {
        Self(ManuallyDrop::new(file))
    }
}

impl AsFd for Descriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: the file's one owner, which does not drop it by itself.
        unsafe { rustix::io::close(self.0.as_raw_fd()) }
    }
}
