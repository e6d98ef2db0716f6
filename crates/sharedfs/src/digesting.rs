//! Digests, driven: which batch, from which log, and what everybody is told of it afterwards; and what is made ready
//! ahead of them.
//!
//! The digester's lock is held for one batch at a time. What a session waits for and needs no digest (credit, numbers,
//! reports, segments) is answered beside it; so that it seldom has to ask, each batch grants credit for the next ones.

use crate::digest::Space;
use crate::digest::policy;
use crate::digest::{Batch, Digester, LogView, Until};
use crate::ending::Ending;
use crate::metadata::{MetadataError, ReadOnly};
use crate::placement;
use crate::sessions::{BatchReport, Control, Segment, Session, make_segment};
use crate::store::{Core, Progress};
use crate::{Error, SharedFs};
use cuesta_format::event::Step;
use cuesta_format::superblock::Superblock;
use cuesta_format::{InodeNumber, SegmentId, SessionId};
use cuesta_media::Node;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Room the metadata store must have before more space is promised, and is given ahead of need.
const METADATA_SLACK_BYTES: u64 = 16 << 20;
/// Made at a time: nobody waits longer than the medium takes for so much.
const METADATA_STEP_BYTES: u64 = 4 << 20;
/// Room it must have for a digest to begin.
pub(crate) const METADATA_SLACK_LEAST_BYTES: u64 = 2 << 20;
/// Most bytes a byte of log makes it grow by: the smallest entries (a name of a few bytes) make the most of it.
const METADATA_GROWTH: u64 = 3;

/// Recovery digests as much as so many batches at once: the larger, the less often a page of the metadata is written.
const BATCHES_RECOVERED: u64 = 4;

/// A batch that found the medium full is tried again with this part of it, down to so many bytes.
const BATCH_SHRINKS: u64 = 16;
const BATCH_LEAST_BYTES: u64 = 4 << 10;
/// So long a full medium is left alone before the next try.
pub(crate) const STARVED_PAUSE: Duration = Duration::from_millis(500);

/// A session is granted ahead what it would use up in so many batches like its last one: its log, full, is four.
const BATCHES_AHEAD: u64 = 4;
/// But never more than this part of what there is to grant at once,
const AHEAD_PART: u64 = 8;
/// and only while more than this part of the tier is free: on a full one nobody may have what it did not ask for.
const PLENTY_PART: u64 = 4;

/// Control pages made ahead of the sessions that get them: programs come one after the other, or a few at once.
const SPARE_CONTROLS: usize = 4;

/// What digesting a log to its end came to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Digested {
    /// Entries digested.
    pub(crate) entries: u64,
    /// The log is wrong where the digest ended.
    pub(crate) rejected: bool,
}

/// A digest runs while this lives.
struct Running<'a>(&'a AtomicBool);

impl Running<'_> {
    fn begin(runs: &AtomicBool) -> Running<'_> {
        runs.store(true, Ordering::Relaxed);
        Running(runs)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

impl SharedFs {
    /// Digests one batch of a session's log. A session whose log proves wrong is ended.
    pub fn digest_session(&self, session: SessionId) -> Result<Progress, Error> {
        self.digest_some(&mut self.digester.lock(), session, Until::Completed)
    }

    /// As [`SharedFs::digest_session`], for nobody who waits: what the disk need not be waited for comes first.
    fn digest_unawaited(&self, session: SessionId) -> Result<Progress, Error> {
        self.digest_some(&mut self.digester.lock(), session, Until::Durable)
    }

    /// As [`SharedFs::digest_session`], but not behind a digest that is going on; `None`: one is.
    pub(crate) fn digest_unless_busy(&self, session: SessionId) -> Option<Result<Progress, Error>> {
        let mut digester = self.digester.try_lock()?;
        Some(self.digest_some(&mut digester, session, Until::Completed))
    }

    fn digest_some(
        &self,
        digester: &mut Digester,
        session: SessionId,
        until: Until,
    ) -> Result<Progress, Error> {
        let Some(batch) = self.digest_batch(digester, session, until)? else {
            return Ok(Progress::Idle);
        };
        if batch.rejected.is_some() {
            self.end(digester, session, Ending::GivenUp)?;
        }
        Ok(Progress::Digested { session, bytes: batch.to.0 - batch.from.0 })
    }

    /// Keeps every digest from beginning while the result lives, as one that runs does: for tests of what goes on
    /// beside it.
    pub fn hold_digests(&self) -> impl Sized + '_ {
        (self.digester.lock(), Running::begin(&self.digests))
    }

    /// Digests one batch of the longest log, if any log holds something; else makes spare segments and arenas.
    /// When to call it is the caller's: see [`policy`].
    pub fn digest_step(&self) -> Result<Progress, Error> {
        for session in policy::due(&self.backlogs(), &self.options, true) {
            if let progress @ Progress::Digested { .. } = self.digest_unawaited(session)? {
                return Ok(progress);
            }
        }
        Ok(if self.prepare()? { Progress::Prepared } else { Progress::Idle })
    }

    /// Makes one thing ready: control pages, a segment or a step of an arena's memory. Says whether there was one to make.
    pub fn prepare(&self) -> Result<bool, Error> {
        self.references.sweep_if_many()?;
        if self.controls.lock().len() < SPARE_CONTROLS {
            let control = Control::new()?;
            self.controls.lock().push(control);
            return Ok(true);
        }
        let (ready, kept) = (self.options.spare_segments as usize, self.spare_segments_kept());
        let lacking = self.core.lock().lacking(&self.nodes, ready, kept);
        if let Some(node) = lacking {
            let id = self.core.lock().pool.next_id();
            let segment = self.make_segment(id, node)?;
            self.core.lock().pool.add(&segment);
            return Ok(true);
        }
        let blocks = u64::from(self.superblock.geometry.arena_blocks());
        let spare = blocks * u64::from(self.options.spare_arenas);
        if let Some(node) = self.lacking_memory(spare) {
            return match self.grow(node, || self.lacking_memory(spare).is_none()) {
                // Nothing can be made ready, and whoever needs it is told so.
                Err(Error::NoSpace) => Ok(false),
                grown => grown,
            };
        }
        let slack = self.metadata.slack_bytes();
        let wanted = (slack + METADATA_STEP_BYTES).min(METADATA_SLACK_BYTES);
        Ok(spare > 0 && slack < wanted && self.metadata.make_slack(wanted).is_ok())
    }

    /// Makes arena memory of small pages into a huge page. Says whether there was any.
    pub(crate) fn collapse_step(&self) -> Result<bool, Error> {
        self.storage().arenas.collapse()
    }

    /// Spare segments that are none too many: each node may have its share.
    pub(crate) fn spare_segments_kept(&self) -> usize {
        self.options.spare_segments as usize * self.nodes.all().count().max(1)
    }

    /// Makes a segment, a file of the tier that nobody knows yet.
    pub(crate) fn make_segment(&self, id: SegmentId, node: Option<Node>) -> Result<Segment, Error> {
        if self.is_left() {
            return Err(MetadataError::Left.into());
        }
        let Superblock { medium, geometry, .. } = self.superblock;
        make_segment(&self.parts, geometry.segment_bytes, medium, id, node)
    }

    /// Blocks that may be promised without making room.
    pub(crate) fn room(&self) -> u64 {
        let beyond = self.mapped.beyond();
        self.room_in(&self.space.lock(), beyond)
    }

    /// As [`SharedFs::room`], with so many blocks taken beyond the arenas.
    pub(crate) fn room_in(&self, space: &Space, beyond: u64) -> u64 {
        // What is not made yet they take first.
        let taken = beyond.saturating_sub(self.unmade(space));
        space.credits.available(space.allocator.free_blocks().saturating_sub(taken))
    }

    /// Blocks that may be promised when all room there can be is made.
    pub(crate) fn room_at_most(&self, space: &Space, beyond: u64) -> u64 {
        space.credits.available(self.free_at_most(space, beyond))
    }

    /// Blocks that hold nothing, or will not when all room there can be is made.
    pub(crate) fn free_at_most(&self, space: &Space, beyond: u64) -> u64 {
        (space.allocator.free_blocks() + self.unmade(space)).saturating_sub(beyond)
    }

    /// Blocks of the tier that no arena has memory for.
    fn unmade(&self, space: &Space) -> u64 {
        self.blocks_at_most().saturating_sub(space.allocator.made_blocks())
    }

    /// Blocks of the tier.
    pub(crate) fn blocks_at_most(&self) -> u64 {
        let geometry = self.geometry();
        u64::from(geometry.arenas_max()) * u64::from(geometry.arena_blocks())
    }

    /// Where memory of arenas is lacking, if `ready` blocks are to be ready: on which node, or on any.
    fn lacking_memory(&self, ready: u64) -> Option<Option<Node>> {
        let in_use = self.core.lock().nodes_in_use(&self.nodes);
        let beyond = self.mapped.beyond();
        let space = self.space.lock();
        let lacks = self.room_in(&space, beyond) < ready;
        let can_be_made = self.unmade(&space) > beyond;
        placement::lacking_memory(&in_use, space.allocator.nodes(), ready, lacks, can_be_made, Instant::now())
    }

    /// Gives the arenas one step of memory more, of a node if one is named, and the metadata store room for what it will say
    /// about it, unless there is enough meanwhile. Says whether there is.
    pub(crate) fn grow(&self, node: Option<Node>, is_enough: impl Fn() -> bool) -> Result<bool, Error> {
        self.metadata.ensure_slack(METADATA_SLACK_BYTES)?;
        // Clearing memory takes milliseconds, which neither promises nor digests wait for.
        let _one_at_a_time = self.making.lock();
        if is_enough() {
            return Ok(true);
        }
        let beyond = self.mapped.beyond();
        if beyond > 0 && self.unmade(&self.space.lock()) <= beyond {
            return Ok(false);
        }
        let Some(grown) = self.storage().grow(node)? else { return Ok(false) };
        if grown.blocks.start == 0 {
            self.events.record(Step::Allocate { arena: grown.arena });
        }
        Ok(true)
    }

    /// Digests one batch of a session's log and publishes it. A log with an entry that cannot be applied is
    /// given up behind its last good entry.
    pub(crate) fn digest_batch(
        &self,
        digester: &mut Digester,
        session: SessionId,
        until: Until,
    ) -> Result<Option<Batch>, Error> {
        self.make_room_for_metadata(session)?;
        let started = Instant::now();
        let log = {
            let mut core = self.core.lock();
            let numbers = InodeNumber::ROOT.0 + 1..core.table.head().inode_limit.0;
            let Some(found) = core.sessions.get_mut(&session) else { return Ok(None) };
            let log = found.log_view(
                self.superblock.store,
                self.superblock.geometry,
                numbers,
                self.emulated.clone(),
            );
            found.digesting = log.completed;
            log
        };
        let storage = self.storage();
        let batches = if storage.recovering { BATCHES_RECOVERED } else { 1 };
        let mut bytes_max = batches * self.options.digest_batch_bytes;
        let running = Running::begin(&self.digests);
        let digested = loop {
            match digester.digest(&storage, &log, until, bytes_max) {
                Err(Error::NoSpace) if self.is_undone(&log)? => {
                    // A smaller one may find room where a larger one does not.
                    if bytes_max == BATCH_LEAST_BYTES {
                        return Err(Error::NoSpace);
                    }
                    bytes_max = (bytes_max / BATCH_SHRINKS).max(BATCH_LEAST_BYTES);
                }
                digested => break digested,
            }
        };
        drop(running);
        let batch = match digested {
            Ok(Some(batch)) => batch,
            Ok(None) => return Ok(None),
            Err(error) => {
                self.refuse_writes_behind(&error);
                return Err(error);
            }
        };
        self.publish(digester, session, &batch, started);
        self.tell_damaged_blocks(&digester.placements.damaged);
        self.note_orphans(digester);
        if let Some(why) = &batch.rejected {
            let step = Step::Reject { session, at: batch.to, why: why.to_string() };
            tracing::warn!(session = session.0, at = batch.to.0, %why, "a log is given up");
            self.events.record(step);
        }
        Ok(Some(batch))
    }

    /// Whether a digest that found the medium full left everything as it was, as the metadata store says, which was
    /// opened anew.
    fn is_undone(&self, log: &LogView) -> Result<bool, Error> {
        let row = self.metadata.read()?.session(log.session)?;
        Ok(row.is_none_or(|row| row.digested <= log.from))
    }

    /// Digests one batch of what is due; with `idle`, of every log that holds something, and looks after inodes without a name.
    /// Says whether there was something. On a full medium there is not, for a while: what programs did stays in their logs until there
    /// is room, and they are told when those are full. Where the metadata store is damaged, there is nothing to do ever again.
    pub(crate) fn digest_due(&self, idle: bool) -> Result<bool, Error> {
        if idle {
            self.attend_no_more();
            self.incarnation.mend()?;
        }
        if self.is_starved() || self.metadata.is_read_only() {
            return Ok(false);
        }
        match self.digest_logs(idle).and_then(|some| Ok(some || idle && self.look_for_closed()?)) {
            Err(Error::NoSpace) => {
                tracing::warn!("no room for metadata: what is logged is digested when there is");
                *self.starved.lock() = Some(Instant::now());
                Ok(false)
            }
            Err(error) if error.is_left() => Err(error),
            // Others still read what they can.
            Err(error) => {
                self.refuse_writes_behind(&error);
                Ok(false)
            }
            digested => digested,
        }
    }

    /// From now on nothing is digested: the metadata store is damaged, or its medium has failed, and what a commit left of
    /// either nobody knows. What was committed is read, and what is logged is there for the next daemon.
    fn refuse_writes_behind(&self, error: &Error) {
        if error.is_left() || self.metadata.is_read_only() {
            return;
        }
        let why = if error.is_damage() { ReadOnly::Damage } else { ReadOnly::Failure };
        tracing::error!(%error, "nothing is digested any more, what can be read is: {why}");
        self.metadata.refuse_writes(why);
    }

    fn digest_logs(&self, idle: bool) -> Result<bool, Error> {
        let mut some = false;
        for session in policy::due(&self.backlogs(), &self.options, idle) {
            some |= !matches!(self.digest_unawaited(session)?, Progress::Idle);
            if some && !idle {
                // There may be a longer one by now.
                return Ok(true);
            }
        }
        Ok(some || self.end_the_rest()?)
    }

    /// Whether a digest found the medium full a moment ago.
    pub(crate) fn is_starved(&self) -> bool {
        self.starved.lock().is_some_and(|since| since.elapsed() < STARVED_PAUSE)
    }

    /// Lets the metadata store grow before a transaction needs it to: one that meets a full medium half-way was in
    /// vain. While there is some room left, deleting may go on all the same.
    fn make_room_for_metadata(&self, session: SessionId) -> Result<(), Error> {
        let batch = self.pending_bytes(session).min(self.options.digest_batch_bytes);
        if batch == 0 {
            return Ok(());
        }
        match self.metadata.ensure_slack(METADATA_SLACK_LEAST_BYTES + METADATA_GROWTH * batch) {
            Err(error) if self.metadata.slack_bytes() < METADATA_SLACK_LEAST_BYTES => Err(error.into()),
            _ => Ok(()),
        }
    }

    fn publish(&self, digester: &mut Digester, session: SessionId, batch: &Batch, started: Instant) {
        let mut core = self.core.lock();
        let Core { sessions, leases, .. } = &mut *core;
        let Some(found) = sessions.get_mut(&session) else { return };
        let promised = found.promised();
        found.debited += batch.debits;
        let settled = promised - found.promised();
        found.digested = batch.to;
        found.digested_entries += batch.entries;
        if !digester.placements.placed.is_empty() {
            let placed = std::mem::take(&mut digester.placements.placed);
            found.reports.push_back(BatchReport { to: batch.to, placed });
        }
        while let Some((inode, _)) = found.lingering.pop_front_if(|&mut (_, until)| until <= batch.to) {
            leases.digested(session, inode, batch.to);
        }
        self.reclaim(found, Some(settled));
        self.grant_ahead(found, batch.debits);
        // Whoever sees in the page that there is room finds it counted.
        self.counters.digested_entries.fetch_add(batch.entries, Ordering::Relaxed);
        found.control.publish_digested(batch.to, found.digested_entries);
        drop(core);
        self.counters.coalesced_entries.fetch_add(batch.coalesced, Ordering::Relaxed);
        self.counters.digested_bytes.fetch_add(batch.bytes_copied, Ordering::Relaxed);
        self.events.record(Step::Digest {
            session,
            from: batch.from,
            to: batch.to,
            entries: batch.entries,
            coalesced: batch.coalesced,
            bytes_copied: batch.bytes_copied,
            microseconds: started.elapsed().as_micros() as u64,
        });
        if batch.blocks_freed > 0 {
            self.events.record(Step::Free { blocks: batch.blocks_freed });
        }
    }

    /// Takes note of what the session has retired: its reports and the quarantine of what its digests freed.
    pub(crate) fn reclaim(&self, session: &mut Session, settled: Option<u64>) {
        let retired = session.retired(self.geometry().ring_bytes());
        session.drop_reports(retired);
        let mut space = self.space.lock();
        space.allocator.retired(session.id, retired);
        space.credits.settle(settled.unwrap_or(0));
    }

    /// Promises a session what batches like this one, which debited so many blocks, will need.
    fn grant_ahead(&self, session: &mut Session, debited: u64) {
        let beyond = self.mapped.beyond();
        let mut space = self.space.lock();
        if self.room_at_most(&space, beyond) < self.blocks_at_most() / PLENTY_PART {
            return;
        }
        let missing = (debited * BATCHES_AHEAD).saturating_sub(session.promised());
        let granted = missing.min(self.room_in(&space, beyond) / AHEAD_PART);
        if granted > 0 {
            space.credits.grant(granted);
            session.credit_limit += granted;
            session.control.publish_credit(session.credit_limit);
        }
    }

    /// Digests a session's log to `until`: what is completed now, if that is asked for, whatever comes meanwhile. Says whether
    /// the log is still good.
    pub(crate) fn digest_all(
        &self,
        digester: &mut Digester,
        session: SessionId,
        until: Until,
    ) -> Result<Digested, Error> {
        let goal = match until {
            Until::Durable | Until::Completed => {
                self.core.lock().sessions.get(&session).map(Session::completed)
            }
            Until::Break => None,
        };
        let mut total = Digested { entries: 0, rejected: false };
        while let Some(batch) = self.digest_batch(digester, session, until)? {
            total.entries += batch.entries;
            total.rejected = batch.rejected.is_some();
            let is_there = goal.map_or(batch.at_break, |goal| batch.to >= goal);
            if total.rejected || is_there {
                break;
            }
        }
        Ok(total)
    }

    /// Digests what a session says it completed, and ends it if its log proves wrong.
    pub(crate) fn digest_completed(&self, session: SessionId) -> Result<(), Error> {
        self.digest_what_is_completed(&mut self.digester.lock(), session)
    }

    /// As [`SharedFs::digest_completed`], with the digester at hand.
    pub(crate) fn digest_what_is_completed(
        &self,
        digester: &mut Digester,
        session: SessionId,
    ) -> Result<(), Error> {
        if self.digest_all(digester, session, Until::Completed)?.rejected {
            self.end(digester, session, Ending::GivenUp)?;
        }
        Ok(())
    }
}
