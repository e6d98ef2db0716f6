//! Sealed memory files.

use crate::call::Failure;
use crate::descriptors::kernel;
use rustix::fs::{MemfdFlags, SealFlags};
use std::os::fd::{AsFd as _, OwnedFd};

/// A memory file with these bytes, for good.
pub fn sealed(name: &str, bytes: &[u8]) -> Result<OwnedFd, Failure> {
    let memory = memory_file(name)?;
    write(&memory, bytes, 0)?;
    seal(&memory)?;
    Ok(memory)
}

pub(crate) fn memory_file(name: impl rustix::path::Arg) -> Result<OwnedFd, Failure> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let memory = rustix::fs::memfd_create(name, flags)?;
    Ok(kernel::set_aside(memory.as_fd())?)
}

pub(crate) fn write(memory: &OwnedFd, bytes: &[u8], at: u64) -> Result<(), Failure> {
    let mut written = 0;
    while written < bytes.len() {
        written += rustix::io::pwrite(memory, &bytes[written..], at + written as u64)?;
    }
    Ok(())
}

pub(crate) fn seal(memory: &OwnedFd) -> Result<(), Failure> {
    let seals = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
    Ok(rustix::fs::fcntl_add_seals(memory, seals)?)
}
