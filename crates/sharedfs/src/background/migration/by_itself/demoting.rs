//! Moves cold content down, some pieces at a time, as [`Level`] and the policy of the tier say.

use super::coldness::cold_before;
use super::looking::look;
use super::mover::{Border, Mover, moment};
use super::waking::Wait;
use crate::background::migration::moving::{Home, Moved, Task};
use crate::background::migration::part::{PART_BLOCKS, Place, Which};
use crate::background::migration::{Pins, Reason};
use crate::requests::Trouble;
use crate::tiers::{Space, blocks_in};
use crate::{Error, SharedFs};
use cuesta_format::wire::MoveCause;
use cuesta_format::{BLOCK_BYTES, InodeNumber, TierNumber};
use cuesta_media::clock;
use cuesta_media::emulate::settle;
use cuesta_placement::{Choice, LONG_WAIT, Level, Policy, Side, low_mark};
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// If nothing is cold enough, the mover looks again so much later, and twice as late each time.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
const LOOK_AGAIN_MAX: Duration = Duration::from_secs(60);
/// So many small files move with one flush of the disk and one transaction. Programs wait for all of them while that is made.
const FILES_TOGETHER_MAX: usize = 32;
/// If sessions read nothing below the fast tier, the mover asks again so much later, and twice as late each time.
const READ_AGAIN: Duration = Duration::from_millis(100);
const READ_AGAIN_MAX: Duration = Duration::from_secs(2);

impl SharedFs {
    /// Whether content can move by itself.
    pub(crate) fn migrates(&self) -> bool {
        self.options.migration.policy().is_some() && self.arenas.tiers_count() > 1
    }

    /// A digest ended: if the fast tier is too full by now, the mover wakes up.
    pub(crate) fn note_usage(&self) {
        if self.migrates() {
            self.migration.waking.wake_above(|| self.usage(TierNumber::FAST).map_or(0, thousandths));
        }
    }

    /// Moves some cold content down, if a tier is too full, and copies some hot content up, if there is room; then waits until more is
    /// due. Says whether to call again.
    pub(crate) fn migrate_some(&self) -> bool {
        let wait = self.migrate_now();
        settle();
        self.migration.waking.wait(wait)
    }

    /// [`SharedFs::migrate_some`] returns, and does no more.
    pub(crate) fn stop_migrating(&self) {
        self.migration.waking.end();
    }

    fn migrate_now(&self) -> Wait {
        let began = Instant::now();
        let mut mover = self.migration.mover.lock();
        self.note_reads_and_writes(&mut mover);
        let reads = self.learn(&mut mover);
        mover.read_again = match reads {
            0 => (mover.read_again * 2).clamp(READ_AGAIN, READ_AGAIN_MAX),
            _ => READ_AGAIN,
        };
        let urgent = self.most_urgent(&mut mover);
        self.migration.show_levels(&mover.levels, mover.low_mark);
        let demoted = match urgent {
            Some((from, level)) => self.demote(&mut mover, from, level),
            None => Ok(0),
        };
        let moved = demoted.and_then(|demoted| {
            let promoted = self.promote(&mut mover)?;
            Ok((demoted, promoted))
        });
        let took = began.elapsed();
        let limited = |blocks, pause: Duration| pause.max(self.pause_for_limit(blocks).saturating_sub(took));
        match (moved, urgent) {
            (Err(error), _) => {
                tracing::warn!(%error, "content cannot be moved now");
                Wait { time: LOOK_AGAIN_MAX, above: None }
            }
            (Ok((0, 0)), None) => Wait { time: mover.read_again, above: Some(mover.low_mark) },
            (Ok((0, 0)), Some(_)) => {
                // Content may be cold by then, and sessions may have read some below.
                Wait { time: mover.read_again.max(LOOK_AGAIN), above: None }
            }
            (Ok((demoted, promoted)), urgent) => {
                if demoted > 0 {
                    mover.look_again = LOOK_AGAIN;
                }
                let level = urgent.map_or(Level::Background, |(_, level)| level);
                self.note_waits(&mut mover);
                let pause = mover.budget.pause_after(level, took);
                Wait { time: limited(demoted + promoted, pause), above: None }
            }
        }
    }

    /// Moves the pieces down that the policy of a tier chooses, a batch of them, and answers their blocks. 0: nothing is cold enough, or no
    /// tier below has room.
    fn demote(&self, mover: &mut Mover, from: TierNumber, level: Level) -> Result<u64, Error> {
        let to = self.tier_below(from);
        let has_copies = from == TierNumber::FAST && self.space.lock().allocator.copies().blocks() > 0;
        if to.is_none() && !has_copies {
            return Ok(0);
        }
        let is_urgent = level == Level::Emergency;
        let mut batch = choose_down(mover, &self.migration.pins, from, is_urgent);
        if batch.is_empty() && mover.look_again_at.is_none_or(|at| at <= Instant::now()) {
            let pause = mover.look_again.max(LOOK_AGAIN);
            mover.look_again_at = Some(Instant::now() + pause);
            mover.look_again = (pause * 2).min(LOOK_AGAIN_MAX);
            let now = clock::now();
            let cold_seconds = if is_urgent { 0 } else { self.options.cold_seconds };
            let border = &mut mover.borders[usize::from(from.0)];
            look(&self.metadata.read()?, from, border, now, cold_before(now, cold_seconds))?;
            batch = choose_down(mover, &self.migration.pins, from, is_urgent);
        }
        let border = &mut mover.borders[usize::from(from.0)];
        let files: Vec<&[Choice]> =
            batch.chunk_by(|left, right| left.piece.inode == right.piece.inode).collect();
        let mut blocks = 0;
        for group in files.chunks(FILES_TOGETHER_MAX) {
            let (moved, is_full) = self.demote_group(border, (from, to), group)?;
            blocks += moved;
            if is_full {
                break;
            }
        }
        Ok(blocks)
    }

    /// Moves pieces of some files down: drops the copies that the fast tier has of them, and moves what has its home in the tier. Answers how
    /// many blocks these were, and whether the lower tier is full.
    fn demote_group(
        &self,
        border: &mut Border,
        (from, to): (TierNumber, Option<TierNumber>),
        group: &[&[Choice]],
    ) -> Result<(u64, bool), Error> {
        let files: Vec<(InodeNumber, Vec<Range<u64>>)> =
            group.iter().map(|pieces| (pieces[0].piece.inode, border.ranges(pieces))).collect();
        let mut dropped = vec![0; files.len()];
        if from == TierNumber::FAST {
            for ((inode, ranges), dropped) in files.iter().zip(&mut dropped) {
                *dropped = unless_gone(self.drop_copies(*inode, ranges))?.unwrap_or(0);
            }
        }
        let tasks = group.iter().zip(&files).map(|(pieces, (inode, ranges))| {
            let reason = Reason::chosen(MoveCause::Cold, pieces[0].rule, pieces[0].score);
            Task { inode: *inode, place: Place::In(ranges), reason }
        });
        let moved = match to {
            Some(to) => {
                let tasks: Vec<Task<'_>> = tasks.collect();
                unless_gone(self.move_group(&tasks, (Which::Only(from), to), Home::Moves))?
            }
            None => None,
        };
        let moved = moved.unwrap_or_else(|| vec![Moved::default(); files.len()]);
        let now = moment(clock::now());
        let (mut blocks, mut is_full) = (0, false);
        for ((pieces, moved), dropped) in group.iter().zip(moved).zip(dropped) {
            self.counters.blocks_demoted.fetch_add(moved.blocks, Ordering::Relaxed);
            blocks += moved.blocks + dropped;
            is_full |= moved.is_full;
            let side = if moved.is_busy { Side::Upper } else { Side::Lower };
            // What could not be moved is found again once it is used, or by a look at all files.
            if moved.is_busy || moved.blocks + dropped > 0 {
                pieces.iter().for_each(|choice| border.policy.placed(choice.piece, side, now));
            }
        }
        Ok((blocks, is_full))
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

    /// Blocks of a tier that files and copies use, and all that it may have; `None`: it is missing.
    pub(super) fn usage(&self, tier: TierNumber) -> Option<(u64, u64)> {
        self.usage_in(&self.space.lock(), tier)
    }

    fn usage_in(&self, space: &Space, tier: TierNumber) -> Option<(u64, u64)> {
        let arenas = self.arenas.tier(tier).ok()?;
        let copies = if tier == TierNumber::FAST { space.allocator.copies().blocks() } else { 0 };
        Some((space.allocator.used_blocks(tier) + copies, blocks_in(arenas)))
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
        mover.seen = (read, written);
        // Programs that do nothing say nothing new.
        if since != (0, 0) {
            let decayed = |before: u64, since: u64| (before - before.div_ceil(8)).saturating_add(since);
            mover.recent = (decayed(mover.recent.0, since.0), decayed(mover.recent.1, since.1));
        }
        mover.low_mark = low_mark(mover.recent.0, mover.recent.1);
    }

    /// Adapts the budget to what programs waited for while the last part moved and behind it.
    fn note_waits(&self, mover: &mut Mover) {
        let (all, long) = self.request_times.waited(LONG_WAIT);
        let (all_before, long_before) = std::mem::replace(&mut mover.waited, (all, long));
        mover.budget.note(all - all_before, long - long_before);
    }

    /// How long so many blocks take at the most that the configuration allows.
    fn pause_for_limit(&self, blocks: u64) -> Duration {
        match self.options.migration_mb_per_second {
            0 => Duration::ZERO,
            limit => Duration::from_micros(blocks * BLOCK_BYTES / u64::from(limit)),
        }
    }
}

fn choose_down(mover: &mut Mover, pins: &Pins, from: TierNumber, is_urgent: bool) -> Vec<Choice> {
    let Some(border) = mover.borders.get_mut(usize::from(from.0)) else { return Vec::new() };
    let now = moment(clock::now());
    let next = |policy: &mut dyn Policy| pins.unpinned(|| policy.next_down(now, is_urgent));
    border.batch(next, PART_BLOCKS)
}

/// The answer, unless what was asked for is gone.
pub(super) fn unless_gone<T>(answer: Result<T, Trouble>) -> Result<Option<T>, Error> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(Trouble::Failed(error)) => Err(error),
        Err(Trouble::Refused(_)) => Ok(None),
    }
}

/// How much of a tier is used, in thousandths.
pub(super) fn thousandths((used, blocks): (u64, u64)) -> u64 {
    used.saturating_mul(1000).checked_div(blocks).unwrap_or(0)
}
