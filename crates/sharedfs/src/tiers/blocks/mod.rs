//! Blocks of the arenas: used, free, in quarantine, promised.
//!
//! | file | idea |
//! |---|---|
//! | `bitmap` | used and free blocks of one arena |
//! | `allocator` | runs of blocks for digests, of any tier; freed ones wait in quarantine until their readers have passed |
//! | `tier_blocks` | the blocks of one tier |
//! | `given_back` | blocks of which the disk has its room back |
//! | `freed` | where small runs go back to |
//! | `fast_copies` | copies of blocks of lower tiers in the fast one |
//! | `reservation` | what a digest takes and frees of them |
//! | `credits` | promises: every acknowledged entry can be digested |
//! | `space` | blocks and promises, behind one lock |
//!
//! No file here reads or writes a block.

mod allocator;
mod bitmap;
mod credits;
mod fast_copies;
mod freed;
mod given_back;
mod reservation;
mod space;
#[cfg(test)]
mod tests;
mod tier_blocks;

pub use allocator::Allocator;
pub use bitmap::Bitmap;
pub use credits::Credits;
pub use reservation::{Reservation, Run};
pub use space::Space;
