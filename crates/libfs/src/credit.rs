//! What a session may use up before SharedFS knows: blocks and inode numbers. Both are asked for when half of what was
//! given last is gone, so that an operation seldom meets the end of them.

use crate::asking::Subject;
use crate::errno::Error;
use crate::session::{Session, unexpected};
use crate::sync::{AtomicBool, AtomicU64, Mutex, Ordering};
use cuesta_format::wire::{Request, Response, Welcome};
use cuesta_format::{BLOCK_BYTES, InodeNumber};

/// Blocks asked for at least; each time after that twice as many.
const BLOCKS_LEAST: u64 = 4096;
/// Part of the tier one question asks for at most, unless that is less than the least.
const TIER_PART: u64 = 32;
/// Inode numbers asked for at first; each time after that twice as many.
const NUMBERS_LEAST: u64 = 4096;
/// Inode numbers asked for at most: SharedFS sets room aside for what is made with them.
const NUMBERS_MOST: u64 = 16 << 10;

/// What was used, and what is asked for next.
#[derive(Debug)]
pub(crate) struct Credit {
    debited: AtomicU64,
    /// Blocks asked for next.
    blocks: AtomicU64,
    /// No blocks are asked for ahead before so many were debited: SharedFS had none.
    again: AtomicU64,
    wants_blocks: AtomicBool,
    wants_numbers: AtomicBool,
    numbers: Mutex<Numbers>,
}

/// Inode numbers not given yet.
#[derive(Debug)]
struct Numbers {
    next: u64,
    end: u64,
    /// Those that come after.
    later: Option<(u64, u64)>,
    /// How many are asked for next.
    step: u64,
    /// How often all were void.
    restarts: u64,
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
                later: None,
                step: NUMBERS_LEAST,
                restarts: 0,
            }),
        }
    }

    /// Goes on with what another daemon gave: nothing of the last one's counts, nor was anything debited from this one's.
    pub(crate) fn restart(&self, welcome: &Welcome) {
        let fresh = Credit::new(welcome);
        self.debited.store(0, Ordering::Release);
        self.blocks.store(BLOCKS_LEAST, Ordering::Relaxed);
        self.again.store(0, Ordering::Relaxed);
        let mut numbers = self.numbers.lock();
        *numbers = Numbers { restarts: numbers.restarts + 1, ..fresh.numbers.into_inner() };
    }

    /// Takes the answer about blocks.
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

    /// Takes the answer about inode numbers; `false` if it gives none. One that was asked for when there had been
    /// `restarts` is a daemon's that is gone, if there were more: those numbers are another's by now.
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
            numbers.later = Some(range);
        }
        numbers.step = (numbers.step * 2).min(NUMBERS_MOST);
        true
    }
}

impl Session {
    /// Debits the credit, if it suffices.
    #[inline]
    pub(crate) fn debit(&self, blocks: u64) -> bool {
        if blocks == 0 {
            return true;
        }
        let credit = &self.credit;
        let total = credit.debited.fetch_add(blocks, Ordering::AcqRel) + blocks;
        let limit = self.credit_limit();
        if total + credit.blocks.load(Ordering::Relaxed) / 4 > limit
            && total >= credit.again.load(Ordering::Relaxed)
        {
            credit.wants_blocks.store(true, Ordering::Relaxed);
        }
        if total <= limit {
            return true;
        }
        self.give_back_debit(blocks);
        false
    }

    /// Takes back a debit whose entry was not appended, or was voided.
    #[inline]
    pub(crate) fn give_back_debit(&self, blocks: u64) {
        if blocks > 0 {
            self.credit.debited.fetch_sub(blocks, Ordering::AcqRel);
        }
    }

    /// A fresh inode number, if one is at hand.
    #[inline]
    pub(crate) fn take_number(&self) -> Option<InodeNumber> {
        let mut numbers = self.credit.numbers.lock();
        if numbers.next >= numbers.end {
            (numbers.next, numbers.end) = numbers.later.take()?;
        }
        numbers.next += 1;
        if numbers.end - numbers.next < NUMBERS_LEAST / 2 && numbers.later.is_none() {
            self.credit.wants_numbers.store(true, Ordering::Relaxed);
        }
        Some(InodeNumber(numbers.next - 1))
    }

    /// Whether more is to be asked for ahead.
    #[inline]
    pub(crate) fn wants_more(&self) -> bool {
        self.credit.wants_blocks.load(Ordering::Relaxed) || self.credit.wants_numbers.load(Ordering::Relaxed)
    }

    /// Asks ahead, without waiting.
    pub(crate) fn ask_ahead(&self) {
        if self.asking.is_outstanding() {
            return;
        }
        let credit = &self.credit;
        if credit.wants_blocks.swap(false, Ordering::Relaxed) {
            let request = Request::Credit { blocks: credit.blocks.load(Ordering::Relaxed) };
            self.asking.post(Subject::Credit, &request, self);
        } else if credit.wants_numbers.swap(false, Ordering::Relaxed) {
            let numbers = credit.numbers.lock();
            let (step, needed) = (numbers.step, numbers.later.is_none());
            drop(numbers);
            if needed {
                let request = Request::InodeNumbers { count: step as u32 };
                self.asking.post(Subject::Numbers, &request, self);
            }
        }
    }

    /// Blocks that may be debited without asking.
    pub(crate) fn credit_left(&self) -> u64 {
        self.credit_limit().saturating_sub(self.credit.debited.load(Ordering::Acquire))
    }

    /// Asks for more credit. `false`: the store is full.
    pub(crate) fn ask_credit(&self, blocks: u64) -> Result<bool, Error> {
        self.asking.settle(self);
        let missing =
            (self.credit.debited.load(Ordering::Acquire) + blocks).saturating_sub(self.credit_limit());
        if missing == 0 {
            return Ok(true);
        }
        let ask = |blocks| {
            let answer = self.ask(&Request::Credit { blocks });
            self.credit.deliver_blocks(&answer, self.geometry().nvm_bytes);
            match answer {
                Ok(Response::Done) => Ok(true),
                Ok(other) => Err(unexpected(&other)),
                Err(Error::NoSpace) => Ok(false),
                Err(error) => Err(error),
            }
        };
        let step = self.credit.blocks.load(Ordering::Relaxed);
        Ok(ask(missing.max(step))? || missing < step && ask(missing)?)
    }

    /// Gets more inode numbers.
    pub(crate) fn ask_numbers(&self) -> Result<(), Error> {
        self.asking.settle(self);
        let numbers = self.credit.numbers.lock();
        let at_hand = numbers.next < numbers.end || numbers.later.is_some();
        let (step, restarts) = (numbers.step, numbers.restarts);
        drop(numbers);
        if at_hand {
            return Ok(());
        }
        let answer = self.ask(&Request::InodeNumbers { count: step as u32 });
        if self.credit.deliver_numbers(&answer, Some(restarts)) {
            return Ok(());
        }
        match answer? {
            Response::InodeNumbers { .. } => Err(Error::NoSpace),
            other => Err(unexpected(&other)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuesta_format::{
        Geometry, LeaseGeneration, LogGeneration, LogPosition, Medium, PersistenceDomain, SessionId, StoreId,
    };

    fn welcome(first: u64) -> Welcome {
        Welcome {
            store: StoreId([1; 16]),
            medium: Medium::Memory,
            emulated: None,
            persistence_domain: PersistenceDomain::MemoryController,
            geometry: Geometry::default(),
            session: SessionId(1),
            log_generation: LogGeneration(1),
            start: LogPosition(0),
            lease_generation: LeaseGeneration(1),
            incarnation: 1,
            commit_file_waits: 0,
            awake_us: 0,
            inode_first: InodeNumber(first),
            inode_count: 10,
            stand_ins: Vec::new(),
            ahead: Vec::new(),
        }
    }

    /// A thread may have the answer of a daemon in its hands while another meets the next one: to that the numbers are
    /// nobody's, and a log with one of them is given up.
    #[test]
    fn numbers_of_a_daemon_that_is_gone_are_not_used() {
        let credit = Credit::new(&welcome(100));
        let answer = |first| Ok(Response::InodeNumbers { first: InodeNumber(first), count: 50 });
        let range = || {
            let numbers = credit.numbers.lock();
            (numbers.next, numbers.end, numbers.later)
        };
        let asked_at = credit.numbers.lock().restarts;
        credit.restart(&welcome(300));
        assert!(credit.deliver_numbers(&answer(200), Some(asked_at)), "it need not be asked for again");
        assert_eq!(range(), (300, 310, None));
        let asked_at = credit.numbers.lock().restarts;
        assert!(credit.deliver_numbers(&answer(400), Some(asked_at)));
        assert_eq!(range(), (300, 310, Some((400, 450))));
        credit.restart(&welcome(500));
        assert_eq!(range(), (500, 510, None), "neither those at hand nor those for later");
    }
}
