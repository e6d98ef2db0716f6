//! Record locks and whole-file locks of one inode: who holds what, and who conflicts. No waiting here.

use std::ops::Range;

/// Who holds a record lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockOwner {
    /// The process (`F_SETLK`): given up when it closes any descriptor of the file.
    Process,
    /// The open file description (`F_OFD_SETLK`): given up when it is closed.
    File,
}

/// What is asked of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// Shared.
    Read,
    /// Exclusive.
    Write,
    /// Gives it up.
    Unlock,
}

/// A lock that is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldLock {
    /// Shared or exclusive.
    pub kind: LockKind,
    /// First byte.
    pub start: u64,
    /// Behind the last byte; `u64::MAX` to the end of the file, wherever that is.
    pub end: u64,
    /// The process holds it, not an open file.
    pub by_process: bool,
}

/// The owner in the table: an open file's number, or the process.
pub(crate) type OwnerNumber = u64;

/// The process as an owner.
pub(crate) const PROCESS: OwnerNumber = 0;

#[derive(Clone, Copy, Debug)]
struct Record {
    owner: OwnerNumber,
    kind: LockKind,
    start: u64,
    end: u64,
}

/// Every lock on one inode.
#[derive(Debug, Default)]
pub(crate) struct LockTable {
    records: Vec<Record>,
    whole: Vec<(OwnerNumber, LockKind)>,
}

impl LockTable {
    /// A lock of another owner that keeps `kind` on `range` from being granted.
    pub(crate) fn conflict(
        &self,
        owner: OwnerNumber,
        kind: LockKind,
        range: &Range<u64>,
    ) -> Option<HeldLock> {
        self.records
            .iter()
            .filter(|held| held.owner != owner && held.start < range.end && range.start < held.end)
            .filter(|held| kind == LockKind::Write || held.kind == LockKind::Write)
            .filter(|_| kind != LockKind::Unlock)
            .min_by_key(|held| held.start)
            .map(|held| HeldLock {
                kind: held.kind,
                start: held.start,
                end: held.end,
                by_process: held.owner == PROCESS,
            })
    }

    /// Sets, changes or gives up the owner's locks on `range`; nothing conflicts. Whether anything was given up.
    pub(crate) fn set(&mut self, owner: OwnerNumber, kind: LockKind, range: Range<u64>) -> bool {
        let mut weakened = false;
        let mut rests = Vec::new();
        self.records.retain(|held| {
            if held.owner != owner || held.end <= range.start || range.end <= held.start {
                return true;
            }
            weakened |= kind != LockKind::Write && held.kind != kind;
            if held.start < range.start {
                rests.push(Record { end: range.start, ..*held });
            }
            if range.end < held.end {
                rests.push(Record { start: range.end, ..*held });
            }
            false
        });
        self.records.append(&mut rests);
        if kind != LockKind::Unlock {
            self.records.push(Record { owner, kind, start: range.start, end: range.end });
            self.join(owner);
        }
        weakened
    }

    /// Joins the owner's neighbouring locks of one kind, as `F_GETLK` shows them.
    fn join(&mut self, owner: OwnerNumber) {
        self.records.sort_by_key(|held| (held.owner, held.start));
        self.records.dedup_by(|next, held| {
            let joins = held.owner == owner
                && next.owner == owner
                && held.kind == next.kind
                && held.end == next.start;
            if joins {
                held.end = next.end;
            }
            joins
        });
    }

    /// Whether another open file keeps `kind` on the whole file from being granted (`flock`).
    pub(crate) fn whole_conflicts(&self, owner: OwnerNumber, kind: LockKind) -> bool {
        self.whole
            .iter()
            .any(|&(other, held)| other != owner && (kind == LockKind::Write || held == LockKind::Write))
    }

    /// Sets, changes or gives up the open file's lock on the whole file. Whether anything was given up.
    pub(crate) fn set_whole(&mut self, owner: OwnerNumber, kind: LockKind) -> bool {
        let before = self.whole.len();
        let was_write = self.whole.contains(&(owner, LockKind::Write));
        self.whole.retain(|&(other, _)| other != owner);
        let had = self.whole.len() != before;
        if kind != LockKind::Unlock {
            self.whole.push((owner, kind));
        }
        had && (kind == LockKind::Unlock || was_write)
    }

    /// Gives up what the open file holds of another kind than `kind`. Whether there was anything.
    pub(crate) fn drop_whole_of_other_kind(&mut self, owner: OwnerNumber, kind: LockKind) -> bool {
        let before = self.whole.len();
        self.whole.retain(|&(other, held)| other != owner || held == kind);
        before != self.whole.len()
    }

    /// Gives up everything an owner holds. Whether there was anything.
    pub(crate) fn drop_owner(&mut self, owner: OwnerNumber) -> bool {
        let before = self.records.len() + self.whole.len();
        self.records.retain(|held| held.owner != owner);
        self.whole.retain(|&(other, _)| other != owner);
        before != self.records.len() + self.whole.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty() && self.whole.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn readers_share_and_writers_do_not() {
        let mut table = LockTable::default();
        table.set(1, LockKind::Read, 0..10);
        assert!(table.conflict(2, LockKind::Read, &(5..6)).is_none());
        let held = table.conflict(2, LockKind::Write, &(5..6)).unwrap();
        assert_eq!((held.start, held.end, held.by_process), (0, 10, false));
        assert!(table.conflict(1, LockKind::Write, &(5..6)).is_none());
        table.set_whole(7, LockKind::Read);
        assert!(!table.whole_conflicts(8, LockKind::Read));
        assert!(table.whole_conflicts(8, LockKind::Write));
        assert!(table.set_whole(7, LockKind::Unlock));
        assert!(table.drop_owner(1));
        assert!(table.is_empty());
    }

    proptest! {
        #[test]
        fn it_agrees_with_a_byte_array(
            steps in prop::collection::vec((0u64..3, 0u8..3, 0u64..20, 1u64..12), 0..60),
        ) {
            let mut model = [[0u8; 3]; 40];
            let mut table = LockTable::default();
            for (owner, kind, start, len) in steps {
                let range = start..start + len;
                let kind = [LockKind::Unlock, LockKind::Read, LockKind::Write][kind as usize];
                let code = match kind { LockKind::Unlock => 0, LockKind::Read => 1, LockKind::Write => 2 };
                let blocked = code != 0 && range.clone().any(|byte| {
                    (0..3).any(|other| other != owner && {
                        let held = model[byte as usize][other as usize];
                        held != 0 && (held == 2 || code == 2)
                    })
                });
                prop_assert_eq!(table.conflict(owner, kind, &range).is_some(), blocked);
                if !blocked {
                    table.set(owner, kind, range.clone());
                    for byte in range {
                        model[byte as usize][owner as usize] = code;
                    }
                }
            }
        }
    }
}
