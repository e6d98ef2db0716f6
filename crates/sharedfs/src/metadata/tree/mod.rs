//! The committed state: the tree, and the journal's changes over it.
//!
//! | file | idea |
//! |---|---|
//! | `opened` | redb on its file |
//! | `guard` | damage that redb meets becomes an error |
//! | `layered` | the tree with the journal's changes over it, in key order |
//! | `snapshot` | the committed state of one moment |
//! | `calls` | callers' calls in a snapshot |
//! | `gaps` | which names and numbers are free |
//! | `paths` | paths of inodes, for people |
//! | `apply` | sorted changes go into a table |
//!
//! No file here knows how changes are gathered.

mod apply;
mod calls;
mod gaps;
pub(crate) mod guard;
mod layered;
mod opened;
pub(crate) mod paths;
mod snapshot;

pub(super) use apply::apply_sorted;
pub(super) use guard::{Tree, guarded, is_damage_noted};
pub(super) use layered::{Bounds, Direction, Overlay, TreeAt};
pub(super) use opened::Opened;
pub use snapshot::{Entry, KeptWindow, Snapshot};
