//! Open file descriptions that were sent to other processes: what their receivers need beside the descriptor.
//!
//! Each has a cell in memory that all who have it map, for the offset and the flags they share. It is kept as long as the
//! kernel says that anybody has a descriptor, in a message that nobody has received, too: as a lock on the number
//! ([`cuesta_format::control`]). Looking at that is left until there are twice as many as there were after the last look.

use crate::Error;
use crate::sessions::References;
use cuesta_format::InodeNumber;
use cuesta_format::control::{PASSED_BYTES, PASSED_CELLS};
use cuesta_media::wait;
use hashbrown::HashMap;
use std::os::fd::OwnedFd;

/// Fewer are never looked at.
const LOOK_MIN: usize = 64;

/// Those that somebody may have.
#[derive(Debug, Default)]
pub(crate) struct PassedFiles {
    cells: Option<OwnedFd>,
    known: HashMap<u64, PassedFile>,
    free: Vec<u32>,
    /// Cells from here on were never used.
    unused: u32,
    /// Look at so many.
    look_at: usize,
}

/// One of them.
#[derive(Clone, Debug)]
pub(crate) struct PassedFile {
    /// Its cell.
    pub(crate) cell: u32,
    /// What it is of.
    inode: InodeNumber,
    /// What its sender wrote for receivers.
    pub(crate) description: Vec<u8>,
}

impl PassedFiles {
    /// Keeps one under a number, and answers its cell; `None` if there are too many, or the number is in use.
    pub(crate) fn keep(
        &mut self,
        number: u64,
        inode: InodeNumber,
        description: &[u8],
        references: &References,
    ) -> Option<u32> {
        if self.known.len() >= self.look_at.max(LOOK_MIN)
            || self.unused == PASSED_CELLS && self.free.is_empty()
        {
            self.forget_closed(references);
        }
        if self.known.contains_key(&number) {
            return None;
        }
        let cell = match self.free.pop() {
            Some(cell) => cell,
            None if self.unused < PASSED_CELLS => {
                self.unused += 1;
                self.unused - 1
            }
            None => return None,
        };
        self.known.insert(number, PassedFile { cell, inode, description: description.to_vec() });
        Some(cell)
    }

    /// The one with this number.
    pub(crate) fn get(&self, number: u64) -> Option<&PassedFile> {
        self.known.get(&number)
    }

    /// The memory file of the cells.
    pub(crate) fn cells(&mut self) -> Result<OwnedFd, Error> {
        let cells = match &self.cells {
            Some(cells) => cells,
            None => self.cells.insert(wait::sealed_memfd("cuesta-passed", PASSED_BYTES as u64)?),
        };
        cells.try_clone().map_err(Error::io("copy a descriptor"))
    }

    fn forget_closed(&mut self, references: &References) {
        let free = &mut self.free;
        self.known.retain(|number, file| {
            let is_open = references.have_passed(file.inode, *number);
            if !is_open {
                free.push(file.cell);
            }
            is_open
        });
        self.look_at = 2 * self.known.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuesta_format::geometry::REFERENCES_FOLDER;
    use cuesta_media::lock_files::{self, Access, Mark};
    use std::fs::File;

    #[test]
    fn what_nobody_has_a_descriptor_of_makes_room() {
        let tier = tempfile::tempdir().unwrap();
        let references = References::open(tier.path()).unwrap();
        let mut passed = PassedFiles::default();
        let folder = File::open(tier.path().join(REFERENCES_FOLDER)).unwrap();
        let inode = InodeNumber(5);
        let kept = lock_files::take(&folder, inode, Access::Read).unwrap();
        lock_files::mark(&kept, Mark::Passed(7)).unwrap();
        let cell = passed.keep(7, inode, b"kept", &references).unwrap();
        for number in 100..100 + 2 * u64::from(PASSED_CELLS) {
            let other = passed.keep(number, inode, b"closed", &references).unwrap();
            assert_ne!(other, cell);
        }
        assert_eq!(passed.get(7).unwrap().description, b"kept");
        assert!(passed.known.len() <= LOOK_MIN && passed.unused as usize <= LOOK_MIN);
        assert_eq!(passed.keep(7, inode, b"again", &references), None);
        drop(kept);
        assert!(passed.keep(7, inode, b"again", &references).is_none(), "not looked at yet");
        passed.forget_closed(&references);
        assert!(passed.get(7).is_none() && passed.keep(7, inode, b"again", &references).is_some());
    }
}
