//! Policy: how long the kernel may go on believing what it was told.
//!
//! The door's answer about an inode or a name holds while its session has the lease, and SharedFS takes a lease away only
//! after it has told the kernel (`cuesta_sharedfs`, kernel caches). The term is a second line: past it the kernel asks again
//! whatever happened, so that after a daemon's end no wait for the kernel is longer than that.
//!
//! | what | holds for the term |
//! |---|---|
//! | attributes the kernel asked for | always: it compares when it asked with when it was told otherwise |
//! | attributes that come with a name, or with a change | never: it does not compare, or knows no such inode yet |
//!
//! Names, and that there is none, cannot be taken back, and hold for a moment ([`cuesta_format::kept_names`]).

use cuesta_format::kept_names::NAME_TERM;
use std::time::Duration;

/// The answers that the kernel may keep: by default none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keeping {
    term: Duration,
}

impl Keeping {
    /// For `term`, if SharedFS can take it back.
    #[must_use]
    pub fn for_term(term: Duration) -> Keeping {
        Keeping { term }
    }

    /// Whether names are kept at all.
    #[must_use]
    pub fn names_hold(&self) -> bool {
        !self.term.is_zero()
    }

    /// How long a name holds that may be kept: seconds and nanoseconds.
    #[must_use]
    pub fn name(&self) -> (u64, u32) {
        parts(self.term.min(NAME_TERM))
    }

    /// How long attributes hold that the kernel asked for.
    #[must_use]
    pub fn attributes(&self) -> (u64, u32) {
        parts(self.term)
    }
}

fn parts(term: Duration) -> (u64, u32) {
    (term.as_secs(), term.subsec_nanos())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_kept_that_cannot_be_taken_back() {
        let kept = Keeping::for_term(Duration::from_millis(1500));
        assert_eq!(
            (kept.name(), kept.attributes(), kept.names_hold()),
            ((0, 12_000_000), (1, 500_000_000), true)
        );
        let none = Keeping::default();
        assert_eq!((none.name(), none.attributes(), none.names_hold()), ((0, 0), (0, 0), false));
    }
}
