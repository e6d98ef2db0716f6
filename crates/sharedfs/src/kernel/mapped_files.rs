//! Files in mapped mode: those that programs share by mappings (docs/design/open-files.md).
//!
//! A file of the kernel's, beside the lock files, holds the content ([`mapped_files`]). Sessions and programs map and change that
//! one, and it is as durable as the tier. The mode lasts while any program has the file mapped. Once none has, the next session that
//! asks for the inode gets it as any other. The file keeps its blocks in the arenas meanwhile, with what they held. They are room for
//! the content that comes back. It is written where they lie, because no session reads them, and the kernel's file
//! counts until the transaction that ends the mode is committed.
//!
//! The kernel's memory for such a file counts as the store's as far as it is more than those blocks: so much less is there for
//! others ([`MappedFiles::beyond`]). Calls on it fail for lack of space where there is none left. Stores through mappings go
//! on until the medium is full. The file's owner is charged in the same way ([`MappedFiles::beyond_of`]), beyond the
//! owner's limits if the stores went there.
//!
//! A log holds of such a file writes of several pages, and zeros up to a new end. The session that logged them waits until they
//! are digested into the kernel's file.

use crate::Error;
use crate::metadata::{MetadataError, MetadataStore, Snapshot, payers};
use cuesta_format::quota::Payer;
use cuesta_format::{BLOCK_BYTES, InodeNumber, InodeRecord, Medium};
use cuesta_media::mapped_files;
use parking_lot::Mutex;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::fstat;
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::time::{Duration, Instant};

/// What `stat` counts blocks in.
const SECTOR_BYTES: u64 = 512;
/// So many files are looked at each time their blocks are asked for; more of them, now and then.
const LOOKED_AT_ONCE_MAX: usize = 16;
const LOOK_PAUSE: Duration = Duration::from_millis(10);

/// Copied at once, in bytes: whole blocks.
pub(super) const PIECE_BYTES: u64 = 1 << 20;

/// The kernel's files.
#[derive(Debug)]
pub(crate) struct MappedFiles {
    pub(super) references: File,
    medium: Medium,
    pub(super) counted: Mutex<Counted>,
}

/// The blocks of the files.
#[derive(Debug, Default)]
pub(super) struct Counted {
    /// Files, and the blocks of the store's that each has besides.
    pub(super) own_blocks: BTreeMap<InodeNumber, u64>,
    /// One that is on its way out of the mode: its owner still has it as it is in that, the store has not.
    pub(super) ending: Option<InodeNumber>,
    pub(super) beyond: u64,
    pub(super) looked: Option<Instant>,
}

impl Counted {
    fn remove(&mut self, inode: InodeNumber) {
        self.own_blocks.remove(&inode);
        self.looked = None;
        if self.own_blocks.is_empty() {
            self.beyond = 0;
        }
    }
}

pub(super) fn failed(errno: Errno) -> Error {
    match errno {
        Errno::NOSPC | Errno::NOMEM | Errno::DQUOT => Error::NoSpace,
        errno => Error::errno("keep a file in mapped mode")(errno),
    }
}

impl MappedFiles {
    /// Those beside the lock files in `references`, on a tier of this medium.
    pub(crate) fn open(references: File, medium: Medium) -> Result<MappedFiles, Error> {
        mapped_files::make_folder(&references).map_err(failed)?;
        Ok(MappedFiles { references, medium, counted: Mutex::default() })
    }

    /// Blocks the files take beyond those they have in the arenas.
    pub(crate) fn beyond(&self) -> u64 {
        let mut counted = self.counted.lock();
        let is_fresh = counted.looked.is_some_and(|looked| looked.elapsed() < LOOK_PAUSE);
        if counted.own_blocks.is_empty() || counted.own_blocks.len() > LOOKED_AT_ONCE_MAX && is_fresh {
            return counted.beyond;
        }
        let beyond = |(&inode, &own): (&InodeNumber, &u64)| self.blocks(inode).saturating_sub(own);
        counted.beyond = counted.own_blocks.iter().map(beyond).sum();
        counted.looked = Some(Instant::now());
        counted.beyond
    }

    /// Blocks that files take beyond those they have in the arenas, by payer, for the payers asked for. The
    /// snapshot was taken with the quotas locked, and they are: so no file goes that counts in it.
    pub(crate) fn beyond_of(
        &self,
        snapshot: &Snapshot,
        is_asked_for: impl Fn(&Payer) -> bool,
    ) -> Result<BTreeMap<Payer, u64>, MetadataError> {
        let inodes: Vec<InodeNumber> = {
            let counted = self.counted.lock();
            counted.own_blocks.keys().copied().chain(counted.ending).collect()
        };
        let mut beyond = BTreeMap::new();
        for inode in inodes {
            let Some(stored) = snapshot.inode(inode)?.filter(|stored| stored.record.mapped) else { continue };
            let mut charged = payers(&stored.record).filter(&is_asked_for).peekable();
            if charged.peek().is_some() {
                let blocks = self.blocks(inode).saturating_sub(stored.record.blocks);
                charged.for_each(|payer| *beyond.entry(payer).or_default() += blocks);
            }
        }
        Ok(beyond)
    }

    fn blocks(&self, inode: InodeNumber) -> u64 {
        let found = mapped_files::stat(&self.references, inode);
        found.map_or(0, |found| found.st_blocks.unsigned_abs() * SECTOR_BYTES / BLOCK_BYTES)
    }

    pub(super) fn count(&self, record: &InodeRecord) {
        self.counted.lock().own_blocks.insert(record.inode, record.blocks);
    }

    fn count_no_more(&self, inode: InodeNumber) {
        self.counted.lock().remove(inode);
    }

    pub(super) fn count_as_ending(&self, inode: InodeNumber) {
        let mut counted = self.counted.lock();
        counted.remove(inode);
        counted.ending = Some(inode);
    }

    /// Takes away files that a killed daemon left behind or did not get ready, and counts the rest.
    pub(crate) fn sweep(&self, metadata: &MetadataStore) -> Result<(), Error> {
        let snapshot = metadata.read()?;
        for inode in mapped_files::list(&self.references).map_err(failed)? {
            match snapshot.inode(inode)?.filter(|stored| stored.record.mapped) {
                Some(stored) => self.count(&stored.record),
                None => drop(mapped_files::remove(&self.references, inode).map_err(failed)?),
            }
        }
        Ok(())
    }

    /// The inode is gone. A process that has the file mapped keeps the memory.
    pub(crate) fn forget(&self, record: &InodeRecord) {
        if record.mapped {
            self.count_no_more(record.inode);
            // One that stays is swept away when the store is next opened.
            let _ = mapped_files::remove(&self.references, record.inode);
        }
    }

    /// Writes logged content.
    pub(crate) fn write(&self, inode: InodeNumber, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        let Some(file) = self.open_to_write(inode)? else { return Ok(()) };
        mapped_files::clear_behind_end(&file, offset).map_err(failed)?;
        write_all(&file, offset, bytes)?;
        mapped_files::settle(&file, self.medium).map_err(failed)
    }

    /// Makes a range zeros, up to which the file reaches then at the least.
    pub(crate) fn clear(&self, inode: InodeNumber, range: Range<u64>) -> Result<(), Error> {
        let Some(file) = self.open_to_write(inode)? else { return Ok(()) };
        mapped_files::clear_behind_end(&file, range.end).map_err(failed)?;
        mapped_files::punch(&file, range.start, range.end - range.start).map_err(failed)?;
        if fstat(&file).map_err(failed)?.st_size.unsigned_abs() < range.end {
            mapped_files::set_size(&file, range.end).map_err(failed)?;
        }
        mapped_files::settle(&file, self.medium).map_err(failed)
    }

    /// A file that was made and filled is about to count, its name included.
    pub(super) fn settle_new(&self, file: &OwnedFd) -> Result<(), Error> {
        mapped_files::settle(file, self.medium).map_err(failed)?;
        mapped_files::settle_names(&self.references, self.medium).map_err(failed)
    }

    /// If the file is missing, it was damaged from outside, and there is nowhere else to put the logged
    /// content.
    fn open_to_write(&self, inode: InodeNumber) -> Result<Option<OwnedFd>, Error> {
        let file = mapped_files::open(&self.references, inode).map_err(failed)?;
        if file.is_none() {
            tracing::error!(inode = inode.0, "a file in mapped mode is missing: writes to it are lost");
        }
        Ok(file)
    }
}

pub(super) fn write_all(file: impl AsFd, mut offset: u64, mut bytes: &[u8]) -> Result<(), Error> {
    while !bytes.is_empty() {
        match mapped_files::write(&file, bytes, offset) {
            Ok(written) => {
                offset += written as u64;
                bytes = bytes.get(written..).unwrap_or_default();
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(failed(errno)),
        }
    }
    Ok(())
}

/// Fills `bytes`, with zeros behind the file's end.
pub(super) fn read_all(file: impl AsFd, offset: u64, bytes: &mut [u8]) -> Result<(), Error> {
    let mut filled = 0;
    while filled < bytes.len() {
        match mapped_files::read(&file, &mut bytes[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(failed(errno)),
        }
    }
    bytes[filled..].fill(0);
    Ok(())
}

/// The blocks from `from` on that hold something; `None`: none does.
pub(super) fn data_blocks(file: impl AsFd, from: u64) -> Result<Option<Range<u64>>, Error> {
    let found = mapped_files::next_data(&file, from * BLOCK_BYTES).map_err(failed)?;
    Ok(found.map(|bytes| bytes.start / BLOCK_BYTES..bytes.end.div_ceil(BLOCK_BYTES)))
}
