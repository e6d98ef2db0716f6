//! Stores so small that everything comes round in them: made, and checked.

use cuesta_format::disk_profile::DiskProfile;
use cuesta_format::superblock::Superblock;
use cuesta_format::{Geometry, Medium, StoreId};
use cuesta_sharedfs::{LowerTier, Options, SharedFs, check, create_lower_tier};
use std::collections::BTreeMap;
use std::path::Path;

/// The folder of the lower tier, in the store's directory, so that one recorder follows both.
pub const LOWER_TIER_FOLDER: &str = "below";
/// Bytes of a lower tier: a window of it has room for four of the least staged writes.
const LOWER_TIER_BYTES: u64 = 1 << 20;

/// The store's name.
const STORE: StoreId = StoreId([7; 16]);

/// Sizes at which a log wraps and arenas fill after a few operations.
pub fn small_geometry() -> Geometry {
    Geometry {
        arena_bytes: 256 << 10,
        segment_bytes: 16 << 10,
        ring_slots: 4,
        nvm_bytes: 2 << 20,
        checks_content: true,
    }
}

/// The options that go with such sizes.
pub(super) fn small_options(await_sessions: bool) -> Options {
    Options {
        commit_file_waits: 0,
        spare_segments: 0,
        spare_arenas: 0,
        kick_bytes: 16 << 10,
        stage_bytes: 8 << 10,
        inode_numbers: 64,
        trace_events: 64,
        await_sessions,
        metadata_cache_bytes: 1 << 20,
        ..Options::default()
    }
}

/// Sizes at which a fast tier over a lower one is full after a few operations. A write that is large at first sight fits
/// into an entry of the log.
pub fn small_tiered_geometry() -> Geometry {
    Geometry { arena_bytes: 64 << 10, ring_slots: 8, nvm_bytes: 256 << 10, ..small_geometry() }
}

/// The lower tier of a store in `directory`.
fn lower_tiers(directory: &Path) -> BTreeMap<String, LowerTier> {
    let tier = LowerTier {
        number: 1,
        path: directory.join(LOWER_TIER_FOLDER),
        bytes: LOWER_TIER_BYTES,
        profile: DiskProfile::default(),
        removing: false,
    };
    BTreeMap::from([("below".to_owned(), tier)])
}

/// The options of a store with a lower tier. Writes are large, and runs are long, from few blocks on.
pub(super) fn small_tiered_options(directory: &Path) -> Options {
    Options {
        stage_bytes: 4 << 10,
        large_run_bytes: 16 << 10,
        tier: lower_tiers(directory),
        ..small_options(false)
    }
}

/// Makes a store of that size in `directory`.
pub fn create(directory: &Path, geometry: Geometry) -> Result<(), String> {
    create_on(Medium::Memory, directory, geometry)
}

/// The same on a medium.
pub fn create_on(medium: Medium, directory: &Path, geometry: Geometry) -> Result<(), String> {
    let superblock = Superblock { store: STORE, medium, geometry };
    SharedFs::create(directory, superblock).map_err(|error| error.to_string())
}

/// Makes a store with a lower tier in `directory`.
pub fn create_tiered(medium: Medium, directory: &Path) -> Result<(), String> {
    create_on(medium, directory, small_tiered_geometry())?;
    for tier in lower_tiers(directory).values() {
        create_lower_tier(STORE, tier).map_err(|error| format!("{}: {error}", tier.path.display()))?;
    }
    Ok(())
}

/// Checks a store that no process has open.
pub fn fsck(directory: &Path) -> Result<(), String> {
    fsck_with(directory, &BTreeMap::new())
}

/// Checks a store with a lower tier that no process has open.
pub fn fsck_tiered(directory: &Path) -> Result<(), String> {
    fsck_with(directory, &lower_tiers(directory))
}

fn fsck_with(directory: &Path, lower: &BTreeMap<String, LowerTier>) -> Result<(), String> {
    let failed = |error| format!("fsck: {error}");
    let report = check::check_tiers(directory, lower, check::Mode::Report).map_err(failed)?;
    let lower: Vec<LowerTier> = lower.values().cloned().collect();
    let damaged = check::check_content(directory, &lower).map_err(failed)?;
    if !damaged.is_empty() {
        return Err(format!("fsck: {damaged:?}"));
    }
    if report.is_clean() { Ok(()) } else { Err(format!("fsck: {:?}", report.findings)) }
}
