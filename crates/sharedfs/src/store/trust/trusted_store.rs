//! A store whose two folders were opened and checked.

use super::folder::{TIER_NAME, TrustError, TrustedFolder};
use super::purpose::Purpose;
use crate::store::read_superblock;
use crate::store::trust::identity;
use cuesta_format::identity::Identity;
use std::path::{Path, PathBuf};

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

    /// Words about its folders, with the paths by which they were named: [`TrustedFolder::path`] means nothing
    /// to people.
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
