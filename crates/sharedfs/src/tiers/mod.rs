//! The tiers: arenas, which blocks of them are in use, and how many each session was promised.
//!
//! | room | idea |
//! |---|---|
//! | `device` | where segments and arenas lie: in files, or on a character device of persistent memory |
//! | `memory` | the arenas, mapped: their memory, their content and its checksums |
//! | `blocks` | free and used blocks, quarantine, promises |
//! | `lower_tier` | a lower tier, as the configuration names it |
//! | `extents` | extents cut where arenas end |
//! | `room` | how many blocks may be promised |
//! | `placement` | on which memory node logs and content lie |
//! | `windows` | free blocks that sessions write and name in their logs |
//!
//! Nothing but `room` knows sessions, and nothing knows files.

mod blocks;
mod device;
mod extents;
mod lower_tier;
mod memory;
mod placement;
mod room;
mod windows;

pub use blocks::{Allocator, Bitmap, Credits, Reservation, Run, Space};
pub use device::{
    Part, Parts, Region, is_empty_disk, medium_of_files, namespace_of_device, release_device, room_on_device,
    room_on_disk, superblock_on_device,
};
pub(crate) use device::{claim_device, region};
pub use extents::{runs_of, split_at_arenas};
pub use lower_tier::LowerTier;
pub(crate) use lower_tier::check_tiers;
pub(crate) use memory::open_arenas;
pub use memory::{
    Arenas, ContentWriter, Grown, LostArena, LowerTierError, TierArenas, create_lower_tier, remove_lower_tier,
};
pub(crate) use memory::{Needed, is_shortage, lost_arenas};
pub(crate) use placement::{SpareSegments, lacking_memory};
pub(crate) use room::{METADATA_SLACK_BYTES, blocks_in, blocks_of, unmade_in};
pub(crate) use windows::{Claims, Windows, window_rest};
