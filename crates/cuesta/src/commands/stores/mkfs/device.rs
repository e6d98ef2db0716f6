//! A fast tier on a DAX device (`/dev/dax0.0`): its requirements, and how it is divided.

use super::sizes::sizes;
use crate::messages::failure::Failure;
use crate::messages::size::{Size, human};
use crate::stores::places;
use cuesta_format::Geometry;
use cuesta_sharedfs::{namespace_of_device, room_on_device, superblock_on_device};
use std::path::{Path, PathBuf};

/// Beside the arenas logs have this part of a device,
const LOGS_PART: u64 = 4;
/// and no more than this: sixteen whole logs, or the first segments of 500.
const LOGS_BYTES_MAX: u64 = 1 << 30;
/// Arenas are whole zones of it.
const ARENA_BYTES_MIN: u64 = 16 << 20;

/// The device that `--nvm-path` names, if it is one.
pub(super) fn named(given: Option<&Path>) -> Result<Option<PathBuf>, Failure> {
    let Some(path) = given.filter(|path| namespace_of_device(path).is_some()) else { return Ok(None) };
    std::path::absolute(path).map(Some).map_err(|error| Failure::on(path, error))
}

/// All but segments and arenas lies in the store's own folder, which must outlive the power as the device does; and another
/// store's device is not taken from it.
pub(super) fn refuse(device: &Path, folder: &Path, overwrites: bool) -> Result<(), Failure> {
    if places::is_memory(folder) {
        return Err(Failure::on(
            folder,
            "is in memory; a store on a device of bytes keeps its names and tables beside it, so give a directory on a disk",
        ));
    }
    let found = superblock_on_device(device).map_err(|error| Failure::on(device, error))?;
    match found {
        Some(found) if !overwrites => Err(Failure::on(
            device,
            format!(
                "holds the store {}; mkfs overwrites nothing (--overwrite-device gives it to the new one)",
                found.store
            ),
        )),
        _ => Ok(()),
    }
}

/// The sizes of a store on it: the size asked for, or all that logs leave.
pub(super) fn geometry(device: &Path, asked: Option<Size>) -> Result<Geometry, Failure> {
    let room = room_on_device(device).map_err(|error| Failure::on(device, error))?;
    let room = room - (room / LOGS_PART).min(LOGS_BYTES_MAX);
    let bytes = asked.map_or(room, |Size(bytes)| bytes);
    if bytes > room {
        let why = format!(
            "has room for {} beside logs, not for {} (give a smaller --nvm)",
            human(room),
            human(bytes)
        );
        return Err(Failure::on(device, why));
    }
    sizes(device, bytes, ARENA_BYTES_MIN)
}
