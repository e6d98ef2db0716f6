//! Finds the rule for each file below the directories that have pins.

use super::pinned::PinnedFiles;
use crate::metadata::{MetadataError, Snapshot};
use cuesta_format::pin::{PinRule, TIER_ATTRIBUTE, parse_pin, rule_for};
use cuesta_format::{FileKind, InodeNumber, TierNumber};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// Most files that are kept in memory: 32 MiB.
const FILES_MAX: usize = 1 << 20;
/// Directories above each other that are looked at.
const DEPTH_MAX: usize = 4096;

/// The rules of a directory, and of those above it, the nearest last.
type Chain = Arc<Vec<Arc<Vec<PinRule>>>>;

/// The rules of an inode's own pin. None: it has no pin, or one that says nothing.
pub(super) fn rules_of(
    snapshot: &Snapshot,
    inode: InodeNumber,
) -> Result<Option<Vec<PinRule>>, MetadataError> {
    let mut all = snapshot.extended(inode)?.into_iter();
    let own = all.find(|attribute| attribute.name == TIER_ATTRIBUTE);
    Ok(own.and_then(|attribute| parse_pin(&attribute.value).ok()))
}

/// All inodes that have pins.
pub(super) fn find_pinned(snapshot: &Snapshot) -> Result<BTreeSet<InodeNumber>, MetadataError> {
    let mut with_attributes = Vec::new();
    snapshot.visit_inodes(|stored| {
        if stored.record.extended > 0 {
            with_attributes.push(stored.record.inode);
        }
    })?;
    let mut pinned = BTreeSet::new();
    for inode in with_attributes {
        if snapshot.extended_length(inode, TIER_ATTRIBUTE)?.is_some() {
            pinned.insert(inode);
        }
    }
    Ok(pinned)
}

/// Which tier each file is pinned to, by the pins of these inodes. Inodes that have no pin any more leave `pinned`.
pub(super) fn resolve(
    snapshot: &Snapshot,
    pinned: &mut BTreeSet<InodeNumber>,
    tier_of: &dyn Fn(&str) -> Option<TierNumber>,
) -> Result<PinnedFiles, MetadataError> {
    let mut found = PinnedFiles::default();
    let (mut directories, mut own) = (HashMap::new(), HashMap::new());
    for inode in std::mem::take(pinned) {
        let Some(stored) = snapshot.inode(inode)? else { continue };
        let Some(rules) = rules_of(snapshot, inode)? else { continue };
        pinned.insert(inode);
        match stored.record.kind() {
            FileKind::Directory => drop(directories.insert(inode, Arc::new(rules))),
            FileKind::File => {
                let rule = rule_for(&rules, b"");
                own.insert(inode, rule.and_then(|rule| tier_of(&rule.tier)));
            }
            _ => {}
        }
    }
    for &top in directories.keys() {
        if !has_one_above(snapshot, top, &directories)? {
            visit_tree(snapshot, top, &directories, tier_of, &mut found)?;
        }
    }
    for (inode, tier) in own {
        match tier {
            Some(tier) => drop(found.tiers.insert(inode, tier)),
            None => drop(found.tiers.remove(&inode)),
        }
    }
    Ok(found)
}

/// Whether a directory above has a pin.
fn has_one_above(
    snapshot: &Snapshot,
    directory: InodeNumber,
    pinned: &HashMap<InodeNumber, Arc<Vec<PinRule>>>,
) -> Result<bool, MetadataError> {
    let mut at = directory;
    for _ in 0..DEPTH_MAX {
        let Some(stored) = snapshot.inode(at)? else { return Ok(false) };
        let parent = stored.record.parent;
        if parent == at || parent == InodeNumber::NONE {
            return Ok(false);
        }
        if pinned.contains_key(&parent) {
            return Ok(true);
        }
        at = parent;
    }
    Ok(false)
}

fn visit_tree(
    snapshot: &Snapshot,
    top: InodeNumber,
    pinned: &HashMap<InodeNumber, Arc<Vec<PinRule>>>,
    tier_of: &dyn Fn(&str) -> Option<TierNumber>,
    found: &mut PinnedFiles,
) -> Result<(), MetadataError> {
    let mut waiting: Vec<(InodeNumber, Chain)> = vec![(top, Chain::default())];
    while let Some((directory, above)) = waiting.pop() {
        let chain = match pinned.get(&directory) {
            None => above,
            Some(rules) => Arc::new([&above[..], &[Arc::clone(rules)]].concat()),
        };
        snapshot.visit_names(directory, b"", |name, dirent| {
            match dirent.kind {
                FileKind::Directory => waiting.push((dirent.inode, Arc::clone(&chain))),
                FileKind::File if found.tiers.len() < FILES_MAX => {
                    let rule = chain.iter().rev().find_map(|rules| rule_for(rules, name));
                    if let Some(tier) = rule.and_then(|rule| tier_of(&rule.tier)) {
                        let known = found.tiers.entry(dirent.inode).or_insert(tier);
                        *known = tier.min(*known);
                    }
                }
                FileKind::File => found.is_cut = true,
                _ => {}
            }
            !found.is_cut
        })?;
        if found.is_cut {
            return Ok(());
        }
    }
    Ok(())
}
