//! Commit: one transaction of the metadata store with every change of the batch and "digested up to".

use super::batch::{Batch, Digester, LogView, Storage};
use crate::Error;
use crate::metadata::{ExtentWrite, SessionRecord, Transaction};
use crate::namespace::View;
use crate::tiers::{Allocator, Reservation, runs_of};
use cuesta_format::{InodeNumber, LogPosition, SessionId};
use cuesta_media::planted::{self, Bug};

impl Digester {
    /// Commits what the view and the placements hold. Answers how many blocks were freed.
    pub(super) fn commit(
        &mut self,
        storage: &Storage<'_>,
        transaction: Transaction,
        log: &LogView,
        batch: &Batch,
    ) -> Result<u64, Error> {
        let ended = std::mem::take(&mut self.ended);
        let result = self.commit_changes(storage, transaction, log, batch, &ended);
        match &result {
            Ok(_) => self.follow_orphans(),
            Err(_) => {
                self.ended = ended;
                let (_, reservation, ..) = self.parts();
                storage.space.lock().allocator.abandon(reservation);
            }
        }
        result
    }

    fn commit_changes(
        &mut self,
        storage: &Storage<'_>,
        mut transaction: Transaction,
        log: &LogView,
        batch: &Batch,
        ended: &[SessionId],
    ) -> Result<u64, Error> {
        let (view, reservation, placements, bytes) = self.parts();
        let row = SessionRecord {
            digested: batch.to,
            log_generation: log.log_generation,
            credit_limit: log.credit_limit,
            credit_digested: log.debited + batch.debits,
        };
        if planted::active(Bug::DigestNotAtomic) {
            transaction.put_session(log.session, row);
            transaction.commit()?;
            transaction = storage.metadata.begin()?;
        }
        put_inodes(&mut transaction, storage, view, reservation, bytes)?;
        put_extended(&mut transaction, view, bytes);
        let mut writes = Vec::new();
        for changes in placements.changes.chunk_by(|a, b| a.node == b.node) {
            let inode = view.node(changes[0].node).record.inode;
            writes.clear();
            writes.extend(changes.iter().map(|change| ExtentWrite {
                blocks: change.blocks.clone(),
                new: &placements.extents[change.extents.clone()],
            }));
            let freed = match &view.node(changes[0].node).shifted {
                Some(shifted) => transaction.replace_extents(inode, &shifted.extents, &writes)?,
                None => transaction.write_all_extents(inode, &writes)?,
            };
            for freed in freed {
                runs_of(&storage.geometry, &freed).for_each(|run| reservation.free(run));
            }
        }
        // What was moved and not written to as well.
        let is_written = |number: usize| {
            placements.changes.binary_search_by_key(&number, |change| change.node as usize).is_ok()
        };
        for (number, node) in view.nodes().iter().enumerate().filter(|(_, node)| !node.removed) {
            let Some(shifted) = &node.shifted else { continue };
            if !is_written(number) {
                transaction.replace_extents(node.record.inode, &shifted.extents, &[])?;
            }
            for freed in &shifted.freed {
                runs_of(&storage.geometry, freed).for_each(|run| reservation.free(run));
            }
        }
        let mut names: Vec<_> = view.names.all().iter().filter(|name| name.before != name.now).collect();
        // In the order of their keys they are gathered much faster.
        names.sort_unstable_by(|a, b| (a.parent, a.bytes(bytes)).cmp(&(b.parent, b.bytes(bytes))));
        for name in names.iter().filter(|name| name.now.is_none()) {
            transaction.remove_dirent(name.parent, name.bytes(bytes));
        }
        if planted::active(Bug::RenameInTwoSteps) {
            transaction.put_session(log.session, row);
            transaction.commit()?;
            transaction = storage.metadata.begin()?;
        }
        for name in names {
            let Some(dirent) = name.now else { continue };
            if name.taken_on_trust {
                transaction.put_new_dirent(name.parent, name.bytes(bytes), dirent);
            } else {
                transaction.put_dirent(name.parent, name.bytes(bytes), dirent);
            }
        }
        for &session in ended {
            transaction.remove_session(session);
        }
        put_bitmaps(&mut transaction, &mut storage.space.lock().allocator, reservation)?;
        transaction.put_session(log.session, row);
        let committed = transaction.commit();
        let mut space = storage.space.lock();
        if let Err(error) = committed {
            space.allocator.unstage(reservation);
            return Err(error.into());
        }
        let freed = reservation.blocks_freed();
        space.allocator.committed(reservation, log.session, batch.to);
        drop(space);
        let changed = view.names.all().iter().filter(|name| name.before != name.now);
        let removed = view.nodes().iter().filter(|node| node.changed && node.removed);
        storage.catching_up.note(
            changed.map(|name| (name.parent, name.bytes(bytes), name.now)),
            removed.map(|node| node.record.inode),
        );
        for node in view.nodes().iter().filter(|node| node.changed && node.removed) {
            storage.stand_ins.forget(&node.record);
            storage.mapped.forget(&node.record);
        }
        Ok(freed)
    }

    /// Removes inodes without names that were kept for `holder`, in a transaction of their own. Nobody has them open,
    /// and no log says anything of them: their blocks are free at once.
    pub fn remove_orphans(
        &mut self,
        storage: &Storage<'_>,
        holder: SessionId,
        inodes: &[InodeNumber],
    ) -> Result<(), Error> {
        let mut transaction = storage.metadata.begin()?;
        let mut reservation = Reservation::default();
        let mut removed = Vec::new();
        for &inode in inodes {
            if let Some(record) = transaction.inode(inode)? {
                removed.push(record.record);
                for freed in transaction.remove_inode(inode)? {
                    runs_of(&storage.geometry, &freed).for_each(|run| reservation.free(run));
                }
            }
            transaction.remove_orphan(inode, holder);
        }
        put_bitmaps(&mut transaction, &mut storage.space.lock().allocator, &reservation)?;
        let committed = transaction.commit();
        let mut space = storage.space.lock();
        if let Err(error) = committed {
            space.allocator.unstage(&reservation);
            return Err(error.into());
        }
        space.allocator.committed(&mut reservation, SessionId::NOBODY, LogPosition(0));
        space.allocator.end_session(SessionId::NOBODY);
        drop(space);
        for record in &removed {
            storage.stand_ins.forget(record);
            storage.mapped.forget(record);
        }
        inodes.iter().for_each(|&inode| self.orphans.set(inode, None));
        Ok(())
    }

    /// Keeps inodes without names that were kept for `session` for nobody in particular.
    pub fn leave_orphans(
        &mut self,
        storage: &Storage<'_>,
        session: SessionId,
        inodes: &[InodeNumber],
    ) -> Result<(), Error> {
        let mut transaction = storage.metadata.begin()?;
        for &inode in inodes {
            transaction.remove_orphan(inode, session);
            transaction.put_orphan(inode, SessionId::NOBODY);
        }
        transaction.commit()?;
        inodes.iter().for_each(|&inode| self.orphans.set(inode, Some(SessionId::NOBODY)));
        Ok(())
    }

    fn follow_orphans(&mut self) {
        let mut orphans = std::mem::take(&mut self.orphans);
        let (view, ..) = self.parts();
        for node in view.nodes().iter().filter(|node| node.holder != node.held_before) {
            orphans.set(node.record.inode, node.holder);
        }
        self.orphans = orphans;
    }
}

/// Applies a reservation to the bitmaps, in memory and in the transaction.
pub(crate) fn put_bitmaps(
    transaction: &mut Transaction,
    allocator: &mut Allocator,
    reservation: &Reservation,
) -> Result<(), Error> {
    let changed = allocator.stage(reservation);
    let changed = changed.map_err(|at| Error::Damaged(format!("blocks at {at} are freed but not in use")))?;
    for arena in changed {
        let mut bitmap = Vec::new();
        allocator.bitmap_bytes(arena, &mut bitmap);
        transaction.put_arena(arena, bitmap);
    }
    Ok(())
}

fn put_extended(transaction: &mut Transaction, view: &View, bytes: &[u8]) {
    for attribute in view.extended.changed().filter(|attribute| !view.is_removed(attribute.inode)) {
        let name = attribute.name(bytes);
        if attribute.is_there {
            transaction.put_extended(attribute.inode, name, attribute.value(bytes));
        } else {
            transaction.remove_extended(attribute.inode, name);
        }
    }
}

fn put_inodes(
    transaction: &mut Transaction,
    storage: &Storage<'_>,
    view: &View,
    reservation: &mut Reservation,
    bytes: &[u8],
) -> Result<(), Error> {
    for node in view.nodes().iter().filter(|node| node.changed) {
        let inode = node.record.inode;
        if node.removed {
            if node.before.is_some() {
                for freed in transaction.remove_inode(inode)? {
                    runs_of(&storage.geometry, &freed).for_each(|run| reservation.free(run));
                }
            }
        } else {
            transaction.put_inode(&node.record)?;
            let (start, length) = (node.target.0 as usize, node.target.1 as usize);
            if length > 0 {
                transaction.put_symlink(inode, &bytes[start..start + length]);
            }
        }
        if let Some(holder) = node.held_before.filter(|_| node.holder != node.held_before) {
            transaction.remove_orphan(inode, holder);
        }
        if let Some(holder) = node.holder.filter(|_| node.holder != node.held_before) {
            transaction.put_orphan(inode, holder);
        }
    }
    Ok(())
}
