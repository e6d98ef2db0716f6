//! Who has which record locks by this mount, and who waits for whom: what the kernel knows of the locks of processes, and not of
//! those of open file descriptions, which ours are.
//!
//! A wait that would close a circle is not begun (`EDEADLK`), as on any file system: whoever is in it waits for a lock that the next
//! one has. A lock that was granted closes one, too, where several threads of an owner wait. Locks of open file descriptions
//! (`F_OFD_SETLKW`) are in no circle: another thread may give them up. The request does not tell which kind it is; the
//! kernel tells with which arguments its thread came in.
//!
//! What stands here is what the kernel has: locks are set and given up with the table locked. One that was waited for is noted a
//! moment after the kernel granted it; until then nobody seems to be in its way.

use cuesta_format::InodeNumber;
use hashbrown::{HashMap, HashSet};
use rustix::fd::OwnedFd;
use std::sync::Arc;

/// Who has record locks, in one inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Owner {
    pub inode: InodeNumber,
    pub owner: u64,
}

/// Bytes that a lock is on, or is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub first: u64,
    pub last: u64,
    pub is_exclusive: bool,
}

impl Range {
    fn overlaps(&self, other: &Range) -> bool {
        self.first <= other.last && other.first <= self.last
    }

    fn is_in_the_way_of(&self, other: &Range) -> bool {
        self.overlaps(other) && (self.is_exclusive || other.is_exclusive)
    }

    /// What is left of it when `other`'s bytes are taken out.
    fn without(self, other: &Range) -> impl Iterator<Item = Range> {
        let before =
            (self.first < other.first).then(|| Range { last: self.last.min(other.first - 1), ..self });
        let behind =
            (self.last > other.last).then(|| Range { first: self.first.max(other.last + 1), ..self });
        before.into_iter().chain(behind)
    }
}

/// What an owner has them on.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub file: Arc<OwnedFd>,
    /// The process that set the last one,
    pub pid: u32,
    /// by way of this open file. Locks of an open file description have no other end than its.
    pub handle: u64,
    /// Those that were granted.
    pub ranges: Vec<Range>,
}

/// A request that waits.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    owner: Owner,
    range: Range,
    /// The thread that made it, as this process sees it.
    thread: u32,
    /// It closes a circle.
    is_refused: bool,
}

/// All of that, for one mount.
#[derive(Default)]
pub(super) struct Records {
    pub owners: HashMap<Owner, Held>,
    waiting: HashMap<u64, Waiting>,
}

impl Records {
    /// The owner has a lock on the range, and no other one on any of it any more.
    pub(super) fn grant(&mut self, owner: Owner, range: Range) {
        self.give_up(owner, range);
        if let Some(held) = self.owners.get_mut(&owner) {
            held.ranges.push(range);
        }
    }

    /// The owner has no lock on any of the range any more.
    pub(super) fn give_up(&mut self, owner: Owner, range: Range) {
        if let Some(held) = self.owners.get_mut(&owner) {
            held.ranges = held.ranges.iter().flat_map(|one| one.without(&range)).collect();
        }
    }

    /// A request is to wait; says whether it may.
    pub(super) fn begin_wait(&mut self, request: u64, owner: Owner, range: Range, thread: u32) -> bool {
        let waiting = Waiting { owner, range, thread, is_refused: false };
        if self.closes_circle(&waiting, is_of_process) {
            return false;
        }
        self.waiting.insert(request, waiting);
        true
    }

    /// It does not wait any more. Says whether it was refused meanwhile.
    pub(super) fn end_wait(&mut self, request: u64) -> bool {
        self.waiting.remove(&request).is_some_and(|waiting| waiting.is_refused)
    }

    /// Requests whose wait closes a circle since a lock was granted to the owner; they are refused from now on.
    pub(super) fn refuse_circles(&mut self, granted: Owner) -> Vec<u64> {
        let refused = self.circles_with(granted, is_of_process);
        for request in &refused {
            if let Some(waiting) = self.waiting.get_mut(request) {
                waiting.is_refused = true;
            }
        }
        refused
    }

    fn circles_with(&self, granted: Owner, is_of_process: impl Fn(u32) -> bool) -> Vec<u64> {
        // It waits with another thread, or is in no circle.
        if !self.waiting.values().any(|waiting| waiting.owner.owner == granted.owner) {
            return Vec::new();
        }
        let of_inode = |waiting: &Waiting| {
            waiting.owner.inode == granted.inode && waiting.owner != granted && !waiting.is_refused
        };
        let asked = self.waiting.iter().filter(|(_, waiting)| of_inode(waiting));
        let closing = asked.filter(|(_, waiting)| self.closes_circle(waiting, &is_of_process));
        closing.map(|(request, _)| *request).collect()
    }

    /// Whether somebody `new` would wait for waits, by way of others perhaps, for its owner. `is_of_process` says of a thread that
    /// waits whether that is for a lock of its process.
    fn closes_circle(&self, new: &Waiting, is_of_process: impl Fn(u32) -> bool) -> bool {
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
                    return is_of_process(new.thread);
                }
                if seen.insert(owner.owner) {
                    let next = self.waiting.values().filter(|other| other.owner.owner == owner.owner);
                    left.extend(next.filter(|other| !other.is_refused && is_of_process(other.thread)));
                }
            }
        }
        false
    }
}

/// Whether a thread that is in the call waits for a lock of its process, as far as the kernel tells that. It stays there until it
/// is answered.
fn is_of_process(thread: u32) -> bool {
    // Number and arguments of the system call: 72 0x3 0x7 0x7ffd5a3c7d90 …
    let Ok(call) = std::fs::read_to_string(format!("/proc/{thread}/syscall")) else { return false };
    let command = call.split_ascii_whitespace().nth(2).and_then(|word| word.strip_prefix("0x"));
    let command = command.and_then(|word| i32::from_str_radix(word, 16).ok());
    command.is_some_and(|command| command != libc::F_OFD_SETLKW)
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
            let file = Arc::new(OwnedFd::from(std::fs::File::open("/dev/null").unwrap()));
            let held = Held { file, pid: 0, handle: 0, ranges: Vec::new() };
            records.owners.entry(*owner).or_insert(held);
            records.grant(*owner, *range);
        }
        records
    }

    fn wait(records: &mut Records, owner: Owner, range: Range) -> bool {
        let request = records.waiting.len() as u64;
        let waiting = Waiting { owner, range, thread: owner.owner as u32, is_refused: false };
        let closes = records.closes_circle(&waiting, |thread| thread < 100);
        if !closes {
            records.waiting.insert(request, waiting);
        }
        closes
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
        assert_eq!(records.circles_with(at(1, 1), |_| true), [0; 0]);
        records.give_up(at(1, 1), WHOLE);
        records.grant(at(1, 2), WHOLE);
        assert_eq!(records.circles_with(at(1, 2), |_| false), [0; 0]);
        assert_eq!(records.circles_with(at(1, 2), |_| true), [1]);
    }

    #[test]
    fn readers_are_not_in_the_way_of_readers() {
        let shared = Range { is_exclusive: false, ..WHOLE };
        let mut records = with(&[(at(1, 1), shared), (at(2, 2), WHOLE)]);
        assert!(!wait(&mut records, at(2, 1), shared));
        assert!(!wait(&mut records, at(1, 2), shared));
        assert!(wait(&mut records, at(1, 2), WHOLE));
    }

    /// Owners from 100 on are open file descriptions here.
    #[test]
    fn who_waits_for_a_lock_of_an_open_file_description_is_in_no_circle() {
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
}
