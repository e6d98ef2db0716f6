//! The allocator of a store that is opened: the blocks that committed files use.

use crate::Error;
use crate::metadata::{MetadataStore, Snapshot};
use crate::tiers::{Allocator, Arenas, Bitmap, TierArenas};
use cuesta_format::{ArenaId, Geometry, TierNumber};

/// The blocks committed files use, from the metadata store.
pub(crate) fn load_allocator(
    metadata: &MetadataStore,
    arenas: &Arenas,
    geometry: Geometry,
) -> Result<Allocator, Error> {
    let snapshot = metadata.read()?;
    let mut allocator = Allocator::new(geometry, arenas.tiers_count());
    for tier in arenas.tiers() {
        load_tier(&mut allocator, &snapshot, tier, geometry)?;
    }
    for tier in arenas.missing() {
        load_missing_tier(&mut allocator, &snapshot, tier, geometry)?;
    }
    Ok(allocator)
}

fn bitmaps(snapshot: &Snapshot, arena: ArenaId, geometry: &Geometry) -> Result<(Bitmap, Bitmap), Error> {
    let bitmap =
        |bytes: Option<Vec<u8>>| Bitmap::from_bytes(geometry.arena_blocks(), &bytes.unwrap_or_default());
    Ok((bitmap(snapshot.arena(arena)?), bitmap(snapshot.bad_blocks(arena)?)))
}

fn load_tier(
    allocator: &mut Allocator,
    snapshot: &Snapshot,
    arenas: &TierArenas,
    geometry: Geometry,
) -> Result<(), Error> {
    let tier = arenas.number();
    for index in 0..arenas.count() {
        let arena = ArenaId::new(tier, index.into());
        let (used, bad) = bitmaps(snapshot, arena, &geometry)?;
        let is_last = index + 1 == arenas.count();
        let made = if is_last { used.end_of_used() } else { geometry.arena_blocks() };
        if is_last {
            arenas.resume(made);
        }
        allocator.add_arena(tier, used, bad, made, &arenas.nodes(arena, made)?);
    }
    match snapshot.arenas()?.iter().rfind(|(arena, _)| arena.tier() == tier) {
        Some((last, _)) if last.index() >= arenas.count() => {
            Err(Error::Damaged(format!("arena {last} is missing")))
        }
        _ => Ok(()),
    }
}

/// The blocks of a tier that is not there: files keep those they have, and none is free.
fn load_missing_tier(
    allocator: &mut Allocator,
    snapshot: &Snapshot,
    tier: TierNumber,
    geometry: Geometry,
) -> Result<(), Error> {
    let count = snapshot.arenas_written_in(tier)?.len() as u64;
    for index in 0..count {
        let (used, bad) = bitmaps(snapshot, ArenaId::new(tier, index), &geometry)?;
        allocator.add_arena(tier, used, bad, 0, &[]);
    }
    allocator.refuse_writes(tier);
    Ok(())
}
