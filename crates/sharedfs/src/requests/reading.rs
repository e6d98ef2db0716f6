//! Names, extents, extended attributes and arenas, for sessions that hold a lease on the inode.

use super::trouble::{Trouble, invalid};
use crate::SharedFs;
use crate::damage::unreadable;
use crate::metadata::Entry;
use cuesta_format::wire::{DESCRIPTORS_MAX, DirectoryEntry, Refusal, Response};
use cuesta_format::{ArenaId, InodeNumber, SessionId};
use std::os::fd::OwnedFd;

/// Most names or extents of one answer.
pub(super) const ANSWER_ITEMS: usize = 16 << 10;

impl SharedFs {
    pub(super) fn check_held(&self, session: SessionId, inode: InodeNumber) -> Result<(), Trouble> {
        match self.core.lock().leases.held(session, inode) {
            Some(_) => Ok(()),
            None => Err(invalid("the session holds no lease on the inode")),
        }
    }

    pub(super) fn list(
        &self,
        session: SessionId,
        parent: InodeNumber,
        after: &[u8],
    ) -> Result<Response, Trouble> {
        self.check_held(session, parent)?;
        let entries = self.metadata.read()?.list(parent, after, ANSWER_ITEMS)?;
        let complete = entries.len() < ANSWER_ITEMS;
        Ok(Response::Entries { entries: entries.into_iter().map(directory_entry).collect(), complete })
    }

    pub(super) fn extents(
        &self,
        session: SessionId,
        inode: InodeNumber,
        from_block: u64,
    ) -> Result<Response, Trouble> {
        self.check_held(session, inode)?;
        let snapshot = self.metadata.read()?;
        let Some(stored) = snapshot.inode(inode)? else {
            return Err(Trouble::Refused(Refusal::NotFound));
        };
        if let Some(lost) = self.lost.size_of(inode) {
            let extents = unreadable(&self.geometry(), stored.record.size.max(lost), from_block);
            return Ok(Response::Extents { extents, complete: true });
        }
        let extents = snapshot.extents(inode, from_block..u64::MAX)?;
        let (extents, complete) = self.shown(extents, ANSWER_ITEMS);
        Ok(Response::Extents { extents, complete })
    }

    pub(super) fn extended(&self, session: SessionId, inode: InodeNumber) -> Result<Response, Trouble> {
        self.check_held(session, inode)?;
        Ok(Response::Extended(self.metadata.read()?.extended(inode)?))
    }

    pub(super) fn hand_out_arenas(
        &self,
        arenas: &[ArenaId],
        descriptors: &mut Vec<OwnedFd>,
    ) -> Result<Response, Trouble> {
        if arenas.len() > DESCRIPTORS_MAX {
            return Err(invalid("too many arenas at once"));
        }
        let first = descriptors.len();
        let mut offsets = Vec::with_capacity(arenas.len());
        for &arena in arenas {
            if let Some(why) = self.arenas.why_missing(arena.tier()) {
                descriptors.truncate(first);
                let missing = format!("tier {} is missing: {why}", arena.tier());
                return Err(Trouble::Refused(Refusal::Internal(missing)));
            }
            if !self.arenas.tier(arena.tier()).is_ok_and(|tier| arena.index() < tier.count()) {
                descriptors.truncate(first);
                return Err(Trouble::Refused(Refusal::NotFound));
            }
            let (file, offset) = self.arenas.descriptor(arena)?;
            descriptors.push(file);
            offsets.push(offset);
        }
        Ok(Response::Arenas { offsets })
    }
}

pub(crate) fn directory_entry(entry: Entry) -> DirectoryEntry {
    DirectoryEntry { name: entry.name, inode: entry.dirent.inode, kind: entry.dirent.kind as u8 }
}
