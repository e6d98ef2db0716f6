//! Moves a part of a file: copies it, takes the file's lease, and commits.

use super::Reason;
use super::copying::{Copied, Copies};
use super::part::{Part, Place, Which};
use crate::digest::{put_bitmaps, put_stamps};
use crate::metadata::ExtentWrite;
use crate::requests::{Ahead, Trouble};
use crate::tiers::{Reservation, runs_of};
use crate::{Error, SharedFs};
use cuesta_format::event::Step;
use cuesta_format::wire::LeaseMode;
use cuesta_format::{Extent, FileKind, InodeNumber, InodeRecord, LogPosition, SessionId, TierNumber};

/// So often a part is copied anew because the file changed meanwhile.
const TRIES_MAX: usize = 4;

/// What becomes of the blocks that are copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Home {
    /// The copies are the file's blocks from now on.
    Moves,
    /// The copies lie beside them, for readers.
    Stays,
}

/// What became of a part of a file.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Moved {
    /// Blocks that moved.
    pub(super) blocks: u64,
    /// Copies that were dropped.
    pub(super) blocks_dropped: u64,
    /// Blocks that stay because they are damaged, or of a missing tier.
    pub(super) blocks_stayed: u64,
    /// Programs map the file: it stays.
    pub(super) is_pinned: bool,
    /// Programs changed it all the time.
    pub(super) is_busy: bool,
    /// The tier has no room for the rest.
    pub(super) is_full: bool,
    /// Where the next part begins; `None`: there is none.
    pub(super) next: Option<u64>,
}

impl SharedFs {
    /// Moves the next part of a file, from a block on, to a tier.
    pub(super) fn move_part(
        &self,
        inode: InodeNumber,
        block: u64,
        way: (Which, TierNumber),
        reason: Reason,
    ) -> Result<Moved, Trouble> {
        self.move_blocks(inode, Place::From(block), way, Home::Moves, reason)
    }

    /// Moves or copies blocks of a file to a tier.
    pub(super) fn move_blocks(
        &self,
        inode: InodeNumber,
        place: Place<'_>,
        way: (Which, TierNumber),
        home: Home,
        reason: Reason,
    ) -> Result<Moved, Trouble> {
        let _one = self.migration.one.lock();
        let mut moved = Moved::default();
        for _ in 0..TRIES_MAX {
            self.migration.watched.begin(inode);
            let outcome = self.try_move(inode, place, way, (home, reason), &mut moved);
            self.migration.watched.end();
            if outcome? {
                return Ok(moved);
            }
        }
        Ok(Moved { is_busy: true, ..moved })
    }

    /// Says whether it is done with the part: `false` if the file changed meanwhile.
    fn try_move(
        &self,
        inode: InodeNumber,
        place: Place<'_>,
        (which, to): (Which, TierNumber),
        (home, reason): (Home, Reason),
        moved: &mut Moved,
    ) -> Result<bool, Trouble> {
        *moved = Moved::default();
        let snapshot = self.metadata.read()?;
        let Some(stored) = snapshot.inode(inode)? else { return Ok(true) };
        if stored.record.kind() != FileKind::File || self.lost.size_of(inode).is_some() {
            return Ok(true);
        }
        if stored.record.mapped {
            moved.is_pinned = true;
            return Ok(true);
        }
        let mut part = Part::plan(&snapshot, &self.geometry(), inode, place, which, to)?;
        drop(snapshot);
        if home == Home::Stays {
            part.extents = self.without_copies(&part.extents);
        }
        moved.next = part.next;
        if part.extents.is_empty() {
            return Ok(true);
        }
        let mut copies = self.copy_part(&part, to)?;
        (moved.blocks_stayed, moved.is_full) = (copies.damaged, copies.is_full);
        if copies.runs.is_empty() {
            self.space.lock().allocator.abandon(&mut copies.reservation);
            return Ok(true);
        }
        let committed = self.commit_copies(inode, home, &mut copies);
        if !matches!(committed, Ok(true)) {
            self.space.lock().allocator.abandon(&mut copies.reservation);
        }
        if !committed? {
            return Ok(false);
        }
        moved.blocks = copies.blocks();
        for copied in &copies.runs {
            let (from, blocks) = (copied.from.address.tier(), u64::from(copied.from.blocks));
            self.migration.history.note_move(inode, from, to, blocks, reason, home == Home::Stays);
        }
        if home == Home::Moves {
            self.events.record(Step::Migrate { inode, tier: to, blocks: moved.blocks });
        }
        Ok(true)
    }

    /// Does something to a file while no session knows where it lies, no log says anything of it, and no digest runs. `None`: a session
    /// came between.
    pub(super) fn alone_with<T>(
        &self,
        inode: InodeNumber,
        work: impl FnOnce() -> Result<T, Error>,
    ) -> Result<Option<T>, Trouble> {
        self.lease(SessionId::NOBODY, inode, LeaseMode::Write, &Ahead::none())?;
        let no_digest = self.digester.lock();
        let is_held = self.core.lock().leases.held(SessionId::NOBODY, inode) == Some(LeaseMode::Write);
        let done = is_held.then(work);
        drop(no_digest);
        self.core.lock().leases.revoke_along(SessionId::NOBODY, inode);
        Ok(done.transpose()?)
    }

    /// Makes the copies the file's blocks, or keeps them beside these, if it has not changed meanwhile. Says whether it had not.
    fn commit_copies(&self, inode: InodeNumber, home: Home, copies: &mut Copies) -> Result<bool, Trouble> {
        let committed =
            self.alone_with(inode, || match (self.migration.watched.is_unchanged(inode), home) {
                (false, _) => Ok(false),
                (true, Home::Moves) => self.commit_unchanged(inode, copies),
                (true, Home::Stays) => self.keep_copies(inode, copies),
            })?;
        Ok(committed.unwrap_or(false))
    }

    fn commit_unchanged(&self, inode: InodeNumber, copies: &mut Copies) -> Result<bool, Error> {
        let mut transaction = self.metadata.begin()?;
        let is_file = |record: InodeRecord| record.kind() == FileKind::File && !record.mapped;
        if !transaction.inode(inode)?.is_some_and(|stored| is_file(stored.record)) {
            return Ok(false);
        }
        for copied in &copies.runs {
            let blocks = copied.from.file_block..copied.from.end_block();
            if !lie_as_copied(&transaction.extents(inode, blocks)?, &copied.from) {
                return Ok(false);
            }
        }
        let mut settled = copies.settled(&self.geometry());
        let writes: Vec<ExtentWrite<'_>> = copies.runs.iter().map(Copied::write).collect();
        for freed in transaction.write_all_extents(inode, &writes)? {
            runs_of(&self.geometry(), &freed).for_each(|run| settled.free(run));
        }
        put_bitmaps(&mut transaction, &mut self.space.lock().allocator, &settled)?;
        put_stamps(&mut transaction, &self.arenas);
        let committed = transaction.commit();
        let mut space = self.space.lock();
        if let Err(error) = committed {
            space.allocator.unstage(&settled);
            return Err(error.into());
        }
        copies.reservation = Reservation::default();
        // No session has read them since the lease was taken.
        space.allocator.committed(&mut settled, SessionId::NOBODY, LogPosition(0));
        space.allocator.end_session(SessionId::NOBODY);
        Ok(true)
    }
}

/// Whether these extents of a file say that its blocks lie where they were copied from.
pub(super) fn lie_as_copied(extents: &[Extent], from: &Extent) -> bool {
    (from.file_block..from.end_block()).all(|block| {
        let behind = extents.partition_point(|extent| extent.end_block() <= block);
        extents.get(behind).is_some_and(|extent| {
            extent.file_block <= block && extent.address_of(block) == from.address_of(block)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuesta_format::{BLOCK_BYTES, BlockAddress};

    #[test]
    fn a_file_lies_as_copied_if_each_block_does() {
        let extent = |file_block, blocks, at: u64| Extent {
            file_block,
            blocks,
            address: BlockAddress(at * BLOCK_BYTES),
        };
        let from = extent(10, 4, 100);
        assert!(lie_as_copied(&[extent(8, 10, 98)], &from));
        assert!(lie_as_copied(&[extent(10, 2, 100), extent(12, 9, 102)], &from));
        assert!(!lie_as_copied(&[extent(10, 2, 100), extent(12, 9, 302)], &from), "a part lies elsewhere");
        assert!(!lie_as_copied(&[extent(10, 3, 100)], &from), "the last block is gone");
        assert!(!lie_as_copied(&[extent(11, 3, 101)], &from), "the first block is gone");
        assert!(!lie_as_copied(&[], &from));
    }
}
