//! Folders of the tier.

use crate::Error;
use std::fs::File;
use std::path::Path;

/// Makes the names in a folder durable.
pub(crate) fn sync_folder(folder: &Path) -> Result<(), Error> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(Error::io("sync a folder"))
}
