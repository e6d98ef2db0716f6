//! Extents, cut where arenas end.

use super::blocks::Run;
use cuesta_format::{BLOCK_BYTES, Extent, Geometry};

/// An extent cut where arenas end: neighbouring arenas have neighbouring addresses, but each is mapped alone.
pub fn split_at_arenas(geometry: &Geometry, extent: &Extent) -> impl Iterator<Item = Extent> + use<> {
    let geometry = *geometry;
    let mut rest = *extent;
    std::iter::from_fn(move || {
        if rest.blocks == 0 {
            return None;
        }
        let room = (geometry.arena_bytes - geometry.arena_offset(rest.address)) / BLOCK_BYTES;
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
