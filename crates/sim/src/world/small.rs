//! Stores so small that everything comes round in them: made, and checked.

use cuesta_format::superblock::Superblock;
use cuesta_format::{Geometry, Medium, StoreId};
use cuesta_sharedfs::{Options, SharedFs, check};
use std::path::Path;

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

/// Makes a store of that size in `directory`.
pub fn create(directory: &Path, geometry: Geometry) -> Result<(), String> {
    create_on(Medium::Memory, directory, geometry)
}

/// The same on a medium.
pub fn create_on(medium: Medium, directory: &Path, geometry: Geometry) -> Result<(), String> {
    let superblock = Superblock { store: StoreId([7; 16]), medium, geometry };
    SharedFs::create(directory, superblock).map_err(|error| error.to_string())
}

/// Checks a store that no process has open.
pub fn fsck(directory: &Path) -> Result<(), String> {
    let report = check::check(directory, check::Mode::Report).map_err(|error| format!("fsck: {error}"))?;
    let damaged = check::check_content(directory, &[]).map_err(|error| format!("fsck: {error}"))?;
    if !damaged.is_empty() {
        return Err(format!("fsck: {damaged:?}"));
    }
    if report.is_clean() { Ok(()) } else { Err(format!("fsck: {:?}", report.findings)) }
}
