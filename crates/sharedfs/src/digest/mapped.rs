//! What a batch writes to files in mapped mode: into the kernel's files, as it was asked for. Their sessions wait for that,
//! and whoever reads or maps them meanwhile sees some of it, as of any write that goes on.

use crate::Error;
use crate::mapped::MappedFiles;
use crate::namespace::{Content, Part};
use cuesta_format::InodeNumber;

/// Bytes of the copied log, and where they go.
#[derive(Clone, Copy, Debug)]
struct MappedWrite {
    inode: InodeNumber,
    offset: u64,
    place: usize,
    bytes: usize,
}

/// The writes.
#[derive(Debug, Default)]
pub struct MappedWrites(Vec<MappedWrite>);

impl MappedWrites {
    /// Forgets everything, keeping the memory.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Plans to write what `parts` hold. A file in mapped mode is cut in place, never by the log.
    pub fn add(&mut self, inode: InodeNumber, parts: &[Part]) {
        self.0.extend(parts.iter().filter_map(|part| match part.content {
            Content::Log(place) => {
                let bytes = (part.end - part.start) as usize;
                Some(MappedWrite { inode, offset: part.start, place: place as usize, bytes })
            }
            Content::Gone => None,
        }));
    }

    /// Writes all of it; `batch` is the copied log.
    pub fn carry_out(&self, files: &MappedFiles, batch: &[u8]) -> Result<(), Error> {
        for write in &self.0 {
            let bytes = batch.get(write.place..write.place + write.bytes);
            files.write(write.inode, write.offset, bytes.unwrap_or_default())?;
        }
        Ok(())
    }
}
