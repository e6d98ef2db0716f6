//! Reading the shared area straight, without a session: for the simulator and the checker.

use crate::metadata::{Entry, Snapshot, StoredInode};
use crate::tiers::split_at_arenas;
use crate::{Error, SharedFs};
use cuesta_format::{BLOCK_BYTES, InodeNumber, InodeRecord};

/// Names read at a time.
const PAGE: usize = 4096;

impl SharedFs {
    /// A snapshot of the last commit.
    pub fn snapshot(&self) -> Result<Snapshot, Error> {
        Ok(self.metadata.read()?)
    }

    /// An inode's record.
    pub fn inode_record(&self, inode: InodeNumber) -> Result<Option<InodeRecord>, Error> {
        Ok(self.metadata.read()?.inode(inode)?.map(|stored: StoredInode| stored.record))
    }

    /// All entries of a directory, in name order.
    pub fn read_directory(&self, directory: InodeNumber) -> Result<Vec<Entry>, Error> {
        let snapshot = self.metadata.read()?;
        let mut entries: Vec<Entry> = Vec::new();
        loop {
            let after = entries.last().map(|last| last.name.clone()).unwrap_or_default();
            let page = snapshot.list(directory, &after, PAGE)?;
            let last = page.len() < PAGE;
            entries.extend(page);
            if last {
                return Ok(entries);
            }
        }
    }

    /// Bytes `offset..offset + out.len()` of a file, as far as it goes; holes are zeros. Answers how many.
    pub fn read_file(&self, inode: InodeNumber, offset: u64, out: &mut [u8]) -> Result<usize, Error> {
        let snapshot = self.metadata.read()?;
        let Some(stored) = snapshot.inode(inode)? else {
            return Err(Error::Damaged(format!("inode {inode} does not exist")));
        };
        let size = stored.record.size;
        let wanted = (size.saturating_sub(offset)).min(out.len() as u64) as usize;
        let out = &mut out[..wanted];
        out.fill(0);
        if out.is_empty() {
            return Ok(0);
        }
        let end = offset + wanted as u64;
        let blocks = offset / BLOCK_BYTES..end.div_ceil(BLOCK_BYTES);
        for extent in snapshot.extents(inode, blocks)? {
            for part in split_at_arenas(&self.superblock.geometry, &extent) {
                let start = (part.file_block * BLOCK_BYTES).max(offset);
                let stop = (part.end_block() * BLOCK_BYTES).min(end);
                if start < stop {
                    if !stored.record.mapped {
                        self.check_content(inode, &part)?;
                    }
                    let into = &mut out[(start - offset) as usize..(stop - offset) as usize];
                    self.arenas.read(part.address, start - part.file_block * BLOCK_BYTES, into)?;
                }
            }
        }
        Ok(wanted)
    }

    /// A file's whole content.
    pub fn file_content(&self, inode: InodeNumber) -> Result<Vec<u8>, Error> {
        let size = self.inode_record(inode)?.map_or(0, |record| record.size);
        let mut content = vec![0; size as usize];
        self.read_file(inode, 0, &mut content)?;
        Ok(content)
    }

    /// The target of a symbolic link.
    pub fn link_target(&self, inode: InodeNumber) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.metadata.read()?.symlink(inode)?)
    }
}
