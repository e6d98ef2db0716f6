//! Lower tiers: folders on disks, or disks without a file system, each with arenas like those of the fast tier.
//!
//! A lower tier holds a label ([`Stamp`]): the store and the tier's number. It is believed by that,
//! never by its path alone. Content there is written by calls, and read through the kernel's page cache. In a store
//! in memory the label also names the fast tier's making: when that is gone, nothing of the lower tier counts.

use super::arenas::Arenas;
use super::mend::{Needed, lost_arenas, mend_arenas};
use super::stamps::ArenaStamps;
use super::tier_arenas::TierArenas;
use crate::Error;
use crate::metadata::{MetadataError, Snapshot};
use crate::tiers::device::{Parts, discard_disk, is_disk, label_disk, label_of_disk};
use crate::tiers::lower_tier::LowerTier;
use cuesta_format::geometry::{ARENAS_FOLDER, TIER_LABEL_FILE};
use cuesta_format::stamp::{Misplaced, STAMP_BYTES, Stamp};
use cuesta_format::superblock::{Opening, Superblock};
use cuesta_format::{BLOCK_BYTES, Geometry, Medium, StoreId, TierNumber};
use cuesta_media::Nodes;
use rustix::fs::FallocateFlags;
use std::collections::BTreeSet;
use std::fs::{DirBuilder, File};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Why a lower tier is not used.
#[derive(Debug, thiserror::Error)]
pub enum LowerTierError {
    /// Its label cannot be read.
    #[error("{}: {source}", .path.display())]
    Read {
        /// The label.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The label is not this tier's.
    #[error("{}: {why}", .path.display())]
    Misplaced {
        /// The folder.
        path: PathBuf,
        /// How it differs.
        why: Misplaced,
    },
    /// Its arenas cannot be opened.
    #[error("{}: {source}", .path.display())]
    Arenas {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: Box<Error>,
    },
}

/// Makes a lower tier in a folder that is empty, or not there; or on a disk, which loses its content.
pub fn create_lower_tier(store: StoreId, lower: &LowerTier) -> io::Result<()> {
    let folder = &lower.path;
    let label = Stamp { store, what: u32::from(lower.number), opening: Opening::default() };
    if is_disk(folder) {
        return label_disk(folder, Some(&label));
    }
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            if std::fs::read_dir(folder)?.next().is_some() {
                return Err(ErrorKind::DirectoryNotEmpty.into());
            }
        }
        made => made?,
    }
    DirBuilder::new().mode(0o700).create(folder.join(ARENAS_FOLDER))?;
    let mut file =
        File::options().write(true).create_new(true).mode(0o600).open(folder.join(TIER_LABEL_FILE))?;
    file.write_all(&label.encode())?;
    file.sync_all()?;
    File::open(folder)?.sync_all()
}

/// Removes what a store's lower tier holds, if the folder is this store's. The folder itself stays.
pub fn remove_lower_tier(store: StoreId, lower: &LowerTier) -> Result<(), LowerTierError> {
    check_label(store, lower)?;
    let failed = |source| LowerTierError::Read { path: lower.path.clone(), source };
    if is_disk(&lower.path) {
        discard_disk(&lower.path);
        return label_disk(&lower.path, None).map_err(failed);
    }
    empty_files(&lower.path.join(ARENAS_FOLDER)).map_err(failed)?;
    std::fs::remove_dir_all(lower.path.join(ARENAS_FOLDER)).map_err(failed)?;
    std::fs::remove_file(lower.path.join(TIER_LABEL_FILE)).map_err(failed)
}

/// The disk below gets the room of a folder's files back, even of those that programs have mapped.
fn empty_files(folder: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let file = File::options().write(true).open(entry?.path())?;
        let bytes = file.metadata()?.len().next_multiple_of(BLOCK_BYTES);
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        if bytes > 0 {
            // Where there are no holes, the room comes back when no program has the file.
            let _ = rustix::fs::fallocate(&file, hole, 0, bytes);
        }
    }
    Ok(())
}

/// Whether the folder is that of the store's tier.
fn check_label(store: StoreId, lower: &LowerTier) -> Result<(), LowerTierError> {
    let path = lower.path.join(TIER_LABEL_FILE);
    let read = || {
        if is_disk(&lower.path) {
            return label_of_disk(&lower.path);
        }
        let mut bytes = [0; STAMP_BYTES];
        File::open(&path)?.read_exact(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = read().map_err(|source| LowerTierError::Read { path: path.clone(), source })?;
    let misplaced = |why| LowerTierError::Misplaced { path: lower.path.clone(), why };
    let found = Stamp::decode(&bytes).ok_or_else(|| misplaced(Misplaced::Unmarked))?;
    found.judge(store, u32::from(lower.number), found.opening).map_err(misplaced)
}

/// So many arenas reach as far as the windows in a tier do. A session may have written into an arena of which no digest uses a
/// block yet. A folder has a file for it, but a disk does not tell.
fn arenas_of_windows(
    snapshot: &Snapshot,
    geometry: &Geometry,
    tier: TierNumber,
) -> Result<u32, MetadataError> {
    let arenas = snapshot.windows()?.into_iter().map(|(_, address, _)| geometry.arena(address));
    Ok(arenas.filter(|arena| arena.tier() == tier).map(|arena| arena.index() + 1).max().unwrap_or(0))
}

/// Opens one lower tier. Arenas that lost something are mended, if `mends` says so.
fn open_lower(
    superblock: &Superblock,
    snapshot: &Snapshot,
    lower: &LowerTier,
    generation: Option<u64>,
) -> Result<TierArenas, LowerTierError> {
    check_label(superblock.store, lower)?;
    let geometry = lower.geometry(&superblock.geometry);
    let open = || -> Result<TierArenas, Error> {
        let written_in = snapshot.arenas_written_in(lower.number())?;
        let is_disk = is_disk(&lower.path);
        let parts = match is_disk {
            true => {
                let arenas = arenas_of_windows(snapshot, &geometry, lower.number())?;
                Parts::of_disk(&lower.path, arenas.max(written_in.len() as u32))?
            }
            false => Parts::open(&lower.path, superblock.store, &geometry)?,
        };
        let needed = Needed { store: superblock.store, tier: lower.number(), written_in: &written_in };
        if generation.is_some() && !is_disk {
            mend_arenas(parts.tier(), &geometry, &needed, &lost_arenas(&parts, &geometry, &needed)?)?;
        }
        let arenas =
            TierArenas::open(lower.number(), &parts, geometry, Medium::Block, &Arc::<Nodes>::default())?;
        if let Some(generation) = generation {
            arenas.stamp(ArenaStamps::new(superblock.store, generation, &geometry));
        }
        Ok(arenas)
    };
    open().map_err(|source| LowerTierError::Arenas { path: lower.path.clone(), source: Box::new(source) })
}

/// Opens the arenas of all tiers. In `generation`, the opening of the store that writes them, arenas that lost
/// something are mended; without one they are only read. Lower tiers that cannot be opened are missing.
pub(crate) fn open_arenas(
    parts: &Arc<Parts>,
    superblock: &Superblock,
    snapshot: &Snapshot,
    lower: &[LowerTier],
    nodes: &Arc<Nodes>,
    generation: Option<u64>,
) -> Result<Arenas, Error> {
    let Superblock { medium, geometry, store } = *superblock;
    if generation.is_some() {
        let written_in = snapshot.arenas_written_in(TierNumber::FAST)?;
        let needed = Needed { store, tier: TierNumber::FAST, written_in: &written_in };
        mend_arenas(parts.tier(), &geometry, &needed, &lost_arenas(parts, &geometry, &needed)?)?;
    }
    let fast = TierArenas::open(TierNumber::FAST, parts, geometry, medium, nodes)?;
    if let Some(generation) = generation {
        fast.stamp(ArenaStamps::new(store, generation, &geometry));
    }
    // Tiers that content lies on count even if the configuration has lost them.
    let noted: BTreeSet<u8> = snapshot.arenas()?.iter().map(|(arena, _)| arena.tier().0).collect();
    let last_used = noted.last().copied().unwrap_or(0);
    let count = lower.iter().map(|lower| lower.number).max().unwrap_or(0).max(last_used);
    let mut opened: Vec<Option<Result<TierArenas, String>>> = Vec::new();
    for number in 1..=count {
        let configured = lower.iter().find(|lower| lower.number == number);
        let arenas = match configured {
            // Nothing lies in it any more, and the metadata has forgotten it.
            Some(lower) if lower.removing && !noted.contains(&number) => None,
            Some(lower) => Some({
                open_lower(superblock, snapshot, lower, generation).map_err(|error| error.to_string())
            }),
            None if noted.contains(&number) => {
                Some(Err(format!("cuesta.toml names no tier with number {number}")))
            }
            None => None,
        };
        if let Some(Err(why)) = &arenas {
            tracing::error!(tier = number, %why, "a lower tier is missing: what lies there cannot be read (EIO)");
        }
        opened.push(arenas);
    }
    Ok(Arenas::new(fast, opened))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuesta_format::disk_profile::DiskProfile;

    const STORE: StoreId = StoreId([7; 16]);

    fn tier(folder: &Path, number: u8) -> LowerTier {
        LowerTier {
            number,
            path: folder.to_owned(),
            bytes: 1 << 20,
            profile: DiskProfile::default(),
            removing: false,
        }
    }

    #[test]
    fn a_folder_is_a_tier_by_its_label_alone() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("tier");
        create_lower_tier(STORE, &tier(&place, 1)).unwrap();
        check_label(STORE, &tier(&place, 1)).unwrap();
        let foreign = check_label(StoreId([8; 16]), &tier(&place, 1)).unwrap_err();
        assert!(
            matches!(foreign, LowerTierError::Misplaced { why: Misplaced::Store(STORE), .. }),
            "{foreign}"
        );
        let other = check_label(STORE, &tier(&place, 2)).unwrap_err();
        assert!(matches!(other, LowerTierError::Misplaced { why: Misplaced::Other(1), .. }), "{other}");
        let gone = check_label(STORE, &tier(&folder.path().join("gone"), 1)).unwrap_err();
        assert!(matches!(gone, LowerTierError::Read { .. }), "{gone}");
        assert!(create_lower_tier(STORE, &tier(&place, 1)).is_err(), "it is not empty");
        remove_lower_tier(STORE, &tier(&place, 1)).unwrap();
        create_lower_tier(STORE, &tier(&place, 1)).unwrap();
    }
}
