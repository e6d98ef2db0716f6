//! A file of a store, as the command line names it.

use crate::messages::failure::Failure;
use crate::stores::mounts;
use crate::stores::store::Store;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub struct NamedFile {
    /// The file or directory, as a program under `cuesta run` names it, by the store's mount, or relative to the store's root
    pub path: PathBuf,
    /// The store's directory [default: $CUESTA_STORE, or the one on whose mount the file lies]
    #[arg(long, value_name = "STORE")]
    store: Option<PathBuf>,
    /// The path under which programs find the store [default: where it is mounted, and /cuesta]
    #[arg(long, value_name = "PATH")]
    at: Option<PathBuf>,
}

impl NamedFile {
    /// The store, and the path of the file below its root.
    pub fn find(&self) -> Result<(Store, Vec<u8>), Failure> {
        let store = mounts::store_of(self.store.as_deref(), &self.path)?;
        let inner = mounts::inside(&store, &self.path, self.at.as_deref())?;
        Ok((store, inner.as_os_str().as_bytes().to_vec()))
    }
}
