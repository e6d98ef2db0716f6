//! What parcels are put together from: inodes as they are sent, kept from one question to the next.
//!
//! Programs come into the same tree again and again, and most of it did not change meanwhile: what one was sent the next
//! is sent as it is. Whatever a commit changes is dropped here before whoever committed goes on ([`Watch`]), so before any
//! lease moves because of it. So what is found here *after* a lease was granted is what the lease is on.

use crate::metadata::{Changed, MetadataError, RawInode, Snapshot, Watch};
use crate::tiers::split_at_arenas;
use crate::{Error, SharedFs};
use cuesta_format::parcel::Packer;
use cuesta_format::wire::LeaseMode;
use cuesta_format::{Extent, FileKind, InodeNumber};
use hashbrown::HashMap;
use parking_lot::Mutex;
use std::ops::Range;
use std::sync::Arc;

/// Numbers of a run.
const RUN_NUMBERS: u64 = 64;
/// More is not kept: all is dropped then.
const BYTES_MAX: usize = 16 << 20;
/// What keeping one thing costs beside its bytes, about.
const ENTRY_BYTES: usize = 128;
/// A directory of more names is left to a question of its own.
const NAMES_MAX: usize = 4096;

/// Inodes with near numbers. Files in many pieces, in mapped mode or with lost content, and what has no name any more, are left out: those are
/// left to questions of their own.
#[derive(Debug, Default)]
pub(super) struct Run {
    /// Files and symbolic links, and where each one ends in `bytes`.
    items: Vec<(InodeNumber, usize)>,
    bytes: Box<[u8]>,
    directories: Vec<InodeNumber>,
}

impl Run {
    /// Those whose numbers lie in `numbers`, in order.
    pub(super) fn within(&self, numbers: &Range<u64>, directories: bool) -> Vec<InodeNumber> {
        let mut found: Vec<_> = self.items.iter().map(|&(inode, _)| inode).collect();
        if directories && !self.directories.is_empty() {
            found.extend_from_slice(&self.directories);
            found.sort_unstable();
        }
        found.retain(|inode| numbers.contains(&inode.0));
        found
    }

    fn item(&self, inode: InodeNumber) -> Option<&[u8]> {
        let at = self.items.binary_search_by_key(&inode, |&(inode, _)| inode).ok()?;
        let start = at.checked_sub(1).map_or(0, |before| self.items[before].1);
        self.bytes.get(start..self.items[at].1)
    }
}

/// What is kept.
#[derive(Debug, Default)]
pub(crate) struct Packed {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    /// Commits so far: what was read before one is not kept behind it.
    commits: u64,
    runs: HashMap<u64, Arc<Run>>,
    directories: HashMap<InodeNumber, Arc<[u8]>>,
    bytes: usize,
}

impl Kept {
    /// Makes room for so many bytes more, which were read when there had been `commits`. `false`: they may be outdated.
    fn admits(&mut self, bytes: usize, commits: u64) -> bool {
        if self.commits != commits || bytes > BYTES_MAX / 4 {
            return false;
        }
        if self.bytes + bytes > BYTES_MAX {
            *self = Kept { commits, ..Kept::default() };
        }
        self.bytes += bytes;
        true
    }

    fn drop_directory(&mut self, directory: InodeNumber) {
        if let Some(names) = self.directories.remove(&directory) {
            self.bytes -= cost(names.len());
        }
    }
}

fn cost(bytes: usize) -> usize {
    bytes + ENTRY_BYTES
}

fn cost_of_run(run: &Run) -> usize {
    cost(run.bytes.len() + size_of_val(&run.items[..]) + size_of_val(&run.directories[..]))
}

impl Watch for Packed {
    fn changed(&self, changed: &Changed) {
        let mut kept = self.kept.lock();
        kept.commits += 1;
        if kept.bytes == 0 {
            return;
        }
        for numbers in changed.numbers() {
            if let Some(run) = kept.runs.remove(&(numbers.start / RUN_NUMBERS)) {
                kept.bytes -= cost_of_run(&run);
            }
            numbers.for_each(|number| kept.drop_directory(InodeNumber(number)));
        }
        changed.directories.iter().for_each(|&directory| kept.drop_directory(directory));
    }
}

/// A look at what is kept, and at the last commit for what is not.
pub(super) struct Look<'s> {
    shared: &'s SharedFs,
    /// How many commits there were when the snapshot was taken, or fewer.
    opened: Option<(u64, Snapshot)>,
}

impl<'s> Look<'s> {
    /// Sees all that was committed until now.
    pub(super) fn now(shared: &'s SharedFs) -> Look<'s> {
        Look { shared, opened: None }
    }

    fn snapshot(&mut self) -> Result<&(u64, Snapshot), Error> {
        if self.opened.is_none() {
            let commits = self.shared.packed.kept.lock().commits;
            self.opened = Some((commits, self.shared.metadata.read()?));
        }
        Ok(self.opened.as_ref().expect("it was opened above"))
    }

    /// The numbers around one.
    pub(super) fn run(&mut self, around: InodeNumber) -> Result<Arc<Run>, Error> {
        let (shared, number) = (self.shared, around.0 / RUN_NUMBERS);
        if let Some(run) = shared.packed.kept.lock().runs.get(&number) {
            return Ok(Arc::clone(run));
        }
        let (commits, snapshot) = self.snapshot()?;
        let run = Arc::new(shared.pack_run(snapshot, number)?);
        let mut kept = shared.packed.kept.lock();
        if !kept.runs.contains_key(&number) && kept.admits(cost_of_run(&run), *commits) {
            kept.runs.insert(number, Arc::clone(&run));
        }
        Ok(run)
    }

    /// What there is with numbers in `numbers`, in order.
    pub(super) fn inodes(
        &mut self,
        numbers: &Range<u64>,
        directories: bool,
    ) -> Result<Vec<InodeNumber>, Error> {
        let mut found = Vec::new();
        let mut at = numbers.start;
        while at < numbers.end {
            found.extend(self.run(InodeNumber(at))?.within(numbers, directories));
            let Some(next) = (at / RUN_NUMBERS + 1).checked_mul(RUN_NUMBERS) else { break };
            at = next;
        }
        Ok(found)
    }

    fn directory(&mut self, directory: InodeNumber) -> Result<Option<Arc<[u8]>>, Error> {
        let shared = self.shared;
        if let Some(item) = shared.packed.kept.lock().directories.get(&directory) {
            return Ok(Some(Arc::clone(item)));
        }
        let (commits, snapshot) = self.snapshot()?;
        let Some(item) = pack_directory(snapshot, directory)? else { return Ok(None) };
        let item: Arc<[u8]> = item.into();
        let mut kept = shared.packed.kept.lock();
        if !kept.directories.contains_key(&directory) && kept.admits(cost(item.len()), *commits) {
            kept.directories.insert(directory, Arc::clone(&item));
        }
        Ok(Some(item))
    }

    /// Packs what leases on some inodes bring, each in its mode, as long as the parcel is no longer than `bytes_max`. Answers
    /// the inodes that it left out: those that do not fit, and what they are no more.
    pub(super) fn pack(
        &mut self,
        packer: &mut Packer,
        granted: &[(InodeNumber, LeaseMode)],
        bytes_max: usize,
    ) -> Result<Vec<InodeNumber>, Error> {
        let mut left_out = Vec::new();
        for near in granted.chunk_by(|one, next| one.0.0 / RUN_NUMBERS == next.0.0 / RUN_NUMBERS) {
            if packer.len() >= bytes_max {
                left_out.extend(near.iter().map(|&(inode, _)| inode));
                continue;
            }
            let run = self.run(near[0].0)?;
            for &(inode, mode) in near {
                let is_packed = if let Some(item) = run.item(inode) {
                    packer.len() < bytes_max && packer.push(item, mode)
                } else if packer.len() < bytes_max && run.directories.binary_search(&inode).is_ok() {
                    self.directory(inode)?.is_some_and(|item| packer.push(&item, mode))
                } else {
                    false
                };
                if !is_packed {
                    left_out.push(inode);
                }
            }
        }
        Ok(left_out)
    }
}

impl SharedFs {
    fn pack_run(&self, snapshot: &Snapshot, number: u64) -> Result<Run, MetadataError> {
        let (mut packer, mut items, mut directories) = (Packer::default(), Vec::new(), Vec::new());
        let first = number.saturating_mul(RUN_NUMBERS);
        snapshot.visit_numbers(first..first.saturating_add(RUN_NUMBERS), |raw| {
            match raw.kind() {
                Some(FileKind::Directory) if raw.layout.links() > 0 => directories.push(raw.number),
                _ if self.pack_inode(&mut packer, snapshot, &raw)? => items.push((raw.number, packer.len())),
                _ => {}
            }
            Ok(true)
        })?;
        Ok(Run { items, bytes: packer.finish().into(), directories })
    }

    /// Packs a file or a symbolic link, unless it is one of those that are left out.
    fn pack_inode(
        &self,
        packer: &mut Packer,
        snapshot: &Snapshot,
        raw: &RawInode<'_>,
    ) -> Result<bool, MetadataError> {
        let is_lost = self.lost.size_of(raw.number).is_some();
        if raw.layout.links() == 0 || raw.in_table || raw.layout.is_mapped() || is_lost {
            return Ok(false);
        }
        match raw.kind() {
            Some(FileKind::File) => {
                packer.begin(raw.number, LeaseMode::Read, *raw.layout);
                let extents = raw.extents.iter().map(Extent::from);
                extents
                    .flat_map(|extent| split_at_arenas(&self.superblock.geometry, &extent))
                    .for_each(|extent| packer.extent(&extent));
                Ok(true)
            }
            Some(FileKind::Symlink) => {
                let Some(target) = snapshot.symlink(raw.number)? else { return Ok(false) };
                packer.begin(raw.number, LeaseMode::Read, *raw.layout);
                packer.target(&target);
                Ok(true)
            }
            _ => Ok(false),
        }
    }
}

/// A directory with all its names, if it is one, and these are not too many.
fn pack_directory(snapshot: &Snapshot, directory: InodeNumber) -> Result<Option<Vec<u8>>, MetadataError> {
    let mut packer = Packer::default();
    snapshot.visit_numbers(directory.0..directory.0.saturating_add(1), |raw| {
        if raw.kind() == Some(FileKind::Directory) && raw.layout.links() > 0 {
            packer.begin(raw.number, LeaseMode::Read, *raw.layout);
        }
        Ok(true)
    })?;
    if packer.is_empty() {
        return Ok(None);
    }
    let mut names = 0;
    let is_whole = snapshot.visit_names(directory, b"", |name, dirent| {
        packer.name(name, dirent.inode, dirent.kind);
        names += 1;
        names < NAMES_MAX
    })?;
    Ok(is_whole.then(|| packer.finish()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_before_a_commit_is_not_kept_behind_it() {
        let packed = Packed::default();
        assert!(packed.kept.lock().admits(100, 0));
        packed.changed(&Changed::default());
        assert!(!packed.kept.lock().admits(100, 0), "somebody committed meanwhile");
        assert!(packed.kept.lock().admits(100, 1));
    }

    #[test]
    fn no_more_is_kept_than_there_is_room_for() {
        let packed = Packed::default();
        let mut kept = packed.kept.lock();
        assert!(!kept.admits(BYTES_MAX, 0));
        for number in 0..1000 {
            assert!(kept.admits(BYTES_MAX / 8, 0));
            kept.runs.insert(number, Arc::default());
        }
        assert!(kept.runs.len() <= 8 && kept.bytes <= BYTES_MAX, "{} runs", kept.runs.len());
    }
}
