//! How the amounts of each payer change within a transaction: counted as inodes come, go, grow and change hands.

use crate::metadata::MetadataError;
use crate::metadata::tree::Snapshot;
use cuesta_format::quota::{Allowance, Amounts, Payer};
use cuesta_format::{InodeNumber, InodeRecord};
use std::collections::BTreeMap;

/// Changes, by payer.
#[derive(Debug, Default)]
pub(crate) struct UsageChanges {
    changes: BTreeMap<Payer, Change>,
    /// Not in `changes` yet: inodes next to each other mostly belong to the same.
    last: Last,
    limits: BTreeMap<Payer, Option<Allowance>>,
}

#[derive(Debug, Default)]
struct Last {
    owners: Owners,
    change: Change,
}

#[derive(Clone, Copy, Debug, Default)]
struct Change {
    blocks: i64,
    inodes: i64,
}

/// The owners of an inode, as its record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Owners {
    uid: u32,
    gid: u32,
    tree: InodeNumber,
}

impl Default for Owners {
    fn default() -> Owners {
        Owners { uid: 0, gid: 0, tree: InodeNumber::NONE }
    }
}

impl Owners {
    fn of(record: &InodeRecord) -> Owners {
        Owners { uid: record.uid, gid: record.gid, tree: record.tree }
    }

    fn payers(self) -> impl Iterator<Item = Payer> {
        let tree = (self.tree != InodeNumber::NONE).then_some(Payer::Tree(self.tree));
        [Payer::User(self.uid), Payer::Group(self.gid)].into_iter().chain(tree)
    }
}

/// The payers of an inode.
pub(crate) fn payers(record: &InodeRecord) -> impl Iterator<Item = Payer> {
    Owners::of(record).payers()
}

impl UsageChanges {
    fn add(&mut self, payer: Payer, blocks: i64, inodes: i64) {
        let change = self.changes.entry(payer).or_default();
        change.blocks += blocks;
        change.inodes += inodes;
    }

    fn charge(&mut self, record: &InodeRecord, blocks: i64, inodes: i64) {
        let owners = Owners::of(record);
        if self.last.owners != owners {
            self.settle();
            self.last.owners = owners;
        }
        self.last.change.blocks += blocks;
        self.last.change.inodes += inodes;
    }

    /// Charges the owners that were charged last.
    fn settle(&mut self) {
        let Last { owners, change } = std::mem::take(&mut self.last);
        owners.payers().for_each(|payer| self.add(payer, change.blocks, change.inodes));
    }

    /// An inode came.
    pub(crate) fn come(&mut self, record: &InodeRecord) {
        self.charge(record, record.blocks as i64, 1);
    }

    /// An inode is charged to no payer any more.
    fn discharge(&mut self, record: &InodeRecord) {
        self.charge(record, -(record.blocks as i64), -1);
    }

    /// An inode went, and its limits with it if it was a directory with a quota.
    pub(crate) fn go(&mut self, record: &InodeRecord) {
        self.discharge(record);
        if record.tree == record.inode {
            self.limit(Payer::Tree(record.tree), None);
        }
    }

    /// What stands in an inode's record changed.
    pub(crate) fn change(&mut self, before: &InodeRecord, after: &InodeRecord) {
        if Owners::of(before) != Owners::of(after) {
            self.discharge(before);
            self.come(after);
        } else if before.blocks != after.blocks {
            self.charge(after, after.blocks as i64 - before.blocks as i64, 0);
        }
    }

    /// The kept amounts of a payer are wrong.
    pub(crate) fn correct(&mut self, payer: Payer, kept: Amounts, right: Amounts) {
        self.add(payer, right.blocks as i64 - kept.blocks as i64, right.inodes as i64 - kept.inodes as i64);
    }

    /// The limits of a payer.
    pub(crate) fn limit(&mut self, payer: Payer, allowance: Option<Allowance>) {
        self.limits.insert(payer, allowance);
    }

    /// The amounts after it, of the payers it changes.
    pub(crate) fn after(&mut self, base: &Snapshot) -> Result<Vec<(Payer, Amounts)>, MetadataError> {
        self.settle();
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

    /// The changed limits, by payer.
    pub(crate) fn limits(&self) -> impl Iterator<Item = (Payer, Option<Allowance>)> {
        self.limits.iter().map(|(&payer, &allowance)| (payer, allowance))
    }
}
