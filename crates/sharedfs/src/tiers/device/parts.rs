//! Where segments and arenas lie: each in a file of its own, or, where the fast tier has a character device (DAX
//! device, `/dev/dax0.0`), in zones of that.
//!
//! A device has no names. So each part of it has its file nonetheless, in the tier's folder, which lies on a disk
//! then, with all the rest of the store. The file says where the part's zones begin. They are taken while the file
//! is there, and free when it is gone. The device's first zone holds the store's superblock: another store's device
//! is not touched.

use super::disk::Disk;
use super::part::Part;
use super::region::Region;
use super::zones::{ZONE_BYTES, Zones};
use crate::Error;
use cuesta_format::geometry::{ARENAS_FOLDER, DEVICE_LINK, Geometry, LOGS_FOLDER, arena_path};
use cuesta_format::superblock::{SUPERBLOCK_BYTES, Superblock};
use cuesta_format::{ArenaId, Medium, StoreId};
use cuesta_media::{
    Mapping, MediaError, Protection, UNFINISHED_EXTENSION, alignment_of_device, create_sparse, create_whole,
    device_bytes, remove,
};
use parking_lot::Mutex;
use rustix::fd::AsFd as _;
use rustix::fs::{Mode, OFlags};
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The ending of the name of a removed part. Its zones stay taken.
const LEFT_EXTENSION: &str = "left";

/// A character device, and its taken zones.
#[derive(Debug)]
struct Device {
    file: Arc<OwnedFd>,
    zones: Mutex<Zones>,
}

/// The tier's folder, and its device, if it has one.
#[derive(Debug)]
pub struct Parts {
    tier: PathBuf,
    device: Option<Device>,
    /// The disk that is the tier, instead of a folder.
    disk: Option<Disk>,
}

/// The medium of a store's files that are neither segments nor arenas: of a store on a device, they lie on a disk.
#[must_use]
pub fn medium_of_files(tier: &Path, medium: Medium) -> Medium {
    if has_device(tier) { Medium::Block } else { medium }
}

/// What of the machine's persistent memory segments and arenas lie on.
pub(crate) fn region(tier: &Path) -> Option<Region> {
    if has_device(tier) { Region::of_device_of_bytes(&tier.join(DEVICE_LINK)) } else { Region::of(tier) }
}

fn has_device(tier: &Path) -> bool {
    tier.join(DEVICE_LINK).is_symlink()
}

/// Opens a character device: its file, and how long it is.
fn open_device(path: &Path, access: OFlags) -> Result<(OwnedFd, u64), Error> {
    let file = rustix::fs::open(path, access | OFlags::CLOEXEC, Mode::empty())
        .map_err(Error::errno("open the device"))?;
    let alignment = alignment_of_device(file.as_fd())?;
    if !ZONE_BYTES.is_multiple_of(alignment) {
        let why =
            format!("its mappings begin at multiples of {alignment} bytes, of which {ZONE_BYTES} is none");
        return Err(Error::Device { path: path.to_owned(), why });
    }
    let bytes = device_bytes(file.as_fd())?;
    Ok((file, bytes))
}

/// The superblock that lies on a device, if there is one.
pub fn superblock_on_device(path: &Path) -> Result<Option<Superblock>, Error> {
    let (file, _) = open_device(path, OFlags::RDWR)?;
    let mapping = Mapping::of_file(&file, 0, ZONE_BYTES, Protection::ReadOnly, Medium::Pmem, false)?;
    let mut bytes = vec![0; SUPERBLOCK_BYTES];
    mapping.read(0, &mut bytes)?;
    Ok(Superblock::decode(&bytes).ok())
}

/// Makes a device a store's: another store's content there is lost.
pub(crate) fn claim_device(tier: &Path, superblock: &Superblock) -> Result<(), Error> {
    if !has_device(tier) {
        return Ok(());
    }
    let (file, _) = open_device(&tier.join(DEVICE_LINK), OFlags::RDWR)?;
    let mapping = Mapping::of_file(&file, 0, ZONE_BYTES, Protection::ReadWrite, Medium::Pmem, false)?;
    mapping.write_through(0, &superblock.encode()[..])?;
    Ok(mapping.fence()?)
}

/// Gives a device back that holds the store `id`: it holds none then.
pub fn release_device(path: &Path, id: StoreId) -> Result<bool, Error> {
    if superblock_on_device(path)?.map(|superblock| superblock.store) != Some(id) {
        return Ok(false);
    }
    let (file, _) = open_device(path, OFlags::RDWR)?;
    let mapping = Mapping::of_file(&file, 0, ZONE_BYTES, Protection::ReadWrite, Medium::Pmem, false)?;
    mapping.write_through(0, &[0; SUPERBLOCK_BYTES])?;
    mapping.fence()?;
    Ok(true)
}

/// Bytes that segments and arenas can have of a device.
pub fn room_on_device(path: &Path) -> Result<u64, Error> {
    let (_, bytes) = open_device(path, OFlags::RDWR)?;
    Ok((bytes / ZONE_BYTES).saturating_sub(1) * ZONE_BYTES)
}

impl Parts {
    /// That of a store's tier, with what the parts that are there take of a device.
    pub fn open(tier: &Path, store: StoreId, geometry: &Geometry) -> Result<Arc<Parts>, Error> {
        let device = if has_device(tier) { Some(Device::open(tier, store, geometry)?) } else { None };
        Ok(Arc::new(Parts { tier: tier.to_owned(), device, disk: None }))
    }

    /// Those of a lower tier that is a disk, with so many arenas.
    pub(crate) fn of_disk(path: &Path, arenas: u32) -> Result<Arc<Parts>, Error> {
        let disk = Some(Disk::open(path, arenas)?);
        Ok(Arc::new(Parts { tier: path.to_owned(), device: None, disk }))
    }

    /// The disk that is the tier, if it is one.
    pub(crate) fn disk(&self) -> Option<&Disk> {
        self.disk.as_ref()
    }

    /// Whether an arena is there.
    pub(crate) fn has_arena(&self, arena: ArenaId) -> bool {
        match &self.disk {
            Some(disk) => disk.has(arena),
            None => self.tier.join(arena_path(arena)).exists(),
        }
    }

    /// Makes an arena, as [`Parts::make`] does.
    pub(crate) fn make_arena(&self, arena: ArenaId, geometry: &Geometry) -> Result<Part, Error> {
        match &self.disk {
            Some(disk) => disk.make(arena, geometry),
            None => self.make(&arena_path(arena), geometry.arena_file_bytes()),
        }
    }

    /// An arena that is there, as [`Parts::part`] has it.
    pub(crate) fn arena(&self, arena: ArenaId, geometry: &Geometry, access: OFlags) -> Result<Part, Error> {
        match &self.disk {
            Some(disk) => disk.part(arena, geometry, access),
            None => self.part(&arena_path(arena), geometry.arena_file_bytes(), access),
        }
    }

    /// The folder, or the disk.
    #[must_use]
    pub fn tier(&self) -> &Path {
        &self.tier
    }

    /// Whether parts are zones of a device: no call can read those, and all of a part is there from the start.
    #[must_use]
    pub fn is_device(&self) -> bool {
        self.device.is_some()
    }

    /// Whether a file is that of a removed part. One that no process can have any more is taken away.
    pub fn is_left(&self, path: &Path) -> io::Result<bool> {
        if is_left(path) && !is_of_this_boot(path) {
            remove(path)?;
        }
        Ok(is_left(path))
    }

    /// Makes a part, durably, which has no memory yet; of a device it holds whatever lies there.
    pub fn make(&self, path: &str, bytes: u64) -> Result<Part, Error> {
        let path = self.tier.join(path);
        let Some(device) = &self.device else {
            return Ok(Part { file: Arc::new(create_sparse(&path, bytes)?), offset: 0, bytes });
        };
        let offset = device.zones.lock().take(bytes).ok_or(Error::NoSpace)?;
        let made = create_whole(&path, |file| {
            let text = format!("{offset}\n");
            rustix::io::write(file, text.as_bytes())
                .map_err(MediaError::system("write where a part lies"))?;
            Ok(())
        });
        if let Err(error) = made {
            // One whose file is there all the same, and perhaps not durably, has them until the next start.
            if !path.exists() {
                device.zones.lock().free(offset);
            }
            return Err(error.into());
        }
        Ok(Part { file: Arc::clone(&device.file), offset, bytes })
    }

    /// A part that exists, to read, or to write as well.
    pub fn part(&self, path: &str, bytes: u64, access: OFlags) -> Result<Part, Error> {
        let path = self.tier.join(path);
        if let Some(device) = &self.device {
            let offset = offset_in(&path)?;
            let file = match access {
                OFlags::RDONLY => Arc::new(open_device(&self.tier.join(DEVICE_LINK), access)?.0),
                _ => Arc::clone(&device.file),
            };
            return Ok(Part { file, offset, bytes });
        }
        let file = rustix::fs::open(&path, access | OFlags::CLOEXEC, Mode::empty())
            .map_err(Error::errno("open a file of the tier"))?;
        Ok(Part { file: Arc::new(file), offset: 0, bytes })
    }

    /// Removes a part for good. A process may still have it mapped and write to it. A file's memory stays that
    /// process's as long as it does. Zones of a device go to no other part until the machine starts anew.
    pub fn remove(&self, path: &str) -> io::Result<()> {
        let path = self.tier.join(path);
        if self.device.is_none() {
            return remove(&path);
        }
        leave(&path)
    }
}

fn is_left(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == LEFT_EXTENSION)
}

/// Has the file of a part say that no other may have its zones before the machine starts anew.
fn leave(path: &Path) -> io::Result<()> {
    std::fs::File::options().append(true).open(path)?.write_all(boot_id()?.as_bytes())?;
    std::fs::rename(path, path.with_extension(LEFT_EXTENSION))
}

fn boot_id() -> io::Result<String> {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
}

/// Marks what the parts in a folder take, each of which is `len` bytes long.
fn mark(zones: &mut Zones, folder: &Path, len: u64) -> Result<(), Error> {
    for entry in std::fs::read_dir(folder).map_err(Error::io("list the parts on the device"))? {
        let path = entry.map_err(Error::io("list the parts on the device"))?.path();
        if path.extension().is_some_and(|extension| extension == UNFINISHED_EXTENSION) {
            continue;
        }
        if is_left(&path) && !is_of_this_boot(&path) {
            continue;
        }
        let start = offset_in(&path)?;
        if !zones.mark(start..start + len) {
            return Err(Error::Damaged(format!(
                "{} is said to lie at {start}, where the device has something else",
                path.display()
            )));
        }
    }
    Ok(())
}

impl Device {
    fn open(tier: &Path, store: StoreId, geometry: &Geometry) -> Result<Device, Error> {
        let path = &tier.join(DEVICE_LINK);
        let found = superblock_on_device(path)?.map(|superblock| superblock.store);
        if found != Some(store) {
            let why = match found {
                Some(other) => format!("it holds store {other}, and not this one ({store})"),
                None => format!("it does not hold this store ({store})"),
            };
            let path = std::fs::read_link(path).unwrap_or_else(|_| path.clone());
            return Err(Error::Device { path, why });
        }
        let (file, bytes) = open_device(path, OFlags::RDWR)?;
        let mut zones = Zones::new(bytes);
        zones.mark(0..SUPERBLOCK_BYTES as u64);
        mark(&mut zones, &tier.join(LOGS_FOLDER), geometry.segment_bytes)?;
        mark(&mut zones, &tier.join(ARENAS_FOLDER), geometry.arena_file_bytes())?;
        Ok(Device { file: Arc::new(file), zones: Mutex::new(zones) })
    }
}

/// Where the part begins whose file this is.
fn offset_in(path: &Path) -> Result<u64, Error> {
    let text = std::fs::read_to_string(path).map_err(Error::io("read where a part lies"))?;
    let damaged = || Error::Damaged(format!("{} does not say where its part lies", path.display()));
    text.lines().next().and_then(|text| text.parse().ok()).ok_or_else(damaged)
}

/// Whether a part was removed since the machine started: a process may still have it mapped.
fn is_of_this_boot(path: &Path) -> bool {
    let removed = std::fs::read_to_string(path).ok();
    let removed = removed.and_then(|text| text.lines().nth(1).map(str::to_owned));
    boot_id().map_or(true, |boot| removed.as_deref() == Some(boot.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removed_part_has_its_zones_until_the_machine_starts_anew() {
        let folder = tempfile::tempdir().unwrap();
        let (path, left) = (folder.path().join("seg-000003"), folder.path().join("seg-000003.left"));
        std::fs::write(&path, "6291456\n").unwrap();
        leave(&path).unwrap();
        assert!(!path.exists());
        assert_eq!(offset_in(&left).unwrap(), 6 << 20);
        assert!(is_of_this_boot(&left));
        std::fs::write(&left, "6291456\n00000000-0000-0000-0000-000000000000\n").unwrap();
        assert!(!is_of_this_boot(&left));
    }

    #[test]
    fn a_file_that_does_not_say_where_its_part_lies_is_damage() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("arena-000000");
        for text in ["", "\n", "-4096\n", "2 MiB\n"] {
            std::fs::write(&path, text).unwrap();
            assert!(offset_in(&path).unwrap_err().is_damage(), "{text:?}");
        }
    }
}
