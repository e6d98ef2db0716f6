//! Blocks of all tiers: found for digests, freed by digests, never reused while a session may read them.
//!
//! [`super::tier_blocks`] says what states a block has. A block that a digest frees waits in quarantine until the
//! session of that digest reads it no more, whichever tier it is of.

use super::bitmap::Bitmap;
use super::fast_copies::FastCopies;
use super::reservation::{Reservation, Run};
use super::tier_blocks::TierBlocks;
use crate::tiers::memory::{Grown, StepNodes};
use cuesta_format::{ArenaId, BlockAddress, Geometry, InodeNumber, LogPosition, SessionId, TierNumber};
use cuesta_media::Node;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::ops::Range;
use std::time::{Duration, Instant};

/// The state of every block of the store.
#[derive(Debug)]
pub struct Allocator {
    /// By their numbers.
    tiers: Vec<TierBlocks>,
    quarantine: HashMap<SessionId, VecDeque<Quarantined>>,
    /// Tiers of which blocks were wanted when none was free.
    lacking: BTreeSet<TierNumber>,
    copies: FastCopies,
}

/// Blocks that one digest freed.
#[derive(Debug)]
struct Quarantined {
    /// The session may read them until it has retired this.
    until: LogPosition,
    since: Instant,
    runs: Vec<Run>,
}

impl Allocator {
    /// No arenas yet, of a store with `tiers` tiers.
    #[must_use]
    pub fn new(geometry: Geometry, tiers: u8) -> Allocator {
        let tiers = (0..tiers).map(|tier| TierBlocks::new(TierNumber(tier), geometry)).collect();
        Allocator {
            tiers,
            quarantine: HashMap::new(),
            lacking: BTreeSet::new(),
            copies: FastCopies::default(),
        }
    }

    fn of(&self, address: BlockAddress) -> Option<&TierBlocks> {
        self.tiers.get(usize::from(address.tier().0))
    }

    fn of_mut(&mut self, address: BlockAddress) -> Option<&mut TierBlocks> {
        self.tiers.get_mut(usize::from(address.tier().0))
    }

    fn tier(&self, tier: TierNumber) -> &TierBlocks {
        &self.tiers[usize::from(tier.0)]
    }

    fn tier_mut(&mut self, tier: TierNumber) -> &mut TierBlocks {
        &mut self.tiers[usize::from(tier.0)]
    }

    /// How many tiers there are.
    #[must_use]
    pub fn tiers(&self) -> u8 {
        self.tiers.len() as u8
    }

    /// Adds a tier's next arena with its bitmaps of used and of bad blocks. Its first `made` blocks have their
    /// memory, in steps that lie on `nodes`, where that is known.
    pub fn add_arena(
        &mut self,
        tier: TierNumber,
        committed: Bitmap,
        bad: Bitmap,
        made: u32,
        nodes: &[(Range<u32>, Node)],
    ) {
        self.tier_mut(tier).add_arena(committed, bad, made, nodes);
    }

    /// More blocks have their memory, of a tier's last arena or a new one.
    pub fn grow(&mut self, grown: &Grown) {
        self.tier_mut(grown.arena.tier()).grow(grown);
    }

    /// The store is opened: whole free runs of a tier may have no room on its disk.
    pub(crate) fn doubt_room(&mut self, tier: TierNumber) {
        self.tier_mut(tier).doubt_room();
    }

    /// Takes out a run of which the disk is to have the room back: at most `most` blocks, of which at most `free_most` are
    /// free.
    pub(crate) fn take_stale(&mut self, tier: TierNumber, most: u32, free_most: u64) -> Option<Run> {
        self.tier_mut(tier).take_stale(most, free_most)
    }

    /// Takes out a run of at most `most` blocks of which the disk had the room back, so that it gets some.
    pub(crate) fn take_bare(&mut self, tier: TierNumber, most: u32) -> Option<Run> {
        self.tier_mut(tier).take_bare(most)
    }

    /// A run that was taken out has room, and is free; or the disk has it back.
    pub(crate) fn put_back(&mut self, run: Run, has_room: bool) {
        let Some(blocks) = self.of_mut(run.address) else { return };
        if has_room { blocks.set_free(run) } else { blocks.set_bare(run) }
    }

    /// Blocks that the medium does not take are never allocated again, as the next transaction writes down. A
    /// file that has them may keep them.
    pub fn set_aside(&mut self, run: Run) {
        if let Some(blocks) = self.of_mut(run.address) {
            blocks.set_aside(run);
        }
    }

    /// Blocks that are never allocated.
    #[must_use]
    pub fn bad_blocks(&self) -> u64 {
        self.tiers.iter().map(TierBlocks::bad_blocks).sum()
    }

    /// Those of a tier.
    pub(crate) fn bad_blocks_in(&self, tier: TierNumber) -> u64 {
        self.tier(tier).bad_blocks()
    }

    /// Nothing can be written to a tier any more: it is missing, or failed.
    pub fn refuse_writes(&mut self, tier: TierNumber) {
        self.tier_mut(tier).refuse_writes();
    }

    /// A tier that is neither missing nor failed can be written to again.
    pub fn take_writes(&mut self, tier: TierNumber) {
        self.tier_mut(tier).take_writes();
    }

    /// Whether a tier can be written to.
    #[must_use]
    pub fn takes_writes(&self, tier: TierNumber) -> bool {
        self.tier(tier).takes_writes()
    }

    /// Whether there are blocks that cannot be written.
    #[must_use]
    pub fn has_unwritable(&self) -> bool {
        self.tiers.iter().any(TierBlocks::has_unwritable)
    }

    /// Whether a block is bad, or of a tier that cannot be written to.
    #[must_use]
    pub fn is_bad(&self, address: BlockAddress) -> bool {
        self.of(address).is_some_and(|blocks| blocks.is_bad(address))
    }

    /// The arenas whose bad blocks are to be written down, with their bitmaps as they are kept.
    pub fn new_bad_blocks(&self) -> impl Iterator<Item = (ArenaId, Vec<u8>)> {
        self.tiers.iter().flat_map(TierBlocks::new_bad_blocks)
    }

    /// Blocks of a tier that have their memory.
    #[must_use]
    pub fn made_blocks(&self, tier: TierNumber) -> u64 {
        self.tier(tier).made_blocks()
    }

    /// Blocks of all tiers that may be allocated now.
    #[must_use]
    pub fn free_blocks(&self) -> u64 {
        self.tiers.iter().map(TierBlocks::free_blocks).sum()
    }

    /// Blocks of a tier that may be allocated now.
    #[must_use]
    pub fn free_blocks_in(&self, tier: TierNumber) -> u64 {
        self.tier(tier).free_blocks()
    }

    /// Where the blocks of the fast tier lie that may be.
    #[must_use]
    pub fn nodes(&self) -> &StepNodes {
        self.tier(TierNumber::FAST).nodes()
    }

    /// Blocks of a tier that committed files use.
    #[must_use]
    pub fn used_blocks(&self, tier: TierNumber) -> u64 {
        self.tier(tier).used_blocks()
    }

    /// A run of at most `most` free blocks of a tier, reserved: on the memory node `near` if there are some, else
    /// anywhere. `None` when nothing is free there.
    pub fn take(
        &mut self,
        tier: TierNumber,
        most: u32,
        near: Option<Node>,
        reservation: &mut Reservation,
    ) -> Option<Run> {
        let Some(run) = self.tier_mut(tier).take(most, near) else {
            self.note_lacking(tier);
            return None;
        };
        reservation.taken.push(run);
        Some(run)
    }

    /// Blocks of a tier are wanted, and none is free.
    pub fn note_lacking(&mut self, tier: TierNumber) {
        self.lacking.insert(tier);
    }

    /// The sessions that have kept freed blocks of a lacking tier for `time` at least. A session lets go of such blocks with
    /// its next operations, so these sessions are idle. Each tier that lacks blocks counts in one call only.
    pub fn take_idle_keepers(&mut self, time: Duration) -> Vec<SessionId> {
        let lacking = std::mem::take(&mut self.lacking);
        if lacking.is_empty() {
            return Vec::new();
        }
        let keeps = |waiting: &VecDeque<Quarantined>| {
            let mut old = waiting.iter().filter(|freed| freed.since.elapsed() >= time);
            old.any(|freed| freed.runs.iter().any(|run| lacking.contains(&run.address.tier())))
        };
        self.quarantine.iter().filter(|(_, waiting)| keeps(waiting)).map(|(&session, _)| session).collect()
    }

    /// The sessions that keep so many freed blocks of lower tiers: those that have kept them for `time` at least, and how many others
    /// there are.
    pub(crate) fn keepers_below(&self, blocks: u64, time: Duration) -> (Vec<SessionId>, usize) {
        let kept = |waiting: &VecDeque<Quarantined>, time| {
            let old = waiting.iter().filter(|freed| freed.since.elapsed() >= time);
            let below =
                old.flat_map(|freed| &freed.runs).filter(|run| run.address.tier() != TierNumber::FAST);
            below.map(|run| u64::from(run.blocks)).sum::<u64>() >= blocks
        };
        let keepers = self.quarantine.iter().filter(|(_, waiting)| kept(waiting, Duration::ZERO));
        let (old, new): (Vec<_>, Vec<_>) = keepers.partition(|(_, waiting)| kept(waiting, time));
        (old.into_iter().map(|(&session, _)| session).collect(), new.len())
    }

    /// Applies a reservation to the committed bitmaps and names the arenas whose bitmaps must be written in
    /// the same transaction. A run that is not in use, or does not exist, is damage: its address is returned.
    pub fn stage(&mut self, reservation: &Reservation) -> Result<BTreeSet<ArenaId>, BlockAddress> {
        let is_used = |run: &&Run| self.of(run.address).is_some_and(|blocks| blocks.is_used(**run));
        if let Some(damaged) = reservation.freed.iter().find(|run| !is_used(run)) {
            return Err(damaged.address);
        }
        let mut changed = BTreeSet::new();
        let Reservation { taken, adopted, freed, .. } = reservation;
        for (runs, used) in [(taken, true), (adopted, true), (freed, false)] {
            for &run in runs {
                let staged = self.of_mut(run.address).and_then(|blocks| blocks.set_committed(run, used));
                changed.insert(staged.ok_or(run.address)?);
            }
        }
        Ok(changed)
    }

    /// Takes a staged reservation back: its transaction failed.
    pub fn unstage(&mut self, reservation: &Reservation) {
        let Reservation { taken, adopted, freed, .. } = reservation;
        for (runs, used) in [(taken, false), (adopted, false), (freed, true)] {
            for &run in runs {
                self.of_mut(run.address).and_then(|blocks| blocks.set_committed(run, used));
            }
        }
    }

    /// The committed bitmap of an arena, as it is kept.
    pub fn bitmap_bytes(&self, arena: ArenaId, out: &mut Vec<u8>) {
        self.tier(arena.tier()).bitmap_bytes(arena, out);
    }

    /// Gives reserved blocks back: the digest was abandoned.
    pub fn abandon(&mut self, reservation: &mut Reservation) {
        for &run in &reservation.taken {
            self.reuse(run);
        }
        reservation.clear();
    }

    /// The staged reservation is committed: the blocks it freed wait until `session` has retired `until`.
    pub fn committed(&mut self, reservation: &mut Reservation, session: SessionId, until: LogPosition) {
        self.tiers.iter_mut().for_each(TierBlocks::bad_blocks_written);
        let mut freed = std::mem::take(&mut reservation.freed);
        let copies = freed.iter().flat_map(|&run| self.copies.drop_of(run)).collect::<Vec<_>>();
        freed.extend(copies);
        freed.append(&mut reservation.returned);
        if !freed.is_empty() {
            let freed = Quarantined { until, since: Instant::now(), runs: freed };
            self.quarantine.entry(session).or_default().push_back(freed);
        }
        reservation.clear();
    }

    /// Copies of blocks of lower tiers in the fast one.
    #[must_use]
    pub fn copies(&self) -> &FastCopies {
        &self.copies
    }

    /// Reserved blocks of the fast tier are a copy of a run of committed blocks from now on.
    pub(crate) fn add_copy(&mut self, owner: InodeNumber, home: Run, copy: BlockAddress) {
        self.copies.add(owner, home, copy);
    }

    /// Drops the copies of a run of blocks, which no session reads. Answers how many blocks they were.
    pub(crate) fn drop_copies(&mut self, homes: Run) -> u64 {
        let dropped = self.copies.drop_of(homes);
        let blocks = dropped.iter().map(|run| u64::from(run.blocks)).sum();
        dropped.into_iter().for_each(|run| self.reuse(run));
        blocks
    }

    /// The session reads nothing any more that was freed by digests up to `retired`.
    pub fn retired(&mut self, session: SessionId, retired: LogPosition) {
        let Some(waiting) = self.quarantine.get_mut(&session) else { return };
        let mut passed = Vec::new();
        while waiting.front().is_some_and(|freed| freed.until <= retired) {
            passed.extend(waiting.pop_front().into_iter().flat_map(|freed| freed.runs));
        }
        for run in passed {
            self.reuse(run);
        }
    }

    /// Sessions that may still read what their digests freed.
    #[must_use]
    pub fn keeping(&self) -> Vec<SessionId> {
        self.quarantine
            .iter()
            .filter(|(_, waiting)| !waiting.is_empty())
            .map(|(&session, _)| session)
            .collect()
    }

    /// The session reads nothing any more.
    pub fn end_session(&mut self, session: SessionId) {
        for run in self.quarantine.remove(&session).into_iter().flatten().flat_map(|freed| freed.runs) {
            self.reuse(run);
        }
    }

    /// Blocks of windows are not to be allocated.
    pub fn occupy_window(&mut self, run: Run) {
        if let Some(blocks) = self.of_mut(run.address) {
            blocks.occupy_run(run);
        }
    }

    /// Blocks of windows that no log will name may be allocated again.
    pub fn release_window(&mut self, runs: impl IntoIterator<Item = Run>) {
        runs.into_iter().for_each(|run| self.reuse(run));
    }

    fn reuse(&mut self, run: Run) {
        if let Some(blocks) = self.of_mut(run.address) {
            blocks.reuse(run);
        }
    }
}
