//! What was granted ahead and nobody has looked at yet.
//!
//! Most of what a walk through a tree is granted it touches once, and some of it never: so it stays as it came
//! ([`cuesta_format::parcel`]) until somebody wants it. An inode lies here only while nothing else is known of it: who
//! fills an inode, from here or by an answer of SharedFS, takes it out. So what lies here was never changed by this
//! session, and is true while its lease is held.

use crate::errno::Error;
use crate::sync::{Arc, AtomicUsize, Ordering, RwLock};
use cuesta_format::InodeNumber;
use cuesta_format::parcel::{Item, ItemAt, Parcel};
use hashbrown::HashMap;

/// More inodes are not kept: they are dropped, and asked for anew.
const INODES_MAX: usize = 512 << 10;

/// About so many bytes of a parcel are one inode's.
const ITEM_BYTES: usize = 128;

/// The parcels.
#[derive(Debug, Default)]
pub(crate) struct ParcelStore {
    items: RwLock<HashMap<InodeNumber, ParcelItem>>,
    /// How many inodes are here, to look at without the lock.
    count: AtomicUsize,
}

/// What a lease on an inode brought: a place in a parcel.
#[derive(Debug)]
pub(crate) struct ParcelItem {
    parcel: Arc<Parcel>,
    at: ItemAt,
}

impl ParcelItem {
    pub(crate) fn item(&self) -> Option<Item<'_>> {
        self.parcel.item(self.at)
    }
}

impl ParcelStore {
    /// Keeps what came with an answer. Within an attempt.
    pub(crate) fn add(&self, bytes: Vec<u8>) -> Result<(), Error> {
        if bytes.is_empty() {
            return Ok(());
        }
        let mut found = Vec::with_capacity(bytes.len() / ITEM_BYTES);
        let parcel = Parcel::open(bytes, |inode, at| found.push((inode, at)))
            .map_err(|error| Error::Daemon(error.to_string()))?;
        let parcel = Arc::new(parcel);
        let mut items = self.items.write();
        if items.len() >= INODES_MAX {
            items.clear();
        }
        items.reserve(found.len());
        for (inode, at) in found {
            items.insert(inode, ParcelItem { parcel: Arc::clone(&parcel), at });
        }
        self.count.store(items.len(), Ordering::Release);
        Ok(())
    }

    /// What `look` finds of an inode, if it is here.
    pub(crate) fn look<R>(&self, inode: InodeNumber, look: impl FnOnce(Item<'_>) -> R) -> Option<R> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.items.read().get(&inode)?.item().map(look)
    }

    /// Takes an inode out, if it is here. Its lease goes with it.
    pub(crate) fn take(&self, inode: InodeNumber) -> Option<ParcelItem> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut items = self.items.write();
        let taken = items.remove(&inode);
        self.count.store(items.len(), Ordering::Release);
        taken
    }

    /// Lets go of everything.
    pub(crate) fn forget(&self) {
        let mut items = self.items.write();
        items.clear();
        self.count.store(0, Ordering::Release);
    }

    /// Whether the inode is here.
    pub(crate) fn has(&self, inode: InodeNumber) -> bool {
        self.count.load(Ordering::Acquire) > 0 && self.items.read().contains_key(&inode)
    }
}
