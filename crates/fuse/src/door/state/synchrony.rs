//! Which changes are durable when a call returns, by the options `sync` and `dirsync`. The kernel asks for an fsync after a write by way of its cache,
//! and leaves everything else to the file system.

use crate::kernel::abi::Opcode;
use crate::mounting::options::Options;
use std::sync::atomic::{AtomicBool, Ordering};

/// Of a mount, as it is now.
#[derive(Debug, Default)]
pub(crate) struct Synchrony {
    of_directories: AtomicBool,
    of_all: AtomicBool,
}

impl Synchrony {
    /// Goes by these options from now on.
    pub(crate) fn set(&self, options: &Options) {
        let (of_directories, of_all) = options.synchronous();
        self.of_directories.store(of_directories, Ordering::Relaxed);
        self.of_all.store(of_all, Ordering::Relaxed);
    }

    /// Whether anything is.
    pub(in crate::door) fn any(&self) -> bool {
        self.of_directories.load(Ordering::Relaxed)
    }

    /// Whether what such a request changes is.
    pub(in crate::door) fn asks(&self, request: Opcode) -> bool {
        match request {
            Opcode::Create
            | Opcode::MakeNode
            | Opcode::MakeDirectory
            | Opcode::SymbolicLink
            | Opcode::Link
            | Opcode::Unlink
            | Opcode::RemoveDirectory
            | Opcode::Rename
            | Opcode::RenameFlagged => self.of_directories.load(Ordering::Relaxed),
            Opcode::Write
            | Opcode::SetAttributes
            | Opcode::Allocate
            | Opcode::CopyRange
            | Opcode::SetExtended
            | Opcode::RemoveExtended => self.of_all.load(Ordering::Relaxed),
            _ => false,
        }
    }
}
