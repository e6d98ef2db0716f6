//! Threads whose call another door has overtaken on its path. The kernel has them go along it once more, asking for every name
//! (`LOOKUP_REVAL`), and if that attempt ends with ESTALE, too, the caller gets it.
//!
//! | why the first attempt ended | in the second |
//! |---|---|
//! | what a name led to was gone when it was asked for by number: the door said ESTALE | what a name leads to is held |
//! | a name led to a directory that the kernel has in another, which it could not move: the locks of that are others', or its own in a rename from one directory to another | each such directory stands in for itself by a number that the kernel has nowhere yet ([`Overtaken::find_elsewhere`]), as if it were another one |
//!
//! A request does not say whether it is a second attempt, and the kernel makes none for some calls (a `mkdir` of a name that is
//! there). So after a call was overtaken, the door gives every directory that is elsewhere a stand-in, until a moment has passed
//! without another such call.

use cuesta_format::InodeNumber;
use hashbrown::HashMap;
use parking_lot::{Mutex, MutexGuard};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A second attempt begins at once.
const MOMENT: Duration = Duration::from_secs(1);
/// No inode has such a number.
const STAND_IN: u64 = 1 << 63;
/// Where the turn of a stand-in begins in its number.
const TURN_SHIFT: u32 = 48;
/// The part of a stand-in's number that is the directory's.
const DIRECTORY: u64 = (1 << TURN_SHIFT) - 1;

/// A number that the kernel knows an inode by: the inode's own, or a stand-in's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::door) struct Node(pub u64);

impl Node {
    /// Stands where the door does not know the number.
    pub(in crate::door) const UNKNOWN: Node = Node(0);

    pub(in crate::door) fn is_stand_in(self) -> bool {
        self.0 & STAND_IN != 0
    }

    /// The inode that it stands for.
    pub(in crate::door) fn inode(self) -> InodeNumber {
        InodeNumber(if self.is_stand_in() { self.0 & DIRECTORY } else { self.0 })
    }
}

/// A directory that was found in another than where the kernel has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::door) struct Elsewhere {
    pub directory: InodeNumber,
    pub parent: Node,
}

/// How a thread's attempt ended, or may have.
#[derive(Clone, Copy, Debug)]
struct Attempt {
    ended: Instant,
    /// It was answered ESTALE.
    found_gone: bool,
    /// It was answered this, and did nothing with it yet.
    elsewhere: Option<Elsewhere>,
    /// It was answered that it has moved this directory there. The kernel may be about to do the same.
    moved: Option<Elsewhere>,
}

/// Those of one mount.
#[derive(Default)]
pub(in crate::door) struct Overtaken {
    /// There may be some; if not, no thread takes the lock.
    any: AtomicBool,
    attempts: Mutex<HashMap<u32, Attempt>>,
    /// Stand-ins that were given.
    stand_ins: AtomicU64,
}

impl Overtaken {
    /// The thread is answered ESTALE.
    pub(in crate::door) fn note_gone(&self, thread: u32, now: Instant) {
        self.note(thread, now).found_gone = true;
    }

    /// The thread is about to be answered a directory that the kernel has in another. The answer is a stand-in to give instead,
    /// if a call of any thread was overtaken a moment ago, or moved a directory: the kernel may be unable to move this one.
    pub(in crate::door) fn find_elsewhere(
        &self,
        thread: u32,
        elsewhere: Elsewhere,
        now: Instant,
    ) -> Option<Node> {
        let is_busy = !self.recent(now).is_empty();
        let stand_in = is_busy.then(|| self.stand_in(elsewhere.directory)).flatten();
        let mut attempt = self.note(thread, now);
        if stand_in.is_none() {
            attempt.elsewhere = Some(elsewhere);
        }
        stand_in
    }

    /// The thread is answered that it has moved a directory.
    pub(in crate::door) fn note_moved(&self, thread: u32, moved: Elsewhere, now: Instant) {
        self.note(thread, now).moved = Some(moved);
    }

    /// A directory that the thread has moved: the kernel has done the same before the thread asks again.
    pub(in crate::door) fn take_moved(&self, thread: u32) -> Option<Elsewhere> {
        if !self.any.load(Ordering::Relaxed) {
            return None;
        }
        self.attempts.lock().get_mut(&thread)?.moved.take()
    }

    fn note(&self, thread: u32, now: Instant) -> impl std::ops::DerefMut<Target = Attempt> {
        self.any.store(true, Ordering::Relaxed);
        MutexGuard::map(self.attempts.lock(), |attempts| {
            let attempt = attempts.entry(thread).or_insert(Attempt {
                ended: now,
                found_gone: false,
                elsewhere: None,
                moved: None,
            });
            attempt.ended = now;
            attempt
        })
    }

    fn recent(&self, now: Instant) -> MutexGuard<'_, HashMap<u32, Attempt>> {
        let mut attempts = self.attempts.lock();
        attempts.retain(|_, attempt| now.saturating_duration_since(attempt.ended) < MOMENT);
        self.any.store(!attempts.is_empty(), Ordering::Relaxed);
        attempts
    }

    /// The thread was answered ESTALE a moment ago, and this may be its second attempt.
    pub(in crate::door) fn found_gone(&self, thread: u32, now: Instant) -> bool {
        self.any.load(Ordering::Relaxed)
            && self.recent(now).get(&thread).is_some_and(|first| first.found_gone)
    }

    /// The number of a new stand-in for a directory; `None`: its own number leaves no bits for that. The kernel keeps nothing of
    /// a stand-in: notices are about the directory.
    fn stand_in(&self, directory: InodeNumber) -> Option<Node> {
        let turn = self.stand_ins.fetch_add(1, Ordering::Relaxed);
        // The top bit is the mark.
        (directory.0 <= DIRECTORY).then_some(Node(STAND_IN | (turn << TURN_SHIFT) & !STAND_IN | directory.0))
    }

    /// The thread asks for something by the number of an inode. If that is a directory it was told of, the kernel has moved
    /// that there.
    pub(in crate::door) fn note_use(&self, thread: u32, node: Node) -> Option<Elsewhere> {
        if !self.any.load(Ordering::Relaxed) {
            return None;
        }
        self.attempts.lock().get_mut(&thread)?.elsewhere.take_if(|found| found.directory.0 == node.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOUND: Elsewhere = Elsewhere { directory: InodeNumber(5), parent: Node(3) };

    #[test]
    fn a_thread_makes_its_second_attempt_within_a_moment() {
        let overtaken = Overtaken::default();
        let begin = Instant::now();
        assert!(!overtaken.found_gone(7, begin));
        overtaken.note_gone(7, begin);
        assert!(overtaken.found_gone(7, begin + MOMENT / 2));
        assert!(!overtaken.found_gone(8, begin + MOMENT / 2));
        assert!(!overtaken.found_gone(7, begin + MOMENT));
        assert!(!overtaken.any.load(Ordering::Relaxed) && overtaken.attempts.lock().is_empty());
    }

    #[test]
    fn a_thread_that_uses_a_directory_found_elsewhere_has_it_there() {
        let overtaken = Overtaken::default();
        let begin = Instant::now();
        assert_eq!(overtaken.find_elsewhere(7, FOUND, begin), None);
        assert_eq!(overtaken.note_use(7, FOUND.parent), None);
        assert_eq!(overtaken.note_use(8, Node(FOUND.directory.0)), None);
        let stand_in = overtaken.find_elsewhere(7, FOUND, begin).unwrap();
        assert_eq!(overtaken.note_use(7, stand_in), None);
        assert_eq!(overtaken.note_use(7, Node(FOUND.directory.0)), Some(FOUND));
        assert_eq!(overtaken.note_use(7, Node(FOUND.directory.0)), None);
    }

    #[test]
    fn a_directory_found_elsewhere_has_a_stand_in_until_no_thread_meets_such_a_thing_any_more() {
        let overtaken = Overtaken::default();
        let begin = Instant::now();
        overtaken.note_moved(7, FOUND, begin);
        assert_eq!(overtaken.take_moved(7), Some(FOUND));
        let another = Elsewhere { directory: InodeNumber(6), ..FOUND };
        assert!(overtaken.find_elsewhere(8, another, begin + MOMENT / 2).is_some());
        assert!(overtaken.find_elsewhere(8, another, begin + MOMENT).is_some());
        assert_eq!(overtaken.find_elsewhere(8, another, begin + 2 * MOMENT), None);
    }

    #[test]
    fn each_stand_in_has_a_number_of_its_own_that_leads_to_the_directory() {
        let overtaken = Overtaken::default();
        let numbers = [(); 3].map(|()| overtaken.stand_in(FOUND.directory).unwrap());
        assert!(numbers[0] != numbers[1] && numbers[1] != numbers[2]);
        assert!(numbers.iter().all(|number| number.is_stand_in() && number.inode() == FOUND.directory));
        overtaken.stand_ins.store(u64::MAX, Ordering::Relaxed);
        assert_eq!(overtaken.stand_in(FOUND.directory).unwrap().inode(), FOUND.directory);
        assert_eq!(overtaken.stand_in(InodeNumber(DIRECTORY + 1)), None);
        assert_eq!(Node(DIRECTORY + 1).inode(), InodeNumber(DIRECTORY + 1));
    }
}
