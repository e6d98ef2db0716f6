//! Windows: blocks that a session writes itself and names in its log (docs/decisions/0063).
//!
//! Mechanism: the blocks leave the free ones, the metadata store notes them, and the session gets their arena's file.
//!
//! Policy: no window is granted where blocks are short. A session that gets none writes through its log. Once granted,
//! a window cannot be taken back from a process that does nothing, so all of them hold a small part of the tier.

use super::trouble::{Trouble, invalid};
use crate::SharedFs;
use crate::tiers::{Allocator, Reservation, Run, Windows, blocks_in, unmade_in};
use cuesta_format::wire::{Refusal, Response, WINDOWS_MAX};
use cuesta_format::{BLOCK_BYTES, BlockAddress, LogPosition, Medium, SessionId, TierNumber};
use cuesta_media::Node;
use std::os::fd::OwnedFd;

/// No window is granted unless more than this part of the tier is free.
const PLENTY_PART: u64 = 4;
/// All windows hold at most this part of the tier.
const HELD_PART: u64 = 8;
/// One window is at most this part of the tier, or as many blocks as some of the least staged writes,
const WINDOW_PART: u64 = 64;
/// and never more blocks than these: 64 MiB.
const BLOCKS_MOST: u64 = 16 << 10;
/// Blocks for which memory is made while a session waits: 4 MiB.
const BLOCKS_READY: u64 = 1 << 10;
/// Steps of memory that are made for that at most.
const STEPS_MOST: usize = 8;
/// Least staged writes that a window of a small tier has room for.
const WRITES_LEAST: u64 = 4;
/// Free runs that are looked at for one that is long enough.
const RUNS_TRIED: usize = 16;

impl SharedFs {
    /// Grants a window of at most `blocks` blocks, if one can be had, and takes note of those that are done.
    pub(super) fn window(
        &self,
        session: SessionId,
        (tier, blocks): (TierNumber, u32),
        done: &[(BlockAddress, LogPosition)],
        descriptors: &mut Vec<OwnedFd>,
    ) -> Result<Response, Trouble> {
        if done.len() > WINDOWS_MAX {
            return Err(invalid("too many windows at once"));
        }
        self.check_medium()?;
        {
            let windows = &mut self.space.lock().windows;
            done.iter().for_each(|&(address, below)| windows.finish(session, address, below));
        }
        let tier = self.tier_of_windows(tier);
        const NONE: Response = Response::Window { address: BlockAddress(0), blocks: 0, begins: 0 };
        let node = self.with_session(session, |found| found.node)?;
        if !self.grants_windows_in(tier) || blocks == 0 {
            return Ok(NONE);
        }
        let wanted = self.blocks_of_window(session, tier, u64::from(blocks));
        // Memory takes its time: the session gets what there is, and asks again.
        let ready = wanted.min(BLOCKS_READY);
        let is_ready = || {
            let is_free = self.space.lock().allocator.free_blocks_in(tier) >= ready;
            is_free && self.room() >= ready
        };
        for _ in 0..STEPS_MOST {
            if is_ready() || !self.grow_tier(tier, node, is_ready)? {
                break;
            }
        }
        let Some(run) = self.take_window(tier, wanted, node) else { return Ok(NONE) };
        {
            // The session has not used up the window that began there, though a file that had the first blocks is gone.
            let mut space = self.space.lock();
            if space.windows.begins_at(session, run.address) {
                space.allocator.release_window([run]);
                return Ok(NONE);
            }
        }
        match self.grant_window(session, run) {
            Ok((file, begins)) => {
                descriptors.push(file);
                Ok(Response::Window { address: run.address, blocks: run.blocks, begins })
            }
            Err(trouble) => {
                self.space.lock().allocator.release_window([run]);
                Err(trouble)
            }
        }
    }

    /// The tier of which a session gets blocks if it asks for those of `tier`: the next one below, if that was removed.
    fn tier_of_windows(&self, tier: TierNumber) -> TierNumber {
        self.arenas.numbers().find(|&number| number >= tier).unwrap_or(tier)
    }

    /// Whether sessions can write blocks by calls. A device of bytes can only be mapped.
    pub(crate) fn grants_windows(&self) -> bool {
        self.options.stage_bytes > 0 && !self.parts.is_device()
    }

    /// The same for blocks of a tier. On persistent memory what returned is durable, for which no write may wait for a disk.
    fn grants_windows_in(&self, tier: TierNumber) -> bool {
        let waits_for_disk = tier != TierNumber::FAST && self.superblock.medium == Medium::Pmem;
        self.grants_windows() && !waits_for_disk && self.arenas.tier(tier).is_ok()
    }

    /// How many blocks the next window of a session has, if it asks for so many; 0: it gets none.
    fn blocks_of_window(&self, session: SessionId, of: TierNumber, blocks: u64) -> u64 {
        let Ok(arenas) = self.arenas.tier(of) else { return 0 };
        let tier = blocks_in(arenas);
        let space = self.space.lock();
        let free = space.allocator.free_blocks_in(of) + unmade_in(arenas, &space);
        // Any tier keeps a promise; those that were made count on the fast one first.
        let promised = if of == TierNumber::FAST { space.credits.outstanding() } else { 0 };
        let least = self.blocks_least();
        let wanted = blocks.min(BLOCKS_MOST).min((tier / WINDOW_PART).max(WRITES_LEAST * least));
        let is_granted = wanted >= least
            && self.room_at_most(&space, self.mapped.beyond()) >= wanted
            && free.saturating_sub(promised) > tier / PLENTY_PART
            && space.windows.held_in(of) + wanted <= tier / HELD_PART
            && space.windows.count(session) < WINDOWS_MAX;
        if is_granted { wanted } else { 0 }
    }

    /// A run of fewer blocks makes no window.
    fn blocks_least(&self) -> u64 {
        u64::from(self.options.stage_bytes) / BLOCK_BYTES
    }

    /// Takes a run of at most `wanted` blocks out of the free ones.
    fn take_window(&self, tier: TierNumber, wanted: u64, node: Option<Node>) -> Option<Run> {
        let beyond = self.mapped.beyond();
        let mut space = self.space.lock();
        let wanted = wanted.min(self.room_in(&space, beyond));
        if wanted < self.blocks_least() {
            return None;
        }
        let run = longest_run(&mut space.allocator, tier, wanted as u32, node)?;
        if u64::from(run.blocks) < self.blocks_least() {
            space.allocator.release_window([run]);
            return None;
        }
        Some(run)
    }

    /// Notes the window, and answers the file that it lies in.
    fn grant_window(&self, session: SessionId, run: Run) -> Result<(OwnedFd, u64), Trouble> {
        let file = self.arenas.writable_descriptor(self.geometry().arena(run.address))?;
        let mut transaction = self.metadata.begin()?;
        transaction.put_window(session, run.address, Some(Windows::record_of_new(run)));
        transaction.commit()?;
        let core = self.core.lock();
        if !core.sessions.contains_key(&session) {
            // No recovery reads the record: the session's slot of the table is free.
            return Err(Trouble::Refused(Refusal::SessionEnded));
        }
        self.space.lock().windows.add(session, run);
        Ok(file)
    }
}

/// The longest of some free runs of at most `most` blocks.
fn longest_run(allocator: &mut Allocator, tier: TierNumber, most: u32, node: Option<Node>) -> Option<Run> {
    let mut tried = Reservation::default();
    let mut longest: Option<Run> = None;
    for _ in 0..RUNS_TRIED {
        let Some(run) = allocator.take(tier, most, node, &mut tried) else { break };
        if longest.is_none_or(|longest| run.blocks > longest.blocks) {
            longest = Some(run);
        }
        if run.blocks >= most / 2 {
            break;
        }
    }
    tried.taken.retain(|&run| Some(run) != longest);
    allocator.abandon(&mut tried);
    longest
}
