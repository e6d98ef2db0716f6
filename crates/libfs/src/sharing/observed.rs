//! How much of the log of SharedFS's own session this process has seen the effect of.

use crate::sync::{AtomicU64, Ordering};
use cuesta_format::{LogDependency, LogGeneration, LogPosition, SessionId};

/// How far the log of SharedFS's own session goes that this process has seen the effect of. A process has
/// one.
#[derive(Debug)]
pub struct Observed {
    /// Twice the number of changes, and one more during a change.
    version: AtomicU64,
    session: AtomicU64,
    generation: AtomicU64,
    position: AtomicU64,
}

impl Observed {
    /// A process that has seen nothing.
    #[must_use]
    pub const fn new() -> Observed {
        let [version, session, generation, position] = [const { AtomicU64::new(0) }; 4];
        Observed { version, session, generation, position }
    }

    /// Notes that an answer rests on everything below `seen`.
    pub fn note(&self, seen: LogDependency) {
        loop {
            let (version, latest) = self.latest();
            if latest.is_some_and(|latest| latest >= seen) {
                return;
            }
            if self
                .version
                .compare_exchange(version, version + 1, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
            {
                self.session.store(seen.session.0, Ordering::Release);
                self.generation.store(seen.generation.0, Ordering::Release);
                self.position.store(seen.position.0, Ordering::Release);
                self.version.store(version + 2, Ordering::Release);
                return;
            }
        }
    }

    /// Forgets everything. Call in a child of fork, before anything else.
    pub fn forget(&self) {
        self.session.store(SessionId::NOBODY.0, Ordering::Relaxed);
        self.generation.store(0, Ordering::Relaxed);
        self.position.store(0, Ordering::Relaxed);
        self.version.store(0, Ordering::Release);
    }

    #[inline]
    pub(super) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// The part of the log that the process has seen, and its version.
    pub(super) fn latest(&self) -> (u64, Option<LogDependency>) {
        loop {
            let version = self.version();
            let seen = LogDependency {
                session: SessionId(self.session.load(Ordering::Acquire)),
                generation: LogGeneration(self.generation.load(Ordering::Acquire)),
                position: LogPosition(self.position.load(Ordering::Acquire)),
            };
            if version.is_multiple_of(2) && self.version() == version {
                return (version, (version > 0).then_some(seen));
            }
            std::hint::spin_loop();
        }
    }
}

impl Default for Observed {
    fn default() -> Observed {
        Observed::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(session: u64, generation: u64, position: u64) -> LogDependency {
        LogDependency {
            session: SessionId(session),
            generation: LogGeneration(generation),
            position: LogPosition(position),
        }
    }

    #[test]
    fn the_observed_part_only_grows() {
        let observed = Observed::new();
        assert_eq!(observed.latest(), (0, None));
        observed.note(seen(3, 1, 640));
        assert_eq!(observed.latest(), (2, Some(seen(3, 1, 640))));
        observed.note(seen(3, 1, 128));
        assert_eq!(observed.latest(), (2, Some(seen(3, 1, 640))), "an answer that came late");
        observed.note(seen(3, 2, 64));
        assert_eq!(observed.latest(), (4, Some(seen(3, 2, 64))), "a log that started again");
        observed.note(seen(4, 1, 64));
        assert_eq!(observed.latest(), (6, Some(seen(4, 1, 64))), "the next daemon's");
        observed.forget();
        assert_eq!(observed.latest(), (0, None));
    }

    #[test]
    fn threads_that_see_answers_at_once_end_with_the_longest_part() {
        let observed = Observed::new();
        std::thread::scope(|threads| {
            for first in 1..4 {
                let observed = &observed;
                threads.spawn(move || (0..1000).for_each(|step| observed.note(seen(1, 1, first + step * 3))));
            }
        });
        assert_eq!(observed.latest().1, Some(seen(1, 1, 3 + 999 * 3)));
    }
}
