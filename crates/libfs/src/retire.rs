//! Letting go of log space that was digested, in bounded steps done by ordinary operations.
//!
//! Mechanism: a *round* takes SharedFS's report of what digests placed where, sets the bases of cached inodes, and when
//! all are set drops what those inodes' overlays hold of the log below the report's end, and truncations below it; then
//! it publishes `retired`. Whatever of the digested log an overlay still refers to lies in blocks of the report. After
//! each step no reader can be in what was dropped: readers copy under the inode's lock.
//!
//! Policy: a report is asked for, without waiting for it, when the digest has caught up, or half of the ring waits to be
//! retired: a burst that fits the log is not held up by it. Where a fence is to be expected soon, which brings one, it is
//! only asked for in the second case. With the report a round begins: one step per appending
//! operation; all of it when the log is full.

use crate::attempts::{Attempts, DIGEST_LOOKS};
use crate::client::Client;
use crate::content::FileContent;
use crate::errno::Error;
use crate::inode::Content;
use crate::session::unexpected;
use crate::sync::Ordering;
use cuesta_format::wire::{Placed, Report, Request, Response};
use cuesta_format::{InodeNumber, LogPosition};

/// Items of a report, or inodes, that one ordinary operation deals with.
const STEP_ITEMS: usize = 64;
/// The digest has caught up when no more than this is left.
const CAUGHT_UP_BYTES: u64 = 64 << 10;

/// Where the present round stands.
#[derive(Debug, Default)]
pub(crate) struct Retiring {
    /// Everything below is retired.
    at: LogPosition,
    /// The report's end: the round retires up to here, once all of the report is applied.
    target: LogPosition,
    /// The page of the report that is being applied, and how many of its items are.
    page: Option<(Report, usize)>,
    /// Items of the pages before it.
    learnt: u64,
    /// Inodes of the report, each once for every run of its items.
    placed: Vec<InodeNumber>,
}

impl Retiring {
    pub(crate) fn new(at: LogPosition) -> Retiring {
        Retiring { at, target: at, ..Retiring::default() }
    }

    pub(crate) fn restart(&mut self, at: LogPosition) {
        *self = Retiring::new(at);
    }

    fn in_round(&self) -> bool {
        self.page.is_some() || self.target > self.at
    }
}

impl Client {
    /// What every operation does once it stands: the kick, the log's growth, a step of retiring.
    #[inline]
    pub(crate) fn after_operation(&self, appended: Option<LogPosition>) {
        let Some(end) = appended else { return };
        self.session.appended(end);
        if self.session.asking.is_outstanding() {
            self.session.asking.look(&self.session);
        } else if self.session.wants_more() {
            self.session.ask_ahead();
        }
        if self.should_retire(end) {
            // What fails here fails again, and is reported, when the space is needed.
            let _ = self.retire_step();
        }
        if self.session.wants_to_grow() {
            let _ = self.session.grow_ahead();
        }
        if self.cache.is_over_full(self.session.retired()) {
            let _ = self.forget_some();
        }
    }

    /// Whether an operation whose entry ended at `end` does a step. Where no report was asked for and none can be, because another
    /// answer is awaited, a step would do nothing but take locks.
    #[inline]
    fn should_retire(&self, end: LogPosition) -> bool {
        let (digested, retired) = (self.session.digested(), self.session.retired());
        digested > retired
            && (self.in_round.load(Ordering::Relaxed)
                || self.session.has_report().unwrap_or_else(|| {
                    let is_time = (end.0.saturating_sub(digested.0) <= CAUGHT_UP_BYTES
                        && !self.session.is_attended())
                        || end.0 - retired.0 > self.session.geometry().ring_bytes() / 2;
                    is_time && !self.session.asking.is_outstanding()
                }))
    }

    /// One bounded step, unless another thread is at it.
    fn retire_step(&self) -> Result<(), Error> {
        let _gate = self.gate.read();
        let Some(mut retiring) = self.retiring.try_lock() else {
            return Ok(());
        };
        if self.is_fenced() {
            return Ok(());
        }
        if !retiring.in_round() {
            match self.session.take_report() {
                Some(page) => retiring.page = Some((page, 0)),
                None => {
                    self.session.post_report(retiring.at, retiring.learnt);
                    return Ok(());
                }
            }
        }
        self.retire_some(&mut retiring, STEP_ITEMS);
        Ok(())
    }

    /// Retires everything that is digested now.
    pub(crate) fn retire_all(&self) -> Result<(), Error> {
        let _gate = self.gate.read();
        let mut retiring = self.retiring.lock();
        while self.retire_or_ask(&mut retiring)? {}
        Ok(())
    }

    /// Retires what is digested now until the log reaches `needed`.
    fn retire_towards(&self, needed: LogPosition) -> Result<(), Error> {
        let _gate = self.gate.read();
        let mut retiring = self.retiring.lock();
        while self.session.appender.limit() < needed && self.retire_or_ask(&mut retiring)? {}
        Ok(())
    }

    /// Retires what a fence accepted, all of which is digested. `report` tells all that was placed since what this session
    /// said it had retired. No operation is in flight.
    pub(crate) fn retire_accepted(&self, accepted: LogPosition, report: Report) -> Result<(), Error> {
        self.session.asking.settle(&self.session);
        let mut retiring = self.retiring.lock();
        if !retiring.in_round() && retiring.learnt == 0 {
            drop(self.session.take_report());
            retiring.page = Some((report, 0));
        }
        while retiring.at < accepted {
            if !retiring.in_round() {
                retiring.page = Some((self.next_report(&retiring)?, 0));
            }
            let before = (retiring.at, retiring.learnt);
            self.retire_some(&mut retiring, usize::MAX);
            if !retiring.in_round() && (retiring.at, retiring.learnt) == before {
                return Err(Error::Daemon("what a fence accepted is not digested".into()));
            }
        }
        Ok(())
    }

    /// The page of a report that comes next: asked for ahead, or waited for.
    fn next_report(&self, retiring: &Retiring) -> Result<Report, Error> {
        self.session.asking.settle(&self.session);
        if let Some(page) = self.session.take_report() {
            return Ok(page);
        }
        let request = Request::Report { from: retiring.at, skip: retiring.learnt };
        match self.session.ask(&request)? {
            Response::Report(page) => Ok(page),
            other => Err(unexpected(&other)),
        }
    }

    /// A fence has moved the generation, and nobody resynchronised yet.
    fn is_fenced(&self) -> bool {
        self.session.shown_generation() != self.session.generation.load(Ordering::Acquire)
    }

    /// A large step, for which the report is waited for. `false`: there is nothing to retire.
    fn retire_or_ask(&self, retiring: &mut Retiring) -> Result<bool, Error> {
        if self.is_fenced() {
            return Ok(false);
        }
        if !retiring.in_round() {
            if self.session.digested() <= retiring.at {
                return Ok(false);
            }
            retiring.page = Some((self.next_report(retiring)?, 0));
        }
        self.retire_some(retiring, usize::MAX);
        Ok(true)
    }

    /// One step of the round, with up to `items_max` items of it.
    fn retire_some(&self, retiring: &mut Retiring, items_max: usize) {
        if let Some((page, applied)) = &mut retiring.page {
            let end = page.placed.len().min(applied.saturating_add(items_max));
            self.apply(&page.placed[*applied..end], &mut retiring.placed);
            *applied = end;
            if end == page.placed.len() {
                retiring.learnt += end as u64;
                if !page.more || end == 0 {
                    retiring.learnt = 0;
                    retiring.target = page.digested.max(retiring.at);
                }
                retiring.page = None;
            }
        } else {
            for _ in 0..items_max {
                let Some(inode) = retiring.placed.pop() else { break };
                self.change_content(inode, |content| content.retire_writes(retiring.target));
            }
            if retiring.placed.is_empty() {
                self.retire_truncations(retiring.target);
                retiring.at = retiring.target;
                self.session.set_retired(retiring.at);
            }
        }
        self.in_round.store(retiring.in_round(), Ordering::Relaxed);
    }

    fn apply(&self, placed: &[Placed], inodes: &mut Vec<InodeNumber>) {
        for run in placed.chunk_by(|one, next| one.inode == next.inode) {
            let inode = run[0].inode;
            self.change_content(inode, |content| run.iter().for_each(|placed| content.place(&placed.extent)));
            if inodes.last() != Some(&inode) {
                inodes.push(inode);
            }
        }
    }

    fn retire_truncations(&self, target: LogPosition) {
        let mut digested = Vec::new();
        self.truncations.lock().retain(|&(position, inode)| {
            let keep = position >= target;
            if !keep {
                digested.push((position, inode));
            }
            keep
        });
        for (position, inode) in digested {
            self.change_content(inode, |content| content.retire_truncate(position));
        }
    }

    fn change_content(&self, inode: InodeNumber, change: impl FnOnce(&mut FileContent)) {
        if let Some(inode) = self.cache.get(inode)
            && let Content::File(content) = &mut inode.state.write().content
        {
            change(content);
        }
    }

    /// Makes the log reach `needed`: by growing it, by retiring, by waiting for a digest.
    pub(crate) fn make_room(&self, needed: LogPosition) -> Result<(), Error> {
        let mut looks = Attempts::new(DIGEST_LOOKS);
        loop {
            self.check_alive()?;
            let session = &self.session;
            if session.grow_towards(needed)? || session.appender.limit() >= needed {
                return Ok(());
            }
            let before = session.retired();
            self.retire_towards(needed)?;
            if session.retired() > before || session.appender.limit() >= needed || self.is_fenced() {
                return Ok(());
            }
            if !session.is_fully_grown() && before >= session.appender.completed() {
                return Err(Error::NoSpace);
            }
            let digested = session.digested();
            session.wait_digest(before)?;
            self.looked_for_digest(&mut looks, digested)?;
        }
    }

    /// Waits until the log holds fewer entries than recovery may have to digest.
    pub(crate) fn await_digest_of_entries(&self) -> Result<(), Error> {
        let mut looks = Attempts::new(DIGEST_LOOKS);
        loop {
            self.check_alive()?;
            let seen = self.session.digested();
            if !self.session.holds_too_many() || self.is_fenced() {
                return Ok(());
            }
            self.session.wait_digest(seen)?;
            self.looked_for_digest(&mut looks, seen)?;
        }
    }

    /// Looks count as long as nothing is digested.
    fn looked_for_digest(&self, looks: &mut Attempts, before: LogPosition) -> Result<(), Error> {
        if self.session.digested() > before {
            *looks = Attempts::new(DIGEST_LOOKS);
        }
        self.again(looks, "the daemon does not digest the log")
    }

    /// Gets credit for `blocks`. A full store is first given the chance to free what this session freed.
    pub(crate) fn make_credit(&self, blocks: u64) -> Result<(), Error> {
        if self.session.ask_credit(blocks)? {
            return Ok(());
        }
        self.digest()?;
        if self.session.ask_credit(blocks)? {
            return Ok(());
        }
        Err(Error::NoSpace)
    }

    /// Keeps what it knows of about so many inodes that nobody has open, and gives the leases on others back as soon as the
    /// log says nothing of them any more.
    pub fn limit_cache(&self, inodes_max: usize) {
        self.cache.limit(inodes_max);
    }

    fn forget_some(&self) -> Result<(), Error> {
        let _closed = self.gate.write();
        let inodes =
            self.cache.forget_some(self.session.retired(), |number| self.names_left(number).is_some());
        if inodes.is_empty() {
            return Ok(());
        }
        self.session.given_back.fetch_add(1, Ordering::SeqCst);
        self.session.ask(&cuesta_format::wire::Request::GiveBack { inodes }).map(|_| ())
    }
}
