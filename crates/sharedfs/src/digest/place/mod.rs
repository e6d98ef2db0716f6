//! Where the content of a batch goes: into new blocks, over committed ones, or into files in mapped mode.
//!
//! | file | idea |
//! |---|---|
//! | `choice` | policy: the tier that new content goes to |
//! | `placer` | finds blocks and copies content there |
//! | `spans` | which blocks of a file are written, assembled anew, or adopted |
//! | `placements` | everything a batch places |
//! | `standing` | the committed blocks of a file that may be overwritten |
//! | `overwrites` | content that goes over committed blocks, once all else is in its place |
//! | `mapped` | content that goes into files in mapped mode |
//!
//! No file here knows logs or sessions: each gets copied bytes, and says where they are now.

mod choice;
mod mapped;
mod overwrites;
mod placements;
mod placer;
mod spans;
mod standing;

pub(crate) use choice::{FastTier, PlacementRule};
pub(crate) use placements::Placements;
pub(crate) use placer::{OutOfBlocks, Placer};
