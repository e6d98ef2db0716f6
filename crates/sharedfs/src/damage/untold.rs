//! A repair lost something: no daemon opens the store until `cuesta fsck --repair` told it.

use crate::Error;
use crate::store::sync_folder;
use cuesta_format::geometry::REPAIR_FILE;
use std::io::ErrorKind;
use std::path::Path;

/// Whether there is something that was not told yet.
pub(crate) fn is_untold(tier: &Path) -> bool {
    tier.join(REPAIR_FILE).exists()
}

/// The report of a check was told to people: the losses are no news any more, and the store may be opened.
pub fn told(tier: &Path) -> Result<(), Error> {
    match std::fs::remove_file(tier.join(REPAIR_FILE)) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => {
            removed.map_err(Error::io("end a repair"))?;
            sync_folder(tier)
        }
    }
}
