//! Undigested parts of logs, and the store as a digest works on it.

use crate::digest::place::PlacementRule;
use crate::digest::{Backlog, Storage};
use crate::sessions::Session;
use crate::store::SharedFs;
use cuesta_format::SessionId;
use cuesta_format::event::Step;
use std::sync::atomic::Ordering;

impl SharedFs {
    pub(crate) fn storage(&self) -> Storage<'_> {
        Storage {
            medium: self.superblock.medium,
            geometry: self.superblock.geometry,
            metadata: &self.metadata,
            arenas: &self.arenas,
            watched: &self.migration.watched,
            pins: &self.migration.pins,
            history: &self.migration.history,
            uses: &self.migration.uses,
            placement: PlacementRule::of(&self.options),
            space: &self.space,
            stand_ins: &self.stand_ins,
            mapped: &self.mapped,
            directory_changes: &self.directory_changes,
            lost: &self.lost,
            others: self,
            recovering: self.recovering.load(Ordering::Relaxed),
        }
    }

    /// Tells the trace how far a session's log has grown: once a kick, not once an entry.
    pub(crate) fn note_growth(&self, session: SessionId) {
        let completed = {
            let mut core = self.core.lock();
            let Some(found) = core.sessions.get_mut(&session) else { return };
            self.references.note_new(found.control.new_lock_files());
            let completed = found.completed();
            if std::mem::replace(&mut found.traced, completed) >= completed {
                return;
            }
            completed
        };
        self.events.record(Step::Append { session, completed });
    }

    /// What each log holds that is not digested.
    #[must_use]
    pub fn backlogs(&self) -> Vec<Backlog> {
        self.core.lock().sessions.values().map(|found| found.backlog(&self.options)).collect()
    }

    /// Undigested bytes of a session's log; 0 if there is no such session.
    #[must_use]
    pub fn pending_bytes(&self, session: SessionId) -> u64 {
        self.core.lock().sessions.get(&session).map_or(0, Session::undigested_bytes)
    }
}
