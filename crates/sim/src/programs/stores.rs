//! Where campaigns make their stores, and with that what those are made of: `mkfs` picks the medium by the place.

use std::io;
use std::path::Path;
use tempfile::TempDir;

/// A new folder in `parent`; if that is left open in memory, where there is any.
pub(crate) fn folder(parent: Option<&Path>, prefix: &str) -> io::Result<TempDir> {
    let make = |parent: &Path| tempfile::Builder::new().prefix(prefix).tempdir_in(parent);
    match parent {
        Some(parent) => make(parent),
        None => make(Path::new("/dev/shm")).or_else(|_| make(&std::env::temp_dir())),
    }
}
