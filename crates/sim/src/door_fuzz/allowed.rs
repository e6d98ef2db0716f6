//! The differences that stay. Each names its heading in `docs/door-differences.md`, which gives the reason.

use super::campaign::Part;

/// A difference that stays.
#[derive(Debug)]
pub struct Allowed {
    /// Its heading.
    pub heading: &'static str,
    /// Whether the rest of the sequence can still be compared.
    pub goes_on: bool,
    is: fn(&Part<'_>, &Part<'_>) -> bool,
}

/// All of them.
pub static ALLOWED: &[Allowed] = &[];

/// Which of them this is, if it is one.
#[must_use]
pub fn find(disk: &Part<'_>, door: &Part<'_>) -> Option<&'static Allowed> {
    ALLOWED.iter().find(|allowed| (allowed.is)(disk, door))
}
