//! Moves cold content down, one part of a file at a time, as [`levels`](cuesta_placement::Level) and [`coldness`](super::coldness) say.

use super::candidates::Candidates;
use super::coldness::cold_before;
use super::mover::Mover;
use super::part::Which;
use super::waking::Wait;
use crate::requests::Trouble;
use crate::tiers::{Space, blocks_in};
use crate::{Error, SharedFs};
use cuesta_format::{BLOCK_BYTES, TierNumber};
use cuesta_media::clock;
use cuesta_media::emulate::settle;
use cuesta_placement::{Level, low_mark};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// If nothing is cold enough, the mover looks again so much later, and twice as late each time.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
const LOOK_AGAIN_MAX: Duration = Duration::from_secs(60);

impl SharedFs {
    /// Whether content can move by itself.
    pub(crate) fn migrates(&self) -> bool {
        self.options.migration.is_on() && self.arenas.tiers_count() > 1
    }

    /// A digest ended: if the fast tier is too full by now, the mover wakes up.
    pub(crate) fn note_usage(&self) {
        if self.migrates() {
            self.migration.waking.wake_above(|| self.usage(TierNumber::FAST).map_or(0, thousandths));
        }
    }

    /// Moves a part of a cold file down, if a tier is too full; then waits until the next part is due. Says whether to call again.
    pub(crate) fn migrate_some(&self) -> bool {
        let wait = self.demote_some();
        settle();
        self.migration.waking.wait(wait)
    }

    /// [`SharedFs::migrate_some`] returns, and does no more.
    pub(crate) fn stop_migrating(&self) {
        self.migration.waking.end();
    }

    fn demote_some(&self) -> Wait {
        let began = Instant::now();
        let mut mover = self.migration.mover.lock();
        self.note_reads_and_writes(&mut mover);
        let Some((from, level)) = self.most_urgent(&mut mover) else {
            (mover.candidates, mover.current) = (None, None);
            return Wait::UntilAbove(mover.low_mark);
        };
        match self.demote_part(&mut mover, from, level) {
            Ok(Some(blocks)) => {
                mover.look_again = LOOK_AGAIN;
                let took = began.elapsed();
                Wait::For(level.pause_after(took).max(self.pause_for_limit(blocks).saturating_sub(took)))
            }
            Ok(None) => {
                let pause = mover.look_again.max(LOOK_AGAIN);
                mover.look_again = (pause * 2).min(LOOK_AGAIN_MAX);
                Wait::For(pause)
            }
            Err(error) => {
                tracing::warn!(%error, tier = from.0, "content cannot be moved down now");
                Wait::For(LOOK_AGAIN_MAX)
            }
        }
    }

    /// Moves the next part of the coldest file, and answers its blocks. `None`: nothing is cold enough, or no tier below has room.
    fn demote_part(&self, mover: &mut Mover, from: TierNumber, level: Level) -> Result<Option<u64>, Error> {
        let Some(to) = self.tier_below(from) else { return Ok(None) };
        if mover.candidates.as_ref().is_none_or(|(tier, _)| *tier != from) {
            (mover.candidates, mover.current) = (None, None);
        }
        let mut has_looked = false;
        loop {
            let next = || mover.candidates.as_mut().and_then(|(_, files)| Some((files.next()?, 0)));
            let Some((inode, block)) = mover.current.take().or_else(next) else {
                if has_looked {
                    return Ok(None);
                }
                has_looked = true;
                let now = clock::now();
                let cold_seconds = if level == Level::Emergency { 0 } else { self.options.cold_seconds };
                let found =
                    Candidates::find(&self.metadata.read()?, from, now, cold_before(now, cold_seconds))?;
                mover.candidates = Some((from, found));
                continue;
            };
            if self.migration.pins.keeps(inode) {
                continue;
            }
            let moved = match self.move_part(inode, block, Which::Only(from), to) {
                Ok(moved) => moved,
                Err(Trouble::Failed(error)) => return Err(error),
                // It is gone.
                Err(Trouble::Refused(_)) => continue,
            };
            mover.current = moved.next.map(|block| (inode, block));
            if moved.is_full {
                return Ok(None);
            }
            if moved.blocks > 0 {
                self.counters.blocks_demoted.fetch_add(moved.blocks, Ordering::Relaxed);
                return Ok(Some(moved.blocks));
            }
        }
    }

    /// The tier right below one that takes content; the next one if that does not.
    fn tier_below(&self, from: TierNumber) -> Option<TierNumber> {
        let space = self.space.lock();
        let mut below = (from.0 + 1..self.arenas.tiers_count()).map(TierNumber);
        below.find(|&tier| {
            self.arenas.tier(tier).is_ok()
                && space.allocator.takes_writes(tier)
                && self.usage_in(&space, tier).is_some_and(|(used, blocks)| used < blocks)
        })
    }

    /// The first of the most urgent tiers that have one below, and its level.
    fn most_urgent(&self, mover: &mut Mover) -> Option<(TierNumber, Level)> {
        let tiers = self.arenas.tiers_count();
        mover.levels.resize(usize::from(tiers), Level::Rest);
        let low_mark = mover.low_mark;
        for (number, level) in mover.levels.iter_mut().enumerate() {
            let usage = self.usage(TierNumber(number as u8));
            *level = usage.map_or(Level::Rest, |(used, blocks)| level.next(used, blocks, low_mark));
        }
        let upper = mover.levels.iter().enumerate().take(usize::from(tiers) - 1);
        let urgent = upper.rev().max_by_key(|(_, level)| **level).filter(|(_, level)| **level > Level::Rest);
        urgent.map(|(number, level)| (TierNumber(number as u8), *level))
    }

    /// Blocks of a tier that files use, and all that it may have; `None`: it is missing.
    fn usage(&self, tier: TierNumber) -> Option<(u64, u64)> {
        self.usage_in(&self.space.lock(), tier)
    }

    fn usage_in(&self, space: &Space, tier: TierNumber) -> Option<(u64, u64)> {
        let arenas = self.arenas.tier(tier).ok()?;
        Some((space.allocator.used_blocks(tier), blocks_in(arenas)))
    }

    /// Moves the low mark to what programs did since the last time.
    fn note_reads_and_writes(&self, mover: &mut Mover) {
        let core = self.core.lock();
        let (read, written) = core.sessions.values().fold((0_u64, 0_u64), |(read, written), session| {
            let (more_read, more_written) = session.control.bytes_moved();
            (read.saturating_add(more_read), written.saturating_add(more_written))
        });
        drop(core);
        // Sessions that ended take theirs with them.
        let since = (read.saturating_sub(mover.seen.0), written.saturating_sub(mover.seen.1));
        let decayed = |before: u64, since: u64| (before - before.div_ceil(8)).saturating_add(since);
        mover.recent = (decayed(mover.recent.0, since.0), decayed(mover.recent.1, since.1));
        mover.low_mark = low_mark(mover.recent.0, mover.recent.1);
        mover.seen = (read, written);
    }

    /// How long so many blocks take at the most that the configuration allows.
    fn pause_for_limit(&self, blocks: u64) -> Duration {
        match self.options.migration_mb_per_second {
            0 => Duration::ZERO,
            limit => Duration::from_micros(blocks * BLOCK_BYTES / u64::from(limit)),
        }
    }
}

/// How much of a tier is used, in thousandths.
fn thousandths((used, blocks): (u64, u64)) -> u64 {
    used.saturating_mul(1000).checked_div(blocks).unwrap_or(0)
}
