//! What users do wrong, told in the log so that it stays short: a few lines at once of each kind and user, then one now and
//! then, with how many were left out.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Lines of one kind about one user before some are left out.
const AT_ONCE: u32 = 5;
/// One more line after so long.
const PAUSE: Duration = Duration::from_secs(60);
/// Kinds and users that are told apart; those that come when there are so many are told of as one.
const TOLD_APART_MAX: usize = 1024;

/// The kind of complaint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Complaint {
    /// The bytes that came are no message, or came too late.
    Message,
    /// The user has too many connections.
    Connections,
    /// A connection could not be served.
    Service,
}

#[derive(Clone, Copy, Debug)]
struct Told {
    lines: u32,
    last: Instant,
    left_out: u64,
}

/// The complaints that were told.
#[derive(Debug, Default)]
pub(crate) struct Complaints(Mutex<HashMap<(Complaint, Option<u32>), Told>>);

impl Complaints {
    /// Whether one more line is written about a user, and how many were left out before it.
    pub(crate) fn is_told(&self, complaint: Complaint, user: u32) -> Option<u64> {
        self.is_told_at(complaint, user, Instant::now())
    }

    fn is_told_at(&self, complaint: Complaint, user: u32, now: Instant) -> Option<u64> {
        let mut all = self.0.lock();
        if all.len() >= TOLD_APART_MAX && !all.contains_key(&(complaint, Some(user))) {
            all.retain(|_, told| told.left_out > 0 || now.duration_since(told.last) < PAUSE);
        }
        let has_room = all.len() < TOLD_APART_MAX || all.contains_key(&(complaint, Some(user)));
        let told = all.entry((complaint, has_room.then_some(user))).or_insert(Told {
            lines: 0,
            last: now,
            left_out: 0,
        });
        let pauses = now.duration_since(told.last).as_secs() / PAUSE.as_secs();
        told.lines = told.lines.saturating_sub(u32::try_from(pauses).unwrap_or(u32::MAX));
        if told.lines == AT_ONCE {
            told.left_out += 1;
            return None;
        }
        told.lines += 1;
        told.last = now;
        Some(std::mem::take(&mut told.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_user_and_kind_are_few_and_say_how_many_were_left_out() {
        let complaints = Complaints::default();
        let now = Instant::now();
        let tell = |user, now| complaints.is_told_at(Complaint::Message, user, now);
        let told = (0..1000).filter_map(|_| tell(1, now)).count();
        assert_eq!(told, AT_ONCE as usize);
        assert_eq!(tell(2, now), Some(0), "another user");
        assert_eq!(complaints.is_told_at(Complaint::Connections, 1, now), Some(0), "another kind");
        assert_eq!(tell(1, now + PAUSE), Some(1000 - u64::from(AT_ONCE)));
        assert_eq!(tell(1, now + PAUSE), None);
    }

    #[test]
    fn many_users_take_no_more_memory_and_lines_than_some() {
        let complaints = Complaints::default();
        let now = Instant::now();
        let told = (0..100_000).filter_map(|user| complaints.is_told_at(Complaint::Message, user, now));
        assert!(told.count() <= TOLD_APART_MAX + AT_ONCE as usize);
        assert!(complaints.0.lock().len() <= TOLD_APART_MAX + 1);
    }
}
