//! The allocator of a store that is opened: the blocks that committed files use.

use crate::Error;
use crate::metadata::MetadataStore;
use crate::tiers::{Allocator, Arenas, Bitmap};
use cuesta_format::{ArenaId, Geometry};

/// The blocks committed files use, from the metadata store.
pub(crate) fn load_allocator(
    metadata: &MetadataStore,
    arenas: &Arenas,
    geometry: Geometry,
) -> Result<Allocator, Error> {
    let snapshot = metadata.read()?;
    let mut allocator = Allocator::new(geometry);
    for arena in 0..arenas.count() {
        let bytes = snapshot.arena(ArenaId(arena))?.unwrap_or_default();
        let bitmap = Bitmap::from_bytes(geometry.arena_blocks(), &bytes);
        let bad = snapshot.bad_blocks(ArenaId(arena))?.unwrap_or_default();
        let bad = Bitmap::from_bytes(geometry.arena_blocks(), &bad);
        let is_last = arena + 1 == arenas.count();
        let made = if is_last { bitmap.end_of_used() } else { geometry.arena_blocks() };
        if is_last {
            arenas.resume(made);
        }
        allocator.add_arena(bitmap, bad, made, &arenas.nodes(ArenaId(arena), made)?);
    }
    match snapshot.arenas()?.last() {
        Some((last, _)) if last.0 >= arenas.count() => {
            Err(Error::Damaged(format!("arena {last} is missing")))
        }
        _ => Ok(allocator),
    }
}
