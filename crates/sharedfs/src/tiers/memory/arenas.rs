//! The arenas of all tiers: each question goes to the tier that a block lies in.
//!
//! | a lower tier is | when | and then |
//! |---|---|---|
//! | missing | its folder is gone, or is another store's, when the store opens | reading what lies there is an error ([`Error::TierMissing`]) |
//! | failed | its disk refused a write ([`Error::TierFailed`]) | it is read, and not written until the next start |

use super::stamps::ArenaStamps;
use super::tier_arenas::{Grown, TierArenas};
use super::unwritten_arenas::UnwrittenArenas;
use crate::Error;
use crate::tiers::blocks::Run;
use cuesta_format::disk_profile::DiskProfile;
use cuesta_format::{ArenaId, BlockAddress, Geometry, Medium, TierNumber};
use cuesta_media::planted::{self, Bug};
use cuesta_media::{Mapping, Node};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// All arenas of the store.
#[derive(Debug)]
pub struct Arenas {
    fast: TierArenas,
    /// Tiers 1, 2 and so on, or why they are missing; `None`: the tier was removed.
    lower: Vec<Option<Result<TierArenas, String>>>,
    /// Tiers that failed, and why.
    failed: Mutex<BTreeMap<TierNumber, String>>,
    unwritten: UnwrittenArenas,
}

impl Arenas {
    /// Those of the fast tier, and of the lower ones in their order.
    #[must_use]
    pub fn new(fast: TierArenas, lower: Vec<Option<Result<TierArenas, String>>>) -> Arenas {
        Arenas { fast, lower, failed: Mutex::default(), unwritten: UnwrittenArenas::default() }
    }

    /// Those of the fast tier.
    #[must_use]
    pub fn fast(&self) -> &TierArenas {
        &self.fast
    }

    /// Those of a tier.
    pub fn tier(&self, tier: TierNumber) -> Result<&TierArenas, Error> {
        match tier {
            TierNumber::FAST => Ok(&self.fast),
            TierNumber(number) => match self.lower.get(usize::from(number) - 1) {
                Some(Some(Ok(arenas))) => Ok(arenas),
                Some(Some(Err(_))) => Err(Error::TierMissing(tier)),
                Some(None) | None => Err(Error::Damaged(format!("tier {tier} does not exist"))),
            },
        }
    }

    /// All tiers that are there.
    pub fn tiers(&self) -> impl Iterator<Item = &TierArenas> {
        std::iter::once(&self.fast).chain(self.lower.iter().flatten().flatten())
    }

    /// All arenas that are there.
    pub(crate) fn all(&self) -> impl Iterator<Item = ArenaId> {
        let of_tier = |tier: &TierArenas| {
            let number = tier.number();
            (0..tier.count()).map(move |index| ArenaId::new(number, index.into()))
        };
        self.tiers().flat_map(of_tier)
    }

    /// The tiers that are missing.
    pub(crate) fn missing(&self) -> impl Iterator<Item = TierNumber> {
        let missing = self.lower.iter().enumerate().filter(|(_, lower)| matches!(lower, Some(Err(_))));
        missing.map(|(index, _)| TierNumber(index as u8 + 1))
    }

    /// Why a tier is missing, if it is.
    #[must_use]
    pub fn why_missing(&self, tier: TierNumber) -> Option<&str> {
        let lower = self.lower.get(usize::from(tier.0).checked_sub(1)?)?;
        lower.as_ref()?.as_ref().err().map(String::as_str)
    }

    /// A tier failed: nothing is written there any more. Says whether that is new.
    pub(crate) fn fail(&self, tier: TierNumber, why: &str) -> bool {
        let mut failed = self.failed.lock();
        let is_new = !failed.contains_key(&tier);
        failed.entry(tier).or_insert_with(|| why.to_owned());
        is_new
    }

    /// Whether a tier failed, or is missing.
    pub(crate) fn has_failed(&self) -> bool {
        !self.failed.lock().is_empty() || self.missing().next().is_some()
    }

    /// How many tiers have failed since the store was opened.
    pub(crate) fn failures(&self) -> usize {
        self.failed.lock().len()
    }

    /// An error if more tiers have failed than `failures`: [`Arenas::fence`] left these out.
    pub(crate) fn check_failures(&self, failures: usize) -> Result<(), Error> {
        let failed = self.failed.lock();
        match failed.iter().next_back().filter(|_| failed.len() > failures) {
            Some((&tier, why)) => Err(Error::TierFailed { tier, why: why.clone() }),
            None => Ok(()),
        }
    }

    /// Why a tier failed, if it did.
    #[must_use]
    pub fn why_failed(&self, tier: TierNumber) -> Option<String> {
        self.failed.lock().get(&tier).cloned()
    }

    /// The store's tiers, the missing ones with them.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = TierNumber> {
        (0..self.tiers_count()).map(TierNumber).filter(|&tier| self.has(tier))
    }

    /// Whether the store has a tier, be it missing.
    pub(crate) fn has(&self, tier: TierNumber) -> bool {
        match usize::from(tier.0).checked_sub(1) {
            None => true,
            Some(index) => self.lower.get(index).is_some_and(Option::is_some),
        }
    }

    /// Behind the highest number of a tier. Numbers of removed tiers count.
    #[must_use]
    pub fn tiers_count(&self) -> u8 {
        1 + self.lower.len() as u8
    }

    pub(crate) fn geometry(&self) -> &Geometry {
        self.fast.geometry()
    }

    /// Gives a tier a step of memory more ([`TierArenas::grow`]).
    pub fn grow(&self, tier: TierNumber, wanted: Option<Node>) -> Result<Grown, Error> {
        self.tier(tier)?.grow(wanted)
    }

    /// Makes one step of small pages a huge one ([`TierArenas::collapse`]).
    pub fn collapse(&self) -> Result<bool, Error> {
        self.fast.collapse()
    }

    /// What says in which opening arenas were written, of each tier where that is of use.
    pub(crate) fn stamps(&self) -> impl Iterator<Item = &Arc<ArenaStamps>> {
        self.tiers().filter_map(TierArenas::stamps)
    }

    /// The arena's mapping.
    pub fn mapping(&self, arena: ArenaId) -> Result<Arc<Mapping>, Error> {
        self.tier(arena.tier())?.mapping(arena)
    }

    /// Makes what this thread stored in arenas durable, as the fast tier makes it. A store in memory is gone with
    /// the machine, so its lower tiers need not have been written then.
    pub fn fence(&self) -> Result<(), Error> {
        self.fast.fence()?;
        if self.fast.medium() == Medium::Memory || planted::active(Bug::LowerTierUnwritten) {
            return Ok(());
        }
        self.lower
            .iter()
            .flatten()
            .flatten()
            .filter(|lower| self.why_failed(lower.number()).is_none())
            .try_for_each(|lower| {
                let tier = lower.number();
                lower.fence().map_err(|error| Error::TierFailed { tier, why: error.to_string() })
            })
    }

    /// A descriptor that allows reading only, to hand to a session, and where in it the arena begins.
    pub fn descriptor(&self, arena: ArenaId) -> Result<(OwnedFd, u64), Error> {
        self.tier(arena.tier())?.descriptor(arena)
    }

    /// A descriptor of an arena's file that allows writing, to hand to a session with a window, and where in it the
    /// arena begins.
    pub fn writable_descriptor(&self, arena: ArenaId) -> Result<(OwnedFd, u64), Error> {
        self.tier(arena.tier())?.writable_descriptor(arena)
    }

    /// The arenas that a disk may lack something of and no program waits for.
    pub(crate) fn unwritten(&self) -> &UnwrittenArenas {
        &self.unwritten
    }

    /// Content was written to an arena, or is adopted there.
    pub(super) fn note_written(&self, arena: ArenaId) {
        if arena.tier() != TierNumber::FAST && self.fast.medium() == Medium::Memory {
            self.unwritten.note(arena);
        }
    }

    /// Has the disks take all that was written to arenas by calls, where the store waits for disks. Tiers that are missing
    /// or failed before have nothing to take.
    pub fn flush(&self, arenas: impl IntoIterator<Item = ArenaId>) -> Result<(), Error> {
        if self.fast.medium() == Medium::Memory {
            return Ok(());
        }
        let arenas: BTreeSet<ArenaId> = arenas.into_iter().collect();
        arenas.into_iter().filter(|arena| self.takes_writes(arena.tier())).try_for_each(|arena| {
            let tier = arena.tier();
            self.tier(tier)?.flush(arena).map_err(|error| match tier {
                TierNumber::FAST => error,
                _ => Error::TierFailed { tier, why: error.to_string() },
            })
        })
    }

    /// Whether a tier is there and did not fail.
    pub(crate) fn takes_writes(&self, tier: TierNumber) -> bool {
        self.tier(tier).is_ok() && self.why_failed(tier).is_none()
    }

    /// Blocks of one arena are about to be read ([`TierArenas::play_read`]).
    pub(super) fn play_read(&self, address: BlockAddress, bytes: u64) {
        if let Ok(tier) = self.tier(address.tier()) {
            tier.play_read(address, bytes);
        }
    }

    /// The tiers that play another disk, and which.
    pub(crate) fn played(&self) -> impl Iterator<Item = (TierNumber, DiskProfile)> {
        self.tiers().filter_map(|tier| Some((tier.number(), tier.played()?.profile())))
    }

    /// Has the disks take blocks that sessions wrote. A flush has to follow.
    pub fn write_back(&self, runs: &[Run]) {
        for run in runs {
            if let Ok(tier) = self.tier(run.address.tier()) {
                tier.write_back(*run);
            }
        }
    }

    /// Copies bytes out of one arena; the range must not cross its end.
    pub fn read(&self, address: BlockAddress, inside: u64, out: &mut [u8]) -> Result<(), Error> {
        self.tier(address.tier())?.read(address, inside, out)
    }
}
