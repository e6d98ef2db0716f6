//! Where the parts of a store lie, and whether a path is one.

use crate::failure::{Failure, WRONG_USAGE};
use cuesta_format::geometry::{CONFIGURATION_FILE, LOCK_FILE, SOCKET_FILE, USERS_FOLDER, USERS_SOCKET_FILE};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The fast tier below the store's directory: a directory, or a symbolic link to where it is.
pub const TIER_FOLDER: &str = "nvm";
/// What the daemon has to tell when nobody watches it.
pub const LOG_FILE: &str = "sharedfs.log";
/// The variable that names the store when no argument does.
pub const STORE_VARIABLE: &str = "CUESTA_STORE";
/// Longest path a Unix socket can have.
const SOCKET_PATH_BYTES_MAX: usize = 107;

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
        match store.tier().metadata() {
            Ok(_) => Ok(store),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let place = std::fs::read_link(store.tier()).unwrap_or_else(|_| store.tier());
                Err(Failure::on(
                    folder,
                    format!(
                        "its fast tier {} is gone; memory does not survive a reboot \
                         (remove the directory and make a new store), persistent memory must be mounted",
                        place.display()
                    ),
                ))
            }
            Err(error) => Err(Failure::on(&store.tier(), error)),
        }
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
        self.folder.join(TIER_FOLDER)
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

    /// The daemon's lock.
    pub fn lock(&self) -> PathBuf {
        self.folder.join(LOCK_FILE)
    }

    /// The daemon's log.
    pub fn log(&self) -> PathBuf {
        self.folder.join(LOG_FILE)
    }
}
