//! Policy: how long the kernel may go on believing what it was told.
//!
//! What the door says of an inode or a name holds while its session has the lease, and SharedFS takes a lease away only
//! after it has told the kernel (`cuesta_sharedfs`, kernel caches). The term is a second line: past it the kernel asks again
//! whatever happened, so that after a daemon's end nobody has to be waited for longer than that.
//!
//! | what | holds for the term |
//! |---|---|
//! | attributes the kernel asked for | always: it compares when it asked with when it was told otherwise |
//! | attributes that come with a name, or with a change | never: it does not compare, or knows no such inode yet |
//! | names, and that there is none | where the kernel can forget all names at once, of quiet directories ([`cuesta_format::taken_names`]) |

use std::time::Duration;

/// What the kernel may keep: by default nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keeping {
    term: Duration,
    names: bool,
}

impl Keeping {
    /// For `term`, if SharedFS can take it back; names only if the kernel `has_epochs`.
    #[must_use]
    pub fn for_term(term: Duration, has_epochs: bool) -> Keeping {
        Keeping { term, names: has_epochs }
    }

    /// Whether names are kept at all.
    #[must_use]
    pub fn names_hold(&self) -> bool {
        self.names && !self.term.is_zero()
    }

    /// How long a name holds of a directory that `is_quiet`: seconds and nanoseconds.
    #[must_use]
    pub fn name(&self, is_quiet: bool) -> (u64, u32) {
        if self.names && is_quiet { self.parts() } else { (0, 0) }
    }

    /// How long attributes hold that the kernel asked for.
    #[must_use]
    pub fn attributes(&self) -> (u64, u32) {
        self.parts()
    }

    fn parts(&self) -> (u64, u32) {
        (self.term.as_secs(), self.term.subsec_nanos())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_kept_that_cannot_be_taken_back() {
        let (term, none) = ((1, 500_000_000), (0, 0));
        let all = Keeping::for_term(Duration::from_millis(1500), true);
        assert_eq!((all.name(true), all.name(false), all.attributes()), (term, none, term));
        assert!(all.names_hold());
        let older = Keeping::for_term(Duration::from_millis(1500), false);
        assert_eq!((older.name(true), older.attributes(), older.names_hold()), (none, term, false));
        assert_eq!((Keeping::default().name(true), Keeping::default().attributes()), (none, none));
    }
}
