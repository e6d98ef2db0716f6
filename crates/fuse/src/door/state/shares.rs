//! How much of the mount's process each of its users may have by locks: descriptors of lock files, and threads that wait.
//!
//! The mount's own user and root are counted and refused nothing. What other users may have together ends at half of the
//! descriptors, and at a number of threads that any machine has.

use hashbrown::HashMap;
use parking_lot::Mutex;
use rustix::process::{Resource, geteuid, getrlimit};
use std::sync::Arc;

/// What locks make the process hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::door) enum Kind {
    /// A descriptor of a lock file.
    LockFile,
    /// A thread that waits for a lock.
    Wait,
}

/// Threads that wait for one user.
const WAITS_OF_USER: u64 = 256;
/// What all other users may have, in what one of them may.
const USERS: u64 = 4;
/// Of the descriptors one other user may have one in so many.
const SHARE_OF_DESCRIPTORS: u64 = 8;

impl Kind {
    /// The most that one user may have.
    fn of_user(self) -> u64 {
        match self {
            Kind::LockFile => getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX) / SHARE_OF_DESCRIPTORS,
            Kind::Wait => WAITS_OF_USER,
        }
    }
}

#[derive(Debug, Default)]
struct Counts {
    of_user: HashMap<(u32, Kind), u64>,
    of_others: HashMap<Kind, u64>,
}

/// What all of them have.
#[derive(Debug, Default)]
pub(in crate::door) struct Shares(Arc<Mutex<Counts>>);

/// A share of a user, until it is dropped.
#[derive(Debug)]
pub(in crate::door) struct Share {
    counts: Arc<Mutex<Counts>>,
    user: u32,
    kind: Kind,
}

fn is_trusted(user: u32) -> bool {
    user == 0 || user == geteuid().as_raw()
}

impl Shares {
    /// Takes one for a user; `None`: it has enough.
    pub(in crate::door) fn take(&self, user: u32, kind: Kind) -> Option<Share> {
        let mut counts = self.0.lock();
        if !is_trusted(user) {
            let of_user = counts.of_user.get(&(user, kind)).copied().unwrap_or(0);
            let of_others = counts.of_others.get(&kind).copied().unwrap_or(0);
            if of_user >= kind.of_user() || of_others >= USERS * kind.of_user() {
                return None;
            }
            *counts.of_others.entry(kind).or_default() += 1;
        }
        *counts.of_user.entry((user, kind)).or_default() += 1;
        Some(Share { counts: Arc::clone(&self.0), user, kind })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut counts = self.counts.lock();
        if !is_trusted(self.user) {
            *counts.of_others.entry(self.kind).or_default() -= 1;
        }
        let key = (self.user, self.kind);
        let left = counts.of_user.get_mut(&key).map_or(0, |count| {
            *count -= 1;
            *count
        });
        if left == 0 {
            counts.of_user.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_s_waits_leave_some_for_others_and_all_for_the_owner() {
        let shares = Shares::default();
        let all_of = |user| -> Vec<Share> {
            let take = |_| shares.take(user, Kind::Wait);
            (0..10 * WAITS_OF_USER).map_while(take).collect()
        };
        let of_one = all_of(65_001);
        assert_eq!(of_one.len() as u64, WAITS_OF_USER);
        let others: Vec<Vec<Share>> = (65_002..65_010).map(all_of).collect();
        assert_eq!(others.iter().flatten().count() as u64, (USERS - 1) * WAITS_OF_USER);
        assert_eq!(all_of(geteuid().as_raw()).len() as u64, 10 * WAITS_OF_USER);
        drop(of_one);
        assert!(shares.take(65_011, Kind::Wait).is_some());
        assert!(shares.take(65_011, Kind::LockFile).is_some());
        drop(others);
        assert!(shares.0.lock().of_user.is_empty());
    }
}
