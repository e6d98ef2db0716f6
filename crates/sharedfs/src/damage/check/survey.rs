//! Reading the whole metadata store, and counting again what it keeps.

use super::problem::Problem;
use crate::Error;
use crate::metadata::{ExtentList, Snapshot, payers};
use crate::tiers::{Arenas, Bitmap, runs_of};
use cuesta_format::access_list::{ACCESS_LIST, DEFAULT_LIST};
use cuesta_format::quota::{Amounts, Payer};
use cuesta_format::{ArenaId, BLOCK_BYTES, Extent, FileKind, Geometry, InodeNumber, InodeRecord, TierNumber};
use hashbrown::HashMap;
use std::collections::{BTreeMap, BTreeSet};

/// An inode and what points to it.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) record: InodeRecord,
    extents: ExtentList,
    names: u32,
    subdirectories: u32,
    entries: u64,
    /// The directory that names it, of a directory.
    holder: Option<InodeNumber>,
    orphan: bool,
}

/// Everything the store holds, and each problem with it.
#[derive(Debug)]
pub(crate) struct Survey {
    pub(crate) inodes: BTreeMap<InodeNumber, Seen>,
    pub(crate) problems: Vec<Problem>,
    /// Blocks that files use, by arena.
    pub(crate) used: BTreeMap<ArenaId, Bitmap>,
    pub(crate) names: u64,
    pub(crate) blocks: u64,
    geometry: Geometry,
    /// Tiers that are not there. Nothing can be said of their blocks.
    missing: BTreeSet<TierNumber>,
}

/// Looks at everything.
pub(crate) fn survey(
    snapshot: &Snapshot,
    arenas: &Arenas,
    geometry: Geometry,
    inode_limit: InodeNumber,
) -> Result<Survey, Error> {
    let mut survey = Survey {
        inodes: BTreeMap::new(),
        problems: Vec::new(),
        used: arenas.all().map(|arena| (arena, Bitmap::new(geometry.arena_blocks()))).collect(),
        missing: arenas.missing().collect(),
        names: 0,
        blocks: 0,
        geometry,
    };
    survey.collect_inodes(snapshot, inode_limit)?;
    survey.collect_names(snapshot)?;
    survey.collect_orphans(snapshot)?;
    survey.compare_counts();
    survey.find_unreachable();
    survey.check_extents(snapshot, arenas)?;
    survey.compare_bitmaps(snapshot)?;
    survey.check_links(snapshot)?;
    survey.check_extended(snapshot)?;
    survey.check_trees();
    survey.check_usage(snapshot)?;
    survey.problems.extend(snapshot.unreadable_calls()?.into_iter().map(Problem::Call));
    let counters = snapshot.counters()?;
    let (inodes, blocks) = (survey.inodes.len() as u64, survey.blocks);
    if (counters.inodes, counters.used_blocks) != (inodes, blocks) {
        let (counted, counted_blocks) = (counters.inodes, counters.used_blocks);
        survey.problems.push(Problem::Totals { counted, counted_blocks, inodes, blocks });
    }
    Ok(survey)
}

impl Survey {
    fn collect_inodes(&mut self, snapshot: &Snapshot, inode_limit: InodeNumber) -> Result<(), Error> {
        let Survey { inodes, problems, .. } = self;
        snapshot.visit_inodes(|stored| {
            let record = stored.record;
            if FileKind::from_mode(record.mode).is_none() {
                problems.push(Problem::Mode(record.inode, record.mode));
            }
            if record.inode >= inode_limit || record.inode == InodeNumber::NONE {
                problems.push(Problem::Number(record.inode));
            }
            let seen = Seen {
                record,
                extents: stored.extents,
                names: 0,
                subdirectories: 0,
                entries: 0,
                holder: None,
                orphan: false,
            };
            inodes.insert(record.inode, seen);
        })?;
        if !inodes.get(&InodeNumber::ROOT).is_some_and(|root| root.record.kind() == FileKind::Directory) {
            problems.push(Problem::NoRoot);
        }
        Ok(())
    }

    fn collect_names(&mut self, snapshot: &Snapshot) -> Result<(), Error> {
        let Survey { inodes, problems, names, .. } = self;
        snapshot.visit_entries(|parent, entry| {
            *names += 1;
            let inode = entry.dirent.inode;
            let raw = entry.name;
            let name = String::from_utf8_lossy(&raw).into_owned();
            if !inodes.get(&parent).is_some_and(|seen| seen.record.kind() == FileKind::Directory) {
                problems.push(Problem::NoDirectory { parent, name, raw });
                return;
            }
            let Some(seen) = inodes.get_mut(&inode) else {
                problems.push(Problem::Dangling { parent, name, raw, inode });
                return;
            };
            seen.names += 1;
            let is_directory = seen.record.kind() == FileKind::Directory;
            if is_directory && seen.holder.replace(parent).is_some() {
                problems.push(Problem::ManyNames(inode));
            }
            if seen.record.kind() != entry.dirent.kind {
                problems.push(Problem::EntryKind { parent, name, raw, inode });
            }
            if let Some(directory) = inodes.get_mut(&parent) {
                directory.entries += 1;
                directory.subdirectories += u32::from(is_directory);
            }
        })?;
        Ok(())
    }

    fn collect_orphans(&mut self, snapshot: &Snapshot) -> Result<(), Error> {
        for (inode, session) in snapshot.orphans()? {
            match self.inodes.get_mut(&inode).filter(|seen| seen.names == 0) {
                Some(seen) => seen.orphan = true,
                None => self.problems.push(Problem::Orphan { inode, session }),
            }
        }
        Ok(())
    }

    fn compare_counts(&mut self) {
        for (&inode, seen) in &self.inodes {
            let record = &seen.record;
            let is_directory = record.kind() == FileKind::Directory;
            let is_root = inode == InodeNumber::ROOT;
            if seen.names == 0 && !is_root {
                if seen.orphan && record.links == 0 {
                    continue;
                }
                self.problems.push(Problem::Nameless(inode));
                continue;
            }
            let names = if is_directory { 2 + seen.subdirectories } else { seen.names };
            if names != record.links {
                self.problems.push(Problem::Links { inode, names, links: record.links });
            }
            if !is_directory {
                continue;
            }
            if seen.entries != record.size {
                self.problems.push(Problem::Entries { inode, entries: seen.entries, size: record.size });
            }
            let holder = if is_root { inode } else { seen.holder.unwrap_or(inode) };
            if holder != record.parent {
                self.problems.push(Problem::Parent { inode, holder, parent: record.parent });
            }
        }
    }

    /// Directories whose way up does not end at the root go round in a circle.
    fn find_unreachable(&mut self) {
        let mut reached: HashMap<InodeNumber, bool> = HashMap::new();
        reached.insert(InodeNumber::ROOT, true);
        for (&inode, seen) in &self.inodes {
            if seen.holder.is_none() {
                continue;
            }
            let mut way = Vec::new();
            let mut at = inode;
            let ends_well = loop {
                if let Some(&known) = reached.get(&at) {
                    break known;
                }
                // Until it is known better, a way that comes back here is a circle.
                reached.insert(at, false);
                way.push(at);
                match self.inodes.get(&at).and_then(|seen| seen.holder) {
                    Some(holder) => at = holder,
                    // A directory without a name is reported as such.
                    None => break true,
                }
            };
            for &passed in &way {
                reached.insert(passed, ends_well);
            }
            if !ends_well {
                self.problems.push(Problem::Unreachable(inode));
            }
        }
    }

    fn check_extents(&mut self, snapshot: &Snapshot, arenas: &Arenas) -> Result<(), Error> {
        let mut in_table: BTreeMap<InodeNumber, Vec<Extent>> = BTreeMap::new();
        snapshot.visit_table_extents(|inode, extent| in_table.entry(inode).or_default().push(extent))?;
        for &inode in in_table.keys() {
            let expected = self.inodes.get(&inode).is_some_and(|seen| seen.extents == ExtentList::Table);
            if !expected {
                self.problems.push(Problem::StrayExtents(inode));
            }
        }
        let mut owners: HashMap<u64, InodeNumber> = HashMap::new();
        let Survey { inodes, problems, used, blocks, geometry, missing, .. } = self;
        for (&inode, seen) in inodes.iter() {
            let extents = match &seen.extents {
                ExtentList::Inline(extents) => extents.as_slice(),
                ExtentList::Table => in_table.get(&inode).map_or(&[][..], Vec::as_slice),
            };
            let mut counted = 0;
            let mut end = 0;
            for extent in extents {
                let file_block = extent.file_block;
                if file_block < end {
                    problems.push(Problem::Overlap { inode, file_block });
                }
                end = extent.end_block();
                counted += u64::from(extent.blocks);
                if !missing.contains(&extent.address.tier()) && !mark_used(geometry, used, extent) {
                    problems.push(Problem::Address { inode, file_block });
                    continue;
                }
                let addresses = (0..u64::from(extent.blocks)).map(|n| extent.address.plus(n * BLOCK_BYTES));
                for address in addresses {
                    if let Some(first) = owners.insert(address.0, inode) {
                        problems.push(Problem::Shared { address, first, second: inode });
                    }
                }
            }
            *blocks += counted;
            if counted != seen.record.blocks {
                problems.push(Problem::Blocks { inode, counted, blocks: seen.record.blocks });
            }
            let from_block = seen.record.size.div_ceil(BLOCK_BYTES);
            if end > from_block {
                problems.push(Problem::BehindEnd { inode, from_block });
            }
            if let Some((address, inside)) = last_block_tail(&seen.record, extents) {
                let mut tail = vec![0; (BLOCK_BYTES - inside) as usize];
                if arenas.read(address, inside, &mut tail).is_ok() && tail.iter().any(|&byte| byte != 0) {
                    problems.push(Problem::Tail(inode));
                }
            }
        }
        Ok(())
    }

    fn compare_bitmaps(&mut self, snapshot: &Snapshot) -> Result<(), Error> {
        for (&arena, used) in &self.used {
            let blocks = self.geometry.arena_blocks();
            let kept = Bitmap::from_bytes(blocks, &snapshot.arena(arena)?.unwrap_or_default());
            let differs = |one: &Bitmap, other: &Bitmap| -> u32 {
                (0..blocks).map(|block| u32::from(one.is_used(block) && !other.is_used(block))).sum()
            };
            let (leaked, unmarked) = (differs(&kept, used), differs(used, &kept));
            if leaked > 0 {
                self.problems.push(Problem::Leaked { arena, blocks: leaked });
            }
            if unmarked > 0 {
                self.problems.push(Problem::Unmarked { arena, blocks: unmarked });
            }
        }
        Ok(())
    }

    fn check_links(&mut self, snapshot: &Snapshot) -> Result<(), Error> {
        for (&inode, seen) in &self.inodes {
            if seen.record.kind() == FileKind::Symlink {
                let target = snapshot.symlink(inode)?;
                if target.is_none_or(|target| target.len() as u64 != seen.record.size) {
                    self.problems.push(Problem::Target(inode));
                }
            }
        }
        Ok(())
    }

    /// A directory counts for its own quota, or for that of the directory it lies in. Of other files that
    /// cannot be told: they may have had a name elsewhere when the quota was set.
    fn check_trees(&mut self) {
        let Survey { inodes, problems, .. } = self;
        let mut right: HashMap<InodeNumber, InodeNumber> = HashMap::new();
        for (&directory, seen) in inodes.iter() {
            if seen.record.kind() != FileKind::Directory {
                let tree = seen.record.tree;
                let is_quotas = |at: InodeNumber| inodes.get(&at).is_some_and(|seen| seen.record.tree == at);
                if tree != InodeNumber::NONE && !is_quotas(tree) {
                    problems.push(Problem::Tree { inode: directory, tree, right: InodeNumber::NONE });
                }
                continue;
            }
            let (mut at, mut way) = (directory, Vec::new());
            let tree = loop {
                if let Some(&known) = right.get(&at) {
                    break known;
                }
                let Some(seen) = inodes.get(&at) else { break InodeNumber::NONE };
                // Until it is known better, a way that comes back here is a circle, which is
                // reported elsewhere.
                right.insert(at, seen.record.tree);
                match seen.holder.filter(|_| seen.record.tree != at) {
                    Some(holder) => {
                        way.push(&seen.record);
                        at = holder;
                    }
                    None => break seen.record.tree,
                }
            };
            for record in way {
                right.insert(record.inode, tree);
                if record.tree != tree {
                    problems.push(Problem::Tree { inode: record.inode, tree: record.tree, right: tree });
                }
            }
        }
    }

    fn check_usage(&mut self, snapshot: &Snapshot) -> Result<(), Error> {
        let mut found: BTreeMap<Payer, Amounts> = BTreeMap::new();
        for Seen { record, .. } in self.inodes.values() {
            for payer in payers(record) {
                let used = found.entry(payer).or_default();
                *used = used.plus(Amounts { blocks: record.blocks, inodes: 1 });
            }
        }
        let kept = snapshot.usages()?;
        let all: BTreeSet<Payer> = found.keys().chain(kept.keys()).copied().collect();
        for payer in all {
            let of = |amounts: &BTreeMap<Payer, Amounts>| amounts.get(&payer).copied().unwrap_or_default();
            let (right, kept) = (of(&found), of(&kept));
            if right != kept {
                self.problems.push(Problem::Usage { payer, right, kept });
            }
        }
        Ok(())
    }

    fn check_extended(&mut self, snapshot: &Snapshot) -> Result<(), Error> {
        #[derive(Default)]
        struct CountedAttributes {
            bytes: u64,
            access_list: bool,
            default_list: bool,
        }
        let mut found: BTreeMap<InodeNumber, CountedAttributes> = BTreeMap::new();
        snapshot.visit_extended(|inode, name, bytes| {
            let found = found.entry(inode).or_default();
            found.bytes += bytes;
            found.access_list |= name == ACCESS_LIST;
            found.default_list |= name == DEFAULT_LIST;
        })?;
        for (&inode, seen) in &self.inodes {
            let CountedAttributes { bytes: counted, access_list: access, default_list: default } =
                found.remove(&inode).unwrap_or_default();
            let (bytes, said) = (seen.record.extended, (seen.record.access_list, seen.record.default_list));
            if said != (access, default) {
                self.problems.push(Problem::Lists { inode, access, default });
            }
            if counted != u64::from(bytes) {
                self.problems.push(Problem::Extended { inode, counted, bytes });
            }
        }
        self.problems.extend(found.into_keys().map(Problem::StrayExtended));
        Ok(())
    }
}

/// Where the last block of a file has bytes behind the end, if it is mapped.
pub(crate) fn last_block_tail(
    record: &InodeRecord,
    extents: &[Extent],
) -> Option<(cuesta_format::BlockAddress, u64)> {
    let inside = record.size % BLOCK_BYTES;
    let block = record.size / BLOCK_BYTES;
    let last = extents.iter().find(|extent| (extent.file_block..extent.end_block()).contains(&block))?;
    (inside > 0).then(|| (last.address_of(block), inside))
}

/// Marks an extent's blocks; `false` if some lie outside every arena.
fn mark_used(geometry: &Geometry, used: &mut BTreeMap<ArenaId, Bitmap>, extent: &Extent) -> bool {
    if !extent.address.0.is_multiple_of(BLOCK_BYTES) {
        return false;
    }
    for run in runs_of(geometry, extent) {
        let Some(bitmap) = used.get_mut(&geometry.arena(run.address)) else { return false };
        bitmap.set((geometry.arena_offset(run.address) / BLOCK_BYTES) as u32, run.blocks);
    }
    true
}
