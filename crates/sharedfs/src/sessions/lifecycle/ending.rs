//! A session ends: its log is digested, and it gives back leases, space, segments and its slot of the table.
//!
//! On a full medium the end waits until there is room ([`SharedFs::end_the_rest`]).

use crate::digest::{Digester, Until};
use crate::metadata::MetadataError;
use crate::sessions::{Ending, Presence, Session};
use crate::store::{Core, sync_folder};
use crate::{Error, SharedFs};
use cuesta_format::event::Step;
use cuesta_format::geometry::{LOGS_FOLDER, segment_path};
use cuesta_format::{SegmentId, SessionId};
use cuesta_media::planted::{self, Bug};
use std::io::ErrorKind;

impl SharedFs {
    /// Ends a session: what its log holds is digested, everything it had is given back. On a full medium that is done
    /// later, and [`Error::NoSpace`] only says so.
    pub fn end_session(&self, session: SessionId, ending: Ending) -> Result<(), Error> {
        if self.is_left() {
            return Err(MetadataError::Left.into());
        }
        self.abandon_mount(session);
        let ended = self.try_end(session, ending);
        if let Err(Error::NoSpace) = ended {
            self.end_later(session, ending);
        }
        ended
    }

    /// The medium is too full for the session to end now.
    pub(crate) fn end_later(&self, session: SessionId, ending: Ending) {
        if let Some(found) = self.core.lock().sessions.get_mut(&session) {
            found.ending = Some(ending);
        }
    }

    /// The process of a session that was awaited has ended. Says whether it was one; it ends with
    /// [`SharedFs::end_the_rest`].
    pub(crate) fn end_awaited(&self, session: SessionId) -> bool {
        let mut core = self.core.lock();
        let is_away = |found: &&mut Session| matches!(found.presence, Presence::Away(_));
        let Some(found) = core.sessions.get_mut(&session).filter(is_away) else { return false };
        found.ending = Some(Ending::Gone);
        true
    }

    /// Whether there are sessions that could not end when they should.
    pub(crate) fn has_rest(&self) -> bool {
        self.core.lock().sessions.values().any(|found| found.ending.is_some())
    }

    /// Ends the sessions that could not end when they should. Says whether there was one. Where there is no room for one there
    /// may be for another, or what that gives back.
    pub(crate) fn end_the_rest(&self) -> Result<bool, Error> {
        let waiting = |found: &Session| found.ending.map(|ending| (found.id, ending));
        let rest: Vec<_> = self.core.lock().sessions.values().filter_map(waiting).collect();
        let (mut any, mut full) = (false, Ok(()));
        for (session, ending) in rest {
            match self.end_session(session, ending) {
                Err(Error::NoSpace) => full = Err(Error::NoSpace),
                ended => {
                    ended?;
                    any = true;
                }
            }
        }
        if any { Ok(true) } else { full.map(|()| false) }
    }

    /// The daemon leaves, its process goes on: its log is digested, every entry behind that is void, and the
    /// next daemon finds it in the table.
    pub(crate) fn suspend(&self, session: SessionId) -> Result<(), Error> {
        let mut digester = self.digester.lock();
        self.shut_out(session);
        if self.digest_all(&mut digester, session, Until::Break)?.rejected {
            return self.end(&mut digester, session, Ending::GivenUp);
        }
        let mut core = self.core.lock();
        let Core { sessions, table, .. } = &mut *core;
        sessions.get_mut(&session).map_or(Ok(()), |found| found.renew_log(table))
    }

    fn try_end(&self, session: SessionId, ending: Ending) -> Result<(), Error> {
        let mut digester = self.digester.lock();
        if self.is_left() {
            return Err(MetadataError::Left.into());
        }
        // First: entries it appends behind the end of the digest must not seem to have happened.
        self.shut_out(session);
        let rejected = !planted::active(Bug::EndedUndigested)
            && self.digest_all(&mut digester, session, Until::Break)?.rejected;
        self.end(&mut digester, session, if rejected { Ending::GivenUp } else { ending })
    }

    /// Ends a session whose log was digested as far as it will be.
    ///
    /// Segments that a living process may still write to must never look spare, whatever crashes in between. So
    /// the slot says first that the log counts no more, then the segments go, then the slot.
    pub(crate) fn end(
        &self,
        digester: &mut Digester,
        session: SessionId,
        ending: Ending,
    ) -> Result<(), Error> {
        self.shut_out(session);
        self.quotas.lock().forget(session);
        self.release_orphans(digester, session)?;
        let gone = match ending {
            Ending::Gone => true,
            Ending::GivenUp => self.destroy_log(session)?,
        };
        let mut core = self.core.lock();
        let Some(slot) = core.sessions.get(&session).map(|found| found.slot) else { return Ok(()) };
        if gone {
            core.table.release(slot)?;
        }
        let Some(ended) = core.sessions.remove(&session) else { return Ok(()) };
        if ended.kernel.is_some() {
            self.begin_doubt();
        }
        self.forget_mounts(&core.sessions);
        self.references.note_new(ended.control.new_lock_files());
        // Only now may its row go: with the slot gone, no recovery asks any more how far it was digested.
        digester.ended.push(session);
        for (&inode, &seen) in &ended.looked_at {
            core.leases.looked(session, inode, self.directory_changes.last_change(inode) != seen);
        }
        core.leases.end_session(session);
        self.share_out_entries(&core.sessions);
        if ending == Ending::Gone {
            for segment in ended.segments.iter().chain(ended.commit_file.iter().map(|file| &file.segment)) {
                if let Err(error) = core.pool.give_back(segment) {
                    tracing::warn!(segment = segment.id.0, %error, "a log segment is lost until the next start");
                }
            }
        }
        let mut space = self.space.lock();
        space.allocator.end_session(session);
        let unnamed = space.windows.end_session(session);
        // A process that was given up may be amid a write to them. They are free again when the store is next opened.
        if ending == Ending::Gone {
            space.allocator.release_window(unnamed);
        }
        space.credits.settle(ended.promised());
        drop(space);
        drop(core);
        self.counters.keep_unserved(&ended.control.unserved());
        self.counters.keep_predictions(ended.control.predictions());
        self.counters.keep_sync_habit(ended.control.sync_habit());
        self.events.record(Step::Detach { session, pid: ended.pid });
        match self.remove_closed(digester) {
            // The inodes it had open are looked at again.
            Err(Error::NoSpace) => Ok(()),
            removed => removed.map(drop),
        }
    }

    /// Removes the segments of a session whose log counts no more. Says whether they are gone; those that are not are
    /// removed at the next start, which finds them in the slot.
    fn destroy_log(&self, session: SessionId) -> Result<bool, Error> {
        let segments = {
            let mut core = self.core.lock();
            let Core { sessions, table, .. } = &mut *core;
            let Some(found) = sessions.get_mut(&session) else { return Ok(true) };
            if found.record.all_segments().next().is_none() {
                return Ok(true);
            }
            found.record.ended = true;
            table.write(found.slot, &found.record)?;
            found.record.all_segments().collect::<Vec<_>>()
        };
        Ok(self.remove_segments(&segments))
    }

    /// Removes segments for good, durably. Says whether all are gone.
    pub(crate) fn remove_segments(&self, segments: &[SegmentId]) -> bool {
        let mut removed = Ok(());
        for &segment in segments {
            match self.parts.remove(&segment_path(segment)) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    removed = Err(Error::io("remove a log segment")(error));
                }
                _ => {}
            }
        }
        let removed = removed.and_then(|()| sync_folder(&self.tier.join(LOGS_FOLDER)));
        if let Err(error) = &removed {
            tracing::warn!(%error, "a slot of the session table is lost until the next start");
        }
        removed.is_ok()
    }

    /// No operation of the session returns any more but with an error.
    fn shut_out(&self, session: SessionId) {
        if let Some(found) = self.core.lock().sessions.get_mut(&session) {
            found.move_generation();
            found.control.publish_closed();
        }
    }
}
