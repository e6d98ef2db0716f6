//! One step of a walk: looking a name up in a directory, in the cache or at SharedFS.

use crate::cache::directory_content::{NameState, NameTarget};
use crate::cache::inode::Inode;
use crate::client::client::Client;
use crate::client::halt::Halt;
use crate::errno::{Error, unexpected};
use crate::paths::credentials::{Credentials, EXECUTE};
use crate::sync::Arc;
use cuesta_format::wire::{Request, Response};
use cuesta_format::{FileKind, InodeNumber, NAME_BYTES_MAX};

impl Client {
    /// The inode that a name in a directory stands for. Call within an attempt.
    #[inline]
    pub(crate) fn look_up(
        &self,
        credentials: &Credentials,
        directory: &Inode,
        name: &[u8],
    ) -> Result<Option<(Arc<Inode>, FileKind)>, Halt> {
        let state = self.reading(directory)?;
        let Some(content) = state.directory() else {
            return Err(if state.released { Error::NotFound } else { Error::NotDirectory }.into());
        };
        state.check(credentials, EXECUTE)?;
        if name.len() > NAME_BYTES_MAX {
            return Err(Error::NameTooLong.into());
        }
        match content.find(name, self.session.retired()) {
            NameState::Present(NameTarget { inode, kind }) => {
                let below = if kind == FileKind::Directory { directory.number } else { InodeNumber::NONE };
                Ok(Some((self.cache.get_or_insert_below(inode, below), kind)))
            }
            NameState::Absent => Ok(None),
            NameState::Unknown => {
                drop(state);
                self.fetch_name(directory, name)
            }
        }
    }

    /// Asks SharedFS for a name. The directory stays locked over the question, so that no change by this
    /// session overtakes the answer. The inode enters the cache under the same lock, so that a thread that
    /// removes the name meets the same inode.
    fn fetch_name(&self, directory: &Inode, name: &[u8]) -> Result<Option<(Arc<Inode>, FileKind)>, Halt> {
        let mut state = directory.state.write();
        let retired = self.session.retired();
        let size = state.record.size;
        let Some(content) = state.directory_mut() else {
            return Err(Halt::Again);
        };
        if content.find(name, retired) != NameState::Unknown {
            return Err(Halt::Again);
        }
        if content.fetches_all(size) {
            drop(state);
            self.fetch_all_names(directory)?;
            return Err(Halt::Again);
        }
        let request = Request::Lookup { parent: directory.number, name: name.to_vec() };
        let grant = match self.session.ask(&request) {
            Ok(Response::Granted { grant, .. }) => *grant,
            Ok(other) => return Err(unexpected(&other).into()),
            Err(Error::NotFound) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let named = NameTarget { inode: grant.record.inode, kind: grant.record.kind() };
        content.put(name, named);
        let inode = self.cache.get_or_insert(named.inode);
        drop(state);
        self.take_grant(&inode, grant);
        Ok(Some((inode, named.kind)))
    }
}
