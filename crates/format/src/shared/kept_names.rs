//! Policy and layout: how long a mount's kernel keeps a name, and where SharedFS sees the directories of such names.
//!
//! A name that the kernel keeps cannot be taken back: the notice would wait for lookups of the name, or throw away the
//! place of every directory in the tree. So a name is kept for a moment only ([`NAME_TERM`]), and SharedFS, which takes a directory from
//! the mount's session, waits until that moment is over. A mark tells when it began:
//!
//! | | in this order |
//! |---|---|
//! | the door, before it answers with a name | marks the directory with the time; sees that the directory is not wanted, and that it has had the lease all along; answers that the name is kept, or else that it is not |
//! | SharedFS, before it takes the directory | says that it is wanted; waits until the mark is old; takes the directory, which is wanted no more |
//!
//! So an answer that the other has not seen the mark of is not kept. From the mark on it has [`MARGIN`] to come to the kernel
//! and for that to take it.
//!
//! Marks lie in the client page, in sets of a few; which set is the directory's number says. Where there is none free, a name is
//! not kept. Wanted directories are counted for each set in the notice page.

use crate::InodeNumber;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How long the kernel keeps a name. It counts from its own tick, and to the end of the one in which it is over.
pub const NAME_TERM: Duration = Duration::from_millis(12);
/// How much later than marked that may begin, with what two ticks of a kernel that has a hundred a second are.
const MARGIN: Duration = Duration::from_millis(30);
/// So old is a mark of which nothing is kept any more.
pub const MARK_TERM: Duration = NAME_TERM.saturating_add(MARGIN);

/// Sets of marks,
pub const SETS: usize = 128;
/// and marks of each.
pub const WAYS: usize = 4;

/// In which set a directory has its mark.
#[must_use]
pub fn set_of(directory: InodeNumber) -> usize {
    directory.0 as usize % SETS
}

/// A time of the clock that goes by the kernel's ticks as its terms do, in milliseconds; it comes round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TickTime(pub u32);

impl TickTime {
    /// How long it is until a mark of `then` is old; of what is later than now, as long as from now.
    fn left(self, then: TickTime) -> Option<Duration> {
        let age = u64::from(self.0.wrapping_sub(then.0).cast_signed().max(0).cast_unsigned());
        let left = MARK_TERM.saturating_sub(Duration::from_millis(age));
        (!left.is_zero()).then_some(left)
    }
}

/// One mark: of which directory (the upper half), and when (the lower).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark(u64);

impl Mark {
    fn new(directory: InodeNumber, now: TickTime) -> Mark {
        Mark(tag(directory) << 32 | u64::from(now.0))
    }

    fn at(self) -> TickTime {
        TickTime(self.0 as u32)
    }

    fn left(self, now: TickTime) -> Option<Duration> {
        if self.0 == 0 { None } else { now.left(self.at()) }
    }

    fn is_of(self, directory: InodeNumber) -> bool {
        self.0 >> 32 == tag(directory)
    }
}

/// What tells directories of one set apart, but for some whose numbers are very far from each other.
fn tag(directory: InodeNumber) -> u64 {
    u64::from((directory.0 / SETS as u64) as u32 | 1 << 31)
}

/// Marks a directory in its set, unless all of that is in use.
#[must_use]
pub fn mark(set: &[AtomicU64; WAYS], directory: InodeNumber, now: TickTime) -> bool {
    let next = Mark::new(directory, now);
    loop {
        let marks = set.each_ref().map(|word| Mark(word.load(Ordering::SeqCst)));
        let own = marks.iter().position(|found| found.is_of(directory) && found.left(now).is_some());
        let Some(way) = own.or_else(|| marks.iter().position(|found| found.left(now).is_none())) else {
            return false;
        };
        let found = marks[way];
        let is_later = own.is_some() && found.at().0.wrapping_sub(now.0).cast_signed() >= 0;
        let set_to = if is_later { found } else { next };
        // Others may have marked it meanwhile, or something else there.
        if set[way].compare_exchange(found.0, set_to.0, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
            return true;
        }
    }
}

/// How long names may still be kept of a directory whose set has these marks, which were read before it was `now`.
#[must_use]
pub fn left(set: [u64; WAYS], directory: InodeNumber, now: TickTime) -> Option<Duration> {
    let marks = set.into_iter().map(Mark).filter(|mark| mark.is_of(directory));
    marks.filter_map(|mark| mark.left(now)).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERM_MS: u32 = MARK_TERM.as_millis() as u32;

    fn directory(way: u64) -> InodeNumber {
        InodeNumber(5 + way * SETS as u64)
    }

    fn read(set: &[AtomicU64; WAYS]) -> [u64; WAYS] {
        set.each_ref().map(|word| word.load(Ordering::SeqCst))
    }

    #[test]
    fn a_mark_is_seen_until_it_is_old() {
        // Also where the clock comes round, and where the reader's clock is a little behind the marker's.
        for begin in [0, 1000, u32::MAX - TERM_MS / 2] {
            let set = Default::default();
            let after = |ms: u32| TickTime(begin.wrapping_add(ms));
            assert_eq!(left(read(&set), directory(0), after(0)), None);
            assert!(mark(&set, directory(0), after(0)));
            assert_eq!(left(read(&set), directory(0), after(0)), Some(MARK_TERM));
            assert_eq!(left(read(&set), directory(0), TickTime(begin.wrapping_sub(3))), Some(MARK_TERM));
            assert_eq!(left(read(&set), directory(0), after(TERM_MS - 1)), Some(Duration::from_millis(1)));
            assert_eq!(left(read(&set), directory(0), after(TERM_MS)), None);
            assert_eq!(left(read(&set), directory(1), after(0)), None, "another directory of that set");
            // A late mark with an earlier time does not make it older.
            assert!(mark(&set, directory(0), after(7)) && mark(&set, directory(0), after(5)));
            assert_eq!(left(read(&set), directory(0), after(7)), Some(MARK_TERM));
        }
    }

    #[test]
    fn there_are_no_more_marks_than_have_room() {
        let set = Default::default();
        let now = TickTime(100);
        assert!((0..WAYS as u64).all(|way| mark(&set, directory(way), now)));
        assert!(!mark(&set, directory(WAYS as u64), now));
        assert!(mark(&set, directory(0), now), "one that it has");
        let later = TickTime(100 + TERM_MS);
        assert!(mark(&set, directory(WAYS as u64), later));
        assert_eq!(left(read(&set), directory(WAYS as u64), later), Some(MARK_TERM));
    }
}
