//! Where the parts of a store lie, and whether a path is one.

use crate::messages::failure::{Failure, WRONG_USAGE};
use crate::stores::owner;
use crate::stores::places::{existing_ancestor, is_memory};
use cuesta_format::geometry::{CONFIGURATION_FILE, SOCKET_FILE, USERS_FOLDER, USERS_SOCKET_FILE};
use cuesta_sharedfs::trust::{Purpose, TIER_NAME, TrustError, TrustedStore, named_tier};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The log of a daemon in the background.
pub const LOG_FILE: &str = "sharedfs.log";
/// The variable that names the store when no argument does.
pub const STORE_VARIABLE: &str = "CUESTA_STORE";
/// Longest path a Unix socket can have.
const SOCKET_PATH_BYTES_MAX: usize = 107;

/// What to do about a fast tier that is not where it was.
fn advice(place: &Path) -> &'static str {
    if is_memory(&existing_ancestor(place)) {
        "; it lay in memory, which does not survive a reboot: remove the store with cuesta destroy, and make a new one"
    } else {
        "; mount the file system that it lies on, and try again. Only if that was in memory, which does not survive a reboot, it is lost"
    }
}

/// A store's directory, by its absolute path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Store {
    folder: PathBuf,
}

impl Store {
    /// The store at `folder`, which must hold one.
    pub fn find(folder: &Path) -> Result<Store, Failure> {
        let absolute = folder.canonicalize().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Failure::on(folder, "no such store (cuesta mkfs makes one)"),
            _ => Failure::on(folder, error),
        })?;
        let store = Store { folder: absolute };
        let found = store.configuration().metadata();
        if found.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied) {
            return Err(Failure::on(
                folder,
                "this store belongs to another user, who has not let others search its folder (chmod 711)",
            ));
        }
        if !found.is_ok_and(|found| found.is_file()) {
            return Err(Failure::on(folder, "this is no Cuesta store (cuesta mkfs makes one)"));
        }
        let owner = |path: &Path| path.metadata().map(|found| found.uid());
        match (owner(&store.tier()), owner(store.folder())) {
            (Ok(of_tier), Ok(of_store)) if of_tier != of_store => Err(store.planted(of_tier)),
            (Ok(_), _) => Ok(store),
            (Err(error), _) if error.kind() == io::ErrorKind::NotFound => Err(store.without_tier()),
            (Err(error), _) => Err(Failure::on(&store.tier(), error)),
        }
    }

    /// The error for a store whose fast tier is missing.
    fn without_tier(&self) -> Failure {
        let place = named_tier(&self.folder);
        Failure::on(&self.folder, format!("its fast tier {} is gone{}", place.display(), advice(&place)))
    }

    /// The error for a store whose fast tier was replaced by another user's folder.
    fn planted(&self, owner: u32) -> Failure {
        let place = named_tier(&self.folder);
        let why = format!(
            "its fast tier {} is gone, and what lies there now is user {owner}'s: nothing of it is used{}",
            place.display(),
            advice(&place)
        );
        Failure::on(&self.folder, why)
    }

    /// Opens its folders for a process that serves, checks or removes it, which becomes the store's user for that: root does
    /// nothing as root in a folder that another user may change meanwhile.
    pub fn open_trusted(&self, purpose: Purpose) -> Result<TrustedStore, Failure> {
        owner::become_owner(&self.folder)?;
        TrustedStore::open(&self.folder, purpose).map_err(|error| match error {
            TrustError::Missing(path) if path != self.folder => self.without_tier(),
            TrustError::Owner { path, owner, .. } if path != self.folder => self.planted(owner),
            error => Failure::on(&self.folder, error),
        })
    }

    /// The store an option or else the environment names.
    pub fn find_named(option: Option<&Path>) -> Result<Store, Failure> {
        match (option, std::env::var_os(STORE_VARIABLE)) {
            (Some(folder), _) => Store::find(folder),
            (None, Some(folder)) if !folder.is_empty() => Store::find(Path::new(&folder)),
            _ => Err(Failure::new(format!("which store? give --store STORE or set {STORE_VARIABLE}"))
                .exiting(WRONG_USAGE)),
        }
    }

    /// The paths of what lies in its folder, through the descriptor that was checked. They are this process's alone.
    pub fn anchored(trusted: &TrustedStore) -> Store {
        Store { folder: trusted.folder().path().to_owned() }
    }

    /// A store to be made at the absolute path `folder`.
    pub fn planned(folder: PathBuf) -> Result<Store, Failure> {
        let store = Store { folder };
        let length = store.socket().as_os_str().len();
        if length > SOCKET_PATH_BYTES_MAX {
            return Err(Failure::on(
                &store.folder,
                format!("the path is {} bytes too long for a socket in it", length - SOCKET_PATH_BYTES_MAX),
            ));
        }
        Ok(store)
    }

    /// Its directory.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The fast tier.
    pub fn tier(&self) -> PathBuf {
        self.folder.join(TIER_NAME)
    }

    /// The configuration.
    pub fn configuration(&self) -> PathBuf {
        self.folder.join(CONFIGURATION_FILE)
    }

    /// The daemon's socket.
    pub fn socket(&self) -> PathBuf {
        self.folder.join(SOCKET_FILE)
    }

    /// Whether we are neither its user nor root.
    pub fn is_of_another_user(&self) -> bool {
        let us = rustix::process::geteuid();
        !us.is_root() && self.folder.metadata().is_ok_and(|folder| folder.uid() != us.as_raw())
    }

    /// The daemon's socket for processes of other users.
    pub fn users_socket(&self) -> PathBuf {
        self.users_folder().join(USERS_SOCKET_FILE)
    }

    /// The folder of the daemon's socket for processes of other users.
    pub fn users_folder(&self) -> PathBuf {
        self.folder.join(USERS_FOLDER)
    }

    /// The daemon's log.
    pub fn log(&self) -> PathBuf {
        self.folder.join(LOG_FILE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_without_the_disk_mounted_is_not_told_to_remove_the_store() {
        let on_disk = advice(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/not mounted/tier")));
        assert!(on_disk.contains("mount the file system") && !on_disk.contains("destroy"), "{on_disk}");
        let in_memory = advice(Path::new("/dev/shm/not there"));
        assert!(in_memory.contains("cuesta destroy"), "{in_memory}");
    }
}
