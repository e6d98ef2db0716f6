//! The sizes of a new store, from the bytes it has for file contents.

use crate::messages::failure::{Failure, WRONG_USAGE};
use cuesta_format::Geometry;
use std::path::Path;

/// The smallest arena, and so the smallest fast tier.
pub(super) const ARENA_BYTES_MIN: u64 = 1 << 20;

/// The sizes of a store with so many bytes for file contents, in arenas of `arena_bytes_min` at least.
pub(super) fn sizes(place: &Path, bytes: u64, arena_bytes_min: u64) -> Result<Geometry, Failure> {
    let arena_bytes = match bytes >> 20 {
        0..64 => ARENA_BYTES_MIN,
        64..1024 => 16 << 20,
        _ => Geometry::default().arena_bytes,
    };
    let arena_bytes = arena_bytes_min.max(arena_bytes);
    let geometry =
        Geometry { arena_bytes, nvm_bytes: bytes / arena_bytes * arena_bytes, ..Geometry::default() };
    geometry.check().map_err(|error| Failure::on(place, error).exiting(WRONG_USAGE))
}
