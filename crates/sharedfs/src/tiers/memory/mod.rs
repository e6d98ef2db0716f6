//! The arenas, mapped for as long as the daemon runs.
//!
//! | file | idea |
//! |---|---|
//! | `arenas` | the arenas and their mappings |
//! | `content` | what is in blocks, and its checksums |
//! | `written_arenas` | the files they are written to, where that is done by calls |
//! | `stamps` | in which opening of the store an arena was last written |
//! | `mend` | arenas that were cut, are gone, or are not the ones that belong there |
//! | `page_size` | when an arena's memory is made of huge pages |
//! | `steps` | which memory node each step of it came from |
//!
//! No file here knows which blocks are in use.

mod arenas;
mod content;
mod mend;
mod page_size;
mod stamps;
mod steps;
mod written_arenas;

pub use arenas::{Arenas, Grown};
pub use content::ContentWriter;
pub use mend::LostArena;
pub(crate) use mend::{Needed, lost_arenas, mend_arenas};
pub(crate) use stamps::ArenaStamps;
pub use steps::StepNodes;
