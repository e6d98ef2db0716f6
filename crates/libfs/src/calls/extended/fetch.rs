//! Fetching an inode's extended attributes, all of them, and checking whether one more fits.

use crate::cache::extended_set::ExtendedSet;
use crate::cache::inode::{Inode, State};
use crate::client::client::Client;
use crate::client::halt::Halt;
use crate::errno::{Error, unexpected};
use cuesta_format::entry::HEADER_BYTES;
use cuesta_format::wire::{Request, Response};
use cuesta_format::{EXTENDED_BYTES_MAX, EXTENDED_NAMES_BYTES_MAX, InodeNumber};

impl Client {
    /// Checks that an attribute fits into a log entry, and into the inode beside the others.
    pub(crate) fn check_extended_room(
        &self,
        state: &State,
        set: &ExtendedSet,
        name: &[u8],
        value: &[u8],
    ) -> Result<(), Error> {
        let bytes = name.len() + value.len();
        let entry_max = self.session.geometry().entry_bytes_max() as usize - HEADER_BYTES - self.tag_bytes();
        let (before, name_bytes) = match set.get(name) {
            Some(before) => (name.len() + before.len(), 0),
            None => (0, name.len() + 1),
        };
        let fits = bytes <= entry_max
            && state.record.extended as usize - before + bytes <= EXTENDED_BYTES_MAX as usize
            && set.list_bytes() + name_bytes <= EXTENDED_NAMES_BYTES_MAX;
        if fits { Ok(()) } else { Err(Error::NoSpace) }
    }

    /// Calls `read` with the inode's extended attributes, after fetching them if needed. Call within an
    /// attempt.
    pub(crate) fn with_extended<T, E: Into<Halt>>(
        &self,
        inode: &Inode,
        read: impl FnOnce(&State, &ExtendedSet) -> Result<T, E>,
    ) -> Result<T, Halt> {
        loop {
            let state = self.reading(inode)?;
            if let Some(set) = state.extended() {
                return read(&state, set).map_err(Into::into);
            }
            drop(state);
            self.fetch_extended(inode)?;
        }
    }

    /// Fetches an inode's extended attributes, if they are not known. Call within an attempt.
    #[cold]
    pub(crate) fn fetch_extended_of(&self, inode: InodeNumber) -> Result<(), Halt> {
        let inode = self.cache.get_or_insert(inode);
        self.with_extended(&inode, |_, _| Ok::<(), Halt>(()))
    }

    /// Fetches the extended attributes. The log changes none of them, because a session knows all before it
    /// changes one. The inode stays locked over the question, so that no thread changes one meanwhile.
    fn fetch_extended(&self, inode: &Inode) -> Result<(), Error> {
        let mut state = inode.state.write();
        if state.lease.is_none() || state.extended().is_some() {
            return Ok(());
        }
        match self.session.ask(&Request::Extended { inode: inode.number })? {
            Response::Extended(attributes) => {
                state.extended = Some(Box::new(ExtendedSet::granted(attributes)));
                Ok(())
            }
            other => Err(unexpected(&other)),
        }
    }
}
