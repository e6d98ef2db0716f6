//! Letting go of log space that was digested, in bounded steps done by ordinary operations.
//!
//! Mechanism: a *round* learns SharedFS's report of what digests placed where, sets the bases of cached inodes, walks
//! its own headers and drops overlay pieces that lie below the report's end, then publishes `retired`. After each
//! step no reader can be in what was dropped: readers copy under the inode's lock.
//!
//! Policy: a report is asked for, without waiting for it, when the digest has caught up, or half of the ring waits to be
//! retired: a burst that fits the log is not held up by it. With the report a round begins: one step per appending
//! operation; all of it when the log is full. Entries that write adjacent ranges of one inode are let go of as one.

use crate::client::Client;
use crate::content::FileContent;
use crate::errno::Error;
use crate::inode::Content;
use crate::session::unexpected;
use crate::sync::Ordering;
use cuesta_format::entry::{EntryKind, Header};
use cuesta_format::wire::{Placed, Report, Request, Response};
use cuesta_format::{InodeNumber, LogPosition};
use std::ops::Range;

/// Headers walked by one ordinary operation.
const STEP_ENTRIES: usize = 64;
/// Bytes after which a round publishes what it retired so far.
const PUBLISH_BYTES: u64 = 1 << 20;
/// The digest has caught up when no more than this is left.
const CAUGHT_UP_BYTES: u64 = 64 << 10;

/// Where the present round stands.
#[derive(Debug)]
pub(crate) struct Retiring {
    /// Everything below is retired.
    at: LogPosition,
    /// The report's end: the round retires up to here.
    target: LogPosition,
    /// Published last.
    published: LogPosition,
    /// Items of the next round's report that were applied already.
    learnt: u64,
}

impl Retiring {
    pub(crate) fn new(at: LogPosition) -> Retiring {
        Retiring { at, target: at, published: at, learnt: 0 }
    }

    pub(crate) fn restart(&mut self, at: LogPosition) {
        *self = Retiring::new(at);
    }
}

/// Adjacent writes of one inode.
struct Run {
    inode: InodeNumber,
    range: Range<u64>,
    /// Behind the last of their entries.
    end: LogPosition,
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

    /// Whether an operation whose entry ended at `end` does a step.
    #[inline]
    fn should_retire(&self, end: LogPosition) -> bool {
        let (digested, retired) = (self.session.digested(), self.session.retired());
        digested > retired
            && (self.in_round.load(Ordering::Relaxed)
                || self.session.has_report().unwrap_or_else(|| {
                    end.0.saturating_sub(digested.0) <= CAUGHT_UP_BYTES
                        || end.0 - retired.0 > self.session.geometry().ring_bytes() / 2
                }))
    }

    /// One bounded step, unless another thread is at it.
    fn retire_step(&self) -> Result<(), Error> {
        let _gate = self.gate.read();
        let Some(mut retiring) = self.retiring.try_lock() else {
            return Ok(());
        };
        if retiring.at >= retiring.target && !self.begin_round(&mut retiring)? {
            return Ok(());
        }
        self.retire_some(&mut retiring, STEP_ENTRIES).map(|_| ())
    }

    /// Retires everything that is digested now.
    pub(crate) fn retire_all(&self) -> Result<(), Error> {
        let _gate = self.gate.read();
        let mut retiring = self.retiring.lock();
        while self.retire_some(&mut retiring, usize::MAX)? {}
        Ok(())
    }

    /// Retires what is digested now until the log reaches `needed`.
    fn retire_towards(&self, needed: LogPosition) -> Result<(), Error> {
        let _gate = self.gate.read();
        let mut retiring = self.retiring.lock();
        while self.session.appender.limit() < needed && self.retire_some(&mut retiring, STEP_ENTRIES)? {}
        Ok(())
    }

    /// A fence has moved the generation, and nobody resynchronised yet.
    fn is_fenced(&self) -> bool {
        self.session.shown_generation() != self.session.generation.load(Ordering::Acquire)
    }

    /// `false`: there was nothing to do.
    fn retire_some(&self, retiring: &mut Retiring, entries_max: usize) -> Result<bool, Error> {
        if self.is_fenced() {
            return Ok(false);
        }
        if retiring.at >= retiring.target {
            if self.session.digested() <= retiring.at {
                return Ok(false);
            }
            retiring.target = self.learn_report(retiring)?;
            if retiring.target <= retiring.at {
                return Ok(false);
            }
        }
        self.retire_entries(retiring, entries_max)?;
        let done = retiring.at >= retiring.target;
        self.in_round.store(!done, Ordering::Relaxed);
        if done || retiring.at.0 - retiring.published.0 >= PUBLISH_BYTES {
            self.session.set_retired(retiring.at);
            retiring.published = retiring.at;
        }
        Ok(true)
    }

    /// Walks own headers.
    fn retire_entries(&self, retiring: &mut Retiring, entries_max: usize) -> Result<(), Error> {
        let mut run: Option<Run> = None;
        for _ in 0..entries_max {
            if retiring.at >= retiring.target {
                break;
            }
            let Some(header) = self.session.appender.header_at(retiring.at) else {
                return Err(Error::Daemon("the own log cannot be read".into()));
            };
            retiring.at = header.end();
            match header.kind {
                EntryKind::Write => self.join_run(&mut run, &header),
                EntryKind::Truncate => {
                    self.retire_run(run.take());
                    self.retire_content(header.inode, |content| content.retire_truncate(header.position));
                }
                _ => {}
            }
        }
        self.retire_run(run);
        Ok(())
    }

    #[inline]
    fn join_run(&self, run: &mut Option<Run>, header: &Header) {
        let range = header.argument..header.argument.saturating_add(u64::from(header.body_bytes));
        if let Some(run) = run
            && run.inode == header.inode
            && run.range.start <= range.end
            && range.start <= run.range.end
        {
            run.range = run.range.start.min(range.start)..run.range.end.max(range.end);
            run.end = header.end();
            return;
        }
        self.retire_run(run.replace(Run { inode: header.inode, range, end: header.end() }));
    }

    fn retire_run(&self, run: Option<Run>) {
        if let Some(Run { inode, range, end }) = run {
            self.retire_content(inode, |content| content.retire_write(range, end));
        }
    }

    fn retire_content(&self, inode: InodeNumber, retire: impl FnOnce(&mut FileContent)) {
        if let Some(inode) = self.cache.get(inode)
            && let Content::File(content) = &mut inode.state.write().content
        {
            retire(content);
        }
    }

    /// Begins a round with the report that was asked for ahead, or asks for one. `false`: there is none yet.
    fn begin_round(&self, retiring: &mut Retiring) -> Result<bool, Error> {
        if self.is_fenced() {
            return Ok(false);
        }
        if let Some(report) = self.session.take_report() {
            let Report { digested, placed, more } = report;
            self.apply_report(&placed);
            retiring.learnt += placed.len() as u64;
            if !more || placed.is_empty() {
                retiring.learnt = 0;
                retiring.target = digested;
                return Ok(digested > retiring.at);
            }
        }
        self.session.post_report(retiring.at, retiring.learnt);
        Ok(false)
    }

    /// Fetches and applies the report of digests since the last round; how far it reaches.
    fn learn_report(&self, retiring: &mut Retiring) -> Result<LogPosition, Error> {
        let mut skip = 0;
        loop {
            let answer = self.session.ask(&Request::Report { from: retiring.at, skip })?;
            let Response::Report(Report { digested, placed, more }) = answer else {
                return Err(unexpected(&answer));
            };
            // One that was asked for ahead is older.
            drop(self.session.take_report());
            retiring.learnt = 0;
            skip += placed.len() as u64;
            self.apply_report(&placed);
            if !more || placed.is_empty() {
                return Ok(digested);
            }
        }
    }

    fn apply_report(&self, placed: &[Placed]) {
        let mut rest = placed;
        while let Some(first) = rest.first() {
            let same = rest.iter().take_while(|placed| placed.inode == first.inode).count();
            let (run, behind) = rest.split_at(same);
            rest = behind;
            let Some(inode) = self.cache.get(first.inode) else { continue };
            let mut state = inode.state.write();
            if let Content::File(content) = &mut state.content {
                run.iter().for_each(|placed| content.place(&placed.extent));
            }
        }
    }

    /// Makes the log reach `needed`: by growing it, by retiring, by waiting for a digest.
    pub(crate) fn make_room(&self, needed: LogPosition) -> Result<(), Error> {
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
            session.wait_digest(before)?;
        }
    }

    /// Waits until the log holds fewer entries than recovery may have to digest.
    pub(crate) fn await_digest_of_entries(&self) -> Result<(), Error> {
        loop {
            self.check_alive()?;
            let seen = self.session.digested();
            if !self.session.holds_too_many() || self.is_fenced() {
                return Ok(());
            }
            self.session.wait_digest(seen)?;
        }
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

    fn forget_some(&self) -> Result<(), Error> {
        let _closed = self.gate.write();
        let inodes = self.cache.forget_some(self.session.retired());
        if inodes.is_empty() {
            return Ok(());
        }
        self.session.ask(&cuesta_format::wire::Request::GiveBack { inodes }).map(|_| ())
    }
}
