//! The allocator of a store that is opened: the blocks that committed files use, and those that logs may name.

use crate::Error;
use crate::metadata::{KeptWindow, MetadataStore, Snapshot};
use crate::sessions::OccupiedSlot;
use crate::tiers::{Allocator, Arenas, Bitmap, Run, TierArenas, Windows, window_rest};
use cuesta_format::{ArenaId, BLOCK_BYTES, BlockAddress, Geometry, SessionId, TierNumber};

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
    let mut allocator = Allocator::new(geometry, arenas.tiers_count());
    for tier in arenas.tiers() {
        load_tier(&mut allocator, &snapshot, tier, geometry, &granted)?;
    }
    for tier in arenas.missing() {
        load_missing_tier(&mut allocator, &snapshot, tier, geometry)?;
    }
    for tier in (0..arenas.tiers_count()).map(TierNumber).filter(|&tier| !arenas.has(tier)) {
        allocator.refuse_writes(tier);
    }
    granted.iter().for_each(|&run| allocator.occupy_window(run));
    for tier in arenas.tiers().filter(|tier| tier.makes_room_below()) {
        allocator.doubt_room(tier.number());
    }
    let mut windows = Windows::default();
    for (session, address, record) in &kept {
        if !windows.find(*session, *address, record) {
            return Err(damaged_window(*session, *address));
        }
    }
    Ok((allocator, windows))
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
    granted: &[Run],
) -> Result<(), Error> {
    let tier = arenas.number();
    for index in 0..arenas.count() {
        let arena = ArenaId::new(tier, index.into());
        let (used, bad) = bitmaps(snapshot, arena, &geometry)?;
        let is_last = index + 1 == arenas.count();
        let granted_to = end_of_granted(granted, &geometry, arena);
        let made = if is_last { used.end_of_used().max(granted_to) } else { geometry.arena_blocks() };
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

fn damaged_window(session: SessionId, address: BlockAddress) -> Error {
    Error::Damaged(format!("the window at {address} of session {session} cannot be read"))
}

/// Behind the last granted block of an arena.
fn end_of_granted(granted: &[Run], geometry: &Geometry, arena: ArenaId) -> u32 {
    let inside = granted.iter().filter(|run| geometry.arena(run.address) == arena);
    let end = |run: &Run| (geometry.arena_offset(run.address) / BLOCK_BYTES) as u32 + run.blocks;
    inside.map(end).max().unwrap_or(0).min(geometry.arena_blocks())
}
