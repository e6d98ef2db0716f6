//! Lower tiers that `--tier` asks for.

use super::refusals::{refuse_device, refuse_to_overwrite};
use crate::messages::failure::{Failure, WRONG_USAGE};
use crate::messages::size::{Size, human};
use crate::stores::places;
use cuesta_format::Geometry;
use cuesta_format::disk_profile::{DiskProfile, DiskProfileError};
use cuesta_sharedfs::{LowerTier, is_empty_disk, room_on_disk};
use std::collections::BTreeMap;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// `NAME=PATH:SIZE[,profile=PROFILE]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskedTier {
    name: String,
    path: PathBuf,
    bytes: u64,
    profile: DiskProfile,
}

impl AskedTier {
    /// The name that the user gives it.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl FromStr for AskedTier {
    type Err = String;

    fn from_str(text: &str) -> Result<AskedTier, String> {
        let shape = || {
            "write it as NAME=PATH:SIZE, like disk=/mnt/disk/tier:100G, or with ,profile=hdd behind it"
                .to_owned()
        };
        let (name, rest) = text.split_once('=').ok_or_else(shape)?;
        let (path, size) = rest.rsplit_once(':').ok_or_else(shape)?;
        let (size, profile) = match size.split_once(',') {
            None => (size, DiskProfile::default()),
            Some((size, rest)) => {
                let profile = rest.trim_start().strip_prefix("profile=").ok_or_else(shape)?;
                (size, profile.parse().map_err(|error: DiskProfileError| error.to_string())?)
            }
        };
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if name.is_empty() || !name.bytes().all(is_plain) || name == "fast" {
            return Err("a tier's name has letters, digits, - and _, and is not \"fast\"".into());
        }
        if path.is_empty() {
            return Err(shape());
        }
        let Size(bytes) = size.parse()?;
        Ok(AskedTier { name: name.to_owned(), path: path.into(), bytes, profile })
    }
}

fn is_disk(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.file_type().is_block_device())
}

/// Bytes that a tier may have there. A disk without a file system must hold nothing.
fn room(path: &Path, overwrites_device: bool) -> Result<u64, Failure> {
    let fail = |error: std::io::Error| Failure::on(path, error);
    if is_disk(path) {
        if !overwrites_device && !is_empty_disk(path).map_err(fail)? {
            let why =
                "holds something; mkfs overwrites nothing (--overwrite-device gives it to the new store)";
            return Err(Failure::on(path, why));
        }
        return room_on_disk(path).map_err(fail);
    }
    refuse_device(path)?;
    refuse_to_overwrite(path)?;
    let place = places::existing_ancestor(path);
    let room = rustix::fs::statvfs(&place).map_err(|errno| Failure::on(&place, errno))?;
    Ok(room.f_bavail.saturating_mul(room.f_frsize))
}

/// The tiers that the command line asks for, in its order. Fails if a place is taken, or has too little room.
pub fn planned(
    asked: &[AskedTier],
    geometry: &Geometry,
    overwrites_device: bool,
) -> Result<BTreeMap<String, LowerTier>, Failure> {
    let mut tiers: BTreeMap<String, LowerTier> = BTreeMap::new();
    for (index, AskedTier { name, path, bytes, profile }) in asked.iter().enumerate() {
        let path = std::path::absolute(path).map_err(|error| Failure::on(path, error))?;
        let wrong = |why: String| Failure::on(&path, why).exiting(WRONG_USAGE);
        if tiers.values().any(|other| other.path == path) {
            return Err(wrong("is named for two tiers".into()));
        }
        if *bytes < geometry.arena_bytes {
            let least = human(geometry.arena_bytes);
            return Err(wrong(format!(
                "a tier of {} is too small; it takes {least} at least",
                human(*bytes)
            )));
        }
        let free = room(&path, overwrites_device)?;
        if *bytes > free {
            return Err(wrong(format!("there is room for {}, not for {}", human(free), human(*bytes))));
        }
        // The file of a disk lies in memory (/dev), and the disk does not.
        let is_in_memory = !is_disk(&path) && places::is_memory(&places::existing_ancestor(&path));
        if !profile.is_none() && is_in_memory {
            return Err(wrong("is in memory, where no disk is played: no read of it reaches a disk".into()));
        }
        let bytes = bytes / geometry.arena_bytes * geometry.arena_bytes;
        let tier = LowerTier {
            number: index as u8 + 1,
            path: path.clone(),
            bytes,
            profile: *profile,
            removing: false,
        };
        if tiers.insert(name.clone(), tier).is_some() {
            return Err(wrong(format!("two tiers are called {name}")));
        }
    }
    Ok(tiers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tier_is_a_name_a_place_and_a_size() {
        let tier: AskedTier = "disk=/mnt/a:b/tier:20G".parse().unwrap();
        assert_eq!((tier.name.as_str(), tier.bytes), ("disk", 20 << 30));
        assert_eq!(tier.path, PathBuf::from("/mnt/a:b/tier"));
        assert!(tier.profile.is_none());
        let slow: AskedTier = "disk=/mnt/a,profile=x/tier:20G,profile=hdd,seek_ns=4000000".parse().unwrap();
        assert_eq!((slow.path, slow.bytes), (PathBuf::from("/mnt/a,profile=x/tier"), 20 << 30));
        assert_eq!(
            slow.profile.to_string(),
            "write_ns=10000000,seek_ns=4000000,read_mb_s=100,write_mb_s=100"
        );
        let unknown = "disk=/mnt:1G,profile=tape".parse::<AskedTier>().unwrap_err();
        assert!(unknown.contains("nvme, sata-ssd, hdd, optane-ssd"), "{unknown}");
        for wrong in [
            "disk",
            "disk=/mnt",
            "=/mnt:1G",
            "disk=:1G",
            "a b=/mnt:1G",
            "fast=/mnt:1G",
            "d=/mnt:x",
            "d=/mnt:1G,hdd",
        ] {
            assert!(wrong.parse::<AskedTier>().is_err(), "{wrong}");
        }
    }
}
