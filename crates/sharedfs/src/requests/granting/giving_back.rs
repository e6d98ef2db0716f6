//! Sessions give leases back.

use crate::SharedFs;
use crate::requests::Trouble;
use crate::store::Core;
use cuesta_format::wire::{Refusal, Response};
use cuesta_format::{InodeNumber, SessionId};
use cuesta_media::planted::{self, Bug};

impl SharedFs {
    /// Takes leases back. Where the log may still change their inodes, they stay until it is digested.
    pub(crate) fn give_back(&self, session: SessionId, inodes: &[InodeNumber]) -> Result<Response, Trouble> {
        let _wanted = self.await_names(session, inodes);
        self.doubt_in_kernel(session, inodes.iter().copied());
        let mut core = self.core.lock();
        let Core { sessions, leases, .. } = &mut *core;
        let found = sessions.get_mut(&session).ok_or(Trouble::Refused(Refusal::SessionEnded))?;
        // A digest under way can still change the inode, whatever the session says by now.
        let completed = found.completed().max(found.digesting);
        let lingers = completed > found.digested && !planted::active(Bug::GivenBackAtOnce);
        let until = lingers.then_some(completed);
        for &inode in inodes {
            if leases.give_back(session, inode, until) {
                found.lingering.extend(until.map(|until| (inode, until)));
            }
        }
        Ok(Response::Done)
    }
}
