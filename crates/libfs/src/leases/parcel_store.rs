//! Leases granted ahead that no operation has used yet.
//!
//! A walk through a tree uses most granted inodes once, and some never. So an inode stays as it came
//! ([`cuesta_format::parcel`]) until an operation wants it. It lies here only while the cache knows nothing
//! else of it: filling the inode takes it out. So this session never changed an inode that lies here, and the
//! item is true while its lease is held.

use crate::errno::Error;
use crate::sync::{Arc, AtomicUsize, Ordering, RwLock};
use cuesta_format::InodeNumber;
use cuesta_format::parcel::{Item, ItemAt, Parcel};
use hashbrown::HashMap;

/// The store drops everything beyond this many inodes, and the session asks again for what it needs.
const INODES_MAX: usize = 512 << 10;

/// Estimated bytes of one inode in a parcel.
const ITEM_BYTES: usize = 128;

/// The items, by inode.
#[derive(Debug, Default)]
pub(crate) struct ParcelStore {
    items: RwLock<HashMap<InodeNumber, ParcelItem>>,
    /// How many items there are, readable without the lock.
    count: AtomicUsize,
}

/// An item of a parcel: the record and content that a lease on one inode brought.
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
    /// Stores the parcel that came with an answer. Call within an attempt.
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

    /// What `look` finds in the inode's item, if there is one.
    pub(crate) fn look<R>(&self, inode: InodeNumber, look: impl FnOnce(Item<'_>) -> R) -> Option<R> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.items.read().get(&inode)?.item().map(look)
    }

    /// Takes an inode's item out, if there is one, and its lease with it.
    pub(crate) fn take(&self, inode: InodeNumber) -> Option<ParcelItem> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut items = self.items.write();
        let taken = items.remove(&inode);
        self.count.store(items.len(), Ordering::Release);
        taken
    }

    /// Drops all items.
    pub(crate) fn forget(&self) {
        let mut items = self.items.write();
        items.clear();
        self.count.store(0, Ordering::Release);
    }

    /// Whether there is an item of the inode.
    pub(crate) fn has(&self, inode: InodeNumber) -> bool {
        self.count.load(Ordering::Acquire) > 0 && self.items.read().contains_key(&inode)
    }
}
