//! The owners of record locks by this mount, and the graph of waiting owners: the kernel has these for locks of processes, and not for
//! those of open file descriptions, which ours are.
//!
//! A wait that would close a circle (a deadlock) is not begun (`EDEADLK`), as on any file system: each owner in it waits for a lock that the next
//! one has. A lock that was granted closes one, too, where several threads of an owner wait. Locks of open file descriptions
//! (`F_OFD_SETLKW`) are in no circle: another thread may give them up. Of which kind a request is stands in it, found before
//! ([`super::kinds`]): nothing is asked for with the table locked, which every close takes.
//!
//! What stands here is what the kernel has: locks are set and given up with the table locked. One that was waited for is noted a
//! moment after the kernel granted it, and set once more then, for it may be gone again; until then no lock seems to be in its way.
//!
//! While a request of an owner's is under way its description stays, though its locks go: the request may be granted on it.

use super::kinds::Kind;
use super::lock_file::LockFile;
use super::range::Range;
use cuesta_format::InodeNumber;
use hashbrown::{HashMap, HashSet};
use std::sync::Arc;

/// An owner of record locks, in one inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::door) struct Owner {
    pub inode: InodeNumber,
    pub owner: u64,
}

/// What an owner has them on.
#[derive(Debug)]
pub(in crate::door) struct OwnerLocks {
    pub file: Arc<LockFile>,
    /// The process that set the last one,
    pub pid: u32,
    /// by way of this open file. Locks of an open file description have no other end than its.
    pub handle: u64,
    /// Those that were granted.
    pub ranges: Vec<Range>,
    /// Requests that are under way on it.
    pub users: usize,
    /// The owner closed the file meanwhile: it goes with the last of them if they leave no lock.
    pub is_closed: bool,
}

/// A request that waits.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    owner: Owner,
    range: Range,
    kind: Kind,
    /// It closes a circle.
    is_refused: bool,
}

/// All of that, for one mount.
#[derive(Default)]
pub(in crate::door) struct Records {
    pub owners: HashMap<Owner, OwnerLocks>,
    waiting: HashMap<u64, Waiting>,
}

impl Records {
    /// The owner has a lock on the range, and no other one on any of it any more. It is one with those beside it, so that who
    /// locks byte after byte has one.
    pub(in crate::door) fn grant(&mut self, owner: Owner, range: Range) {
        self.give_up(owner, range);
        let Some(held) = self.owners.get_mut(&owner) else { return };
        let mut whole = range;
        held.ranges.retain(|one| {
            let is_beside = one.is_exclusive == range.is_exclusive && one.is_beside(&range);
            if is_beside {
                whole.first = whole.first.min(one.first);
                whole.last = whole.last.max(one.last);
            }
            !is_beside
        });
        held.ranges.push(whole);
    }

    /// The owner has no lock on any of the range any more.
    pub(in crate::door) fn give_up(&mut self, owner: Owner, range: Range) {
        if let Some(held) = self.owners.get_mut(&owner) {
            held.ranges = held.ranges.iter().flat_map(|one| one.without(&range)).collect();
        }
    }

    /// The process of this mount whose lock the kernel has found, from `first` to `last`; 0: it is not of this mount. The
    /// kernel does not say whose description a lock is on.
    pub(in crate::door) fn holder(&self, asking: Owner, first: u64, last: u64, kind: i32) -> u32 {
        let found = Range { first, last, is_exclusive: kind == libc::F_WRLCK };
        let others = self.owners.iter().filter(|(owner, _)| owner.inode == asking.inode && **owner != asking);
        let holders = others.filter_map(|(_, held)| {
            let is_same = held.ranges.contains(&found);
            let has_it = |range: &Range| range.overlaps(&found) && range.is_exclusive == found.is_exclusive;
            (is_same || held.ranges.iter().any(has_it)).then_some((is_same, held.pid))
        });
        holders.max_by_key(|(is_same, _)| *is_same).map_or(0, |(_, pid)| pid)
    }

    /// A request on the owner's description is over.
    pub(in crate::door) fn end_use(&mut self, owner: Owner, file: &Arc<LockFile>) {
        let Some(held) = self.owners.get_mut(&owner).filter(|held| Arc::ptr_eq(&held.file, file)) else {
            return;
        };
        held.users -= 1;
        if held.users == 0 && held.is_closed && held.ranges.is_empty() {
            self.owners.remove(&owner);
        }
    }

    /// The owner's locks go, and its description as soon as no request uses it. `unlock` has the kernel forget them.
    pub(in crate::door) fn let_go(&mut self, owner: Owner, unlock: impl FnOnce(&LockFile)) {
        let Some(held) = self.owners.get_mut(&owner) else { return };
        unlock(&held.file);
        held.ranges.clear();
        held.is_closed = true;
        if held.users == 0 {
            self.owners.remove(&owner);
        }
    }

    /// A request is to wait; says whether it may.
    pub(in crate::door) fn begin_wait(
        &mut self,
        request: u64,
        owner: Owner,
        range: Range,
        kind: Kind,
    ) -> bool {
        let waiting = Waiting { owner, range, kind, is_refused: false };
        if self.closes_circle(&waiting) {
            return false;
        }
        self.waiting.insert(request, waiting);
        true
    }

    /// It does not wait any more. Says whether it was refused meanwhile.
    pub(in crate::door) fn end_wait(&mut self, request: u64) -> bool {
        self.waiting.remove(&request).is_some_and(|waiting| waiting.is_refused)
    }

    /// Requests whose wait closes a circle since a lock was granted to the owner; they are refused from now on.
    pub(in crate::door) fn refuse_circles(&mut self, granted: Owner) -> Vec<u64> {
        let refused = self.circles_with(granted);
        for request in &refused {
            if let Some(waiting) = self.waiting.get_mut(request) {
                waiting.is_refused = true;
            }
        }
        refused
    }

    fn circles_with(&self, granted: Owner) -> Vec<u64> {
        // It waits with another thread, or is in no circle.
        if !self.waiting.values().any(|waiting| waiting.owner.owner == granted.owner) {
            return Vec::new();
        }
        let of_inode = |waiting: &Waiting| {
            waiting.owner.inode == granted.inode && waiting.owner != granted && !waiting.is_refused
        };
        let asked = self.waiting.iter().filter(|(_, waiting)| of_inode(waiting));
        let closing = asked.filter(|(_, waiting)| self.closes_circle(waiting));
        closing.map(|(request, _)| *request).collect()
    }

    /// Whether an owner that `new` would wait for waits, by way of others perhaps, for `new`'s owner.
    fn closes_circle(&self, new: &Waiting) -> bool {
        if new.kind != Kind::Process {
            return false;
        }
        let (mut seen, mut left) = (HashSet::new(), vec![*new]);
        while let Some(waiting) = left.pop() {
            for (owner, held) in &self.owners {
                let is_waited_for = owner.inode == waiting.owner.inode
                    && owner.owner != waiting.owner.owner
                    && held.ranges.iter().any(|range| range.is_in_the_way_of(&waiting.range));
                if !is_waited_for {
                    continue;
                }
                if owner.owner == new.owner.owner {
                    return true;
                }
                if seen.insert(owner.owner) {
                    let next = self.waiting.values().filter(|other| other.owner.owner == owner.owner);
                    left.extend(next.filter(|other| !other.is_refused && other.kind == Kind::Process));
                }
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: Range = Range { first: 0, last: 9, is_exclusive: true };

    fn at(inode: u64, owner: u64) -> Owner {
        Owner { inode: InodeNumber(inode), owner }
    }

    fn with(holders: &[(Owner, Range)]) -> Records {
        let mut records = Records::default();
        for (owner, range) in holders {
            let file = rustix::fd::OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
            let file = Arc::new(LockFile::from(file));
            let held = OwnerLocks { file, pid: 0, handle: 0, ranges: Vec::new(), users: 0, is_closed: false };
            records.owners.entry(*owner).or_insert(held);
            records.grant(*owner, *range);
        }
        records
    }

    /// Owners from 100 on are open file descriptions here.
    fn wait(records: &mut Records, owner: Owner, range: Range) -> bool {
        let kind = if owner.owner < 100 { Kind::Process } else { Kind::Other };
        !records.begin_wait(records.waiting.len() as u64, owner, range, kind)
    }

    #[test]
    fn a_wait_that_closes_a_circle_is_seen_whatever_its_length() {
        let mut records = with(&[(at(1, 1), WHOLE), (at(2, 2), WHOLE), (at(3, 3), WHOLE)]);
        assert!(!wait(&mut records, at(2, 1), WHOLE));
        assert!(!wait(&mut records, at(3, 2), WHOLE));
        // Nobody waits for it.
        assert!(!wait(&mut records, at(3, 4), WHOLE));
        assert!(wait(&mut records, at(1, 3), WHOLE));
        // Nobody is in its way.
        assert!(!wait(&mut records, at(1, 3), Range { first: 10, last: 20, is_exclusive: true }));
    }

    /// Two threads of owner 2 wait, and one of them is granted what another owner waits for as well, for which the other waits.
    #[test]
    fn a_lock_that_is_granted_closes_a_circle() {
        let mut records = with(&[(at(1, 1), WHOLE), (at(2, 3), WHOLE), (at(1, 2), WHOLE)]);
        records.give_up(at(1, 2), WHOLE);
        assert!(!wait(&mut records, at(2, 2), WHOLE) && !wait(&mut records, at(1, 3), WHOLE));
        assert_eq!(records.circles_with(at(1, 1)), [0; 0]);
        records.give_up(at(1, 1), WHOLE);
        records.grant(at(1, 2), WHOLE);
        assert_eq!(records.circles_with(at(1, 2)), [1]);
        records.waiting.get_mut(&0).unwrap().kind = Kind::Other;
        assert_eq!(records.circles_with(at(1, 2)), [0; 0]);
    }

    #[test]
    fn readers_are_not_in_the_way_of_readers() {
        let shared = Range { is_exclusive: false, ..WHOLE };
        let mut records = with(&[(at(1, 1), shared), (at(2, 2), WHOLE)]);
        assert!(!wait(&mut records, at(2, 1), shared));
        assert!(!wait(&mut records, at(1, 2), shared));
        assert!(wait(&mut records, at(1, 2), WHOLE));
    }

    #[test]
    fn a_waiter_for_a_lock_of_an_open_file_description_is_in_no_circle() {
        let mut records = with(&[(at(1, 1), WHOLE), (at(2, 100), WHOLE)]);
        assert!(!wait(&mut records, at(1, 100), WHOLE));
        assert!(!wait(&mut records, at(2, 1), WHOLE));
        assert!(!wait(&mut records, at(1, 100), WHOLE));
    }

    #[test]
    fn what_is_given_up_or_set_anew_in_the_middle_leaves_both_ends() {
        let mut records = with(&[(at(1, 1), WHOLE)]);
        records.give_up(at(1, 1), Range { first: 3, last: 4, is_exclusive: false });
        let ranges = |records: &Records| {
            let mut found = records.owners[&at(1, 1)].ranges.clone();
            found.sort_by_key(|range| range.first);
            found.iter().map(|range| (range.first, range.last, range.is_exclusive)).collect::<Vec<_>>()
        };
        assert_eq!(ranges(&records), [(0, 2, true), (5, 9, true)]);
        records.grant(at(1, 1), Range { first: 2, last: 5, is_exclusive: false });
        assert_eq!(ranges(&records), [(0, 1, true), (2, 5, false), (6, 9, true)]);
        records.give_up(at(1, 1), Range { first: 0, last: u64::MAX, is_exclusive: false });
        assert_eq!(ranges(&records), []);
    }

    #[test]
    fn locks_of_byte_after_byte_are_one_lock() {
        let byte = |byte, is_exclusive| Range { first: byte, last: byte, is_exclusive };
        let mut records = with(&[(at(1, 1), byte(0, true))]);
        for number in (2..1000).step_by(2).chain((1..1000).step_by(2)) {
            records.grant(at(1, 1), byte(number, true));
        }
        records.grant(at(1, 1), byte(1000, false));
        records.grant(at(1, 1), byte(u64::MAX, true));
        let found = &records.owners[&at(1, 1)].ranges;
        assert_eq!(found.len(), 3);
        assert!(found.contains(&Range { first: 0, last: 999, is_exclusive: true }), "{found:?}");
    }
}
