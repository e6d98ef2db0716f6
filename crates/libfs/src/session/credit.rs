//! Blocks and inode numbers that the session may use before SharedFS knows of it, and how many of them it
//! asks for next.
//!
//! This is the state alone. [`crate::session::credit_requests`] debits it and asks for more.

use crate::errno::Error;
use crate::sync::{AtomicBool, AtomicU64, Mutex, Ordering};
use cuesta_format::BLOCK_BYTES;
use cuesta_format::wire::{Response, Welcome};

/// The fewest blocks that one request asks for. Each request asks for twice as many as the last.
const BLOCKS_LEAST: u64 = 4096;

/// One request asks for at most this part of the tier, or for the least if that is more.
const TIER_PART: u64 = 32;

/// The inode numbers that the first request asks for. Each request asks for twice as many as the last.
pub(super) const NUMBERS_LEAST: u64 = 4096;

/// The most inode numbers that one request asks for: SharedFS reserves room for the inodes.
const NUMBERS_MOST: u64 = 16 << 10;

/// The credit used so far, and the amounts of the next requests.
#[derive(Debug)]
pub(crate) struct Credit {
    pub(super) debited: AtomicU64,
    /// Blocks that the next request asks for.
    pub(super) blocks: AtomicU64,
    /// The session asks for no blocks ahead before it has debited this many: SharedFS had none left.
    pub(super) again: AtomicU64,
    pub(super) wants_blocks: AtomicBool,
    pub(super) wants_numbers: AtomicBool,
    pub(super) numbers: Mutex<Numbers>,
}

/// Granted inode numbers that the session has not used.
#[derive(Debug)]
pub(super) struct Numbers {
    pub(super) next: u64,
    pub(super) end: u64,
    /// The range that follows this one.
    pub(super) range_after: Option<(u64, u64)>,
    /// How many numbers the next request asks for.
    pub(super) step: u64,
    /// How often a new daemon voided all numbers.
    pub(super) restarts: u64,
}

impl Credit {
    pub(crate) fn new(welcome: &Welcome) -> Credit {
        let (next, count) = (welcome.inode_first.0, u64::from(welcome.inode_count));
        Credit {
            debited: AtomicU64::new(0),
            blocks: AtomicU64::new(BLOCKS_LEAST),
            again: AtomicU64::new(0),
            wants_blocks: AtomicBool::new(false),
            wants_numbers: AtomicBool::new(false),
            numbers: Mutex::new(Numbers {
                next,
                end: next + count,
                range_after: None,
                step: NUMBERS_LEAST,
                restarts: 0,
            }),
        }
    }

    /// Starts over with the grant of another daemon. The grants of the last daemon are void, and nothing was
    /// debited from this one's.
    pub(crate) fn restart(&self, welcome: &Welcome) {
        let fresh = Credit::new(welcome);
        self.debited.store(0, Ordering::Release);
        self.blocks.store(BLOCKS_LEAST, Ordering::Relaxed);
        self.again.store(0, Ordering::Relaxed);
        let mut numbers = self.numbers.lock();
        *numbers = Numbers { restarts: numbers.restarts + 1, ..fresh.numbers.into_inner() };
    }

    /// Takes the answer to a request for blocks.
    pub(crate) fn deliver_blocks(&self, answer: &Result<Response, Error>, tier_bytes: u64) {
        let step = self.blocks.load(Ordering::Relaxed);
        if matches!(answer, Ok(Response::Done)) {
            let most = (tier_bytes / BLOCK_BYTES / TIER_PART).max(BLOCKS_LEAST);
            self.blocks.store((step * 2).min(most), Ordering::Relaxed);
        } else {
            self.blocks.store(BLOCKS_LEAST, Ordering::Relaxed);
            self.again.store(self.debited.load(Ordering::Relaxed) + BLOCKS_LEAST / 4, Ordering::Relaxed);
        }
    }

    /// Takes the answer to a request for inode numbers; `false` if it grants none. If there were more
    /// restarts since the request (`restarts`), the answer is that of a daemon that is gone. The next daemon
    /// may have granted the same numbers to others, so they are dropped.
    pub(crate) fn deliver_numbers(&self, answer: &Result<Response, Error>, restarts: Option<u64>) -> bool {
        let &Ok(Response::InodeNumbers { first, count: count @ 1.. }) = answer else { return false };
        let mut numbers = self.numbers.lock();
        if restarts.is_some_and(|restarts| restarts != numbers.restarts) {
            return true;
        }
        let range = (first.0, first.0.saturating_add(u64::from(count)));
        if numbers.next >= numbers.end {
            (numbers.next, numbers.end) = range;
        } else {
            numbers.range_after = Some(range);
        }
        numbers.step = (numbers.step * 2).min(NUMBERS_MOST);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuesta_format::InodeNumber;
    use cuesta_format::{
        Durability, Geometry, LeaseGeneration, LogGeneration, LogPosition, Medium, PersistenceDomain,
        SessionId, StoreId,
    };

    fn welcome(first: u64) -> Welcome {
        Welcome {
            store: StoreId([1; 16]),
            medium: Medium::Memory,
            emulated: None,
            played: Vec::new(),
            persistence_domain: PersistenceDomain::MemoryController,
            geometry: Geometry::default(),
            session: SessionId(1),
            log_generation: LogGeneration(1),
            start: LogPosition(0),
            lease_generation: LeaseGeneration(1),
            incarnation: 1,
            commit_file_waits: 0,
            lower_tiers: 0,
            awake_us: 0,
            stage_bytes: 0,
            durability: Durability::Pessimistic,
            optimistic_ms_max: 0,
            inode_first: InodeNumber(first),
            inode_count: 10,
            stand_ins: Vec::new(),
            ahead: Vec::new(),
        }
    }

    /// One thread may hold an old daemon's answer while another thread meets the next daemon. That daemon has
    /// granted these numbers to no session, and gives up a log that uses one.
    #[test]
    fn numbers_of_a_daemon_that_is_gone_are_not_used() {
        let credit = Credit::new(&welcome(100));
        let answer = |first| Ok(Response::InodeNumbers { first: InodeNumber(first), count: 50 });
        let range = || {
            let numbers = credit.numbers.lock();
            (numbers.next, numbers.end, numbers.range_after)
        };
        let asked_at = credit.numbers.lock().restarts;
        credit.restart(&welcome(300));
        assert!(credit.deliver_numbers(&answer(200), Some(asked_at)), "it need not be asked for again");
        assert_eq!(range(), (300, 310, None));
        let asked_at = credit.numbers.lock().restarts;
        assert!(credit.deliver_numbers(&answer(400), Some(asked_at)));
        assert_eq!(range(), (300, 310, Some((400, 450))));
        credit.restart(&welcome(500));
        assert_eq!(range(), (500, 510, None), "neither those at hand nor those for range_after");
    }
}
