//! The inodes this session knows, found by number, and which of them may be forgotten.
//!
//! An inode is forgotten only behind the closed gate, with its lease given back in the same breath: otherwise a
//! lease just asked for anew could be the one that is given back.

use crate::inode::Inode;
use crate::sync::{Arc, AtomicU64, AtomicUsize, Mutex, Ordering, RwLock};
use cuesta_format::{InodeNumber, LogPosition};
use hashbrown::HashMap;
use std::collections::VecDeque;

/// Inodes kept before closed ones are forgotten.
const INODES_MAX: usize = 200_000;
/// Inodes forgotten at once.
const FORGET_BATCH: usize = 4096;
/// Candidates looked at for that.
const LOOK_MAX: usize = 3 * FORGET_BATCH;

/// The known inodes.
#[derive(Debug)]
pub(crate) struct Cache {
    inodes: RwLock<HashMap<InodeNumber, Arc<Inode>>>,
    /// In the order in which they became known.
    order: Mutex<VecDeque<InodeNumber>>,
    /// How many there are, to look at without a lock.
    count: AtomicUsize,
    /// What was retired when a search found too few to forget.
    searched_at: AtomicU64,
}

impl Cache {
    pub(crate) fn new() -> Cache {
        Cache {
            inodes: RwLock::new(HashMap::new()),
            order: Mutex::new(VecDeque::new()),
            count: AtomicUsize::new(0),
            searched_at: AtomicU64::new(u64::MAX),
        }
    }

    #[inline]
    pub(crate) fn get(&self, number: InodeNumber) -> Option<Arc<Inode>> {
        self.inodes.read().get(&number).cloned()
    }

    /// The inode; one of which nothing is known if it was not there.
    pub(crate) fn get_or_insert(&self, number: InodeNumber) -> Arc<Inode> {
        if let Some(inode) = self.get(number) {
            return inode;
        }
        let mut added = false;
        let mut inodes = self.inodes.write();
        let inode = Arc::clone(inodes.entry(number).or_insert_with(|| {
            added = true;
            Arc::new(Inode::unknown(number))
        }));
        self.count.store(inodes.len(), Ordering::Relaxed);
        drop(inodes);
        if added {
            self.order.lock().push_back(number);
        }
        inode
    }

    /// Adds one this session made.
    pub(crate) fn insert(&self, inode: Arc<Inode>) {
        let number = inode.number;
        let mut inodes = self.inodes.write();
        inodes.insert(number, inode);
        self.count.store(inodes.len(), Ordering::Relaxed);
        drop(inodes);
        self.order.lock().push_back(number);
    }

    /// Drops one that exists no more.
    pub(crate) fn remove(&self, number: InodeNumber) {
        self.inodes.write().remove(&number);
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<Arc<Inode>> {
        self.inodes.read().values().cloned().collect()
    }

    /// Whether it is time to forget some: there are too many, and `retired` moved since none were found.
    #[inline]
    pub(crate) fn is_over_full(&self, retired: LogPosition) -> bool {
        self.count.load(Ordering::Relaxed) > INODES_MAX
            && self.searched_at.load(Ordering::Relaxed) != retired.0
    }

    /// Forgets some closed inodes of which the log holds nothing above `retired`; their leases are to be given
    /// back. The gate is closed: nobody else uses the cache.
    pub(crate) fn forget_some(&self, retired: LogPosition) -> Vec<InodeNumber> {
        let mut inodes = self.inodes.write();
        let mut order = self.order.lock();
        let mut forgotten = Vec::new();
        for _ in 0..LOOK_MAX.min(order.len()) {
            let Some(number) = order.pop_front() else { break };
            let Some(inode) = inodes.get(&number) else { continue };
            let unused = Arc::strong_count(inode) == 1
                && inode.opens.load(Ordering::Acquire) == 0
                && inode.locks.lock().is_empty()
                && number != InodeNumber::ROOT;
            let state = inode.state.read();
            let (leased, clean) = (state.lease.is_some(), state.logged <= retired);
            drop(state);
            if unused && clean {
                inodes.remove(&number);
                if leased {
                    forgotten.push(number);
                }
                if forgotten.len() >= FORGET_BATCH {
                    break;
                }
            } else {
                order.push_back(number);
            }
        }
        self.count.store(inodes.len(), Ordering::Relaxed);
        let all_looked_at = forgotten.len() < FORGET_BATCH;
        self.searched_at.store(if all_looked_at { retired.0 } else { u64::MAX }, Ordering::Relaxed);
        forgotten
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inode::Content;
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
        assert_eq!(cache.forget_some(LogPosition(64)), vec![InodeNumber(5)]);
        assert!(cache.get(InodeNumber(5)).is_none());
        drop(held);
        assert_eq!(cache.forget_some(LogPosition(640)).len(), 2);
    }
}
