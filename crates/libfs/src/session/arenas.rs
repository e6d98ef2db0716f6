//! The table of mapped arenas, which readers search without a lock, and the check of blocks against their
//! checksums.

use crate::sync::Mutex;
use cuesta_format::{ArenaId, BLOCK_BYTES, BlockAddress, Geometry, Medium, TierNumber};
use cuesta_media::Mapping;
use cuesta_media::emulate::{Emulated, PlayedDisk};
use std::sync::{Arc, OnceLock};

/// Arenas of one chunk of the table. A chunk is allocated when one of its arenas is first mapped.
const CHUNK_ARENAS: usize = 256;

/// Arenas that lie side by side in the table.
type Chunk = Box<[OnceLock<Mapping>]>;

/// The first block of a range whose checksum is wrong. The block is damaged, or SharedFS is writing it, or it
/// belongs to another file by now.
pub(crate) fn doubtful(
    mapping: &Mapping,
    geometry: &Geometry,
    range: (BlockAddress, u64),
) -> Option<BlockAddress> {
    let (from, bytes) = range;
    let first = from.0 / BLOCK_BYTES;
    let blocks = first..(from.0 + bytes).div_ceil(BLOCK_BYTES);
    blocks.map(|block| BlockAddress(block * BLOCK_BYTES)).find(|&address| {
        let mut kept = [0; size_of::<u32>()];
        let sum = mapping.sum(geometry.arena_offset(address), BLOCK_BYTES);
        let is_known = mapping.read(geometry.sum_offset(address), &mut kept).is_ok();
        !is_known || sum.ok() != Some(u32::from_le_bytes(kept))
    })
}

/// Numbers of lower tiers.
const TIERS_BELOW: usize = TierNumber::MAX.0 as usize;

/// Chunks of a lower tier. With arenas of 64 MiB it has 64 TiB.
const LOWER_CHUNKS: usize = 4096;

/// The mapped arenas of a tier.
type Tier = Box<[OnceLock<Chunk>]>;

fn chunks(count: usize) -> Tier {
    (0..count).map(|_| OnceLock::new()).collect()
}

/// The mapped arenas, found without a lock.
pub(crate) struct Arenas {
    fast: Tier,
    /// Tiers 1, 2 and so on. A tier's table is allocated when one of its arenas is first mapped.
    lower: [OnceLock<Tier>; TIERS_BELOW],
    pub(super) medium: Medium,
    pub(super) emulated: Option<Arc<Emulated>>,
    /// The disks that lower tiers play: of tiers 1, 2 and so on.
    played: [Option<Arc<PlayedDisk>>; TIERS_BELOW],
    /// Whether any does.
    pub(crate) plays_disks: bool,
    pub(super) mapping: Mutex<()>,
}

impl Arenas {
    /// What the fast tier plays, if it plays a slower medium.
    pub(crate) fn emulated(&self) -> Option<&Arc<Emulated>> {
        self.emulated.as_ref()
    }

    pub(crate) fn new(
        geometry: Geometry,
        medium: Medium,
        emulated: Option<Arc<Emulated>>,
        disks: Vec<(TierNumber, Arc<PlayedDisk>)>,
    ) -> Arenas {
        let fast = chunks((geometry.arenas_max() as usize).div_ceil(CHUNK_ARENAS));
        let lower = std::array::from_fn(|_| OnceLock::new());
        let mut played = [const { None }; TIERS_BELOW];
        let plays_disks = !disks.is_empty();
        for (tier, disk) in disks {
            if let Some(place) = usize::from(tier.0).checked_sub(1).and_then(|index| played.get_mut(index)) {
                *place = Some(disk);
            }
        }
        Arenas { fast, lower, medium, emulated, played, plays_disks, mapping: Mutex::new(()) }
    }

    /// The disk that a tier plays.
    pub(crate) fn played(&self, tier: TierNumber) -> Option<&PlayedDisk> {
        self.played.get(usize::from(tier.0).checked_sub(1)?)?.as_deref()
    }

    pub(super) fn place(&self, arena: ArenaId) -> Option<&OnceLock<Mapping>> {
        let index = arena.index() as usize;
        let tier = match usize::from(arena.tier().0) {
            0 => &self.fast,
            number => self.lower.get(number - 1)?.get_or_init(|| chunks(LOWER_CHUNKS)),
        };
        tier.get(index / CHUNK_ARENAS)?
            .get_or_init(|| (0..CHUNK_ARENAS).map(|_| OnceLock::new()).collect())
            .get(index % CHUNK_ARENAS)
    }

    /// The arena, if it is mapped.
    #[inline]
    pub(crate) fn get(&self, arena: ArenaId) -> Option<&Mapping> {
        let index = arena.index() as usize;
        let tier = match usize::from(arena.tier().0) {
            0 => &self.fast,
            number => self.lower.get(number - 1)?.get()?,
        };
        tier.get(index / CHUNK_ARENAS)?.get()?.get(index % CHUNK_ARENAS)?.get()
    }
}
