//! Moves parts of files: copies them, takes the files' leases, and commits.

use super::Reason;
use super::copying::{Copied, Copies};
use super::part::{Part, Place, Which};
use crate::digest::{put_bitmaps, put_stamps};
use crate::metadata::ExtentWrite;
use crate::requests::{Ahead, Trouble};
use crate::tiers::{Reservation, runs_of};
use crate::{Error, SharedFs};
use cuesta_format::event::Step;
use cuesta_format::wire::{LeaseMode, Refusal};
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

/// Blocks of a file that are to move, and why.
#[derive(Clone, Copy, Debug)]
pub(super) struct Task<'a> {
    pub(super) inode: InodeNumber,
    pub(super) place: Place<'a>,
    pub(super) reason: Reason,
}

/// A file that moves.
#[derive(Debug)]
pub(super) struct Moving {
    /// Which of a group.
    file: usize,
    pub(super) inode: InodeNumber,
    pub(super) copies: Copies,
    /// The copies are where they belong.
    pub(super) is_done: bool,
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
        Ok(self.move_group(&[Task { inode, place, reason }], way, home)?.pop().unwrap_or_default())
    }

    /// Moves or copies blocks of several files to a tier, with one flush and one transaction. Answers what became of each.
    pub(super) fn move_group(
        &self,
        files: &[Task<'_>],
        way: (Which, TierNumber),
        home: Home,
    ) -> Result<Vec<Moved>, Trouble> {
        if way.1 == TierNumber::FAST && home == Home::Moves {
            self.make_copies_yield(files)?;
        }
        let _one = self.migration.one.lock();
        let mut outcomes = vec![Moved::default(); files.len()];
        let mut left: Vec<usize> = (0..files.len()).collect();
        for _ in 0..TRIES_MAX {
            let changed = self.try_move(files, &left, way, home, &mut outcomes);
            self.migration.watched.end();
            left = changed?;
            if left.is_empty() {
                break;
            }
        }
        left.into_iter().for_each(|file| outcomes[file].is_busy = true);
        Ok(outcomes)
    }

    /// Tries to move those of the files that are left. Answers those that changed meanwhile.
    fn try_move(
        &self,
        files: &[Task<'_>],
        left: &[usize],
        way: (Which, TierNumber),
        home: Home,
        outcomes: &mut [Moved],
    ) -> Result<Vec<usize>, Trouble> {
        let mut parts = Vec::new();
        for &file in left {
            outcomes[file] = Moved::default();
            let Task { inode, place, .. } = files[file];
            let part = self.plan(inode, place, way, home, &mut outcomes[file])?;
            parts.extend(part.map(|part| (file, part)));
        }
        if parts.is_empty() {
            return Ok(Vec::new());
        }
        self.migration.watched.begin(parts.iter().map(|(_, part)| (part.inode, part.ranges())));
        let copies = self.copy_parts(&parts.iter().map(|(_, part)| part).collect::<Vec<_>>(), way.1)?;
        let mut moving: Vec<Moving> = Vec::new();
        for ((file, part), copies) in parts.into_iter().zip(copies) {
            let moved = &mut outcomes[file];
            (moved.blocks_stayed, moved.is_full) = (copies.damaged, copies.is_full);
            moving.push(Moving { file, inode: part.inode, copies, is_done: false });
        }
        let (mut empty, mut moving): (Vec<_>, Vec<_>) =
            moving.into_iter().partition(|moving| moving.copies.runs.is_empty());
        self.abandon_copies(empty.iter_mut().map(|moving| &mut moving.copies));
        let committed = match moving.is_empty() {
            true => Ok(()),
            false => self.commit_copies(home, &mut moving),
        };
        let undone = moving.iter_mut().filter(|moving| !moving.is_done);
        self.abandon_copies(undone.map(|moving| &mut moving.copies));
        committed?;
        for Moving { file, inode, copies, .. } in moving.iter().filter(|moving| moving.is_done) {
            let blocks = copies.blocks();
            outcomes[*file].blocks = blocks;
            for Copied { from, .. } in &copies.runs {
                let (blocks, reason) = (u64::from(from.blocks), files[*file].reason);
                let is_copy = home == Home::Stays;
                self.migration.history.note_move(*inode, from.address.tier(), way.1, blocks, reason, is_copy);
            }
            self.events.record(match home {
                Home::Moves => Step::Migrate { inode: *inode, tier: way.1, blocks },
                Home::Stays => Step::CopyUp { inode: *inode, blocks },
            });
        }
        Ok(moving.iter().filter(|moving| !moving.is_done).map(|moving| moving.file).collect())
    }

    /// The blocks of a file that are to move; `None`: none are.
    fn plan(
        &self,
        inode: InodeNumber,
        place: Place<'_>,
        (which, to): (Which, TierNumber),
        home: Home,
        moved: &mut Moved,
    ) -> Result<Option<Part>, Trouble> {
        let snapshot = self.metadata.read()?;
        let Some(stored) = snapshot.inode(inode)? else { return Ok(None) };
        if stored.record.kind() != FileKind::File || self.lost.size_of(inode).is_some() {
            return Ok(None);
        }
        if stored.record.mapped {
            moved.is_pinned = true;
            return Ok(None);
        }
        let mut part = Part::plan(&snapshot, &self.geometry(), inode, place, which, to)?;
        if home == Home::Stays {
            part.extents = self.without_copies(&part.extents);
        }
        moved.next = part.next;
        Ok(Some(part).filter(|part| !part.extents.is_empty()))
    }

    /// Does something to files while no session knows where they lie, no log says anything of them, and no digest runs. `work` is told of which
    /// that is true: a session may come between, and a file may be gone.
    pub(super) fn alone_with<T>(
        &self,
        inodes: &[InodeNumber],
        work: impl FnOnce(&[bool]) -> Result<T, Error>,
    ) -> Result<T, Trouble> {
        let mut leased = Vec::new();
        let mut refused = None;
        for &inode in inodes {
            match self.lease(SessionId::NOBODY, inode, LeaseMode::Write, &Ahead::none()) {
                Ok(_) => leased.push(inode),
                Err(Trouble::Refused(Refusal::NotFound)) => {}
                Err(trouble) => {
                    refused = Some(trouble);
                    break;
                }
            }
        }
        let done = match refused {
            Some(trouble) => Err(trouble),
            None => {
                let _no_digest = self.digester.lock();
                let held = {
                    let leases = &self.core.lock().leases;
                    let is_held =
                        |&inode: &_| leases.held(SessionId::NOBODY, inode) == Some(LeaseMode::Write);
                    inodes.iter().map(is_held).collect::<Vec<_>>()
                };
                work(&held).map_err(Trouble::from)
            }
        };
        let leases = &mut self.core.lock().leases;
        leased.into_iter().for_each(|inode| leases.revoke_along(SessionId::NOBODY, inode));
        done
    }

    /// Makes the copies the files' blocks, or keeps them beside these, as far as the files have not changed meanwhile.
    fn commit_copies(&self, home: Home, moving: &mut [Moving]) -> Result<(), Trouble> {
        let inodes: Vec<InodeNumber> = moving.iter().map(|moving| moving.inode).collect();
        self.alone_with(&inodes, |held| {
            let files = moving.iter_mut().zip(held);
            let unchanged: Vec<&mut Moving> = files
                .filter(|(moving, held)| **held && self.migration.watched.is_unchanged(moving.inode))
                .map(|(moving, _)| moving)
                .collect();
            match home {
                Home::Moves => self.commit_unchanged(unchanged),
                Home::Stays => self.keep_copies(unchanged),
            }
        })
    }

    fn commit_unchanged(&self, unchanged: Vec<&mut Moving>) -> Result<(), Error> {
        let mut transaction = self.metadata.begin()?;
        let mut settled = Reservation::default();
        let mut committing = Vec::new();
        for moving in unchanged {
            let inode = moving.inode;
            let record = transaction.inode(inode)?.map(|stored| stored.record);
            let mut lies_as_copied = record.is_some_and(is_file);
            for Copied { from, .. } in &moving.copies.runs {
                let blocks = from.file_block..from.end_block();
                lies_as_copied = lies_as_copied && lie_as_copied(&transaction.extents(inode, blocks)?, from);
            }
            if !lies_as_copied {
                continue;
            }
            moving.copies.settle(&self.geometry(), &mut settled);
            let writes: Vec<ExtentWrite<'_>> = moving.copies.runs.iter().map(Copied::write).collect();
            for freed in transaction.write_all_extents(inode, &writes)? {
                runs_of(&self.geometry(), &freed).for_each(|run| settled.free(run));
            }
            committing.push(moving);
        }
        if committing.is_empty() {
            return Ok(());
        }
        put_bitmaps(&mut transaction, &mut self.space.lock().allocator, &settled)?;
        put_stamps(&mut transaction, &self.arenas);
        let committed = transaction.commit();
        let mut space = self.space.lock();
        if let Err(error) = committed {
            space.allocator.unstage(&settled);
            return Err(error.into());
        }
        for moving in committing {
            moving.copies.reservation = Reservation::default();
            moving.is_done = true;
        }
        // No session has read them since the leases were taken.
        space.allocator.committed(&mut settled, SessionId::NOBODY, LogPosition(0));
        space.allocator.end_session(SessionId::NOBODY);
        Ok(())
    }
}

fn is_file(record: InodeRecord) -> bool {
    record.kind() == FileKind::File && !record.mapped
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
