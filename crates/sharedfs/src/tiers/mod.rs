//! The fast tier: arenas, which blocks of them are in use, and who was promised how many.
//!
//! | file | idea |
//! |---|---|
//! | `parts` | where segments and arenas lie: in files, or on a device of bytes |
//! | `zones` | what of that device is taken |
//! | `arenas` | the arena files and their mappings |
//! | `content` | what is in blocks, and its checksums |
//! | `mend` | arenas that were cut, are gone, or are not the ones that belong there |
//! | `stamps` | in which opening of the store an arena was last written |
//! | `written_arenas` | the files they are written to where that is done by calls |
//! | `region` | what the kernel knows of the persistent memory they lie on |
//! | `page_size` | when an arena's memory is made of huge pages |
//! | `steps` | which memory node each of them came from |
//! | `bitmap` | used and free blocks of one arena |
//! | `allocator` | runs of blocks for digests; freed ones wait in quarantine until their readers have passed |
//! | `freed` | where small runs go back to |
//! | `reservation` | what a digest takes and frees of them |
//! | `credits` | promises: what was acknowledged can always be digested |

mod allocator;
mod arenas;
mod bitmap;
mod content;
mod credits;
mod freed;
mod mend;
mod page_size;
mod parts;
pub(crate) mod placement;
mod region;
mod reservation;
mod room;
mod space;
mod stamps;
mod steps;
mod written_arenas;
mod zones;

pub use allocator::Allocator;
pub use arenas::{Arenas, Grown};
pub use bitmap::Bitmap;
pub use content::ContentWriter;
pub use credits::Credits;
pub use mend::LostArena;
pub(crate) use mend::{Needed, lost_arenas, mend_arenas};
pub use parts::{Part, Parts, medium_of_files, release_device, room_on_device, superblock_on_device};
pub(crate) use parts::{claim_device, region};
pub(crate) use placement::{SpareSegments, lacking_memory};
pub use region::{Region, namespace_of_device};
pub use reservation::{Reservation, Run};
pub(crate) use room::METADATA_SLACK_BYTES;
pub use space::Space;
pub(crate) use stamps::ArenaStamps;

use cuesta_format::{BLOCK_BYTES, Extent, Geometry};

/// An extent cut where arenas end: neighbouring arenas have neighbouring addresses, but each is mapped alone.
pub fn split_at_arenas(geometry: &Geometry, extent: &Extent) -> impl Iterator<Item = Extent> + use<> {
    let arena_bytes = geometry.arena_bytes;
    let mut rest = *extent;
    std::iter::from_fn(move || {
        if rest.blocks == 0 {
            return None;
        }
        let room = (arena_bytes - rest.address.0 % arena_bytes) / BLOCK_BYTES;
        let blocks = u64::from(rest.blocks).min(room) as u32;
        let part = Extent { blocks, ..rest };
        rest = Extent {
            file_block: part.end_block(),
            blocks: rest.blocks - blocks,
            address: rest.address.plus(u64::from(blocks) * BLOCK_BYTES),
        };
        Some(part)
    })
}

/// The runs of blocks an extent takes.
pub fn runs_of(geometry: &Geometry, extent: &Extent) -> impl Iterator<Item = Run> + use<> {
    split_at_arenas(geometry, extent).map(|part| Run { address: part.address, blocks: part.blocks })
}
