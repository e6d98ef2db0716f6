//! Pins: content of files that a user pinned to a tier is brought there, and no cold content of theirs moves away.
//!
//! | file | idea |
//! |---|---|
//! | `pinned` | which inodes have pins, as digests note them, and which tier each file is pinned to |
//! | `resolving` | the rule for each file below the directories that have pins |
//! | `bringing` | the thread that brings content where it is pinned to |
//! | `asking` | answers `cuesta pin`, `setxattr` and `cuesta explain` |
//!
//! A file without a pin of its own follows the nearest directory above it that has a rule for its name. That is looked up when content
//! is to move, never when a file is made, read or written. So a rename takes effect as well, and so does a pin for files that
//! are there already. A file with several names follows the one that keeps it on the fastest tier.

mod asking;
mod bringing;
mod pinned;
mod resolving;

pub(super) use pinned::Bringer;
pub(crate) use pinned::Pins;
