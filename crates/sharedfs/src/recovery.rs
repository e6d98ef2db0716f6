//! Recovery: when a store is opened, whatever its logs still hold goes into the shared area.
//!
//! Each session of the table is over, and its process dead as a rule. Its log is digested from where its last digest
//! committed to the first entry that is not valid: that is everything it was ever told had happened, and perhaps the
//! entry it was making. Then the log's generation moves, durably, and the session ends like any other. A crash in the
//! middle finds the same logs, or shorter ones: recovering twice is recovering once.

use crate::digest::Until;
use crate::ending::{Ending, renew_log};
use crate::metadata::MetadataStore;
use crate::sessions::{Control, OccupiedSlot, open_segment};
use crate::store::{Core, new_session};
use crate::tiers::{Allocator, Arenas, Bitmap};
use crate::{Error, SharedFs};
use cuesta_format::event::Step;
use cuesta_format::{ArenaId, Geometry};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use std::sync::Arc;
use std::time::Instant;

/// What recovery did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Sessions whose logs were found.
    pub sessions: u64,
    /// Entries they still held.
    pub entries: u64,
    /// How long it took.
    pub milliseconds: u64,
}

/// The blocks committed files use, from the metadata store.
pub(crate) fn load_allocator(
    metadata: &MetadataStore,
    arenas: &Arenas,
    geometry: Geometry,
) -> Result<Allocator, Error> {
    let snapshot = metadata.read()?;
    let mut allocator = Allocator::new(geometry);
    for arena in 0..arenas.count() {
        let bytes = snapshot.arena(ArenaId(arena))?.unwrap_or_default();
        let bitmap = Bitmap::from_bytes(geometry.arena_blocks(), &bytes);
        let is_last = arena + 1 == arenas.count();
        let made = if is_last { bitmap.end_of_used() } else { geometry.arena_blocks() };
        if is_last {
            arenas.resume(made);
        }
        allocator.add_arena(bitmap, made);
    }
    match snapshot.arenas()?.last() {
        Some((last, _)) if last.0 >= arenas.count() => {
            Err(Error::Damaged(format!("arena {last} is missing")))
        }
        _ => Ok(allocator),
    }
}

/// Whether a process may still write to its log although its session is over: its daemon died, not it. A number that
/// another process has by now only costs the segments.
fn lives(pid: u32) -> bool {
    // Without a number it is a process of another namespace.
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return pid == 0 };
    !matches!(test_kill_process(pid), Err(Errno::SRCH))
}

impl SharedFs {
    pub(crate) fn recover(&self, occupied: Vec<OccupiedSlot>) -> Result<Recovered, Error> {
        let started = Instant::now();
        let mut recovered = Recovered { sessions: occupied.len() as u64, ..Recovered::default() };
        self.digester.lock().orphans = self.metadata.read()?.orphans()?.into_iter().collect();
        for slot in occupied {
            if slot.1.ended {
                self.finish_ending(slot)?;
            } else {
                recovered.entries += self.recover_session(slot)?;
            }
        }
        self.forget_the_dead()?;
        recovered.milliseconds = started.elapsed().as_millis() as u64;
        Ok(recovered)
    }

    /// Goes on where the end of a session was broken off.
    fn finish_ending(&self, (slot, record): OccupiedSlot) -> Result<(), Error> {
        if self.remove_segments(&record.segments) {
            self.core.lock().table.release(slot)?;
        }
        Ok(())
    }

    fn recover_session(&self, (slot, record): OccupiedSlot) -> Result<u64, Error> {
        let started = Instant::now();
        let (id, pid) = (record.session, record.pid);
        let known = self.metadata.read()?.session(id)?.unwrap_or_default();
        let mut segments = Vec::with_capacity(record.segments.len());
        for &segment in &record.segments {
            segments.push(open_segment(&self.tier, segment)?);
        }
        let mut session =
            new_session(record.pid, String::new(), slot, record, segments, Arc::new(Control::new()?));
        session.digested = session.digested.max(known.digested);
        let from = session.digested;
        self.core.lock().sessions.insert(id, session);

        let mut digester = self.digester.lock();
        let digested = self.digest_all(&mut digester, id, Until::Break)?;
        let to = {
            let mut core = self.core.lock();
            let Core { sessions, table, .. } = &mut *core;
            let Some(session) = sessions.get_mut(&id) else { return Ok(digested.entries) };
            renew_log(session, table)?;
            session.digested
        };
        let ending = if lives(pid) { Ending::GivenUp } else { Ending::Gone };
        self.end(&mut digester, id, ending)?;
        let microseconds = started.elapsed().as_micros() as u64;
        self.events.record(Step::Recover { session: id, from, to, entries: digested.entries, microseconds });
        Ok(digested.entries)
    }

    /// Removes rows of sessions that are not in the table any more, and inodes without a name that nobody has open.
    fn forget_the_dead(&self) -> Result<(), Error> {
        let mut digester = self.digester.lock();
        self.forget_orphans(&mut digester)?;
        let rows = self.metadata.read()?.sessions()?;
        if !rows.is_empty() {
            let mut transaction = self.metadata.begin()?;
            for (session, _) in rows {
                transaction.remove_session(session);
            }
            transaction.commit()?;
        }
        digester.ended.clear();
        Ok(())
    }
}
