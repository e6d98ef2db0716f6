//! The allocator of a store that is opened: the blocks that committed files use, and those that logs may name.

use crate::Error;
use crate::metadata::{KeptWindow, MetadataStore};
use crate::sessions::OccupiedSlot;
use crate::tiers::{Allocator, Arenas, Bitmap, Run, Windows, window_rest};
use cuesta_format::{ArenaId, BLOCK_BYTES, BlockAddress, Geometry, SessionId};

/// The blocks committed files use, from the metadata store, and the windows of sessions whose logs count. A window of
/// another session is free: its log was digested before its slot of the session table was given up.
pub(crate) fn load_allocator(
    metadata: &MetadataStore,
    arenas: &Arenas,
    geometry: Geometry,
    occupied: &[OccupiedSlot],
) -> Result<(Allocator, Windows), Error> {
    let snapshot = metadata.read()?;
    let counts = |session| occupied.iter().any(|(_, record)| !record.ended && record.session == session);
    let kept: Vec<KeptWindow> =
        snapshot.windows()?.into_iter().filter(|(session, ..)| counts(*session)).collect();
    let mut granted = Vec::new();
    for (session, address, record) in &kept {
        let rest = window_rest(*address, record);
        granted.extend(rest.ok_or_else(|| damaged_window(*session, *address))?);
    }
    let mut allocator = Allocator::new(geometry);
    for arena in 0..arenas.count() {
        let bytes = snapshot.arena(ArenaId(arena))?.unwrap_or_default();
        let bitmap = Bitmap::from_bytes(geometry.arena_blocks(), &bytes);
        let bad = snapshot.bad_blocks(ArenaId(arena))?.unwrap_or_default();
        let bad = Bitmap::from_bytes(geometry.arena_blocks(), &bad);
        let is_last = arena + 1 == arenas.count();
        let made = if is_last {
            end_of_granted(&granted, &geometry, ArenaId(arena)).max(bitmap.end_of_used())
        } else {
            geometry.arena_blocks()
        };
        if is_last {
            arenas.resume(made);
        }
        allocator.add_arena(bitmap, bad, made, &arenas.nodes(ArenaId(arena), made)?);
    }
    match snapshot.arenas()?.last() {
        Some((last, _)) if last.0 >= arenas.count() => {
            return Err(Error::Damaged(format!("arena {last} is missing")));
        }
        _ => {}
    }
    let mut windows = Windows::default();
    for (session, address, record) in &kept {
        if !windows.find(*session, *address, record) {
            return Err(damaged_window(*session, *address));
        }
    }
    granted.into_iter().for_each(|run| allocator.occupy_window(run));
    Ok((allocator, windows))
}

fn damaged_window(session: SessionId, address: BlockAddress) -> Error {
    Error::Damaged(format!("the window at {address} of session {session} cannot be read"))
}

/// Behind the last granted block of an arena.
fn end_of_granted(granted: &[Run], geometry: &Geometry, arena: ArenaId) -> u32 {
    let inside = granted.iter().filter(|run| geometry.arena(run.address) == arena);
    let end = |run: &Run| (geometry.arena_offset(run.address) / BLOCK_BYTES) as u32 + run.blocks;
    inside.map(end).max().unwrap_or(0).min(geometry.arena_blocks())
}
