//! Commit: one transaction of the metadata store with every change of the batch and "digested up to".

use super::batch::{Batch, Digester};
use super::bitmaps::{put_bitmaps, put_stamps};
use super::log_view::LogView;
use super::storage::Storage;
use crate::Error;
use crate::background::{Change, Watched};
use crate::digest::place::Placements;
use crate::metadata::{ExtentWrite, SessionRecord, Transaction};
use crate::namespace::View;
use crate::tiers::{Reservation, runs_of};
use cuesta_format::pin::TIER_ATTRIBUTE;
use cuesta_format::{Extent, InodeNumber, LogPosition, SessionId};
use cuesta_media::planted::{self, Bug};

impl Digester {
    /// Commits the changes of the view and the placements. Answers how many blocks were freed.
    pub(crate) fn commit(
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
        if storage.watched.is_any() {
            note_changes(storage.watched, view, placements);
        }
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
        put_inodes(&mut transaction, storage, view, placements, reservation, bytes)?;
        put_extended(&mut transaction, view, bytes);
        let mut names: Vec<_> = view.names.all().iter().filter(|name| name.before != name.now).collect();
        // In the order of their keys they are gathered much faster.
        names.sort_unstable_by(|a, b| (a.parent, a.bytes(bytes)).cmp(&(b.parent, b.bytes(bytes))));
        if planted::active(Bug::RenameInTwoSteps) {
            for name in names.iter().filter(|name| name.now.is_none()) {
                transaction.remove_dirent(name.parent, name.bytes(bytes));
            }
            transaction.put_session(log.session, row);
            transaction.commit()?;
            transaction = storage.metadata.begin()?;
        }
        for name in names {
            match name.now {
                None => transaction.remove_dirent(name.parent, name.bytes(bytes)),
                Some(dirent) if name.taken_on_trust => {
                    transaction.put_new_dirent(name.parent, name.bytes(bytes), dirent);
                }
                Some(dirent) => transaction.put_dirent(name.parent, name.bytes(bytes), dirent),
            }
        }
        let is_folded_away = planted::active(Bug::CallFoldedAway)
            && view.nodes().iter().any(|node| node.removed && node.before.is_none());
        if !is_folded_away {
            view.calls.changes().for_each(|(slot, record)| transaction.put_call(slot, record));
        }
        remove_sessions(&mut transaction, ended)?;
        put_bitmaps(&mut transaction, &mut storage.space.lock().allocator, reservation)?;
        put_stamps(&mut transaction, storage.arenas);
        let changes = storage.space.lock().windows.after(log.session, &view.claims, batch.to);
        for change in &changes {
            transaction.put_window(log.session, change.address, change.record.clone());
        }
        transaction.put_session(log.session, row);
        let committed = transaction.commit();
        let mut space = storage.space.lock();
        if let Err(error) = committed {
            space.allocator.unstage(reservation);
            return Err(error.into());
        }
        let freed = reservation.blocks_freed();
        reservation.returned = view.claims.without(&reservation.adopted);
        reservation.returned.extend(changes.iter().flat_map(|change| change.unnamed.iter().copied()));
        space.windows.apply(log.session, changes);
        space.allocator.committed(reservation, log.session, batch.to);
        drop(space);
        note_placed(storage, placements);
        let attributes = view.extended.changed();
        let pins = attributes.filter(|attribute| attribute.name(bytes) == TIER_ATTRIBUTE);
        pins.for_each(|attribute| storage.pins.note_change(attribute.inode));
        if storage.uses.is_wanted() {
            storage.uses.note(changes_of(view, placements));
        }
        let changed = view.names.all().iter().filter(|name| name.before != name.now);
        let removed = view.nodes().iter().filter(|node| node.changed && node.removed);
        storage.directory_changes.note(
            changed.map(|name| (name.parent, name.bytes(bytes), name.now)),
            removed.map(|node| node.record.inode),
        );
        for node in view.nodes().iter().filter(|node| node.changed && node.removed) {
            storage.stand_ins.forget(&node.record);
            storage.mapped.forget(&node.record);
        }
        Ok(freed)
    }

    /// Removes inodes without names that were kept for `holder`, in a transaction of their own. No program has
    /// them open, and no log says anything of them: their blocks are free at once.
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

    /// Inodes without names that were kept for `session` are kept for no session in particular from now on.
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

/// Removes the rows of ended sessions, and of their windows.
pub(crate) fn remove_sessions(transaction: &mut Transaction, ended: &[SessionId]) -> Result<(), Error> {
    if ended.is_empty() {
        return Ok(());
    }
    for &session in ended {
        transaction.remove_session(session);
    }
    for (session, address, _) in transaction.base().windows()? {
        if ended.contains(&session) {
            transaction.put_window(session, address, None);
        }
    }
    Ok(())
}

/// Counts the blocks that a batch placed in each tier, where there are several.
fn note_placed(storage: &Storage<'_>, placements: &Placements) {
    if storage.arenas.tiers_count() == 1 {
        return;
    }
    for tier in storage.arenas.numbers() {
        let there = placements.extents.iter().filter(|extent| extent.address.tier() == tier);
        let blocks: u64 = there.map(|extent| u64::from(extent.blocks)).sum();
        if blocks > 0 {
            storage.history.note_placed(tier, blocks);
        }
    }
}

/// Notes the changes of blocks that may be being copied.
fn note_changes(watched: &Watched, view: &View, placements: &Placements) {
    let all = view.nodes().iter();
    let shaped = all.filter(|node| node.changed && (node.removed || node.is_cut || node.shifted.is_some()));
    shaped.for_each(|node| watched.note_change(node.record.inode, &(0..u64::MAX)));
    for change in &placements.changes {
        watched.note_change(view.nodes()[change.node as usize].record.inode, &change.blocks);
    }
    for (inode, blocks, _) in placements.overwrites.blocks() {
        watched.note_change(inode, &blocks);
    }
}

/// The changes that a batch made to the content of files, for the mover.
fn changes_of<'a>(view: &'a View, placements: &'a Placements) -> impl Iterator<Item = Change> + 'a {
    let placed = placements.changes.iter().flat_map(|change| {
        let inode = view.nodes()[change.node as usize].record.inode;
        placements.extents[change.extents.clone()].iter().map(move |extent| Change::Written {
            inode,
            blocks: extent.file_block..extent.end_block(),
            tier: extent.address.tier(),
        })
    });
    let overwritten = placements.overwrites.blocks().map(|(inode, blocks, address)| Change::Written {
        inode,
        blocks,
        tier: address.tier(),
    });
    let removed = view.nodes().iter().filter(|node| node.changed && node.removed);
    placed.chain(overwritten).chain(removed.map(|node| Change::Removed(node.record.inode)))
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
    placements: &Placements,
    reservation: &mut Reservation,
    bytes: &[u8],
) -> Result<(), Error> {
    let mut free = |freed: &Extent| runs_of(&storage.geometry, freed).for_each(|run| reservation.free(run));
    // Both are in the order of the nodes.
    let mut changes = placements.changes.iter().peekable();
    let mut writes = Vec::new();
    for (number, node) in view.nodes().iter().enumerate().filter(|(_, node)| node.changed) {
        let inode = node.record.inode;
        if node.removed {
            if node.before.is_some() {
                transaction.remove_inode(inode)?.iter().for_each(&mut free);
            }
        } else {
            writes.clear();
            let mut of_node = || changes.next_if(|change| change.node as usize == number);
            writes.extend(std::iter::from_fn(&mut of_node).map(|change| ExtentWrite {
                blocks: change.blocks.clone(),
                new: &placements.extents[change.extents.clone()],
            }));
            match &node.shifted {
                None => transaction.put_inode_writing(&node.record, &writes)?.iter().for_each(&mut free),
                Some(shifted) => {
                    transaction.put_inode(&node.record)?;
                    let overwritten = transaction.replace_extents(inode, &shifted.extents, &writes)?;
                    overwritten.iter().chain(&shifted.freed).for_each(&mut free);
                }
            }
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
    debug_assert!(changes.next().is_none(), "placed content belongs to an inode that changed");
    Ok(())
}
