//! Memory that the kernel reads during an exec.

use crate::calls::kinds::entered::Entered;
use crate::calls::programs::program_copy::ProgramCopy;
use crate::process::inheritance::written::Written;
use std::ffi::CString;

/// Memory that the kernel reads during an exec; kept until it is done with it.
#[derive(Debug, Default)]
pub struct ExecImage {
    pub(crate) strings: Vec<CString>,
    /// The environment, by address.
    pub(crate) variables: Vec<usize>,
    /// The arguments, by address.
    pub(crate) arguments: Vec<usize>,
    /// The program's path.
    pub(crate) path: CString,
    /// The program, if it is a copy.
    pub(crate) copy: Option<ProgramCopy>,
    pub(crate) table: Option<Written>,
    /// Whether a sanitizer's runtime is to be told that it does not come first.
    pub(crate) has_sanitizer: bool,
    /// Files of the store that the kernel has for the program.
    pub(crate) entered: Option<Entered>,
}

impl ExecImage {
    /// Ends in the parent of the vfork child that made it: the memory is the parent's, the descriptors went with
    /// the child, and what has their numbers here is another's.
    pub fn let_go(self) {
        std::mem::forget(self.copy);
        if let Some(table) = self.table {
            table.let_go();
        }
        if let Some(entered) = self.entered {
            entered.let_go();
        }
    }
}
