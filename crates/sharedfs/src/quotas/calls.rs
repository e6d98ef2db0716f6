//! Questions about quotas.

use super::limits::Beyond;
use crate::metadata::tree::paths;
use crate::metadata::{MetadataError, Snapshot};
use crate::requests::{Trouble, find};
use crate::{Error, SharedFs};
use cuesta_format::quota::{Allowance, Amounts, Limited, Limits, Payer, Quota};
use cuesta_format::wire::{Refusal, Response, StoreTotals};
use cuesta_format::{InodeNumber, SessionId};
use cuesta_media::clock;

impl SharedFs {
    /// Room for a payer to own more, for this session to use up.
    pub(crate) fn room_of(
        &self,
        session: SessionId,
        payer: Payer,
        needed: Amounts,
    ) -> Result<Response, Trouble> {
        self.digest_completed(session)?;
        if let Some(room) = self.give_room(session, payer, needed, Beyond::NotYet)? {
            return Ok(Response::Room(room));
        }
        self.digest_everything()?;
        self.look_for_closed()?;
        if let Some(room) = self.give_room(session, payer, needed, Beyond::NotYet)? {
            return Ok(Response::Room(room));
        }
        let others = self.quotas.lock().others(session, payer);
        for &other in &others {
            self.take_back_space(other)?;
        }
        match self.give_room(session, payer, needed, Beyond::From(clock::now()))? {
            Some(room) => Ok(Response::Room(room)),
            // A directory with a quota is as full as a file system of that size would be.
            None if matches!(payer, Payer::Tree(_)) => Err(Trouble::Refused(Refusal::NoSpace)),
            None => Err(Trouble::Refused(Refusal::OverQuota)),
        }
    }

    fn give_room(
        &self,
        session: SessionId,
        payer: Payer,
        needed: Amounts,
        beyond: Beyond,
    ) -> Result<Option<Amounts>, MetadataError> {
        // Held over both: no other session may be given room in between.
        let mut quotas = self.quotas.lock();
        let snapshot = self.metadata.read()?;
        // Directories go, and their limits with them.
        if matches!(payer, Payer::Tree(_)) {
            quotas.reread(&snapshot)?;
        }
        let is_limited = quotas.limits().contains_key(&payer);
        let used = if is_limited { self.used(&snapshot, payer)? } else { Amounts::NONE };
        let before = quotas.limits().get(&payer).copied();
        let room = quotas.give(session, payer, (used, needed), clock::now(), beyond);
        let is_to_keep = quotas.is_to_keep(payer, before);
        drop(quotas);
        if is_to_keep {
            self.keep_over_since(&[payer])?;
        }
        Ok(room)
    }

    /// Makes durable since when soft limits are exceeded, as it is known by now. On a full medium that is done
    /// when they are next looked at: no session is refused room because of it. The caller holds no lock.
    fn keep_over_since(&self, changed: &[Payer]) -> Result<(), MetadataError> {
        let mut transaction = self.metadata.begin()?;
        let mut keeping = Vec::with_capacity(changed.len());
        {
            // Behind every earlier change: the last commit has the last state.
            let quotas = self.quotas.lock();
            keeping.extend(changed.iter().filter_map(|&payer| Some((payer, quotas.unkept_since(payer)?))));
        }
        for &(payer, over_since) in &keeping {
            if let Some(kept) = transaction.base().limits_of(payer)? {
                transaction.put_limits(payer, Some(Allowance { over_since, ..kept }));
            }
        }
        match transaction.commit() {
            Err(MetadataError::NoSpace) => return Ok(()),
            committed => committed?,
        }
        let mut quotas = self.quotas.lock();
        keeping.into_iter().for_each(|(payer, kept)| quotas.note_kept(payer, kept));
        Ok(())
    }

    /// The amounts a payer owns. The quotas are locked.
    fn used(&self, snapshot: &Snapshot, payer: Payer) -> Result<Amounts, MetadataError> {
        let beyond = self.mapped.beyond_of(snapshot, |other| *other == payer)?.remove(&payer).unwrap_or(0);
        Ok(snapshot.usage(payer)?.plus(Amounts { blocks: beyond, inodes: 0 }))
    }

    /// The amounts and limits of all payers.
    pub(crate) fn list_quotas(&self) -> Result<Response, Error> {
        self.digest_everything()?;
        let mut quotas = self.quotas.lock();
        let snapshot = self.metadata.read()?;
        quotas.reread(&snapshot)?;
        let mut used = snapshot.usages()?;
        for (payer, blocks) in
            self.mapped.beyond_of(&snapshot, |_| true)?.into_iter().filter(|&(_, blocks)| blocks > 0)
        {
            used.entry(payer).or_default().blocks += blocks;
        }
        let limited: Vec<(Payer, Allowance)> =
            quotas.limits().iter().map(|(&payer, &allowance)| (payer, allowance)).collect();
        let mut changed = Vec::new();
        for (payer, before) in limited {
            quotas.see(payer, *used.entry(payer).or_default(), clock::now());
            if quotas.is_to_keep(payer, Some(before)) {
                changed.push(payer);
            }
        }
        let limits = quotas.limits().clone();
        drop(quotas);
        if !changed.is_empty() {
            // The client is told, whether or not it can be kept: the next look sees it again.
            match self.keep_over_since(&changed) {
                Err(_) if self.metadata.is_read_only() => {}
                kept => kept?,
            }
        }
        let mut listed = Vec::with_capacity(used.len());
        for (payer, used) in used {
            let path = match payer {
                Payer::User(_) | Payer::Group(_) => Some(Vec::new()),
                Payer::Tree(tree) => paths::of_directory(&snapshot, tree)?,
            };
            // A directory may be gone while a file that was in it is still open.
            let Some(path) = path else { continue };
            let allowance = limits.get(&payer).copied().unwrap_or_default();
            listed.push(Quota { payer, path, used, allowance });
        }
        Ok(Response::Quotas(listed))
    }

    /// Sets a payer's limits. From then on every session asks before it goes on.
    pub(crate) fn set_quota(&self, of: &Limited, limits: Option<Limits>) -> Result<Response, Trouble> {
        let payer = match of {
            Limited::User(uid) => Payer::User(*uid),
            Limited::Group(gid) => Payer::Group(*gid),
            Limited::Directory(path) => {
                self.digest_everything()?;
                let directory = find(&self.metadata.read()?, path)?;
                let found = self.metadata.read()?.inode(directory)?.map(|stored| stored.record.tree);
                if found != Some(directory) || limits.is_none() {
                    self.change_tree(path, limits)?;
                    return Ok(Response::Done);
                }
                Payer::Tree(directory)
            }
        };
        let unkept_since = self.quotas.lock().unkept_since(payer);
        let mut transaction = self.metadata.begin()?;
        // It may be gone by now, or no quota's any more.
        if let Payer::Tree(tree) = payer
            && transaction.inode(tree)?.is_none_or(|stored| stored.record.tree != tree)
        {
            return Err(Trouble::Refused(Refusal::NotFound));
        }
        // A payer that was over a soft limit before stays so since then.
        let known = transaction.base().limits_of(payer)?.unwrap_or_default();
        let over_since = unkept_since.unwrap_or(known.over_since);
        let limits = limits.filter(|limits| !limits.are_none());
        let allowance = limits.map(|limits| Allowance { limits, over_since });
        transaction.put_limits(payer, allowance);
        transaction.commit()?;
        self.quotas_changed(payer, allowance);
        // Entries in logs were charged to no payer with limits: they are counted now. On a full medium they
        // are counted as soon as they can be.
        match self.list_quotas() {
            Err(Error::NoSpace) => {}
            seen => drop(seen?),
        }
        Ok(Response::Done)
    }

    /// Every session is told that limits are others now.
    pub(crate) fn quotas_changed(&self, payer: Payer, allowance: Option<Allowance>) {
        self.quotas.lock().set(payer, allowance);
        let core = self.core.lock();
        let shown = self.quotas.lock().shown();
        for session in core.sessions.values() {
            session.control.publish_quotas(shown);
        }
    }

    /// Totals for `statfs`, as far as a directory with a quota has a part in them.
    pub(crate) fn totals_in(&self, session: SessionId, tree: InodeNumber) -> Result<StoreTotals, Error> {
        let payer = Payer::Tree(tree);
        let limits = {
            let mut quotas = self.quotas.lock();
            quotas.reread(&self.metadata.read()?)?;
            quotas.limits().get(&payer).copied()
        };
        // A soft limit is what there is, as it is to programs on XFS.
        let Some(limits) = limits.map(|allowance| allowance.limits.lasting()) else { return self.totals() };
        // The caller is told of all its own operations. A caller that asks again and again is told of other
        // sessions as of the last digest. On a full medium, or where nothing is written any more, it is told
        // as far as it is known.
        let own = self.digest_completed(session);
        match own.and_then(|()| self.totals_limit.unless_just_done(|| self.digest_everything())) {
            Err(Error::NoSpace) => {}
            Err(_) if self.metadata.is_read_only() => {}
            digested => digested?,
        }
        let totals = self.totals()?;
        let used = {
            let _nobody_changes = self.quotas.lock();
            self.used(&self.metadata.read()?, payer)?
        };
        let mut part = totals;
        if limits.blocks > 0 {
            part.blocks = totals.blocks.min(limits.blocks);
            part.blocks_free = totals.blocks_free.min(limits.blocks.saturating_sub(used.blocks));
        }
        if limits.inodes > 0 {
            part.inodes = used.inodes;
            part.inodes_free = totals.inodes_free.min(limits.inodes.saturating_sub(used.inodes));
        }
        Ok(part)
    }
}
