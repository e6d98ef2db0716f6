//! `cuesta explain`: where a file's blocks lie, and which sessions hold it.

use super::reading::ANSWER_ITEMS;
use super::trouble::Trouble;
use crate::SharedFs;
use crate::metadata::Snapshot;
use cuesta_format::wire::{Explanation, Refusal, Response};
use cuesta_format::{InodeNumber, TierNumber};

impl SharedFs {
    /// Where a file's blocks lie, and which sessions hold it. All logs are digested first.
    pub(super) fn explain(&self, path: &[u8]) -> Result<Response, Trouble> {
        self.digest_everything()?;
        let snapshot = self.metadata.read()?;
        let inode = find(&snapshot, path)?;
        let record = snapshot.inode(inode)?.ok_or(Trouble::Refused(Refusal::NotFound))?.record;
        let extents = snapshot.extents(inode, 0..u64::MAX)?.into_iter().take(ANSWER_ITEMS);
        let extents = self.split(extents);
        let target = snapshot.symlink(inode)?.unwrap_or_default();
        let leases = self.core.lock().leases.holders(inode);
        let mut tier_names = vec![String::new(); usize::from(self.arenas.tiers_count())];
        for tier in self.tiers() {
            tier_names[usize::from(tier.number.0)] = tier.name;
        }
        let pin = self.explain_pin(&snapshot, path)?;
        let pinned = pin.as_ref().and_then(|pin| pin.tier);
        let tiers = (0..self.arenas.tiers_count()).map(TierNumber);
        let rules = tiers.map(|tier| self.rule_for_content(&record, pinned, tier)).collect();
        let moves = self.moves_of(inode);
        let explanation = Explanation { record, extents, tier_names, target, leases, rules, moves, pin };
        Ok(Response::Explained(Box::new(explanation)))
    }
}

/// The inode that a path below the root names; nothing is followed.
pub(crate) fn find(snapshot: &Snapshot, path: &[u8]) -> Result<InodeNumber, Trouble> {
    let mut inode = InodeNumber::ROOT;
    for name in path.split(|&byte| byte == b'/').filter(|name| ![&b""[..], b"."].contains(name)) {
        let found = snapshot.lookup(inode, name)?;
        inode = found.ok_or(Trouble::Refused(Refusal::NotFound))?.inode;
    }
    Ok(inode)
}
