//! Policy: the mount's door lets the kernel keep no names of a directory that SharedFS took from its session
//! lately. A session that takes a directory waits until kept names expire ([`cuesta_format::kept_names`]),
//! and sessions that change a directory go on changing it.

use cuesta_format::InodeNumber;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// For this long after a directory was taken, the kernel keeps no name of it.
const STRETCH: Duration = Duration::from_secs(10);

/// How many directories are remembered.
const DIRECTORIES_MAX: usize = 4096;

/// Directories that SharedFS took lately from the session of one mount.
#[derive(Debug, Default)]
pub(crate) struct RevokedDirectories {
    taken: BTreeMap<InodeNumber, Instant>,
    /// When there were too many to remember. Any directory may have been taken then.
    others: Option<Instant>,
}

impl RevokedDirectories {
    /// Whether the directory was not taken lately, as of `at`.
    #[must_use]
    pub(crate) fn is_quiet(&self, directory: InodeNumber, at: Instant) -> bool {
        let is_past = |taken: &Instant| at.saturating_duration_since(*taken) >= STRETCH;
        self.others.as_ref().is_none_or(is_past) && self.taken.get(&directory).is_none_or(is_past)
    }

    /// Notes that a directory is taken `now`.
    pub(crate) fn note(&mut self, directory: InodeNumber, now: Instant) {
        if self.taken.len() >= DIRECTORIES_MAX && !self.taken.contains_key(&directory) {
            self.taken.retain(|_, &mut taken| now.saturating_duration_since(taken) < STRETCH);
            if self.taken.len() >= DIRECTORIES_MAX {
                self.taken.clear();
                self.others = Some(now);
            }
        }
        self.taken.insert(directory, now);
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
    fn a_directory_is_quiet_again_some_time_after_it_was_taken() {
        let mut taken = RevokedDirectories::default();
        let begin = Instant::now();
        assert!(taken.is_quiet(directory(0), begin));
        taken.note(directory(0), begin);
        assert!(!taken.is_quiet(directory(0), begin) && taken.is_quiet(directory(1), begin));
        assert!(!taken.is_quiet(directory(0), begin + STRETCH - MOMENT));
        assert!(taken.is_quiet(directory(0), begin + STRETCH));
        // A request that arrived before the directory was taken keeps no name, either.
        taken.note(directory(0), begin + 2 * STRETCH);
        assert!(!taken.is_quiet(directory(0), begin + 2 * STRETCH - MOMENT));
    }

    #[test]
    fn of_too_many_all_are_called_taken() {
        let mut taken = RevokedDirectories::default();
        let begin = Instant::now();
        (0..=DIRECTORIES_MAX).for_each(|number| taken.note(directory(number), begin));
        let never = directory(DIRECTORIES_MAX + 1);
        assert!(!taken.is_quiet(directory(0), begin) && !taken.is_quiet(never, begin));
        assert!(taken.is_quiet(never, begin + STRETCH));
    }

    #[test]
    fn those_that_have_become_quiet_make_room() {
        let mut taken = RevokedDirectories::default();
        let begin = Instant::now();
        (0..DIRECTORIES_MAX).for_each(|number| taken.note(directory(number), begin));
        taken.note(directory(DIRECTORIES_MAX), begin + STRETCH);
        assert!(taken.is_quiet(directory(0), begin + STRETCH));
        assert!(!taken.is_quiet(directory(DIRECTORIES_MAX), begin + STRETCH));
    }
}
