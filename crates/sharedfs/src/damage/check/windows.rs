//! Windows: blocks that logs may name are neither a file's nor another window's. Only the windows of sessions that
//! are in the session table count.

use super::problem::Problem;
use crate::Error;
use crate::metadata::Snapshot;
use crate::sessions::TableRead;
use crate::tiers::{Bitmap, Run, window_rest};
use cuesta_format::superblock::Superblock;
use cuesta_format::{ArenaId, BLOCK_BYTES, BlockAddress, Geometry, SessionId};
use std::collections::BTreeMap;
use std::path::Path;

/// Compares the windows at rest with the blocks that files use.
pub(super) fn problems(
    tier: &Path,
    superblock: &Superblock,
    snapshot: &Snapshot,
    used: &BTreeMap<ArenaId, Bitmap>,
) -> Result<Vec<Problem>, Error> {
    let table = TableRead::of(tier, superblock.geometry.ring_slots, superblock.store)?;
    let counts =
        |session: SessionId| table.occupied().any(|(_, record)| !record.ended && record.session == session);
    let windows = snapshot.windows()?.into_iter().filter(|(session, ..)| counts(*session));
    Ok(compare(&superblock.geometry, windows, used))
}

fn compare(
    geometry: &Geometry,
    windows: impl Iterator<Item = (SessionId, BlockAddress, Vec<u8>)>,
    used: &BTreeMap<ArenaId, Bitmap>,
) -> Vec<Problem> {
    let mut taken = used.clone();
    let mut take = |run: &Run| {
        let first = (geometry.arena_offset(run.address) / BLOCK_BYTES) as u32;
        let arena = taken.get_mut(&geometry.arena(run.address));
        arena
            .filter(|arena| u64::from(first) + u64::from(run.blocks) <= u64::from(arena.blocks()))
            .is_some_and(|arena| arena.set(first, run.blocks) == 0)
    };
    let mut is_sound = |address, record: &[u8]| {
        window_rest(address, record)
            .is_some_and(|granted| granted.iter().fold(true, |sound, run| take(run) & sound))
    };
    windows
        .filter_map(|(session, address, record)| {
            (!is_sound(address, &record)).then_some(Problem::Window { session, address })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tiers::Windows;

    #[test]
    fn a_granted_block_is_no_files_and_of_one_window() {
        let geometry = Geometry { arena_bytes: 64 << 10, nvm_bytes: 128 << 10, ..Geometry::default() };
        let mut used: BTreeMap<_, _> = [0, 1].map(|arena| (ArenaId(arena), Bitmap::new(16))).into();
        used.get_mut(&ArenaId(0)).unwrap().set(2, 2);
        let window = |session, block: u64, blocks| {
            let address = BlockAddress(block * BLOCK_BYTES);
            (SessionId(session), address, Windows::record_of_new(Run { address, blocks }))
        };
        let wrong = |windows: Vec<_>| -> Vec<u64> {
            let problems = compare(&geometry, windows.into_iter(), &used);
            let session = |problem: &Problem| match problem {
                Problem::Window { session, .. } => session.0,
                other => panic!("{other}"),
            };
            problems.iter().map(session).collect()
        };
        assert_eq!(wrong(vec![window(1, 4, 12), window(2, 16, 16), window(3, 0, 2)]), []);
        assert_eq!(wrong(vec![window(1, 1, 2), window(2, 4, 4), window(3, 7, 1)]), [1, 3]);
        assert_eq!(wrong(vec![window(1, 30, 4), window(2, 40, 1)]), [1, 2], "they lie where no arena is");
        assert_eq!(wrong(vec![(SessionId(1), BlockAddress(0), vec![1])]), [1]);
    }
}
