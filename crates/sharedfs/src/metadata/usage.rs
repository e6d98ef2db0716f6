//! How what is charged to whom changes within a transaction: counted as inodes come, go, grow and change hands.

use super::{MetadataError, Snapshot};
use cuesta_format::quota::{Allowance, Amounts, Payer};
use cuesta_format::{InodeNumber, InodeRecord};
use std::collections::BTreeMap;

/// Changes, by who is charged.
#[derive(Debug, Default)]
pub(super) struct UsageChanges {
    changes: BTreeMap<Payer, Change>,
    limits: BTreeMap<Payer, Option<Allowance>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Change {
    blocks: i64,
    inodes: i64,
}

/// Who is charged for an inode.
pub(crate) fn payers(record: &InodeRecord) -> impl Iterator<Item = Payer> {
    let tree = (record.tree != InodeNumber::NONE).then_some(Payer::Tree(record.tree));
    [Payer::User(record.uid), Payer::Group(record.gid)].into_iter().chain(tree)
}

impl UsageChanges {
    fn add(&mut self, payer: Payer, blocks: i64, inodes: i64) {
        let change = self.changes.entry(payer).or_default();
        change.blocks += blocks;
        change.inodes += inodes;
    }

    /// An inode came.
    pub(super) fn come(&mut self, record: &InodeRecord) {
        payers(record).for_each(|payer| self.add(payer, record.blocks as i64, 1));
    }

    /// An inode is charged to nobody any more.
    fn discharge(&mut self, record: &InodeRecord) {
        payers(record).for_each(|payer| self.add(payer, -(record.blocks as i64), -1));
    }

    /// An inode went, and its limits with it if it was a directory with a quota.
    pub(super) fn go(&mut self, record: &InodeRecord) {
        self.discharge(record);
        if record.tree == record.inode {
            self.limit(Payer::Tree(record.tree), None);
        }
    }

    /// What stands in an inode's record changed.
    pub(super) fn change(&mut self, before: &InodeRecord, after: &InodeRecord) {
        if !payers(before).eq(payers(after)) || before.blocks != after.blocks {
            self.discharge(before);
            self.come(after);
        }
    }

    /// What is kept of somebody is wrong.
    pub(super) fn correct(&mut self, payer: Payer, kept: Amounts, right: Amounts) {
        self.add(payer, right.blocks as i64 - kept.blocks as i64, right.inodes as i64 - kept.inodes as i64);
    }

    /// What somebody may own at most.
    pub(super) fn limit(&mut self, payer: Payer, allowance: Option<Allowance>) {
        self.limits.insert(payer, allowance);
    }

    /// What they own after it, of those it changes.
    pub(super) fn after(&self, base: &Snapshot) -> Result<Vec<(Payer, Amounts)>, MetadataError> {
        let changed = self.changes.iter().filter(|(_, change)| change.blocks != 0 || change.inodes != 0);
        changed
            .map(|(&payer, change)| {
                let before = base.usage(payer)?;
                let blocks = before.blocks.saturating_add_signed(change.blocks);
                let inodes = before.inodes.saturating_add_signed(change.inodes);
                Ok((payer, Amounts { blocks, inodes }))
            })
            .collect()
    }

    /// What they may own at most, of those for whom that changes.
    pub(super) fn limits(&self) -> impl Iterator<Item = (Payer, Option<Allowance>)> {
        self.limits.iter().map(|(&payer, &allowance)| (payer, allowance))
    }
}
