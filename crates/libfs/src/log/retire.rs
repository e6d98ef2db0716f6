//! Letting go of digested log space, in bounded steps that ordinary operations do.
//!
//! Mechanism: a *round* takes SharedFS's report of where digests placed content, and sets the bases of cached
//! inodes. When all bases are set, it drops what the overlays of those inodes hold of the log below the
//! report's end, and truncations below it. Then it publishes `retired`. Everything of the digested log that
//! an overlay still refers to lies in blocks of the report. After each step no reader reads what was dropped,
//! because readers copy under the inode's lock.
//!
//! Policy: the session posts a request for a report when the digest has caught up, or when half of the ring
//! waits to be retired. So a burst that fits the log is not held up. If a fence is likely soon, which brings
//! a report, only the second case counts. The report starts a round: each appending operation does one step,
//! and a full log does all of it.

use crate::cache::file_content::FileContent;
use crate::cache::inode::Content;
use crate::client::client::Client;
use crate::errno::{Error, unexpected};
use crate::log::retire_round::RetireRound;
use crate::sync::Ordering;
use cuesta_format::wire::{Placed, Report, Request, Response};
use cuesta_format::{InodeNumber, LogPosition};

/// Items of a report, or inodes, that one step handles.
const STEP_ITEMS: usize = 64;

/// The digest counts as caught up when no more than this is left.
const DIGEST_LAG_BYTES: u64 = 64 << 10;

impl Client {
    /// What each operation does once it stands: kick SharedFS, grow the log, retire a step.
    #[inline]
    pub(crate) fn after_operation(&self, appended: Option<LogPosition>) {
        let Some(end) = appended else { return };
        self.session.appended(end);
        if self.session.requests.is_outstanding() {
            self.session.requests.poll(&self.session);
        } else if self.session.wants_more_credit() {
            self.session.post_credit_request();
        }
        if self.should_retire(end) {
            // If this fails, it fails again, with a report, when the space is needed.
            let _ = self.retire_step();
        }
        if self.session.wants_to_grow() {
            let _ = self.session.grow_ahead();
        }
        if self.cache.is_over_full(self.session.retired()) {
            let _ = self.forget_some();
        }
    }

    /// Whether an operation whose entry ended at `end` does a step. While another answer is outstanding, the
    /// session can post no request for a report, and a step would only take locks.
    #[inline]
    fn should_retire(&self, end: LogPosition) -> bool {
        let (digested, retired) = (self.session.digested(), self.session.retired());
        digested > retired
            && (self.in_round.load(Ordering::Relaxed)
                || self.session.has_report().unwrap_or_else(|| {
                    let is_time = (end.0.saturating_sub(digested.0) <= DIGEST_LAG_BYTES
                        && !self.session.is_log_polled())
                        || end.0 - retired.0 > self.session.geometry().ring_bytes() / 2;
                    is_time && !self.session.requests.is_outstanding()
                }))
    }

    /// One bounded step, unless another thread does one.
    fn retire_step(&self) -> Result<(), Error> {
        let _gate = self.gate.read();
        let Some(mut retiring) = self.retiring.try_lock() else {
            return Ok(());
        };
        if self.session.is_fenced() {
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
    pub(super) fn retire_towards(&self, needed: LogPosition) -> Result<(), Error> {
        let _gate = self.gate.read();
        let mut retiring = self.retiring.lock();
        while self.session.appender.limit() < needed && self.retire_or_ask(&mut retiring)? {}
        Ok(())
    }

    /// Retires what a fence accepted, which is all digested. `report` covers everything placed since the
    /// position that this session last retired. No operation is in flight.
    pub(crate) fn retire_accepted(&self, accepted: LogPosition, report: Report) -> Result<(), Error> {
        self.session.requests.await_posted(&self.session);
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

    /// The next page of the report, posted for or waited for.
    fn next_report(&self, retiring: &RetireRound) -> Result<Report, Error> {
        self.session.requests.await_posted(&self.session);
        if let Some(page) = self.session.take_report() {
            return Ok(page);
        }
        let request = Request::Report { from: retiring.at, skip: retiring.learnt };
        match self.session.ask(&request)? {
            Response::Report(page) => Ok(page),
            other => Err(unexpected(&other)),
        }
    }

    /// A large step that waits for the report. `false`: nothing is left to retire.
    fn retire_or_ask(&self, retiring: &mut RetireRound) -> Result<bool, Error> {
        if self.session.is_fenced() {
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

    /// One step of the round, on up to `items_max` items.
    fn retire_some(&self, retiring: &mut RetireRound, items_max: usize) {
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
}
