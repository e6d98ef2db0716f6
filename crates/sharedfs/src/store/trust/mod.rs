//! What the daemon checks of a store's folders before it believes a byte in them.
//!
//! | file | idea |
//! |---|---|
//! | `folder` | a folder that was opened once, and whose owner, type, mode and link count are right |
//! | `removal` | what becomes of a fast tier whose store is removed |
//! | `identity` | the secret that a fast tier proves to be the store's by, and the store's device number |
//!
//! A path is only a name: another user can put something else there, for example in the place of a fast tier in shared
//! memory that a reboot took away. So each folder is opened once, checked by its descriptor, and everything in it is opened
//! relative to that descriptor. See decision 41 for each path that the programs of a store open.

mod folder;
mod identity;
mod removal;

pub use folder::{TrustError, TrustedFolder};
pub use removal::{Freed, free_tier};

use crate::store::read_superblock;
use cuesta_format::identity::Identity;
use std::path::{Path, PathBuf};

/// The name of the fast tier in the store's folder: a folder, or a symbolic link to one.
pub const TIER_NAME: &str = "nvm";

/// What a store is opened for: that decides about records of its identity which are missing or damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To serve it: a fast tier elsewhere must prove to be the store's.
    Serve,
    /// To repair it: a fast tier is believed by its owner and its superblock, and gets a new record.
    Repair,
    /// To look at it, or to remove it: nothing is written.
    Look,
}

/// A store's folder and its fast tier, both opened and checked.
#[derive(Debug)]
pub struct TrustedStore {
    folder: TrustedFolder,
    tier: TrustedFolder,
    identity: Identity,
}

impl TrustedStore {
    /// Opens the store in `path`, which must belong to the user of this process.
    pub fn open(path: &Path, purpose: Purpose) -> Result<TrustedStore, TrustError> {
        let us = rustix::process::geteuid().as_raw();
        let folder = TrustedFolder::open(path, us)?;
        let tier = folder.tier(us)?;
        let superblock = read_superblock(tier.path()).ok();
        let is_elsewhere = folder.tier_link().is_some();
        let identity = identity::settle(
            &folder,
            &tier,
            superblock.map(|superblock| superblock.store),
            purpose,
            is_elsewhere,
        )?;
        Ok(TrustedStore { folder, tier, identity })
    }

    /// The store's folder.
    #[must_use]
    pub fn folder(&self) -> &TrustedFolder {
        &self.folder
    }

    /// The fast tier.
    #[must_use]
    pub fn tier(&self) -> &TrustedFolder {
        &self.tier
    }

    /// What is said of its folders, in the words of who named them: [`TrustedFolder::path`] means nothing to people.
    #[must_use]
    pub fn worded(&self, text: &str) -> String {
        [&self.folder, &self.tier].into_iter().fold(text.to_owned(), |text, folder| {
            text.replace(&format!("{}/", folder.path().display()), &format!("{}/", folder.named().display()))
        })
    }

    /// Which store it is.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.identity
    }
}

/// Gives a new store its identity, in both of its folders.
pub fn create_identity(store: &Path, tier: &Path, id: cuesta_format::StoreId) -> Result<(), TrustError> {
    let us = rustix::process::geteuid().as_raw();
    let folder = TrustedFolder::open(store, us)?;
    let tier = TrustedFolder::open(tier, us)?;
    identity::create(&folder, &tier, id)
}

/// Where a store's fast tier lies, for messages.
#[must_use]
pub fn named_tier(store: &Path) -> PathBuf {
    let name = store.join(TIER_NAME);
    std::fs::read_link(&name).unwrap_or(name)
}
