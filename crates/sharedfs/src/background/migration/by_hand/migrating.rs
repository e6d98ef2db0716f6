//! Answers `cuesta migrate`: some parts of files each time, and where to go on.

use super::walk::file_behind;
use crate::SharedFs;
use crate::background::migration::Reason;
use crate::background::migration::moving::Home;
use crate::background::migration::part::{Place, Which};
use crate::requests::{Trouble, find, invalid};
use cuesta_format::wire::{Migrated, MigrationPlace, MoveCause, Refusal, Response};
use cuesta_format::{FileKind, InodeNumber, TierNumber};
use cuesta_media::emulate::settle;
use std::time::{Duration, Instant};

const REASON: Reason = Reason::of(MoveCause::ByHand);
/// How long parts are moved before the command is told how far it is.
const MOVE_TIME: Duration = Duration::from_millis(200);

/// Behind all blocks of a file.
const BEHIND: u64 = u64::MAX;

impl SharedFs {
    /// Moves or copies the content of a file, or of all files in a directory, to a tier, for a while. All logs are digested first.
    pub(crate) fn migrate(
        &self,
        path: &[u8],
        tier: TierNumber,
        is_copy: bool,
        from: &MigrationPlace,
    ) -> Result<Response, Trouble> {
        if is_copy && tier != TierNumber::FAST {
            return Err(invalid("only the fast tier has copies"));
        }
        let home = if is_copy { Home::Stays } else { Home::Moves };
        if !self.arenas.has(tier) {
            return Err(invalid("there is no such tier"));
        }
        if let Some(why) = self.arenas.why_missing(tier) {
            return Err(Trouble::Refused(Refusal::Internal(format!("tier {tier} is missing: {why}"))));
        }
        if let Some(why) = self.arenas.why_failed(tier) {
            return Err(Trouble::Refused(Refusal::Internal(format!("tier {tier} has failed: {why}"))));
        }
        if *from == MigrationPlace::default() {
            self.digest_everything()?;
        }
        let (began, mut place, mut all) = (Instant::now(), from.clone(), Migrated::default());
        loop {
            let Some((path, inode)) = self.file_at(path, &place)? else { return Ok(Response::Migrated(all)) };
            if path != place.path {
                place = MigrationPlace { path, block: 0 };
            }
            all.files += u64::from(place.block == 0);
            let way = (Which::Elsewhere, tier);
            let moved = self.move_blocks(inode, Place::From(place.block), way, home, REASON)?;
            settle();
            all.blocks += moved.blocks;
            all.blocks_stayed += moved.blocks_stayed;
            all.files_pinned += u64::from(moved.is_pinned);
            all.files_busy += u64::from(moved.is_busy);
            if moved.is_full {
                return Ok(Response::Migrated(Migrated { is_full: true, ..all }));
            }
            place.block = moved.next.unwrap_or(BEHIND);
            if began.elapsed() >= MOVE_TIME {
                return Ok(Response::Migrated(Migrated { next: Some(place), ..all }));
            }
        }
    }

    /// The file at a place, or the next one if the place is behind it, with its path below `path`.
    fn file_at(
        &self,
        path: &[u8],
        place: &MigrationPlace,
    ) -> Result<Option<(Vec<u8>, InodeNumber)>, Trouble> {
        let snapshot = self.metadata.read()?;
        let top = find(&snapshot, path)?;
        let record = snapshot.inode(top)?.ok_or(Trouble::Refused(Refusal::NotFound))?.record;
        if record.kind() == FileKind::File {
            return Ok((place.block != BEHIND).then(|| (Vec::new(), top)));
        }
        if record.kind() != FileKind::Directory {
            return Ok(None);
        }
        if place.block != BEHIND && !place.path.is_empty() {
            let below = [path, b"/", place.path.as_slice()].concat();
            match find(&snapshot, &below) {
                Ok(inode) => return Ok(Some((place.path.clone(), inode))),
                Err(Trouble::Refused(Refusal::NotFound)) => {}
                Err(trouble) => return Err(trouble),
            }
        }
        Ok(file_behind(&snapshot, top, &place.path)?)
    }
}
