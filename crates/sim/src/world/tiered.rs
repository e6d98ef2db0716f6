//! A store with a lower tier, and whether it goes on behind a crash.

use super::small::small_tiered_options;
use super::{World, optimistic};
use crate::operations::operation::{OpenFlags, Operation, Outcome, PathText, Pattern, Slot};
use cuesta_format::wire::{MigrationPlace, Refusal, Request, Response, TierStatus};
use cuesta_format::{SessionId, TierNumber};
use cuesta_sharedfs::SharedFs;
use std::path::Path;

/// The file that is written later.
const LATER: &str = "/later";
/// No workload uses it.
const LATER_SLOT: Slot = 200;
/// Bytes that are large at first sight: so they go below.
const LARGE_BYTES: u32 = 32 << 10;
/// Bytes that go by the log, to the fast tier if it has room.
const SMALL_BYTES: u32 = 3000;

impl World {
    /// Opens the store with a lower tier in `directory`, which recovers it, and attaches.
    pub fn open_tiered(directory: &Path) -> Result<World, String> {
        World::open_with(directory, small_tiered_options(directory))
    }

    /// The same in optimistic mode, after a loss of power. Nothing writes logs in the background.
    pub fn open_optimistic_tiered(directory: &Path) -> Result<World, String> {
        World::open_with(directory, optimistic(small_tiered_options(directory)))
    }

    /// Blocks that files use, of the fast tier and of those below.
    pub fn blocks_used(&self) -> Result<Vec<u64>, String> {
        let tiers = tiers(&self.daemon.current())?;
        Ok(tiers.iter().map(|tier| tier.blocks_used).collect())
    }

    /// Blocks that no file uses and that are not free either: the reserve, as long as no session has freed any.
    pub fn blocks_kept(&self) -> Result<u64, String> {
        let shared = self.daemon.current();
        let used: u64 = tiers(&shared)?.iter().map(|tier| tier.blocks_used).sum();
        let totals = shared.totals().map_err(|error| format!("totals: {error}"))?;
        (totals.blocks).checked_sub(totals.blocks_free + used).ok_or_else(|| {
            format!("{} blocks are free and {used} in use, of {}", totals.blocks_free, totals.blocks)
        })
    }

    /// Moves all content below a path to a tier, as far as it has room.
    pub fn migrate(&self, path: &str, tier: TierNumber) -> Result<(), String> {
        self.move_to(path, tier, false)
    }

    /// Copies all content below a path to the fast tier, as far as it has room.
    pub fn copy_up(&self, path: &str) -> Result<(), String> {
        self.move_to(path, TierNumber::FAST, true)
    }

    fn move_to(&self, path: &str, tier: TierNumber, is_copy: bool) -> Result<(), String> {
        let shared = self.daemon.current();
        let mut from = Some(MigrationPlace::default());
        while let Some(place) = from {
            let path = path.trim_start_matches('/').as_bytes().to_vec();
            let request = Request::Migrate { path, tier, is_copy, from: place };
            from = match shared.handle(SessionId::NOBODY, &request, &mut Vec::new()) {
                Response::Migrated(migrated) => migrated.next,
                Response::Failed(Refusal::NotFound) => None,
                other => return Err(format!("migrate to {tier}: {other:?}")),
            };
        }
        Ok(())
    }

    /// Writes a file with blocks of the lower tier and others, digests it, reads it, and removes it.
    pub fn write_later(&mut self) -> Result<(), String> {
        let failed = |what: &str, error: &dyn std::fmt::Display| format!("a later write: {what}: {error}");
        let flags =
            OpenFlags { read: true, write: true, create: true, exclusive: true, ..OpenFlags::default() };
        let [large, small] = [LARGE_BYTES, SMALL_BYTES].map(|length| Pattern { seed: 99, length });
        let (path, slot) = (PathText::from(LATER), LATER_SLOT);
        let before = self.blocks_used()?;
        let calls = [
            Operation::Open { slot, path: path.clone(), flags, mode: 0o600 },
            Operation::Write { slot, data: large },
            Operation::Write { slot, data: small },
        ];
        for call in &calls {
            self.apply(call).map_err(|errno| failed(&format!("{call:?}"), &errno))?;
        }
        self.digest()?;
        let used = self.blocks_used()?;
        let gained: u64 = used.iter().zip(&before).map(|(now, before)| now.saturating_sub(*before)).sum();
        if gained != 9 || used[1] < before[1] + 8 {
            return Err(format!("a later write: the tiers had {before:?} blocks in use, and have {used:?}"));
        }
        let read = Operation::Pread { slot, offset: 0, length: LARGE_BYTES + SMALL_BYTES };
        match self.apply(&read) {
            Ok(Outcome::Bytes(bytes)) if bytes == [large.bytes(), small.bytes()].concat() => {}
            Ok(_) => return Err("a later write: other bytes are read than were written".to_owned()),
            Err(errno) => return Err(failed("read", &errno)),
        }
        for call in [Operation::Close { slot }, Operation::Unlink { path }] {
            self.apply(&call).map_err(|errno| failed(&format!("{call:?}"), &errno))?;
        }
        self.digest()
    }
}

fn tiers(shared: &SharedFs) -> Result<Vec<TierStatus>, String> {
    match shared.handle(SessionId::NOBODY, &Request::Status, &mut Vec::new()) {
        Response::Status(status) => match status.tiers.iter().find(|tier| tier.missing.is_some()) {
            Some(tier) => Err(format!("tier {} is missing: {:?}", tier.number, tier.missing)),
            None => Ok(status.tiers),
        },
        other => Err(format!("status: {other:?}")),
    }
}
