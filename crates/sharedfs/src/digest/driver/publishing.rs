//! Publishes a batch: its session learns how far its log is digested, and is granted credit for the next batches.
//!
//! Credit that is granted ahead saves the session a request.

use crate::SharedFs;
use crate::digest::{Batch, Digester};
use crate::sessions::{BatchReport, Session};
use crate::store::Core;
use cuesta_format::SessionId;
use cuesta_format::event::Step;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// A session is granted ahead the blocks it would use up in so many batches like its last one: its log, full, is four.
const BATCHES_AHEAD: u64 = 4;
/// But never more than this part of what there is to grant at once,
const AHEAD_PART: u64 = 8;
/// and only while more than this part of the tier is free: on a full one no session may have blocks it did not ask
/// for.
const PLENTY_PART: u64 = 4;

impl SharedFs {
    pub(super) fn publish(
        &self,
        digester: &mut Digester,
        session: SessionId,
        batch: &Batch,
        started: Instant,
    ) {
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
        if !digester.placements.lost.is_empty() {
            found.lost.extend(digester.placements.lost.drain(..));
            found.control.publish_loss();
        }
        while let Some((inode, _)) = found.lingering.pop_front_if(|&mut (_, until)| until <= batch.to) {
            leases.digested(session, inode, batch.to);
        }
        self.reclaim(found, Some(settled));
        self.grant_ahead(found, batch.debits);
        // A session that sees in the page that there is room finds it counted.
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
        self.note_usage();
        self.migration.pins.note_digest();
    }

    /// Takes note of what the session has retired: its reports and the quarantine of blocks its digests freed.
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
}
