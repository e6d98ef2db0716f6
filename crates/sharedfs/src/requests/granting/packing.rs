//! Puts parcels together: from what [`super::packed`] keeps, else from the last commit.

use super::packed::{NAMES_MAX, RUN_NUMBERS, Run, cost, cost_of_run};
use crate::metadata::{MetadataError, RawInode, Snapshot};
use crate::tiers::split_at_arenas;
use crate::{Error, SharedFs};
use cuesta_format::parcel::Packer;
use cuesta_format::wire::LeaseMode;
use cuesta_format::{Extent, FileKind, InodeNumber};
use std::ops::Range;
use std::sync::Arc;

/// A look at what is kept, and at the last commit for what is not.
pub(crate) struct ParcelSource<'s> {
    shared: &'s SharedFs,
    /// How many commits there were when the snapshot was taken, or fewer.
    opened: Option<(u64, Snapshot)>,
}

impl<'s> ParcelSource<'s> {
    /// Sees all that was committed until now.
    pub(crate) fn now(shared: &'s SharedFs) -> ParcelSource<'s> {
        ParcelSource { shared, opened: None }
    }

    fn snapshot(&mut self) -> Result<&(u64, Snapshot), Error> {
        if self.opened.is_none() {
            let commits = self.shared.packed.kept.lock().commits;
            self.opened = Some((commits, self.shared.metadata.read()?));
        }
        Ok(self.opened.as_ref().expect("it was opened above"))
    }

    /// The numbers around one.
    pub(crate) fn run(&mut self, around: InodeNumber) -> Result<Arc<Run>, Error> {
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
    pub(crate) fn inodes(
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
    pub(crate) fn pack(
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
