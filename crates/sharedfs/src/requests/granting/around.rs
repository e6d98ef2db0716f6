//! Grants leases on what lies around an inode, and sends what they bring. [`super::ahead`] says on which.

use super::ahead::Ahead;
use super::packing::ParcelSource;
use crate::{Error, SharedFs};
use cuesta_format::event::Step;
use cuesta_format::parcel::Packer;
use cuesta_format::wire::{LeaseMode, Response};
use cuesta_format::{InodeNumber, SessionId};

/// Bytes of a parcel, at most, for which no thread waits: the socket holds it beside the bytes it has already, so that
/// this end never waits either.
const UNREAD_BYTES_MAX: usize = 128 << 10;

impl Ahead {
    /// Inodes that a fenced session gives up along, as of the last commit: files and symbolic links of the
    /// block.
    pub(crate) fn given_up_along(&self, shared: &SharedFs) -> Result<Vec<InodeNumber>, Error> {
        ParcelSource::now(shared).inodes(&self.block, false)
    }

    /// Inodes that are granted along if they are free.
    fn wanted(&self, shared: &SharedFs) -> Result<Vec<InodeNumber>, Error> {
        let mut source = ParcelSource::now(shared);
        let mut wanted = source.inodes(&self.block, self.directories)?;
        for &InodeNumber(beside) in &self.beside {
            wanted.extend(source.inodes(&(beside..beside.saturating_add(1)), true)?);
        }
        Ok(wanted)
    }
}

impl SharedFs {
    /// Answers a question for what lies ahead alone.
    pub(crate) fn ahead(&self, session: SessionId, near: InodeNumber, count: u32) -> Result<Response, Error> {
        let ahead = Ahead { directories: false, bytes_max: UNREAD_BYTES_MAX, ..Ahead::of(near, count, &[]) };
        self.grant_around(session, InodeNumber::NONE, LeaseMode::Read, &ahead).map(Response::Ahead)
    }

    /// Grants leases on what lies ahead, and packs what they bring. That is read once they are granted: before that,
    /// another session may have changed it.
    pub(crate) fn grant_around(
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
        let Ok(left_out) = ParcelSource::now(self).pack(&mut packer, &granted, ahead.bytes_max) else {
            // Something near cannot be read: the session that wants it is told.
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
    pub(crate) fn give_back_unread(&self, session: SessionId, inodes: &[InodeNumber]) {
        if inodes.is_empty() {
            return;
        }
        let mut core = self.core.lock();
        for &inode in inodes {
            core.leases.give_back(session, inode, None);
        }
    }
}
