//! A table that was written for the next program.

use crate::starting::handed_over::HandedOver;
use std::ffi::CString;
use std::os::fd::OwnedFd;

/// A library the next program needs from its start on, for its loader to find.
#[derive(Debug)]
pub struct Library {
    /// A copy that survives the exec.
    pub copy: OwnedFd,
    /// The file that it is a copy of.
    pub original: HandedOver,
}

/// A table, with memory files that survive an exec, and go if it fails.
#[derive(Debug)]
pub struct Written {
    /// The next program needs this in its environment, as `NAME=value`.
    pub variable: CString,
    pub(crate) file: Option<OwnedFd>,
    pub(crate) cells: Option<OwnedFd>,
    pub(crate) kept: Vec<OwnedFd>,
    /// What its loader is to find.
    pub libraries: Vec<Library>,
}

impl Written {
    /// Ends in a process whose descriptors these are not.
    pub fn let_go(self) {
        std::mem::forget((self.file, self.cells, self.kept, self.libraries));
    }
}
