//! Content of blocks, written and read with its checksums.
//!
//! Each block of an arena has one behind the arena's blocks, if the store has them at all
//! ([`Geometry::checks_content`]). The writer of a block writes its checksum at once, and one fence makes both
//! durable. A crash can come between them in blocks that nothing counts on yet, and in those that are overwritten
//! where they lie (`digest::place`): these are digested again, into new blocks. Bytes of such a block that were not
//! in the log are taken as they are found, as nothing tells them from damage. At any other time a block whose
//! checksum is wrong keeps a wrong one, whatever is written over a part of it.

use super::arenas::Arenas;
use super::written_arenas::is_shortage;
use crate::Error;
use crate::tiers::blocks::Run;
use cuesta_format::entry::Crc32c;
use cuesta_format::operation::StagedWrite;
use cuesta_format::{BLOCK_BYTES, BlockAddress, Geometry, TierNumber};
use cuesta_media::planted::{self, Bug};
use cuesta_media::user_copy::Fault;
use cuesta_media::{AccessError, Mapping};
use std::sync::Arc;

const BLOCK: usize = BLOCK_BYTES as usize;
const SUM_BYTES: usize = size_of::<u32>();
/// Checksums that are written at once.
const SUMS_AT_ONCE: usize = 64;
/// Checksums that lie in one page.
const SUMS_OF_PAGE: u64 = BLOCK_BYTES / SUM_BYTES as u64;

/// A checksum that is wrong for the same bytes.
fn wrong(sum: u32) -> u32 {
    !sum
}

fn sum_of(bytes: &[u8]) -> u32 {
    Crc32c::new().with(bytes).value()
}

/// Writes content of any tier; a fence has to follow.
pub struct ContentWriter<'a> {
    arenas: &'a Arenas,
}

impl<'a> ContentWriter<'a> {
    /// One for a store's arenas.
    #[must_use]
    pub fn new(arenas: &'a Arenas) -> ContentWriter<'a> {
        ContentWriter { arenas }
    }

    /// The sizes of the tier that a block is of.
    fn geometry(&self, address: BlockAddress) -> Geometry {
        self.arenas.geometry().of_tier(address.tier())
    }

    fn mapping(&self, address: BlockAddress) -> Result<Arc<Mapping>, Error> {
        self.arenas.mapping(self.arenas.geometry().arena(address))
    }

    /// Writes whole blocks of one arena.
    pub fn put(&self, address: BlockAddress, bytes: &[u8]) -> Result<(), Error> {
        self.store(address, bytes)?;
        self.put_sums(address, bytes, |sum| sum)
    }

    /// Makes blocks content that a session wrote there. `sum` says what the checksum of a block must be, where that is
    /// known; `damaged` is told of blocks that have another one. A fence has to follow.
    pub fn adopt(
        &self,
        run: Run,
        sum: impl Fn(BlockAddress) -> Option<u32>,
        mut damaged: impl FnMut(BlockAddress),
    ) -> Result<(), Error> {
        let mapping = match self.mapping(run.address) {
            Err(Error::TierMissing(_)) => {
                // They are the file's all the same, and without checksums they cannot be read.
                (0..u64::from(run.blocks)).for_each(|block| damaged(run.address.plus(block * BLOCK_BYTES)));
                return Ok(());
            }
            mapping => mapping?,
        };
        let geometry = self.geometry(run.address);
        let offset = geometry.arena_offset(run.address);
        self.arenas.note_written(geometry.arena(run.address));
        if !planted::active(Bug::AdoptedUnflushed) {
            mapping.flush(offset, u64::from(run.blocks) * BLOCK_BYTES)?;
        }
        if !geometry.checks_content {
            return Ok(());
        }
        self.arenas.play_read(run.address, u64::from(run.blocks) * BLOCK_BYTES);
        let mut sums = Vec::with_capacity(run.blocks as usize * SUM_BYTES);
        for block in 0..u64::from(run.blocks) {
            let address = run.address.plus(block * BLOCK_BYTES);
            let found = match mapping.sum(offset + block * BLOCK_BYTES, BLOCK_BYTES) {
                Err(AccessError::Fault(_)) => None,
                summed => Some(summed?),
            };
            let expected = sum(address);
            let kept = match (found, expected) {
                (Some(found), Some(expected)) if found == expected => found,
                (Some(found), None) => found,
                (found, expected) => {
                    damaged(address);
                    // Whatever lies there: with this one it is known to be damaged.
                    wrong(found.or(expected).unwrap_or_default())
                }
            };
            sums.extend_from_slice(&kept.to_le_bytes());
        }
        self.store_sums(run.address, &sums)
    }

    /// Writes whole blocks, but no fence makes the blocks durable: the planted bug `MappedUnflushed`.
    pub fn put_unflushed(&self, address: BlockAddress, bytes: &[u8]) -> Result<(), Error> {
        self.mapping(address)?.write(self.arenas.geometry().arena_offset(address), bytes)?;
        self.put_sums(address, bytes, |sum| sum)
    }

    /// The same with content that is known to be wrong.
    pub fn put_damaged(&self, address: BlockAddress, bytes: &[u8]) -> Result<(), Error> {
        self.store(address, bytes)?;
        self.put_sums(address, bytes, wrong)
    }

    /// Writes bytes of the file of the arena that a block is of.
    fn write(&self, of: BlockAddress, offset: u64, bytes: &[u8]) -> Result<Result<(), AccessError>, Error> {
        let arena = self.arenas.geometry().arena(of);
        let tier = self.arenas.tier(arena.tier())?;
        let (mapping, files) = (tier.mapping(arena)?, tier.written());
        if let (Some(stamps), Some(files)) = (tier.stamps(), files) {
            stamps.note(arena, files);
        }
        if let Some(disk) = tier.played() {
            disk.dirtied(self.arenas.geometry().place_in_tier(arena) + offset, bytes.len() as u64);
        }
        let written = match files.map(|files| files.file(arena)) {
            Some(Ok(written)) => mapping.write_by_calls(&*written.file, written.offset, offset, bytes),
            Some(Err(errno)) if arena.tier() != TierNumber::FAST && !is_shortage(errno) => {
                Err(AccessError::Unwritten(errno))
            }
            Some(Err(_)) | None => mapping.write_through(offset, bytes),
        };
        // Behind the write: a flush that begins before it may miss it.
        self.arenas.note_written(arena);
        Ok(written)
    }

    /// Writes bytes that lie in one arena.
    fn store(&self, address: BlockAddress, bytes: &[u8]) -> Result<(), Error> {
        let written = self.write(address, self.arenas.geometry().arena_offset(address), bytes)?;
        written.map_err(|error| match error {
            AccessError::Fault(Fault { copied }) => unwritable(address.plus(copied as u64)),
            error => refused(address, error),
        })
    }

    fn put_sums(&self, address: BlockAddress, bytes: &[u8], sum: fn(u32) -> u32) -> Result<(), Error> {
        if !self.geometry(address).checks_content {
            return Ok(());
        }
        let mut address = address;
        for blocks in bytes.chunks(SUMS_AT_ONCE * BLOCK) {
            let mut sums = [0; SUMS_AT_ONCE * SUM_BYTES];
            let (slots, _) = sums.as_chunks_mut::<SUM_BYTES>();
            for (slot, block) in slots.iter_mut().zip(blocks.chunks(BLOCK)) {
                *slot = sum(sum_of(block)).to_le_bytes();
            }
            let bytes = blocks.len() / BLOCK * SUM_BYTES;
            self.store_sums(address, &sums[..bytes])?;
            address = address.plus(blocks.len() as u64);
        }
        Ok(())
    }

    /// Writes checksums from a block's on. A page of them that the medium does not take is that of many blocks.
    fn store_sums(&self, address: BlockAddress, sums: &[u8]) -> Result<(), Error> {
        let geometry = self.geometry(address);
        let written = self.write(address, geometry.sum_offset(address), sums)?;
        written.map_err(|error| match error {
            AccessError::Fault(Fault { copied }) => {
                let arena = geometry.arena(address);
                let block = geometry.arena_offset(address) / BLOCK_BYTES + (copied / SUM_BYTES) as u64;
                let first = block / SUMS_OF_PAGE * SUMS_OF_PAGE;
                let blocks = SUMS_OF_PAGE.min(u64::from(geometry.arena_blocks()) - first);
                let address = geometry.address(arena, first as u32);
                Error::Unwritable(Run { address, blocks: blocks as u32 })
            }
            error => refused(address, error),
        })
    }

    /// Writes over the bytes that blocks hold, from a byte address on, wherever arenas end. Tells `damaged` of
    /// blocks that are written in part and had a wrong checksum before.
    pub fn overwrite(
        &self,
        to: BlockAddress,
        bytes: &[u8],
        mut damaged: impl FnMut(BlockAddress),
    ) -> Result<(), Error> {
        let (mut to, mut bytes) = (to, bytes);
        let geometry = self.geometry(to);
        while !bytes.is_empty() {
            let inside = (to.0 % BLOCK_BYTES) as usize;
            let room = geometry.arena_bytes - geometry.arena_offset(to);
            let len = bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX));
            let len = match geometry.checks_content {
                false => len,
                true if inside > 0 || len < BLOCK => len.min(BLOCK - inside),
                true => len / BLOCK * BLOCK,
            };
            let (part, rest) = bytes.split_at(len);
            if !geometry.checks_content {
                self.store(to, part)?;
            } else if len < BLOCK {
                self.overwrite_part(to, part, &mut damaged)?;
            } else {
                self.put(to, part)?;
            }
            (to, bytes) = (to.plus(len as u64), rest);
        }
        Ok(())
    }

    fn overwrite_part(
        &self,
        to: BlockAddress,
        bytes: &[u8],
        damaged: &mut impl FnMut(BlockAddress),
    ) -> Result<(), Error> {
        let inside = to.0 % BLOCK_BYTES;
        let address = BlockAddress(to.0 - inside);
        let mapping = self.mapping(address)?;
        let geometry = self.geometry(address);
        let offset = geometry.arena_offset(address);
        let mut block = [0; BLOCK];
        self.arenas.play_read(address, BLOCK_BYTES);
        match mapping.read(offset, &mut block) {
            Err(AccessError::Fault(_)) => return Err(unwritable(address)),
            read => read?,
        }
        let is_damaged = kept_sum(&mapping, &geometry, address)? != Some(sum_of(&block));
        block[inside as usize..][..bytes.len()].copy_from_slice(bytes);
        self.store(to, bytes)?;
        let mut sum = sum_of(&block);
        if is_damaged {
            damaged(address);
            sum = wrong(sum);
        }
        self.store_sums(address, &sum.to_le_bytes())
    }
}

/// The checksum of a block; `None`: the medium does not give it.
fn kept_sum(mapping: &Mapping, geometry: &Geometry, address: BlockAddress) -> Result<Option<u32>, Error> {
    let mut kept = [0; SUM_BYTES];
    match mapping.read(geometry.sum_offset(address), &mut kept) {
        Ok(()) => Ok(Some(u32::from_le_bytes(kept))),
        Err(AccessError::Fault(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The medium of a block's tier does not take it. A lower tier can be done without.
fn refused(address: BlockAddress, error: AccessError) -> Error {
    match address.tier() {
        TierNumber::FAST => error.into(),
        tier => Error::TierFailed { tier, why: error.to_string() },
    }
}

/// The block that `at` lies in is not taken.
fn unwritable(at: BlockAddress) -> Error {
    Error::Unwritable(Run { address: BlockAddress(at.0 / BLOCK_BYTES * BLOCK_BYTES), blocks: 1 })
}

impl Arenas {
    /// Makes bytes of one block zero, durably.
    pub fn clear(&self, address: BlockAddress, inside: u64, bytes: u64) -> Result<(), Error> {
        let writer = ContentWriter::new(self);
        writer.overwrite(address.plus(inside), &vec![0; bytes as usize], |_| {})?;
        self.fence()
    }

    /// Whether the medium gives a block, and it holds what was written to it, as far as the store can tell.
    pub fn is_intact(&self, address: BlockAddress) -> Result<bool, Error> {
        let geometry = &self.geometry().of_tier(address.tier());
        if !geometry.checks_content {
            return self.read_if_given(address, &mut [0; BLOCK]);
        }
        let mapping = match self.mapping(geometry.arena(address)) {
            Err(Error::TierMissing(_)) => return Ok(false),
            mapping => mapping?,
        };
        self.play_read(address, BLOCK_BYTES);
        let sum = match mapping.sum(geometry.arena_offset(address), BLOCK_BYTES) {
            Err(AccessError::Fault(_)) => return Ok(false),
            summed => summed?,
        };
        Ok(kept_sum(&mapping, geometry, address)? == Some(sum))
    }

    /// Whether the blocks of a staged write hold what its entry says.
    pub(crate) fn hold_staged(&self, staged: &StagedWrite<'_>) -> Result<bool, Error> {
        let Some(mut sums) = staged.sums() else { return Ok(true) };
        for run in staged.runs() {
            if run.address.tier() != TierNumber::FAST && planted::active(Bug::StagedBelowNotCompared) {
                sums.by_ref().take(run.blocks as usize).for_each(drop);
                continue;
            }
            // Addresses of an entry are its session's word.
            let Ok(mapping) = self.mapping(self.geometry().arena(run.address)) else { return Ok(true) };
            let offset = self.geometry().arena_offset(run.address);
            for block in 0..u64::from(run.blocks) {
                match mapping.sum(offset + block * BLOCK_BYTES, BLOCK_BYTES) {
                    Ok(sum) if sums.next() == Some(sum) => {}
                    Ok(_) | Err(AccessError::Fault(_)) => return Ok(false),
                    // It reaches past its arena, and is rejected.
                    Err(_) => return Ok(true),
                }
            }
        }
        Ok(true)
    }

    /// Reads whole blocks of one arena, up to the first one that is damaged. Returns the number of the blocks before that.
    pub(crate) fn read_intact(&self, address: BlockAddress, out: &mut [u8]) -> Result<usize, Error> {
        let geometry = &self.geometry().of_tier(address.tier());
        let mapping = match self.mapping(geometry.arena(address)) {
            Err(Error::TierMissing(_)) => return Ok(0),
            mapping => mapping?,
        };
        self.play_read(address, out.len() as u64);
        let given = match mapping.read(geometry.arena_offset(address), out) {
            Ok(()) => out.len(),
            Err(AccessError::Fault(Fault { copied })) => copied,
            Err(error) => return Err(error.into()),
        };
        let (blocks, _) = out[..given].as_chunks::<BLOCK>();
        for (number, block) in blocks.iter().enumerate().filter(|_| geometry.checks_content) {
            let at = address.plus(number as u64 * BLOCK_BYTES);
            if kept_sum(&mapping, geometry, at)? != Some(sum_of(block)) {
                return Ok(number);
            }
        }
        Ok(blocks.len())
    }

    /// Reads a block, if the medium gives it. Says whether it does.
    pub fn read_if_given(&self, address: BlockAddress, block: &mut [u8; BLOCK]) -> Result<bool, Error> {
        match self.read(address, 0, block) {
            Err(Error::Access(AccessError::Fault(_)) | Error::TierMissing(_)) => Ok(false),
            read => read.map(|()| true),
        }
    }

    /// Whether a block's checksum says that it is damaged.
    pub fn is_known_damaged(&self, address: BlockAddress) -> Result<bool, Error> {
        Ok(self.geometry().of_tier(address.tier()).checks_content && !self.is_intact(address)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tiers::device::Parts;
    use crate::tiers::memory::TierArenas;
    use cuesta_format::{ArenaId, Medium, StoreId};

    const GEOMETRY: Geometry = Geometry {
        arena_bytes: 64 << 10,
        segment_bytes: 16 << 10,
        ring_slots: 2,
        nvm_bytes: 128 << 10,
        checks_content: true,
    };

    fn tier(number: TierNumber, medium: Medium, folder: &std::path::Path) -> TierArenas {
        std::fs::create_dir_all(folder.join("arenas")).unwrap();
        let parts = Parts::open(folder, StoreId([0; 16]), &GEOMETRY).unwrap();
        let arenas = TierArenas::open(number, &parts, GEOMETRY, medium, &Arc::default()).unwrap();
        while arenas.count() < 2 {
            arenas.grow(None).unwrap();
        }
        arenas
    }

    fn arenas(folder: &std::path::Path) -> Arenas {
        Arenas::new(tier(TierNumber::FAST, Medium::Memory, folder), Vec::new())
    }

    #[test]
    fn content_is_not_stored_to_a_lower_arena_whose_file_cannot_be_opened() {
        let folder = tempfile::tempdir().unwrap();
        let [fast, below] = ["fast", "below"].map(|name| folder.path().join(name));
        let lower = tier(TierNumber(1), Medium::Block, &below);
        let arenas = Arenas::new(tier(TierNumber::FAST, Medium::Memory, &fast), vec![Some(Ok(lower))]);
        let address = |arena| GEOMETRY.of_tier(TierNumber(1)).address(ArenaId::new(TierNumber(1), arena), 0);
        let put = |arena| ContentWriter::new(&arenas).put(address(arena), &[7; BLOCK]);
        put(0).unwrap();
        // The file of one arena is open by now. That of the other was never opened for writing.
        std::fs::remove_dir_all(below.join("arenas")).unwrap();
        put(0).unwrap();
        let refused = put(1).unwrap_err();
        assert!(matches!(refused, Error::TierFailed { tier: TierNumber(1), .. }), "{refused}");
    }

    /// Writes one byte past the checksums.
    fn flip(arenas: &Arenas, address: BlockAddress) {
        let mapping = arenas.mapping(GEOMETRY.arena(address)).unwrap();
        let mut byte = [0];
        mapping.read(GEOMETRY.arena_offset(address), &mut byte).unwrap();
        mapping.write(GEOMETRY.arena_offset(address), &[!byte[0]]).unwrap();
    }

    #[test]
    fn a_written_block_is_intact_until_a_byte_of_it_changes() {
        let folder = tempfile::tempdir().unwrap();
        let arenas = arenas(folder.path());
        let writer = ContentWriter::new(&arenas);
        let [first, second] = [2, 3].map(|block| GEOMETRY.address(ArenaId(0), block));
        writer.put(first, &[7; 2 * BLOCK]).unwrap();
        assert!(arenas.is_intact(first).unwrap() && arenas.is_intact(second).unwrap());
        flip(&arenas, first.plus(100));
        assert!(!arenas.is_intact(first).unwrap() && arenas.is_intact(second).unwrap());
        writer.put_damaged(second, &[8; BLOCK]).unwrap();
        assert!(!arenas.is_intact(second).unwrap());
    }

    #[test]
    fn a_block_that_is_written_in_part_is_intact_if_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let arenas = arenas(folder.path());
        let writer = ContentWriter::new(&arenas);
        let last = GEOMETRY.address(ArenaId(0), GEOMETRY.arena_blocks() - 1);
        let next = GEOMETRY.address(ArenaId(1), 0);
        [last, next].iter().for_each(|&block| writer.put(block, &[1; BLOCK]).unwrap());
        let mut told = Vec::new();
        // From the middle of one arena's last block to the middle of the next arena's first.
        writer.overwrite(last.plus(1000), &[2; BLOCK], |block| told.push(block)).unwrap();
        assert!(arenas.is_intact(last).unwrap() && arenas.is_intact(next).unwrap() && told.is_empty());
        let mut bytes = [0; BLOCK];
        arenas.read(next, 0, &mut bytes).unwrap();
        assert_eq!((bytes[999], bytes[1000]), (2, 1));
        flip(&arenas, next.plus(3000));
        writer.overwrite(next.plus(10), &[3; 10], |block| told.push(block)).unwrap();
        assert_eq!(told, [next]);
        assert!(!arenas.is_intact(next).unwrap());
        // All of it written anew, it is well again.
        writer.overwrite(next, &[4; BLOCK], |block| told.push(block)).unwrap();
        assert!(arenas.is_intact(next).unwrap() && told.len() == 1);
    }
}
