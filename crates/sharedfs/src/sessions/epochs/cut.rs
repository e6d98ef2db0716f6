//! A cut: the disk takes every log as far as it is complete at one moment.
//!
//! | step | why |
//! |---|---|
//! | 1. read how far each log is complete | all of it is of this epoch or an earlier one: a digest may go that far without a wait |
//! | 2. show the next epoch | an operation that begins from now on says so in its log |
//! | 3. read how far each log is complete | every operation that had returned before step 2 lies below |
//! | 4. the disk takes the logs so far | |
//! | 5. record the epoch that is over | from now on its entries survive |
//! | 6. show that it is on the disk | |
//!
//! An operation of this epoch that survives began before step 2. All that had returned before it began lies below the
//! positions of step 3. So after a loss of power no operation survives without all that had returned before it began.

use super::account::Cutting;
use super::written_log::WrittenLog;
use crate::sessions::{LogFiles, Session};
use crate::{Error, SharedFs};
use cuesta_format::{Epoch, LogPosition, Medium, SessionId};
use cuesta_media::clock;
use cuesta_media::planted::{self, Bug};
use std::sync::atomic::Ordering;

/// A log that a cut writes.
struct DirtyLog {
    session: SessionId,
    files: LogFiles,
    from: LogPosition,
    written: WrittenLog,
}

impl SharedFs {
    /// The disk has everything that had returned when this was called, by any session, once this returns.
    pub fn dsync(&self) -> Result<(), Error> {
        if self.superblock.medium != Medium::Block {
            return Ok(());
        }
        self.cut_once()?;
        self.save_staged()
    }

    fn cut_once(&self) -> Result<(), Error> {
        let cuts = self.epochs.cuts.load(Ordering::SeqCst);
        let mut cutting = self.epochs.cutting.lock();
        if self.epochs.cuts.load(Ordering::SeqCst) > cuts && !self.epochs.has_failed() {
            // Another thread began that cut meanwhile.
            return Ok(());
        }
        self.cut(&mut cutting)
    }

    /// The epoch is on the disk once this returns. A log may name one that never was.
    pub(crate) fn make_epoch_durable(&self, epoch: Epoch) -> Result<(), Error> {
        if self.epochs.on_disk() >= epoch {
            return Ok(());
        }
        let mut cutting = self.epochs.cutting.lock();
        if self.epochs.on_disk() >= epoch.min(cutting.last) {
            return Ok(());
        }
        self.cut(&mut cutting)
    }

    /// Whether a log has entries that no cut took.
    pub(super) fn has_unwritten_entries(&self) -> bool {
        let core = self.core.lock();
        core.sessions.values().any(|session| self.unwritten(session).is_some())
    }

    /// The part of a session's log that no cut took.
    fn unwritten(&self, session: &Session) -> Option<(LogPosition, LogPosition)> {
        let generation = session.record.log_generation;
        let from = session.digested.max(session.written.to(generation));
        let to = self.complete(session);
        (to > from).then_some((from, to))
    }

    /// How far a session's log is complete, as it says, but never more than it can hold.
    fn complete(&self, session: &Session) -> LogPosition {
        session.completed().min(session.digested.plus(self.geometry().ring_bytes()))
    }

    pub(super) fn cut(&self, cutting: &mut Cutting) -> Result<(), Error> {
        let epochs = &self.epochs;
        if epochs.has_failed() {
            return Err(Error::LogUnwritten);
        }
        epochs.cuts.fetch_add(1, Ordering::SeqCst);
        let began_ms = clock::milliseconds();
        let ended = cutting.last;
        let dirty = self.end_epoch(cutting);
        if planted::active(Bug::EpochRecordedEarly) {
            cutting.file.write(ended)?;
        }
        // A staged write is on the disk once its blocks are, too.
        let written = dirty.iter().try_for_each(|log| {
            log.files.sync(log.from, log.written.to)?;
            self.flush_staged(log.session)
        });
        // A store that never went by epochs has no record.
        let is_recorded = epochs.on_disk() >= ended || !cutting.is_shown;
        let recorded = written.and_then(|()| if is_recorded { Ok(()) } else { cutting.file.write(ended) });
        if let Err(error) = recorded {
            tracing::error!(%error, "the disk does not take the logs: nothing is durable any more");
            epochs.has_failed.store(true, Ordering::SeqCst);
            self.core.lock().sessions.values().for_each(|session| session.control.publish_unwritable());
            return Err(error);
        }
        if cutting.is_shown {
            epochs.on_disk.fetch_max(ended.0, Ordering::SeqCst);
        }
        epochs.last_cut_ms.store(began_ms, Ordering::SeqCst);
        let mut core = self.core.lock();
        for log in dirty {
            if let Some(session) = core.sessions.get_mut(&log.session) {
                session.written = log.written;
            }
        }
        drop(core);
        epochs.words.show_on_disk(epochs.on_disk(), began_ms);
        Ok(())
    }

    /// Shows the next epoch, if the store goes by epochs, and answers the logs that the present one has left to write.
    fn end_epoch(&self, cutting: &mut Cutting) -> Vec<DirtyLog> {
        let core = self.core.lock();
        let whole: Vec<LogPosition> = core.sessions.values().map(|session| self.complete(session)).collect();
        if self.epochs.present() > Epoch(0) {
            self.epochs.show_next(cutting);
        }
        let logs = core.sessions.values().zip(whole);
        let dirty = logs.filter_map(|(session, whole)| {
            let (from, to) = self.unwritten(session)?;
            let segments = session.segments.clone();
            Some(DirtyLog {
                session: session.id,
                files: LogFiles { geometry: self.geometry(), segments, emulated: None },
                from,
                written: WrittenLog { generation: session.record.log_generation, to, whole },
            })
        });
        dirty.collect()
    }
}
