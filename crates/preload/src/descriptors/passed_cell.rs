//! The cell of a description that was sent to other processes.

use crate::descriptors::cells::{self, Cell};
use crate::process;
use cuesta_libfs::PassedFile;

/// The cell of the description that was sent under `number`.
pub fn cell_of(number: u64) -> Option<&'static Cell> {
    let PassedFile { cells, cell, .. } = process::client().ok()?.passed(number).ok()?;
    cells::passed(cells, cell)
}
