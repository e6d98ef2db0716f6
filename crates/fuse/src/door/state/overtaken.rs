//! Threads whose call another door has overtaken on its path. The kernel has them go along it once more, asking for every name
//! (`LOOKUP_REVAL`), and if that attempt ends with ESTALE, too, the caller gets it.
//!
//! | why the first attempt ended | in the second |
//! |---|---|
//! | what a name led to was gone when it was asked for by number: the door said ESTALE | what a name leads to is held |
//! | a name led to a directory that the kernel has in another, which it could not move: the locks of that are others', or its own in a rename from one directory to another | the directory stands in for itself by another number ([`stand_in`]), as if it were a second one |
//!
//! Nobody is told that it is the second: of the one the door knows that it said so; the other is that a thread looks the
//! directory up again without having done anything with it.

use cuesta_format::InodeNumber;
use hashbrown::HashMap;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A second attempt begins at once.
const MOMENT: Duration = Duration::from_secs(1);
/// No inode has such a number.
const STAND_IN: u64 = 1 << 63;

/// The number of what stands in for a directory. Of it the kernel keeps nothing: notices are about the directory.
pub(in crate::door) fn stand_in(directory: InodeNumber) -> u64 {
    directory.0 | STAND_IN
}

pub(in crate::door) fn is_stand_in(node: u64) -> bool {
    node & STAND_IN != 0
}

/// The inode that a number of the kernel's stands for.
pub(in crate::door) fn inode_of(node: u64) -> InodeNumber {
    InodeNumber(node & !STAND_IN)
}

/// A directory that was found in another than where the kernel has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::door) struct Elsewhere {
    pub directory: InodeNumber,
    pub parent: InodeNumber,
}

/// How a thread's attempt ended, or may have.
#[derive(Clone, Copy, Debug)]
pub(in crate::door) struct Attempt {
    ended: Instant,
    /// It was answered ESTALE.
    pub found_gone: bool,
    /// It was answered this, and did nothing with it yet.
    pub elsewhere: Option<Elsewhere>,
}

/// Those of one mount.
#[derive(Default)]
pub(in crate::door) struct Overtaken {
    /// There may be some; if not, no thread takes the lock. A thread asks only about itself: it was answered before.
    any: AtomicBool,
    attempts: Mutex<HashMap<u32, Attempt>>,
}

impl Overtaken {
    /// The thread is answered ESTALE.
    pub(in crate::door) fn note_gone(&self, thread: u32, now: Instant) {
        self.note(thread, now).found_gone = true;
    }

    /// The thread is answered a directory that the kernel has in another.
    pub(in crate::door) fn note_elsewhere(&self, thread: u32, elsewhere: Elsewhere, now: Instant) {
        self.note(thread, now).elsewhere = Some(elsewhere);
    }

    fn note(&self, thread: u32, now: Instant) -> impl std::ops::DerefMut<Target = Attempt> {
        self.any.store(true, Ordering::Relaxed);
        parking_lot::MutexGuard::map(self.attempts.lock(), |attempts| {
            let attempt =
                attempts.entry(thread).or_insert(Attempt { ended: now, found_gone: false, elsewhere: None });
            attempt.ended = now;
            attempt
        })
    }

    /// The attempt of the thread that this may be the second to.
    pub(in crate::door) fn first_attempt(&self, thread: u32, now: Instant) -> Option<Attempt> {
        if !self.any.load(Ordering::Relaxed) {
            return None;
        }
        let mut attempts = self.attempts.lock();
        attempts.retain(|_, attempt| now.saturating_duration_since(attempt.ended) < MOMENT);
        self.any.store(!attempts.is_empty(), Ordering::Relaxed);
        attempts.get(&thread).copied()
    }

    /// The thread asks for something by the number of an inode. If that is a directory it was told of, the kernel has moved
    /// that there.
    pub(in crate::door) fn note_use(&self, thread: u32, node: u64) -> Option<Elsewhere> {
        if !self.any.load(Ordering::Relaxed) {
            return None;
        }
        let mut attempts = self.attempts.lock();
        attempts.get_mut(&thread)?.elsewhere.take_if(|found| found.directory.0 == node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOUND: Elsewhere = Elsewhere { directory: InodeNumber(5), parent: InodeNumber(3) };

    #[test]
    fn a_thread_makes_its_second_attempt_within_a_moment() {
        let overtaken = Overtaken::default();
        let begin = Instant::now();
        assert!(overtaken.first_attempt(7, begin).is_none());
        overtaken.note_gone(7, begin);
        assert!(overtaken.first_attempt(7, begin + MOMENT / 2).unwrap().found_gone);
        assert!(overtaken.first_attempt(8, begin + MOMENT / 2).is_none());
        assert!(overtaken.first_attempt(7, begin + MOMENT).is_none());
        assert!(!overtaken.any.load(Ordering::Relaxed) && overtaken.attempts.lock().is_empty());
    }

    #[test]
    fn a_thread_that_uses_a_directory_found_elsewhere_has_it_there() {
        let overtaken = Overtaken::default();
        let now = Instant::now();
        overtaken.note_elsewhere(7, FOUND, now);
        assert_eq!(overtaken.note_use(7, FOUND.parent.0), None);
        assert_eq!(overtaken.note_use(8, FOUND.directory.0), None);
        assert_eq!(overtaken.note_use(7, stand_in(FOUND.directory)), None);
        assert_eq!(overtaken.first_attempt(7, now).unwrap().elsewhere, Some(FOUND));
        assert_eq!(overtaken.note_use(7, FOUND.directory.0), Some(FOUND));
        assert_eq!(overtaken.first_attempt(7, now).unwrap().elsewhere, None);
    }
}
