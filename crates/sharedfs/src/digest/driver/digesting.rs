//! Digests batches of one log, up to a goal.
//!
//! One batch holds the digester's lock, no longer. Requests that need no digest (credit, numbers, reports, segments) are answered
//! beside it.

use super::progress::Progress;
use crate::digest::{Batch, Digester, LogView, Until};
use crate::sessions::{Ending, Session};
use crate::{Error, SharedFs};
use cuesta_format::event::Step;
use cuesta_format::{InodeNumber, SessionId};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Room the metadata store must have for a digest to begin.
pub(crate) const METADATA_SLACK_LEAST_BYTES: u64 = 2 << 20;
/// Most bytes a byte of log makes the metadata store grow by: the smallest entries (a name of a few bytes) make the most of it.
const METADATA_GROWTH: u64 = 3;
/// Recovery digests as much as so many batches at once: the larger, the less often a page of the metadata is written.
const BATCHES_RECOVERED: u64 = 4;
/// A batch that found the medium full is tried again with this part of it, down to so many bytes.
const BATCH_SHRINKS: u64 = 16;
const BATCH_LEAST_BYTES: u64 = 4 << 10;

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

    /// As [`SharedFs::digest_session`], when no session waits: entries that are on the disk already come first.
    pub(super) fn digest_unawaited(&self, session: SessionId) -> Result<Progress, Error> {
        self.write_back_staged(session);
        self.digest_some(&mut self.digester.lock(), session, Until::Durable)
    }

    /// Has the disk take what the session staged, before the digester is held: the digest's flush finds little to do.
    pub(crate) fn write_back_staged(&self, session: SessionId) {
        let granted = self.space.lock().windows.granted_to(session);
        self.arenas.write_back(&granted);
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

    /// Digests a session's log to `until`. If that is what is completed, entries that come meanwhile are left.
    /// Says whether the log is still good.
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

    /// Digests all that a session says it completed, and ends it if its log proves wrong.
    pub(crate) fn digest_completed(&self, session: SessionId) -> Result<(), Error> {
        self.write_back_staged(session);
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

    pub(crate) fn digest_everything(&self) -> Result<(), Error> {
        let sessions: Vec<SessionId> = self.core.lock().sessions.keys().copied().collect();
        for session in sessions {
            self.digest_completed(session)?;
        }
        self.reclaim_all();
        Ok(())
    }
}
