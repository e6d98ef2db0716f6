//! A part of a transcript.

/// A part of a transcript: a call, or the listing at the end.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// The call.
    pub call: &'a str,
    /// The lines about it.
    pub told: &'a str,
    /// The transcript up to it.
    pub before: &'a str,
}

impl<'a> Part<'a> {
    /// Its name, without arguments.
    #[must_use]
    pub fn name(&self) -> &'a str {
        self.call.split([' ', '!']).next().unwrap_or_default()
    }

    /// Its argument at `index`, as text.
    #[must_use]
    pub fn argument(&self, index: usize) -> &'a str {
        self.call.split(' ').nth(index + 1).unwrap_or_default()
    }

    /// Its answer.
    #[must_use]
    pub fn answer(&self) -> &'a str {
        let first = self.told.lines().next().unwrap_or_default();
        first.strip_prefix("  = ").unwrap_or("nothing")
    }
}
