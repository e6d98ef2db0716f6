//! Frees a fast tier whose store is removed: its memory, its files, its zones of a device.
//!
//! Everything is removed through the descriptor that was checked, and the tier's name only if it still leads there.

use super::folder::TrustedFolder;
use cuesta_format::StoreId;
use cuesta_format::geometry::DEVICE_LINK;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// What `st_blocks` counts in.
const STAT_BLOCK_BYTES: u64 = 512;

/// The memory and the device that were freed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Freed {
    /// Bytes of files.
    pub bytes: u64,
    /// The device that holds the store no more.
    pub device: Option<PathBuf>,
}

/// Removes what lies in `tier`, and its name. `device` is where its segments and arenas lay, if the link to it is gone already.
pub fn free_tier(tier: &TrustedFolder, id: StoreId, device: Option<PathBuf>) -> io::Result<Freed> {
    let link = std::fs::read_link(tier.path().join(DEVICE_LINK)).ok();
    let mut freed = Freed { bytes: bytes_in(tier.path())?, device: None };
    if let Some(device) = link.or(device)
        && crate::release_device(&device, id).map_err(io::Error::other)?
    {
        freed.device = Some(device);
    }
    empty(tier.path())?;
    if tier.is_at_its_name() {
        // In a folder where its user may not remove names it stays, and is empty.
        match std::fs::remove_dir(tier.named()) {
            Err(error) if error.kind() != io::ErrorKind::PermissionDenied => return Err(error),
            _ => {}
        }
    }
    Ok(freed)
}

fn empty(folder: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let removed = match entry.file_type()?.is_dir() {
            true => std::fs::remove_dir_all(entry.path()),
            false => std::fs::remove_file(entry.path()),
        };
        match removed {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Bytes that the files below a folder take.
fn bytes_in(folder: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        bytes += match entry.file_type()?.is_dir() {
            true => bytes_in(&entry.path())?,
            false => entry.metadata()?.blocks() * STAT_BLOCK_BYTES,
        };
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_put_in_the_place_of_a_tier_stays() {
        let place = tempfile::tempdir().unwrap();
        let (name, aside) = (place.path().join("tier"), place.path().join("aside"));
        let us = rustix::process::geteuid().as_raw();
        std::fs::create_dir_all(name.join("logs")).unwrap();
        std::fs::write(name.join("logs/seg"), [1; 5000]).unwrap();
        let tier = TrustedFolder::open(&name, us).unwrap();
        std::fs::rename(&name, &aside).unwrap();
        std::fs::create_dir(&name).unwrap();
        std::fs::write(name.join("planted"), "").unwrap();
        let freed = free_tier(&tier, StoreId([1; 16]), None).unwrap();
        assert_eq!(freed, Freed { bytes: 8192, device: None });
        assert!(name.join("planted").exists());
        assert_eq!(std::fs::read_dir(&aside).unwrap().count(), 0);
    }
}
