//! Policy: which inodes a lease is granted on beside the one asked for; and how they are sent.
//!
//! A program that goes through a tree asks for one file after the other, and each question takes longer than all the
//! rest of a stat. Files made together have numbers near each other; so LibFS, once it sees that it asks for such
//! numbers, wants the whole block of numbers around the next one (`libfs::ahead`), and gets what nobody else is
//! interested in. Many programs pass through directories: they are granted along only to one that goes through many
//! files, and nobody who has to let go of a block of files lets go of the directories among them.

use super::packed::Look;
use crate::{Error, SharedFs};
use cuesta_format::event::Step;
use cuesta_format::parcel::Packer;
use cuesta_format::wire::{AHEAD_MAX, BESIDE_MAX, LeaseMode, Response};
use cuesta_format::{InodeNumber, SessionId};
use std::ops::Range;

/// Who asks for so many numbers at once goes through a tree.
const TREE_NUMBERS: u64 = 128;
/// No more is sent with what was waited for,
pub(super) const PARCEL_BYTES_MAX: usize = 1 << 20;
/// and no more where nobody waits: a socket holds it with what lies in it already, so that this end never waits either.
const UNREAD_BYTES_MAX: usize = 128 << 10;

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
    pub(crate) fn given_up_along(&self, shared: &SharedFs) -> Result<Vec<InodeNumber>, Error> {
        Look::now(shared).inodes(&self.block, false)
    }

    /// What is granted along if it is free.
    fn wanted(&self, shared: &SharedFs) -> Result<Vec<InodeNumber>, Error> {
        let mut look = Look::now(shared);
        let mut wanted = look.inodes(&self.block, self.directories)?;
        for &InodeNumber(beside) in &self.beside {
            wanted.extend(look.inodes(&(beside..beside.saturating_add(1)), true)?);
        }
        Ok(wanted)
    }
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
        let mut wanted = ahead.wanted(self).unwrap_or_default();
        wanted.retain(|&near| near != inode);
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let now = self.opened.elapsed();
        let mut granted = Vec::with_capacity(wanted.len());
        let mut core = self.core.lock();
        if self.doubt_left().is_zero() {
            core.leases.request_ahead(session, &wanted, mode, now, &mut granted);
        }
        drop(core);
        let mut packer = Packer::default();
        let Ok(left_out) = Look::now(self).pack(&mut packer, &granted, ahead.bytes_max) else {
            // Something near cannot be read: whoever wants that is told.
            self.give_back_unread(session, &granted.iter().map(|&(near, _)| near).collect::<Vec<_>>());
            return Ok(Vec::new());
        };
        self.give_back_unread(session, &left_out);
        let count = (granted.len() - left_out.len()) as u64;
        if count > 0 {
            self.events.record(Step::GrantAhead { session, inode, count });
        }
        Ok(packer.finish())
    }

    /// The session is not told of its leases on these: it has none.
    pub(super) fn give_back_unread(&self, session: SessionId, inodes: &[InodeNumber]) {
        if inodes.is_empty() {
            return;
        }
        let mut core = self.core.lock();
        for &inode in inodes {
            core.leases.give_back(session, inode, None);
        }
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
