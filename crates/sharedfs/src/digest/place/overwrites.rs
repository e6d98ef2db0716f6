//! Overwriting in place: a batch writes blocks that a file had before it where they lie. So a file that is written at random keeps
//! its extents, and no session has to learn where its blocks went.
//!
//! Why no crash and no reader sees half of it:
//! - The log holds the content until the batch is committed. Only acknowledged entries are digested in this way. A digest
//!   that was cut off is done again from the log, and its content does not depend on what it finds.
//! - The session that logged it reads it out of its log until it has retired it. Others get the lease when it is committed.
//! - It is done last, when nothing but the commit can fail.
//!
//! A file that the batch cuts or shifts gets new blocks throughout: its owner knows that part of it by its log only.

use crate::Error;
use crate::tiers::ContentWriter;
use cuesta_format::{BLOCK_BYTES, BlockAddress, InodeNumber};
use std::ops::Range;

/// Bytes of the copied log, and the byte address they go to, in blocks of a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Overwrite {
    pub(super) inode: InodeNumber,
    pub(super) place: u32,
    pub(super) bytes: u32,
    /// The block of the file in which they begin.
    pub(super) block: u64,
    pub(super) to: BlockAddress,
}

/// Content that a batch writes over committed blocks.
#[derive(Debug, Default)]
pub struct Overwrites {
    pub(super) stores: Vec<Overwrite>,
    pub(super) runs: usize,
}

impl Overwrites {
    /// Forgets everything, keeping the memory.
    pub fn clear(&mut self) {
        self.stores.clear();
        self.runs = 0;
    }

    /// Runs of blocks that are written.
    #[must_use]
    pub fn runs(&self) -> usize {
        self.runs
    }

    /// The blocks of files that are written, and where each run of them lies.
    pub fn blocks(&self) -> impl Iterator<Item = (InodeNumber, Range<u64>, BlockAddress)> {
        self.stores.iter().map(|store| {
            let end = store.to.0 % BLOCK_BYTES + u64::from(store.bytes);
            (store.inode, store.block..store.block + end.div_ceil(BLOCK_BYTES), store.to)
        })
    }

    /// Writes all of it; a fence has to follow. `batch` is the copied log.
    pub fn carry_out(
        &self,
        writer: &ContentWriter<'_>,
        batch: &[u8],
        damaged: &mut Vec<(InodeNumber, BlockAddress)>,
    ) -> Result<(), Error> {
        for &Overwrite { inode, place, bytes, to, .. } in &self.stores {
            let bytes = &batch[place as usize..][..bytes as usize];
            writer.overwrite(to, bytes, |block| damaged.push((inode, block)))?;
        }
        Ok(())
    }
}
