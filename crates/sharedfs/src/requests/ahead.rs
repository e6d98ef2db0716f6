//! Policy: which inodes a lease is granted on beside the one asked for; and how they are sent.
//!
//! A program that goes through a tree asks for one file after the other, and each question takes longer than all the
//! rest of a stat. Files made together have numbers near each other; so LibFS, once it sees that it asks for such
//! numbers, wants the whole block of numbers around the next one (`libfs::ahead`), and gets what nobody else is
//! interested in. Many programs pass through directories: they are granted along only to one that goes through many
//! files, and nobody who has to let go of a block of files lets go of the directories among them.

use crate::Error;
use crate::SharedFs;
use crate::metadata::{MetadataError, MetadataStore, RawInode, Snapshot};
use crate::tiers::split_at_arenas;
use cuesta_format::event::Step;
use cuesta_format::parcel::Packer;
use cuesta_format::wire::{AHEAD_MAX, BESIDE_MAX, LeaseMode, Response};
use cuesta_format::{Extent, FileKind, InodeNumber, SessionId};
use std::ops::Range;

/// Who asks for so many numbers at once goes through a tree.
const TREE_NUMBERS: u64 = 128;
/// No more is sent with what was waited for,
pub(super) const PARCEL_BYTES_MAX: usize = 1 << 20;
/// and no more where nobody waits: a socket holds it with what lies in it already, so that this end never waits either.
const UNREAD_BYTES_MAX: usize = 128 << 10;
/// A directory of more names is left to a question of its own.
const NAMES_MAX: usize = 4096;

/// What is welcome along.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ahead {
    /// A block of inode numbers.
    block: Range<u64>,
    /// Inodes outside of it.
    beside: Vec<InodeNumber>,
    /// Whether directories of the block are welcome.
    directories: bool,
    /// No more than about so many bytes are sent.
    bytes_max: usize,
}

impl Ahead {
    /// The aligned block of `count` numbers `inode` lies in, if that is not more than anyone may ask for; and `beside`.
    pub(crate) fn of(inode: InodeNumber, count: u32, beside: &[InodeNumber]) -> Ahead {
        let mut block = 0..0;
        if count > 0 && count <= AHEAD_MAX {
            let first = inode.0 - inode.0 % u64::from(count);
            block = first..first.saturating_add(u64::from(count));
        }
        let beside = beside.iter().copied().take(BESIDE_MAX);
        let beside = beside.filter(|&it| it != inode && !block.contains(&it.0)).collect();
        let directories = block.end - block.start >= TREE_NUMBERS;
        Ahead { block, beside, directories, bytes_max: PARCEL_BYTES_MAX }
    }

    pub(crate) fn none() -> Ahead {
        Ahead { block: 0..0, beside: Vec::new(), directories: false, bytes_max: 0 }
    }

    /// What whoever is fenced gives up along, as of the last commit: files and symbolic links of the block.
    pub(crate) fn given_up_along(&self, metadata: &MetadataStore) -> Result<Vec<InodeNumber>, Error> {
        if self.block.is_empty() {
            return Ok(Vec::new());
        }
        candidates(&metadata.read()?, self.block.clone(), false)
    }

    /// What is granted along if it is free, in runs of near numbers.
    fn runs(&self, metadata: &MetadataStore) -> Result<Vec<Vec<InodeNumber>>, Error> {
        if self.block.is_empty() && self.beside.is_empty() {
            return Ok(Vec::new());
        }
        let snapshot = metadata.read()?;
        let mut runs = vec![candidates(&snapshot, self.block.clone(), self.directories)?];
        for &InodeNumber(beside) in &self.beside {
            runs.push(candidates(&snapshot, beside..beside.saturating_add(1), true)?);
        }
        Ok(runs)
    }
}

/// Files, symbolic links and perhaps directories with these numbers. Files in many pieces, and what has no name any
/// more, are left to a question of their own.
fn candidates(
    snapshot: &Snapshot,
    numbers: Range<u64>,
    directories: bool,
) -> Result<Vec<InodeNumber>, Error> {
    let mut found = Vec::new();
    snapshot.visit_numbers(numbers, |raw| {
        let is_one = match raw.kind() {
            Some(FileKind::File) => !raw.in_table && !raw.layout.is_mapped(),
            Some(FileKind::Symlink) => true,
            Some(FileKind::Directory) => directories,
            _ => false,
        };
        if is_one && raw.layout.links() > 0 {
            found.push(raw.number);
        }
        Ok(true)
    })?;
    Ok(found)
}

impl SharedFs {
    /// Answers a question for what lies ahead alone.
    pub(super) fn ahead(&self, session: SessionId, near: InodeNumber, count: u32) -> Result<Response, Error> {
        let ahead = Ahead { directories: false, bytes_max: UNREAD_BYTES_MAX, ..Ahead::of(near, count, &[]) };
        self.grant_around(session, InodeNumber::NONE, LeaseMode::Read, &ahead).map(Response::Ahead)
    }

    /// Grants leases on what lies ahead, and packs what they bring. That is read once they are granted: before that,
    /// another session may have changed it.
    pub(super) fn grant_around(
        &self,
        session: SessionId,
        inode: InodeNumber,
        mode: LeaseMode,
        ahead: &Ahead,
    ) -> Result<Vec<u8>, Error> {
        let runs = ahead.runs(&self.metadata)?;
        if runs.iter().all(Vec::is_empty) {
            return Ok(Vec::new());
        }
        let now = self.opened.elapsed();
        let mut core = self.core.lock();
        let mut grant = |near| {
            if near == inode {
                return None;
            }
            core.leases.request_ahead(session, near, mode, now).map(|mode| (near, mode))
        };
        let granted: Vec<Vec<_>> =
            runs.into_iter().map(|run| run.into_iter().filter_map(&mut grant).collect()).collect();
        drop(core);
        let snapshot = self.metadata.read()?;
        let mut packer = Packer::default();
        let mut left_out = Vec::new();
        for run in &granted {
            self.pack_run(&mut packer, &snapshot, run, ahead.bytes_max, &mut left_out)?;
        }
        if !left_out.is_empty() {
            let mut core = self.core.lock();
            for near in &left_out {
                core.leases.give_back(session, *near, None);
            }
        }
        let count = (granted.iter().map(Vec::len).sum::<usize>() - left_out.len()) as u64;
        if count > 0 {
            self.events.record(Step::GrantAhead { session, inode, count });
        }
        Ok(packer.finish())
    }

    /// Packs what leases on near inodes bring; those are `left_out` that do not fit.
    pub(super) fn pack_run(
        &self,
        packer: &mut Packer,
        snapshot: &Snapshot,
        granted: &[(InodeNumber, LeaseMode)],
        bytes_max: usize,
        left_out: &mut Vec<InodeNumber>,
    ) -> Result<(), Error> {
        let (Some(&(first, _)), Some(&(last, _))) = (granted.first(), granted.last()) else {
            return Ok(());
        };
        let mut rest = granted.iter().copied().peekable();
        if packer.len() < bytes_max {
            snapshot.visit_numbers(first.0..last.0.saturating_add(1), |raw| {
                while let Some((gone, _)) = rest.next_if(|&(near, _)| near < raw.number) {
                    left_out.push(gone);
                }
                if let Some((near, mode)) = rest.next_if(|&(near, _)| near == raw.number)
                    && !self.pack(packer, snapshot, &raw, mode)?
                {
                    left_out.push(near);
                }
                Ok(packer.len() < bytes_max)
            })?;
        }
        left_out.extend(rest.map(|(near, _)| near));
        Ok(())
    }

    /// Packs what a lease on an inode brings. Nothing, if it is not what it was when it was chosen.
    fn pack(
        &self,
        packer: &mut Packer,
        snapshot: &Snapshot,
        raw: &RawInode<'_>,
        mode: LeaseMode,
    ) -> Result<bool, MetadataError> {
        packer.begin(raw.number, mode, *raw.layout);
        let is_whole = match raw.kind() {
            Some(FileKind::File) => {
                let extents = raw.extents.iter().map(Extent::from);
                extents
                    .flat_map(|extent| split_at_arenas(&self.superblock.geometry, &extent))
                    .for_each(|extent| packer.extent(&extent));
                !raw.in_table && !raw.layout.is_mapped()
            }
            Some(FileKind::Symlink) => {
                let target = snapshot.symlink(raw.number)?;
                packer.target(target.as_deref().unwrap_or_default());
                target.is_some()
            }
            Some(FileKind::Directory) => {
                let mut names = 0;
                snapshot.visit_names(raw.number, b"", |name, dirent| {
                    packer.name(name, dirent.inode, dirent.kind);
                    names += 1;
                    names < NAMES_MAX
                })?
            }
            _ => false,
        };
        let is_good = is_whole && raw.layout.links() > 0;
        if !is_good {
            packer.abandon();
        }
        Ok(is_good)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_aligned_and_bounded() {
        let block = |inode, count| Ahead::of(InodeNumber(inode), count, &[]).block;
        assert_eq!(block(100, 16), 96..112);
        assert_eq!(block(u64::MAX, 512), u64::MAX - 511..u64::MAX);
        assert_eq!(block(100, 0), 0..0);
        assert_eq!(block(100, AHEAD_MAX + 1), 0..0);
    }

    #[test]
    fn what_is_named_is_asked_for_once() {
        let named = [3, 100, 101, 5].map(InodeNumber);
        assert_eq!(Ahead::of(InodeNumber(100), 16, &named).beside, [3, 5].map(InodeNumber));
        let many = vec![InodeNumber(7); 2 * BESIDE_MAX];
        assert_eq!(Ahead::of(InodeNumber(100), 0, &many).beside.len(), BESIDE_MAX);
    }
}
