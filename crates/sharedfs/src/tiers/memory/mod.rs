//! The arenas of all tiers, mapped for as long as the daemon runs.
//!
//! | file | idea |
//! |---|---|
//! | `arenas` | the arenas of all tiers: each question goes to the right one |
//! | `tier_arenas` | the arenas of one tier, and their mappings |
//! | `lower` | lower tiers: where they lie, and whether they are this store's |
//! | `content` | what is in blocks, and its checksums |
//! | `written_arenas` | the files they are written to, where that is done by calls |
//! | `unwritten_arenas` | which of them a disk may lack something of, below a store in memory |
//! | `stamps` | in which opening of the store an arena was last written |
//! | `mend` | arenas that were cut, are gone, or are not the ones that belong there |
//! | `page_size` | when an arena's memory is made of huge pages |
//! | `steps` | which memory node each step of it came from |
//!
//! No file here knows which blocks are in use.

mod arenas;
mod content;
mod lower;
mod mend;
mod page_size;
mod stamps;
mod steps;
mod tier_arenas;
mod unwritten_arenas;
mod written_arenas;

pub use arenas::Arenas;
pub use content::ContentWriter;
pub(crate) use lower::open_arenas;
pub use lower::{LowerTierError, create_lower_tier, remove_lower_tier};
pub use mend::LostArena;
pub(crate) use mend::{Needed, lost_arenas};
pub use steps::StepNodes;
pub use tier_arenas::{Grown, TierArenas};
pub(crate) use written_arenas::is_shortage;
