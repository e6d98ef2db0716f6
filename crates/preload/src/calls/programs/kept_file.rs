//! A file this process keeps open by its descriptor.

use crate::call::Failure;
use crate::descriptors;
use crate::descriptors::kernel::borrow;
use rustix::fs::Stat;
use std::os::fd::{FromRawFd as _, IntoRawFd as _, OwnedFd};

/// A file this process keeps open: by its descriptor and, since a vfork child may have another there, its number.
#[derive(Clone, Copy, Debug)]
pub struct KeptFile {
    /// The descriptor.
    pub fd: i32,
    /// The file's number.
    pub number: u64,
}

impl KeptFile {
    /// Keeps it.
    pub fn new(file: OwnedFd) -> Result<Self, Failure> {
        let number = rustix::fs::fstat(&file)?.st_ino;
        let fd = file.into_raw_fd();
        descriptors::hide(fd, true);
        Ok(Self { fd, number })
    }

    /// The kernel's attributes of it, if the descriptor is that file in the calling process.
    pub fn stat(self) -> Option<Stat> {
        rustix::fs::fstat(borrow(self.fd)).ok().filter(|stat| stat.st_ino == self.number)
    }

    /// Whether the descriptor is that file in the calling process.
    pub fn is_here(self) -> bool {
        self.stat().is_some()
    }

    /// It has another descriptor now, if it had that one.
    pub fn move_from(&mut self, from: i32, to: i32) -> bool {
        let is_it = self.fd == from;
        if is_it {
            self.fd = to;
        }
        is_it
    }

    /// Gives it up.
    pub fn close(self) {
        descriptors::hide(self.fd, false);
        // SAFETY: the owner that kept it, and no other, gives it up.
        drop(unsafe { OwnedFd::from_raw_fd(self.fd) });
    }
}
