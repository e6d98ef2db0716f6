//! Open file descriptions that were sent to other processes: their receivers need more than the descriptor.
//!
//! Each has a cell in memory that all its processes map, for the offset and the flags they share. The daemon keeps
//! it as long as the kernel says that a process has a descriptor, or that a message holds one which was not
//! received: as a lock on the number ([`cuesta_format::control`]). It looks at that only when there are twice as
//! many as there were after the last look.
//!
//! A process of another user can lock numbers of a file that it may open, and so keep descriptions that no process
//! has. So there are only so many of one file.

use crate::Error;
use crate::sessions::References;
use cuesta_format::InodeNumber;
use cuesta_format::control::{PASSED_BYTES, PASSED_CELLS};
use cuesta_media::wait;
use hashbrown::HashMap;
use std::os::fd::OwnedFd;

/// Fewer are never looked at.
const LOOK_MIN: usize = 64;
/// Most that are kept of one file.
const OF_INODE_MAX: usize = 4096;

/// Those that a process may have.
#[derive(Debug, Default)]
pub(crate) struct PassedFiles {
    cells: Option<OwnedFd>,
    known: HashMap<u64, PassedFile>,
    /// How many there are of each file.
    of_inode: HashMap<InodeNumber, usize>,
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
    /// The file's inode.
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
            || self.has_most_of(inode)
            || self.unused == PASSED_CELLS && self.free.is_empty()
        {
            self.forget_closed(references);
        }
        if self.known.contains_key(&number) || self.has_most_of(inode) {
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
        *self.of_inode.entry(inode).or_default() += 1;
        self.known.insert(number, PassedFile { cell, inode, description: description.to_vec() });
        Some(cell)
    }

    fn has_most_of(&self, inode: InodeNumber) -> bool {
        self.of_inode.get(&inode).is_some_and(|count| *count >= OF_INODE_MAX)
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
        let (free, of_inode) = (&mut self.free, &mut self.of_inode);
        self.known.retain(|number, file| {
            let is_open = references.have_passed(file.inode, *number);
            if !is_open {
                free.push(file.cell);
                if let Some(count) = of_inode.get_mut(&file.inode) {
                    *count -= 1;
                }
            }
            is_open
        });
        self.of_inode.retain(|_, count| *count > 0);
        self.look_at = 2 * self.known.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuesta_format::geometry::REFERENCES_FOLDER;
    use cuesta_media::lock_files::{self, Access, Mark};
    use std::fs::File;

    /// A process of another user has locked every number of a file that it may read.
    #[test]
    fn numbers_that_a_reader_keeps_leave_room_for_other_files() {
        let tier = tempfile::tempdir().unwrap();
        let references = References::open(tier.path()).unwrap();
        let mut passed = PassedFiles::default();
        let folder = File::open(tier.path().join(REFERENCES_FOLDER)).unwrap();
        let read = InodeNumber(5);
        let hostile = lock_files::take(&folder, read, Access::Read).unwrap();
        cuesta_media::byte_locks::mark(&hostile, cuesta_format::control::PASSED_MARKS..u64::MAX).unwrap();
        let of_read =
            (0..u64::from(PASSED_CELLS)).map_while(|number| passed.keep(number, read, b"", &references));
        assert_eq!(of_read.count(), OF_INODE_MAX);
        let other = InodeNumber(6);
        let own = lock_files::take(&folder, other, Access::Read).unwrap();
        lock_files::mark(&own, Mark::Passed(1 << 40)).unwrap();
        assert!(passed.keep(1 << 40, other, b"", &references).is_some());
        drop(hostile);
        assert!(passed.keep(1 << 41, read, b"", &references).is_some());
        assert_eq!(passed.of_inode.values().sum::<usize>(), passed.known.len());
    }

    #[test]
    fn a_file_without_descriptors_makes_room() {
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
