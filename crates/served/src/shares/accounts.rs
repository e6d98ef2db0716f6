//! How much of the daemon each user has: the mechanism. How much each may have is in [`crate::shares::limits`].
//!
//! Whatever a user makes the daemon hold is a [`Share`] of a resource, which counts for the user as long as it lives.

use super::limits::Limits;
use super::resource::{RESOURCES, Resource};
use cuesta_libfs::Credentials;
use parking_lot::{Condvar, Mutex};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

/// For whom something is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) user: u32,
    /// The store's own user, or root: counted, and refused nothing.
    pub(crate) is_trusted: bool,
}

impl Holder {
    /// For whom the shares of a process count.
    pub(crate) fn of(who: &Credentials) -> Holder {
        let is_trusted = who.uid == 0 || who.uid == rustix::process::geteuid().as_raw();
        Holder { user: who.uid, is_trusted }
    }
}

#[derive(Debug, Default)]
struct Counts {
    of_user: HashMap<(u32, Resource), u64>,
    /// Of all users but the store's own and root.
    of_others: [u64; RESOURCES],
}

/// What all users have.
#[derive(Debug)]
pub(crate) struct Accounts {
    limits: Limits,
    counts: Mutex<Counts>,
    given_back: Condvar,
}

/// A part of a resource that a user has.
#[derive(Debug)]
pub(crate) struct Share {
    accounts: Arc<Accounts>,
    holder: Holder,
    resource: Resource,
    amount: u64,
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut counts = self.accounts.counts.lock();
        if !self.holder.is_trusted {
            counts.of_others[self.resource as usize] -= self.amount;
        }
        let key = (self.holder.user, self.resource);
        if let Some(count) = counts.of_user.get_mut(&key) {
            *count -= self.amount;
            if *count == 0 {
                counts.of_user.remove(&key);
            }
        }
        drop(counts);
        if self.resource == Resource::MessageBytes {
            self.accounts.given_back.notify_all();
        }
    }
}

impl Accounts {
    pub(crate) fn new(limits: Limits) -> Arc<Accounts> {
        Arc::new(Accounts { limits, counts: Mutex::default(), given_back: Condvar::new() })
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Takes `amount` of a resource for a user; `None`: there is too little left for that user.
    pub(crate) fn take(self: &Arc<Self>, holder: Holder, resource: Resource, amount: u64) -> Option<Share> {
        self.take_locked(&mut self.counts.lock(), holder, resource, amount)
    }

    /// Takes `amount` of a resource, and waits for it until `deadline`.
    pub(crate) fn wait_for(
        self: &Arc<Self>,
        holder: Holder,
        resource: Resource,
        amount: u64,
        deadline: Instant,
    ) -> Option<Share> {
        let mut counts = self.counts.lock();
        loop {
            let taken = self.take_locked(&mut counts, holder, resource, amount);
            if taken.is_some() || self.given_back.wait_until(&mut counts, deadline).timed_out() {
                return taken;
            }
        }
    }

    fn take_locked(
        self: &Arc<Self>,
        counts: &mut Counts,
        holder: Holder,
        resource: Resource,
        amount: u64,
    ) -> Option<Share> {
        let key = (holder.user, resource);
        let of_user = counts.of_user.get(&key).copied().unwrap_or(0).saturating_add(amount);
        if !holder.is_trusted {
            let of_others = counts.of_others[resource as usize].saturating_add(amount);
            if of_user > self.limits.of_user(resource) || of_others > self.limits.of_all(resource) {
                return None;
            }
            counts.of_others[resource as usize] = of_others;
        }
        counts.of_user.insert(key, of_user);
        Some(Share { accounts: Arc::clone(self), holder, resource, amount })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const ONE: Holder = Holder { user: 1, is_trusted: false };
    const OTHER: Holder = Holder { user: 2, is_trusted: false };
    const OWNER: Holder = Holder { user: 3, is_trusted: true };

    #[test]
    fn a_user_gets_its_own_limit_and_the_owner_what_there_is() {
        let limits = Limits { files_of_user: 3, files: 4, ..Limits::default() };
        let accounts = Accounts::new(limits);
        let take = |holder| accounts.take(holder, Resource::Files, 1);
        let of_one: Vec<Share> = (0..10).map_while(|_| take(ONE)).collect();
        assert_eq!(of_one.len(), 3);
        let of_other: Vec<Share> = (0..10).map_while(|_| take(OTHER)).collect();
        assert_eq!(of_other.len(), 1, "all other users together");
        let of_owner: Vec<Share> = (0..10).map_while(|_| take(OWNER)).collect();
        assert_eq!(of_owner.len(), 10);
        drop(of_one);
        assert!(take(OTHER).is_some() && take(ONE).is_some());
        drop((of_other, of_owner));
        assert!(accounts.counts.lock().of_user.is_empty());
    }

    #[test]
    fn a_message_waits_for_the_bytes_of_those_before_it() {
        let limits = Limits { message_bytes_of_user: 10, ..Limits::default() };
        let accounts = Accounts::new(limits);
        let wait = |amount, deadline| accounts.wait_for(ONE, Resource::MessageBytes, amount, deadline);
        let far = Instant::now() + Duration::from_secs(60);
        let first = wait(8, far).unwrap();
        assert!(wait(3, Instant::now()).is_none());
        std::thread::scope(|scope| {
            let second = scope.spawn(|| wait(3, far).is_some());
            drop(first);
            assert!(second.join().unwrap());
        });
    }
}
