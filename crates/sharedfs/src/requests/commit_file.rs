//! Giving a session its commit file, and the place where it says how far its log is acknowledged.

use super::trouble::{Trouble, invalid};
use crate::metadata::MetadataError;
use crate::sessions::{CommitFile, PageState, Segment};
use crate::store::Core;
use crate::{Error, SharedFs};
use cuesta_format::SessionId;
use cuesta_format::geometry::segment_path;
use cuesta_format::superblock::Medium;
use cuesta_format::wire::{Refusal, Response};
use cuesta_media::open_direct;
use std::os::fd::OwnedFd;

impl SharedFs {
    /// The descriptor of the session's commit file; none, where the file system below takes no writes past its pages, or has no
    /// room for one. The table knows it before the session does. One that did not reach it is sent again.
    pub(super) fn commit_file(
        &self,
        session: SessionId,
        descriptors: &mut Vec<OwnedFd>,
    ) -> Result<Response, Trouble> {
        if self.superblock().medium != Medium::Block {
            return Err(invalid("logs on this medium need no commit file"));
        }
        let given = self.with_session(session, |found| found.commit_file.clone())?;
        let direct = match given {
            Some(given) => self.open_commit_file(&given.segment)?,
            None => self.give_commit_file(session)?,
        };
        descriptors.extend(direct);
        Ok(Response::Done)
    }

    /// Whether this daemon is still the store's: then the page that counts daemons is set right.
    pub(super) fn stands(&self) -> Result<Response, Trouble> {
        match self.incarnation.mend()? {
            PageState::Taken => Err(MetadataError::Left.into()),
            PageState::Sound | PageState::Mended => Ok(Response::Done),
        }
    }

    /// The descriptor of the file of marks.
    pub(super) fn marks_of(
        &self,
        session: SessionId,
        descriptors: &mut Vec<OwnedFd>,
    ) -> Result<Response, Trouble> {
        let slot = self.with_session(session, |found| found.slot)?;
        if self.superblock().medium != Medium::Block {
            return Err(invalid("logs on this medium need no marks but those of their entries"));
        }
        descriptors.push(self.marks.descriptor()?);
        Ok(Response::Marks { slot })
    }

    fn open_commit_file(&self, segment: &Segment) -> Result<Option<OwnedFd>, Error> {
        Ok(open_direct(&self.tier.join(segment_path(segment.id)))?)
    }

    fn give_commit_file(&self, session: SessionId) -> Result<Option<OwnedFd>, Trouble> {
        let (mut segments, trouble) = self.find_segments(1, None);
        let Some(segment) = segments.pop() else {
            return match trouble {
                None | Some(Error::NoSpace) => Ok(None),
                Some(error) => Err(error.into()),
            };
        };
        let given = match self.open_commit_file(&segment) {
            Ok(Some(direct)) => self.note_commit_file(session, &segment).map(|()| Some(direct)),
            other => other.map_err(Trouble::from),
        };
        if !matches!(given, Ok(Some(_))) {
            self.core.lock().pool.add(&segment);
        }
        given
    }

    fn note_commit_file(&self, session: SessionId, segment: &Segment) -> Result<(), Trouble> {
        let mut core = self.core.lock();
        let Core { sessions, table, .. } = &mut *core;
        let found = sessions.get_mut(&session).ok_or(Trouble::Refused(Refusal::SessionEnded))?;
        if found.commit_file.is_some() {
            return Err(invalid("the log has a commit file"));
        }
        found.record.commit_file = Some(segment.id);
        if let Err(error) = table.write(found.slot, &found.record) {
            found.record.commit_file = None;
            return Err(error.into());
        }
        found.commit_file = Some(CommitFile { geometry: self.geometry(), segment: segment.clone() });
        found.control.publish_kick_bytes(found.kick_bytes(self.options()));
        Ok(())
    }
}
