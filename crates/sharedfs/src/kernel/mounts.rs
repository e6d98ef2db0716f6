//! Sessions of mounts lose leases: their kernels are told first.
//!
//! The order of the steps, and why it is that one, stands in [`super::caches`].

use super::caches::{KernelCache, MARK_FILE, Wanted};
use crate::sessions::{Presence, Session};
use crate::{Error, SharedFs};
use cuesta_format::{InodeNumber, SessionId};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

impl SharedFs {
    /// The session is a mount's, which hands over a descriptor.
    pub(crate) fn keep_in_kernel(&self, session: SessionId, cache: KernelCache) -> Result<(), Error> {
        let mut core = self.core.lock();
        self.doubt.is_marked.store(true, Ordering::SeqCst);
        let path = self.tier.join(MARK_FILE);
        let mark = std::fs::OpenOptions::new().write(true).create(true).truncate(false).open(path);
        mark.map_err(Error::io("note that there is a mount"))?;
        if let Some(found) = core.sessions.get_mut(&session) {
            found.kernel = Some(cache);
            core.leases.note_staying(session);
        }
        Ok(())
    }

    /// The session ends: its mount is not served any more, and calls on it fail from now on, even if there is
    /// no room to end the session yet.
    pub(crate) fn abandon_mount(&self, session: SessionId) {
        let mut core = self.core.lock();
        if let Some(found) = core.sessions.get_mut(&session)
            && found.kernel.take().is_some()
        {
            self.begin_doubt();
        }
    }

    /// The session's mount is gone, in order.
    pub(crate) fn keep_nothing_in_kernel(&self, session: SessionId) {
        let mut core = self.core.lock();
        if let Some(found) = core.sessions.get_mut(&session) {
            found.kernel = None;
        }
        self.forget_mounts(&core.sessions);
    }

    /// Tells the kernel, if the session is a mount's, that what it knows of these holds no more. From before this on nothing
    /// the session says of them may hold.
    pub(crate) fn doubt_in_kernel(&self, session: SessionId, inodes: impl IntoIterator<Item = InodeNumber>) {
        let cache = self.core.lock().sessions.get(&session).and_then(|found| found.kernel.clone());
        if let Some(cache) = cache {
            cache.doubt(inodes);
        }
    }

    /// Waits until the kernel keeps no names of these, if the session is a mount's; as long as what is answered lives it will keep
    /// none. Nothing may be locked meanwhile.
    pub(crate) fn await_names<'a>(
        &self,
        session: SessionId,
        inodes: &'a [InodeNumber],
    ) -> Option<Wanted<'a>> {
        let control = {
            let core = self.core.lock();
            let found = core.sessions.get(&session).filter(|found| found.kernel.is_some())?;
            Arc::clone(&found.control)
        };
        let wanted = Wanted::new(control, inodes);
        wanted.wait();
        Some(wanted)
    }

    /// A mount's session loses all it has: what its kernel was told ends by itself.
    pub(crate) fn begin_doubt(&self) {
        self.doubt.begin(self.opened.elapsed());
    }

    /// How long a kernel may still believe answers that cannot be taken back: until then no session is granted
    /// anything. To be looked at with the core locked, as it begins.
    pub(crate) fn doubt_left(&self) -> Duration {
        self.doubt.left(self.opened.elapsed())
    }

    /// Takes the mark away if there is no mount any more: one whose session has not come back yet there may be.
    pub(crate) fn forget_mounts(&self, sessions: &BTreeMap<SessionId, Session>) {
        let may_be =
            |session: &Session| session.kernel.is_some() || matches!(session.presence, Presence::Away(_));
        let is_needed = sessions.values().any(may_be) || !self.doubt_left().is_zero();
        if is_needed || !self.doubt.is_marked.swap(false, Ordering::SeqCst) {
            return;
        }
        match std::fs::remove_file(self.tier.join(MARK_FILE)) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                tracing::debug!(%error, "the next start waits a moment for mounts that are gone");
            }
            _ => {}
        }
    }
}
