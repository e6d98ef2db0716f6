//! Shared mappings, as a program has them: memory of the kernel's, which it stores to without a call.

use super::World;
use super::shared_mapping::SharedMapping;
use crate::operations::operation::Slot;
use cuesta_format::geometry::REFERENCES_FOLDER;
use cuesta_media::mapped_files::{self, Pin};
use rustix::io::Errno;
use std::fs::File;
use std::path::Path;

/// Keeps every file in mapped mode that is so in a store, whether a daemon runs there or not, as a program does that has
/// it mapped.
pub fn pin_all(directory: &Path) -> Result<Vec<Pin>, String> {
    let folder = directory.join(REFERENCES_FOLDER);
    let folder = File::open(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let pin = |inode| match mapped_files::open_marked(&folder, inode, true)? {
        Some(file) => Pin::new(file).map(Some),
        None => Ok(None),
    };
    let pins: Result<Vec<Option<Pin>>, Errno> =
        mapped_files::list(&folder).and_then(|files| files.into_iter().map(pin).collect());
    Ok(pins.map_err(|errno| format!("pin: {errno}"))?.into_iter().flatten().collect())
}

impl World {
    /// Maps so many bytes of the file open in a slot; the mapping outlasts the open file. A mapping that was there before is
    /// unmapped.
    pub fn map(&mut self, slot: Slot, bytes: u64) -> Result<(), String> {
        let file = self.file(slot).map_err(|error| format!("map: {error}"))?;
        let shared = self.client.map_shared(file, true).map_err(|error| format!("map: {error}"))?;
        let mapping = SharedMapping::new(shared, bytes as usize).map_err(|errno| format!("map: {errno}"))?;
        self.mappings.insert(slot, mapping);
        Ok(())
    }

    /// Stores bytes through a mapping.
    pub fn store_mapped(&self, slot: Slot, offset: u64, bytes: &[u8]) -> Result<(), String> {
        self.mappings.get(&slot).ok_or("nothing is mapped")?.store(offset, bytes)
    }

    /// msync of a whole mapping.
    pub fn sync_mapped(&self, slot: Slot) -> Result<(), String> {
        let mapping = self.mappings.get(&slot).ok_or("nothing is mapped")?;
        mapping.sync().map_err(|errno| format!("msync: {errno}"))
    }

    /// Unmaps.
    pub fn unmap(&mut self, slot: Slot) -> Result<(), String> {
        self.mappings.remove(&slot).map(drop).ok_or_else(|| "nothing is mapped".to_owned())
    }

    /// Whether any file of the store is in mapped mode.
    pub fn has_files_in_mapped_mode(&self) -> Result<bool, String> {
        let found = mapped_files::list(&*self.client.references());
        found.map(|files| !files.is_empty()).map_err(|errno| format!("files in mapped mode: {errno}"))
    }
}
