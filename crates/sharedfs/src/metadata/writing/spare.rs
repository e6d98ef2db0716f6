//! Memory that one transaction leaves to the next: clearing new memory costs the kernel more than filling it costs
//! us.

use super::name_changes::NameChanges;
use crate::metadata::journal::Redo;

/// The memory.
#[derive(Debug, Default)]
pub(crate) struct Spare {
    pub(crate) redo: Redo,
    pub(crate) names: NameChanges,
}

impl Spare {
    /// More than this is not kept: a batch of the usual size needs no more.
    const BYTES_MAX: usize = 1 << 20;

    /// Empty, and none of it larger than the memory that is kept.
    pub(crate) fn emptied(mut self) -> Spare {
        self.redo.clear();
        self.names.clear();
        if self.redo.capacity_bytes() > Spare::BYTES_MAX {
            self.redo = Redo::default();
        }
        if self.names.capacity_bytes() > Spare::BYTES_MAX {
            self.names = NameChanges::default();
        }
        self
    }
}
