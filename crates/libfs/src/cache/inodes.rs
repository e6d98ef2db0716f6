//! The inodes that this session knows, by number, and which of them it may forget.
//!
//! The session forgets an inode only behind the closed gate, and gives its lease back before the gate opens.
//! Otherwise it could give back a lease that another thread has just asked for anew.

use crate::cache::inode::Inode;
use crate::cache::split_table::SplitTable;
use crate::sync::{Arc, AtomicU64, AtomicUsize, Mutex, Ordering, RwLock};
use cuesta_format::{InodeNumber, LogPosition};
use cuesta_media::planted;
use cuesta_media::planted::Bug;
use hashbrown::DefaultHashBuilder;
use std::hash::BuildHasher;

/// Cached inodes before the session forgets closed ones, unless a door sets another limit. They take some 200
/// MB, as the kernel would use for as many.
const INODES_MAX: usize = 512 << 10;

/// How many inodes one search forgets.
const FORGET_BATCH: usize = 4096;

/// How many inodes one search looks at.
const LOOK_MAX: usize = 3 * FORGET_BATCH;

type CachedInode = (InodeNumber, Arc<Inode>);

/// The inodes of a session.
#[derive(Debug)]
pub(crate) struct Cache {
    inodes: RwLock<SplitTable<CachedInode>>,
    hasher: DefaultHashBuilder,
    /// How many inodes there are, readable without the lock.
    count: AtomicUsize,
    /// How many inodes are kept.
    inodes_max: AtomicUsize,
    /// The part of the table that is searched next.
    hand: Mutex<usize>,
    /// The value of `retired` when a search found too few inodes to forget.
    searched_at: AtomicU64,
    /// The end of the last log entry about a removed inode that was dropped from here.
    gone_until: AtomicU64,
}

impl Cache {
    pub(crate) fn new() -> Cache {
        Cache {
            inodes: RwLock::new(SplitTable::new()),
            hasher: DefaultHashBuilder::default(),
            count: AtomicUsize::new(0),
            inodes_max: AtomicUsize::new(INODES_MAX),
            hand: Mutex::new(0),
            searched_at: AtomicU64::new(u64::MAX),
            gone_until: AtomicU64::new(0),
        }
    }

    #[inline]
    fn hash(&self, number: InodeNumber) -> u64 {
        self.hasher.hash_one(number.0)
    }

    #[inline]
    pub(crate) fn get(&self, number: InodeNumber) -> Option<Arc<Inode>> {
        let inodes = self.inodes.read();
        inodes.find(self.hash(number), |known| known.0 == number).map(|(_, inode)| Arc::clone(inode))
    }

    /// The inode. If it is not here, adds one of which nothing is known.
    #[inline]
    pub(crate) fn get_or_insert(&self, number: InodeNumber) -> Arc<Inode> {
        self.get_or_insert_below(number, InodeNumber::NONE)
    }

    /// The inode. If it is not here, adds one of which only `parent` is known, the directory that it is in if
    /// it is a directory.
    #[inline]
    pub(crate) fn get_or_insert_below(&self, number: InodeNumber, parent: InodeNumber) -> Arc<Inode> {
        match self.get(number) {
            Some(inode) => inode,
            None => self.insert_unknown(number, parent),
        }
    }

    #[cold]
    fn insert_unknown(&self, number: InodeNumber, parent: InodeNumber) -> Arc<Inode> {
        let hash = self.hash(number);
        let mut inodes = self.inodes.write();
        if let Some((_, inode)) = inodes.find(hash, |known| known.0 == number) {
            return Arc::clone(inode);
        }
        let inode = Arc::new(Inode::unknown(number, parent));
        self.enter(&mut inodes, hash, Arc::clone(&inode));
        inode
    }

    /// Adds an inode that this session made.
    pub(crate) fn insert(&self, inode: Arc<Inode>) {
        let hash = self.hash(inode.number);
        self.enter(&mut self.inodes.write(), hash, inode);
    }

    fn enter(&self, inodes: &mut SplitTable<CachedInode>, hash: u64, inode: Arc<Inode>) {
        inodes.insert_new(hash, (inode.number, inode), |known| self.hash(known.0));
        self.count.store(inodes.len(), Ordering::Relaxed);
    }

    /// Drops an inode that no longer exists. The last log entry about it ends at `logged`.
    pub(crate) fn remove(&self, number: InodeNumber, logged: LogPosition) {
        self.gone_until.fetch_max(logged.0, Ordering::SeqCst);
        let mut inodes = self.inodes.write();
        let removed = inodes.remove(self.hash(number), |known| known.0 == number);
        self.count.store(inodes.len(), Ordering::Relaxed);
        drop(inodes);
        drop(removed);
    }

    /// Whether SharedFS knows that all inodes dropped here no longer exist.
    pub(crate) fn removals_are_known(&self, retired: LogPosition) -> bool {
        self.gone_until.load(Ordering::SeqCst) <= retired.0
    }

    /// All inodes.
    pub(crate) fn all(&self) -> Vec<Arc<Inode>> {
        self.inodes.read().iter().map(|(_, inode)| Arc::clone(inode)).collect()
    }

    /// Sets how many inodes are kept.
    pub(crate) fn limit(&self, inodes_max: usize) {
        self.inodes_max.store(inodes_max, Ordering::Relaxed);
    }

    /// Whether to forget some: there are too many, and `retired` has moved since a search found none.
    #[inline]
    pub(crate) fn is_over_full(&self, retired: LogPosition) -> bool {
        self.count.load(Ordering::Relaxed) > self.inodes_max.load(Ordering::Relaxed)
            && (self.searched_at.load(Ordering::Relaxed) != retired.0
                || planted::active(Bug::GivenBackAtOnce))
    }

    /// Forgets some closed inodes of which the log holds nothing above `retired`. The caller gives their
    /// leases back. The gate is closed, so no other thread uses the cache.
    pub(crate) fn forget_some(
        &self,
        retired: LogPosition,
        stays: impl Fn(InodeNumber) -> bool,
    ) -> Vec<InodeNumber> {
        let mut inodes = self.inodes.write();
        let mut hand = self.hand.lock();
        let mut forgotten = Vec::new();
        let mut found = 0;
        let mut looked = 0;
        for _ in 0..inodes.parts() {
            if found >= FORGET_BATCH || looked >= LOOK_MAX {
                break;
            }
            *hand = (*hand + 1) % inodes.parts();
            let gone = inodes.take_from_part(*hand, |(number, inode)| {
                looked += 1;
                let is_gone = is_forgettable(*number, inode, retired) && !stays(*number);
                found < FORGET_BATCH && is_gone && {
                    found += 1;
                    true
                }
            });
            let leased =
                |(number, inode): &CachedInode| inode.state.read().lease.is_some().then_some(*number);
            forgotten.extend(gone.iter().filter_map(leased));
        }
        self.count.store(inodes.len(), Ordering::Relaxed);
        self.searched_at.store(if found < FORGET_BATCH { retired.0 } else { u64::MAX }, Ordering::Relaxed);
        forgotten
    }

    /// Forgets every inode of which the log holds something above `retired`.
    pub(crate) fn forget_logged_behind(&self, retired: LogPosition) {
        for inode in self.all() {
            let mut state = inode.state.write();
            if state.lease.is_some() && state.logged > retired {
                state.forget();
            }
        }
    }

    /// Forgets all inodes, and the kept names of directories.
    pub(crate) fn forget_all(&self) {
        for inode in self.all() {
            inode.state.write().forget();
        }
    }
}

/// Whether no thread uses the inode, and the log holds nothing of it above `retired`.
fn is_forgettable(number: InodeNumber, inode: &Arc<Inode>, retired: LogPosition) -> bool {
    Arc::strong_count(inode) == 1
        && inode.opens.load(Ordering::Acquire) == 0
        && number != InodeNumber::ROOT
        && (inode.state.read().logged <= retired || planted::active(Bug::GivenBackAtOnce))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::inode::Content;
    use cuesta_format::{InodeRecord, Timestamp};

    fn made(number: u64, logged: u64) -> Arc<Inode> {
        let record = InodeRecord::new(InodeNumber(number), 0o100_644, 0, 0, Timestamp(0));
        Arc::new(Inode::made(record, Content::Special, LogPosition(logged)))
    }

    #[test]
    fn only_closed_clean_inodes_are_forgotten() {
        let cache = Cache::new();
        cache.insert(made(5, 64));
        cache.insert(made(6, 640));
        let held = made(7, 0);
        cache.insert(Arc::clone(&held));
        assert_eq!(cache.forget_some(LogPosition(64), |_| false), vec![InodeNumber(5)]);
        assert!(cache.get(InodeNumber(5)).is_none());
        drop(held);
        assert_eq!(cache.forget_some(LogPosition(640), |_| false).len(), 2);
    }
}
