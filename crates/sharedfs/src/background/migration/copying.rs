//! Copies blocks of a file to new blocks of another tier. No lock is held but for moments.

use super::part::Part;
use crate::metadata::ExtentWrite;
use crate::tiers::{Allocator, ContentWriter, Reservation, Run, runs_of};
use crate::{Error, SharedFs};
use cuesta_format::{ArenaId, BLOCK_BYTES, Extent, Geometry, TierNumber};
use cuesta_media::emulate::settle;
use cuesta_media::planted::{self, Bug};
use std::collections::BTreeSet;

const BLOCK: usize = BLOCK_BYTES as usize;
/// Bytes that are read and written at once.
const PIECE_BYTES: usize = 1 << 20;
/// So often a part is copied again without blocks that the medium did not take.
const SET_ASIDE_MAX: usize = 8;

/// A run of blocks of a file, where it lies and where its copy does.
#[derive(Clone, Copy, Debug)]
pub(super) struct Copied {
    pub(super) from: Extent,
    pub(super) to: Extent,
}

impl Copied {
    /// What makes the copy the file's.
    pub(super) fn write(&self) -> ExtentWrite<'_> {
        ExtentWrite { blocks: self.to.file_block..self.to.end_block(), new: std::slice::from_ref(&self.to) }
    }
}

/// The copies of a part.
#[derive(Debug, Default)]
pub(super) struct Copies {
    /// In file order.
    pub(super) runs: Vec<Copied>,
    /// The blocks they are in.
    pub(super) reservation: Reservation,
    /// Blocks that cannot be read as they were written.
    pub(super) damaged: u64,
    /// Blocks that were reserved for these.
    unused: Vec<Run>,
    /// The tier has no room for the rest.
    pub(super) is_full: bool,
}

impl SharedFs {
    /// Copies the blocks of a part to a tier, and has the disk take the copies. The caller gives the reservation back, or commits it.
    pub(super) fn copy_part(&self, part: &Part, to: TierNumber) -> Result<Copies, Error> {
        let mut copies = Copies::default();
        for _ in 0..SET_ASIDE_MAX {
            let failures = self.arenas.failures();
            let copied = self.try_copy(part, to, &mut copies).and_then(|()| {
                self.flush_copies(&copies)?;
                // A tier that failed meanwhile was not flushed.
                self.arenas.check_failures(failures)
            });
            settle();
            let Err(error) = copied else { return Ok(copies) };
            self.space.lock().allocator.abandon(&mut copies.reservation);
            match &error {
                Error::Unwritable(run) if run.address.tier() == to => {
                    tracing::error!(%error, "they are not used any more");
                    self.space.lock().allocator.set_aside(*run);
                }
                Error::TierFailed { tier, why } => {
                    self.storage().fail_tier(*tier, why);
                    return Err(error);
                }
                _ => return Err(error),
            }
            copies = Copies::default();
        }
        Ok(Copies { is_full: true, ..copies })
    }

    fn try_copy(&self, part: &Part, to: TierNumber, copies: &mut Copies) -> Result<(), Error> {
        let mut buffer = vec![0; PIECE_BYTES.min(part.blocks() as usize * BLOCK)];
        for extent in &part.extents {
            let mut at = extent.file_block;
            while at < extent.end_block() {
                let wanted = extent.end_block() - at;
                let Some(run) = self.take_in(to, wanted, &mut copies.reservation)? else {
                    copies.is_full = true;
                    return Ok(());
                };
                let blocks = run.blocks;
                let from = Extent { file_block: at, blocks, address: extent.address_of(at) };
                self.copy_run(from, Extent { address: run.address, ..from }, &mut buffer, copies)?;
                at = from.end_block();
            }
        }
        Ok(())
    }

    /// Some of `wanted` blocks of a tier that are promised to no session.
    fn take_in(
        &self,
        tier: TierNumber,
        wanted: u64,
        reservation: &mut Reservation,
    ) -> Result<Option<Run>, Error> {
        let has_free = || self.space.lock().allocator.free_blocks_in(tier) > 0;
        if !has_free() && !self.grow_tier(tier, None, has_free)? {
            return Ok(None);
        }
        let beyond = self.mapped.beyond();
        let space = &mut *self.space.lock();
        match u32::try_from(wanted.min(self.room_in(space, beyond))).unwrap_or(u32::MAX) {
            0 => Ok(None),
            most => Ok(space.allocator.take(tier, most, None, reservation)),
        }
    }

    /// Copies a run, less the blocks that are damaged: they stay where they are, and are told to those that read them.
    fn copy_run(
        &self,
        from: Extent,
        to: Extent,
        buffer: &mut [u8],
        copies: &mut Copies,
    ) -> Result<(), Error> {
        let writer = ContentWriter::new(&self.arenas);
        let mut at = from.file_block;
        while at < from.end_block() {
            let wanted = buffer.len().min((from.end_block() - at) as usize * BLOCK);
            let intact = self.arenas.read_intact(from.address_of(at), &mut buffer[..wanted])?;
            let blocks = intact as u64;
            if intact > 0 {
                writer.put(to.address_of(at), &buffer[..intact * BLOCK])?;
                copies.add(
                    Extent { file_block: at, blocks: intact as u32, address: from.address_of(at) },
                    Extent { file_block: at, blocks: intact as u32, address: to.address_of(at) },
                );
            }
            at += blocks;
            if intact * BLOCK < wanted {
                copies.damaged += 1;
                copies.unused.push(Run { address: to.address_of(at), blocks: 1 });
                at += 1;
            }
        }
        Ok(())
    }

    /// Has the disk take the copies, where the store waits for disks.
    fn flush_copies(&self, copies: &Copies) -> Result<(), Error> {
        if planted::active(Bug::MigratedUnflushed) {
            return Ok(());
        }
        let geometry = self.geometry();
        let arenas: BTreeSet<ArenaId> =
            copies.runs.iter().map(|copied| geometry.arena(copied.to.address)).collect();
        self.arenas.flush(arenas)?;
        self.arenas.fence()
    }
}

impl Copies {
    fn add(&mut self, from: Extent, to: Extent) {
        if let Some(last) = self.runs.last_mut() {
            let goes_on = |last: &Extent, next: &Extent| {
                last.end_block() == next.file_block
                    && last.address.plus(u64::from(last.blocks) * BLOCK_BYTES) == next.address
            };
            if goes_on(&last.from, &from) && goes_on(&last.to, &to) {
                last.from.blocks += from.blocks;
                last.to.blocks += to.blocks;
                return;
            }
        }
        self.runs.push(Copied { from, to });
    }

    /// The reservation of the transaction: the blocks of the copies. The others that were reserved are free again.
    pub(super) fn settled(&self, geometry: &Geometry) -> Reservation {
        let mut settled = Reservation::default();
        settled.taken.extend(self.runs.iter().flat_map(|copied| runs_of(geometry, &copied.to)));
        settled.returned.extend_from_slice(&self.unused);
        settled
    }

    /// The blocks of the copies stay reserved; the others are free again.
    pub(super) fn keep(&mut self, allocator: &mut Allocator) {
        self.reservation = Reservation::default();
        allocator.release_window(self.unused.drain(..));
    }

    /// How many blocks were copied.
    pub(super) fn blocks(&self) -> u64 {
        self.runs.iter().map(|copied| u64::from(copied.to.blocks)).sum()
    }
}
