//! Policy: of which directories a mount's kernel keeps names, agreed between the mount's door and SharedFS without a word.
//!
//! Names that the kernel keeps of a directory can be taken back only all at once, with those of every other directory
//! (`FUSE_NOTIFY_INC_EPOCH`): then the kernel asks for each anew, and until it has, a program that stands in a directory
//! is told by `getcwd` that there is none. Of a directory that others go on changing that would be always. So its names
//! are not kept, and nothing is to be taken back:
//!
//! | a directory that was taken from the mount's session | the door | SharedFS, when it is taken again |
//! |---|---|---|
//! | lately | lets no name be kept | says nothing to the kernel |
//! | not lately: it is quiet | lets names be kept | has all names doubted |
//!
//! Both count from when they learn that it was taken. The door learns it later, and calls it lately for longer: so whatever
//! the door calls quiet SharedFS does, too.

use crate::InodeNumber;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long the door lets no name be kept.
const DOOR_STRETCH: Duration = Duration::from_secs(10);
/// How long SharedFS relies on it: less, by whatever two readings of one clock may be apart.
const SHARED_FS_STRETCH: Duration = Duration::from_secs(9);
/// Directories that are remembered at a time.
const DIRECTORIES_MAX: usize = 4096;

/// What is held of directories that are not remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Others {
    Quiet,
    /// They may have been taken at this time.
    Taken(Instant),
}

/// Directories that were taken lately from the session of one mount.
#[derive(Debug)]
pub struct TakenNames {
    stretch: Duration,
    taken: BTreeMap<InodeNumber, Instant>,
    others: Others,
    /// Where there are too many to remember, they are called taken; else quiet.
    forgets_as_taken: bool,
}

impl TakenNames {
    /// The door's.
    #[must_use]
    pub fn of_door() -> TakenNames {
        TakenNames::new(DOOR_STRETCH, true)
    }

    /// SharedFS's.
    #[must_use]
    pub fn of_shared_fs() -> TakenNames {
        TakenNames::new(SHARED_FS_STRETCH, false)
    }

    fn new(stretch: Duration, forgets_as_taken: bool) -> TakenNames {
        TakenNames { stretch, taken: BTreeMap::new(), others: Others::Quiet, forgets_as_taken }
    }

    /// Whether a directory was not taken lately, as of `at`: the door asks of when a request came, since what it finds out
    /// for it may be older than what it learned meanwhile.
    #[must_use]
    pub fn is_quiet(&self, directory: InodeNumber, at: Instant) -> bool {
        let is_past = |&taken: &Instant| at.saturating_duration_since(taken) >= self.stretch;
        let is_past_others = match self.others {
            Others::Quiet => true,
            Others::Taken(last) => is_past(&last),
        };
        is_past_others && self.taken.get(&directory).is_none_or(is_past)
    }

    /// A directory is taken `now`.
    pub fn note(&mut self, directory: InodeNumber, now: Instant) {
        if self.taken.len() >= DIRECTORIES_MAX && !self.taken.contains_key(&directory) {
            self.make_room(now);
        }
        self.taken.insert(directory, now);
    }

    /// Every directory is taken `now`, as by the end of a daemon: both begin anew, and agree on that.
    pub fn note_all(&mut self, now: Instant) {
        self.taken.clear();
        self.others = Others::Taken(now);
    }

    fn make_room(&mut self, now: Instant) {
        let stretch = self.stretch;
        self.taken.retain(|_, &mut taken| now.saturating_duration_since(taken) < stretch);
        if self.taken.len() >= DIRECTORIES_MAX {
            match self.forgets_as_taken {
                true => self.note_all(now),
                false => self.taken.clear(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOMENT: Duration = Duration::from_millis(1);

    fn directory(number: usize) -> InodeNumber {
        InodeNumber(number as u64 + 2)
    }

    #[test]
    fn what_the_door_calls_quiet_shared_fs_calls_quiet() {
        let (mut door, mut shared) = (TakenNames::of_door(), TakenNames::of_shared_fs());
        let begin = Instant::now();
        let (taken, other) = (directory(0), directory(1));
        assert!(door.is_quiet(taken, begin) && shared.is_quiet(taken, begin));
        shared.note(taken, begin);
        door.note(taken, begin + MOMENT);
        for (after, by_door, by_shared) in
            [(MOMENT, false, false), (SHARED_FS_STRETCH, false, true), (DOOR_STRETCH + MOMENT, true, true)]
        {
            assert_eq!(door.is_quiet(taken, begin + after), by_door, "{after:?}");
            assert_eq!(shared.is_quiet(taken, begin + after), by_shared, "{after:?}");
            assert!(door.is_quiet(other, begin + after) && shared.is_quiet(other, begin + after));
        }
        // Taken again, it begins anew.
        shared.note(taken, begin + SHARED_FS_STRETCH);
        assert!(!shared.is_quiet(taken, begin + SHARED_FS_STRETCH + MOMENT));
    }

    #[test]
    fn of_a_request_that_came_before_a_directory_was_taken_nothing_is_kept() {
        let mut door = TakenNames::of_door();
        let begin = Instant::now();
        door.note(directory(0), begin + DOOR_STRETCH);
        assert!(!door.is_quiet(directory(0), begin));
    }

    #[test]
    fn all_are_taken_at_once() {
        let (mut door, mut shared) = (TakenNames::of_door(), TakenNames::of_shared_fs());
        let begin = Instant::now();
        shared.note_all(begin);
        door.note_all(begin + MOMENT);
        for (after, by_door, by_shared) in
            [(MOMENT, false, false), (SHARED_FS_STRETCH, false, true), (DOOR_STRETCH + MOMENT, true, true)]
        {
            assert_eq!(door.is_quiet(directory(0), begin + after), by_door, "{after:?}");
            assert_eq!(shared.is_quiet(directory(0), begin + after), by_shared, "{after:?}");
        }
    }

    #[test]
    fn too_many_are_taken_to_the_door_and_quiet_to_shared_fs() {
        let (mut door, mut shared) = (TakenNames::of_door(), TakenNames::of_shared_fs());
        let begin = Instant::now();
        for number in 0..=DIRECTORIES_MAX {
            door.note(directory(number), begin);
            shared.note(directory(number), begin);
        }
        let (first, never) = (directory(0), directory(DIRECTORIES_MAX + 1));
        assert!(!door.is_quiet(first, begin) && !door.is_quiet(never, begin));
        assert!(shared.is_quiet(first, begin) && shared.is_quiet(never, begin));
        assert!(!shared.is_quiet(directory(DIRECTORIES_MAX), begin));
        assert!(door.is_quiet(never, begin + DOOR_STRETCH));
    }

    #[test]
    fn those_that_have_become_quiet_make_room() {
        let mut door = TakenNames::of_door();
        let begin = Instant::now();
        for number in 0..DIRECTORIES_MAX {
            door.note(directory(number), begin);
        }
        door.note(directory(DIRECTORIES_MAX), begin + DOOR_STRETCH);
        assert!(door.is_quiet(directory(0), begin + DOOR_STRETCH));
        assert!(!door.is_quiet(directory(DIRECTORIES_MAX), begin + DOOR_STRETCH));
    }
}
