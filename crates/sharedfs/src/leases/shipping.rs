//! Which files SharedFS performs the operations on itself, and for how long.
//!
//! Sessions that take turns with a file do many operations in each turn, or few. With few, each of them costs a
//! fence and a digest. So SharedFS keeps the lease of such a file in its own session for a *term*, and tells the
//! sessions that can send operations to do so. Behind the term the first session that asks gets the lease. If no
//! other one asks, it keeps it. If the file changes hands again as before, the next term is twice as long. So a
//! file which several processes share for hours is given back for a moment in every ten seconds.
//!
//! A mount's kernel keeps nothing of a shipped file. To give it the file back and take it again costs more than with other
//! sessions. So a term in which a mount takes part lasts ten seconds from the start.

use crate::store::Ship;
use cuesta_format::InodeNumber;
use hashbrown::HashMap;
use std::time::Duration;

/// A turn with fewer operations is a poor one: to hand the file over cost more than to send them would have.
const OPERATIONS_MIN: u64 = 32;
/// So many poor turns,
const TURNS: u32 = 4;
/// in so short a time, make a file shipped.
const WINDOW: Duration = Duration::from_millis(100);
const TERM_FIRST: Duration = Duration::from_millis(250);
const TERM_MAX: Duration = Duration::from_secs(10);
/// How long a file is shipped where files are at random.
const TERM_RANDOM: Duration = Duration::from_millis(10);
/// A file that changes hands again so soon behind its term is the same load.
const SAME_LOAD: Duration = Duration::from_secs(1);
/// More files are not remembered.
const INODES_MAX: usize = 1 << 14;

#[derive(Clone, Copy, Debug)]
struct Turns {
    /// When the first of `count` turns was.
    since: Duration,
    count: u32,
    /// The present term, or the last one.
    term: Duration,
    until: Duration,
    /// No session has had the lease since the present term began.
    is_shipped: bool,
}

/// The files that change hands.
#[derive(Clone, Debug, Default)]
pub(super) struct Shipping {
    which: Ship,
    inodes: HashMap<InodeNumber, Turns>,
}

/// Whether a file is shipped at that time where files are at random: a number without meaning decides.
fn is_chosen(inode: InodeNumber, time: u64) -> bool {
    const MIX: u64 = 0x9e37_79b9_7f4a_7c15;
    ((inode.0 ^ time.wrapping_mul(MIX)).wrapping_mul(MIX) >> 63) == 1
}

impl Shipping {
    pub(super) fn new(which: Ship) -> Shipping {
        Shipping { which, ..Shipping::default() }
    }

    /// The file changed hands. Its holder did so many operations in its turn.
    pub(super) fn note_turn(&mut self, inode: InodeNumber, now: Duration, operations: u64) {
        if self.inodes.len() >= INODES_MAX {
            self.inodes.retain(|_, turns| now < turns.until.max(turns.since + WINDOW));
            if self.inodes.len() >= INODES_MAX {
                self.inodes.clear();
            }
        }
        let (term, until) = (Duration::ZERO, Duration::ZERO);
        let begun = Turns { since: now, count: 0, term, until, is_shipped: false };
        let turns = self.inodes.entry(inode).or_insert(begun);
        if now < turns.until {
            return;
        }
        if now > turns.since + WINDOW || operations >= OPERATIONS_MIN {
            (turns.since, turns.count) = (now, 0);
        }
        turns.count += u32::from(operations < OPERATIONS_MIN);
        if turns.count >= TURNS {
            let is_same_load = !turns.term.is_zero() && now < turns.until + SAME_LOAD;
            turns.term = if is_same_load { TERM_MAX.min(turns.term * 2) } else { TERM_FIRST };
            (turns.until, turns.count, turns.is_shipped) = (now + turns.term, 0, true);
        }
    }

    /// A mount's session asks for the file.
    pub(super) fn share_with_mount(&mut self, inode: InodeNumber, now: Duration) {
        let Some(turns) = self.inodes.get_mut(&inode).filter(|turns| now < turns.until) else { return };
        if turns.term < TERM_MAX {
            turns.until += TERM_MAX - turns.term;
            turns.term = TERM_MAX;
        }
    }

    /// A session was granted a lease: whether that is the first one since the end of a term.
    pub(super) fn ends_term(&mut self, inode: InodeNumber, now: Duration) -> bool {
        let turns = self.inodes.get_mut(&inode).filter(|turns| turns.is_shipped && now >= turns.until);
        turns.is_some_and(|turns| std::mem::take(&mut turns.is_shipped))
    }

    /// For how much longer SharedFS performs the operations on the file, if it does.
    pub(super) fn left(&self, inode: InodeNumber, now: Duration) -> Option<Duration> {
        match self.which {
            Ship::Never => None,
            Ship::Always => Some(TERM_MAX),
            Ship::Random => {
                is_chosen(inode, (now.as_micros() / TERM_RANDOM.as_micros()) as u64).then_some(TERM_RANDOM)
            }
            Ship::Auto => {
                let left = self.inodes.get(&inode)?.until.saturating_sub(now);
                (!left.is_zero()).then_some(left)
            }
        }
    }

    /// How many files that are.
    pub(super) fn count(&self, now: Duration) -> u64 {
        self.inodes.values().filter(|turns| now < turns.until).count() as u64
    }

    /// The file is gone.
    pub(super) fn forget(&mut self, inode: InodeNumber) {
        self.inodes.remove(&inode);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: InodeNumber = InodeNumber(7);

    fn turns(shipping: &mut Shipping, from: Duration, apart: Duration, count: u32) -> Duration {
        (0..count).for_each(|turn| shipping.note_turn(FILE, from + apart * turn, 1));
        from + apart * count
    }

    #[test]
    fn a_file_that_changes_hands_now_and_then_is_not_shipped() {
        let mut shipping = Shipping::new(Ship::Auto);
        let now = turns(&mut shipping, Duration::ZERO, WINDOW / 2, 100);
        assert_eq!(shipping.left(FILE, now), None);
    }

    #[test]
    fn a_file_with_much_done_to_it_in_each_turn_is_not_shipped() {
        let mut shipping = Shipping::new(Ship::Auto);
        (0..100).for_each(|turn| shipping.note_turn(FILE, Duration::from_millis(turn), OPERATIONS_MIN));
        assert_eq!(shipping.left(FILE, Duration::from_millis(100)), None);
    }

    #[test]
    fn a_file_that_a_mount_shares_is_shipped_for_ten_seconds() {
        let mut shipping = Shipping::new(Ship::Auto);
        shipping.share_with_mount(FILE, Duration::ZERO);
        assert_eq!(shipping.left(FILE, Duration::ZERO), None);
        let now = turns(&mut shipping, Duration::ZERO, Duration::from_millis(1), TURNS);
        let begun = now - Duration::from_millis(1);
        shipping.share_with_mount(FILE, now);
        shipping.share_with_mount(FILE, now + TERM_FIRST);
        assert_eq!(shipping.left(FILE, now), Some(begun + TERM_MAX - now));
        shipping.share_with_mount(FILE, begun + TERM_MAX);
        assert_eq!(shipping.left(FILE, begun + TERM_MAX), None);
    }

    #[test]
    fn a_file_that_changes_hands_all_the_time_is_shipped_for_a_term_that_grows() {
        let mut shipping = Shipping::new(Ship::Auto);
        let (mut now, mut terms) = (Duration::ZERO, Vec::new());
        for _ in 0..10 {
            now = turns(&mut shipping, now, Duration::from_millis(1), TURNS);
            let left = shipping.left(FILE, now).expect("shipped");
            // Turns within the term come from sessions that cannot ship: they do not make it longer.
            turns(&mut shipping, now, Duration::from_micros(1), TURNS);
            assert_eq!(shipping.left(FILE, now), Some(left));
            assert!(!shipping.ends_term(FILE, now));
            now += left;
            assert_eq!(shipping.left(FILE, now), None);
            assert!(shipping.ends_term(FILE, now) && !shipping.ends_term(FILE, now));
            terms.push(left + Duration::from_millis(1));
        }
        assert_eq!(terms[..3], [TERM_FIRST, TERM_FIRST * 2, TERM_FIRST * 4]);
        assert_eq!(terms.last(), Some(&TERM_MAX));
        now += SAME_LOAD;
        now = turns(&mut shipping, now, Duration::from_millis(1), TURNS);
        assert_eq!(shipping.left(FILE, now), Some(TERM_FIRST - Duration::from_millis(1)));
    }
}
