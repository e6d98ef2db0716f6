//! Debiting credit, and asking SharedFS for more.
//!
//! The session asks for more when half of the last grant is gone, so that an operation seldom finds none left.

use crate::errno::{Error, unexpected};
use crate::session::credit::NUMBERS_LEAST;
use crate::session::requests::Subject;
use crate::session::session::Session;
use crate::sync::Ordering;
use cuesta_format::InodeNumber;
use cuesta_format::wire::{Request, Response};

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

    /// Gives a debit back whose entry was not appended, or was voided.
    #[inline]
    pub(crate) fn give_back_debit(&self, blocks: u64) {
        if blocks > 0 {
            self.credit.debited.fetch_sub(blocks, Ordering::AcqRel);
        }
    }

    /// A fresh inode number, if the session has one left.
    #[inline]
    pub(crate) fn take_number(&self) -> Option<InodeNumber> {
        let mut numbers = self.credit.numbers.lock();
        if numbers.next >= numbers.end {
            (numbers.next, numbers.end) = numbers.range_after.take()?;
        }
        numbers.next += 1;
        if numbers.end - numbers.next < NUMBERS_LEAST / 2 && numbers.range_after.is_none() {
            self.credit.wants_numbers.store(true, Ordering::Relaxed);
        }
        Some(InodeNumber(numbers.next - 1))
    }

    /// Whether it is time to ask for more ahead.
    #[inline]
    pub(crate) fn wants_more_credit(&self) -> bool {
        self.credit.wants_blocks.load(Ordering::Relaxed) || self.credit.wants_numbers.load(Ordering::Relaxed)
    }

    /// Asks for more ahead, without waiting.
    pub(crate) fn post_credit_request(&self) {
        if self.requests.is_outstanding() {
            return;
        }
        let credit = &self.credit;
        if credit.wants_blocks.swap(false, Ordering::Relaxed) {
            let request = Request::Credit { blocks: credit.blocks.load(Ordering::Relaxed) };
            self.requests.post(Subject::Credit, &request, self);
        } else if credit.wants_numbers.swap(false, Ordering::Relaxed) {
            let numbers = credit.numbers.lock();
            let (step, needed) = (numbers.step, numbers.range_after.is_none());
            drop(numbers);
            if needed {
                let request = Request::InodeNumbers { count: step as u32 };
                self.requests.post(Subject::Numbers, &request, self);
            }
        }
    }

    /// Blocks that the session may debit without asking.
    pub(crate) fn credit_left(&self) -> u64 {
        self.credit_limit().saturating_sub(self.credit.debited.load(Ordering::Acquire))
    }

    /// Asks for more credit. `false`: the store is full.
    pub(crate) fn ask_credit(&self, blocks: u64) -> Result<bool, Error> {
        self.requests.await_posted(self);
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
        self.requests.await_posted(self);
        let numbers = self.credit.numbers.lock();
        let at_hand = numbers.next < numbers.end || numbers.range_after.is_some();
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
