//! Content that a batch writes to files in mapped mode: into the kernel's files, as the log asks. Their sessions
//! wait for that. A program that reads or maps them meanwhile sees some of it, as of any write that goes on.

use crate::Error;
use crate::kernel::MappedFiles;
use crate::namespace::{Content, Part};
use crate::tiers::Arenas;
use cuesta_format::{BLOCK_BYTES, BlockAddress, InodeNumber};

/// What becomes of a part of a file: bytes of the copied log, or zeros which it then reaches over.
#[derive(Clone, Copy, Debug)]
struct MappedWrite {
    inode: InodeNumber,
    part: Part,
}

/// The writes.
#[derive(Debug, Default)]
pub struct MappedWrites(Vec<MappedWrite>);

impl MappedWrites {
    /// Forgets everything, keeping the memory.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Plans to write what `parts` hold.
    pub fn add(&mut self, inode: InodeNumber, parts: &[Part]) {
        self.0.extend(parts.iter().map(|&part| MappedWrite { inode, part }));
    }

    /// Writes all of it; `batch` is the copied log.
    pub fn carry_out(&self, files: &MappedFiles, arenas: &Arenas, batch: &[u8]) -> Result<(), Error> {
        for MappedWrite { inode, part } in &self.0 {
            match part.content {
                Content::Log(place) => {
                    let place = place as usize;
                    let bytes = batch.get(place..place + (part.end - part.start) as usize);
                    files.write(*inode, part.start, bytes.unwrap_or_default())?;
                }
                Content::Staged(address) => {
                    let mut block = [0; BLOCK_BYTES as usize];
                    let mut at = part.start;
                    while at < part.end {
                        let from = BlockAddress(address + (at - part.start));
                        let bytes = (BLOCK_BYTES - from.0 % BLOCK_BYTES).min(part.end - at);
                        let bytes = &mut block[..bytes as usize];
                        arenas.read(from, 0, bytes)?;
                        files.write(*inode, at, bytes)?;
                        at += bytes.len() as u64;
                    }
                }
                Content::Gone => files.clear(*inode, part.start..part.end)?,
            }
        }
        Ok(())
    }
}
