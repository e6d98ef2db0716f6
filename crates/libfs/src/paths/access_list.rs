//! Access control lists: the permissions to read and change them, and the part that a new inode takes over
//! from its directory's default list.
//!
//! Setting and removing lists is a call: [`crate::calls::extended::lists`].

use crate::cache::extended_set::{AccessListKind, ExtendedSet};
use crate::cache::inode::State;
use crate::client::halt::Halt;
use crate::errno::Error;
use crate::paths::credentials::Credentials;
use cuesta_format::access_list::{ACCESS_LIST, DEFAULT_LIST, Entry, ListError, is_plain, mode_of, with_mode};
use cuesta_format::{FileKind, access_list};

/// The mode that a new inode is to get.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct NewMode {
    /// The bits that the call asks for.
    pub bits: u32,
    /// The umask: bits that the process denies all its new inodes, unless the directory has a default list.
    pub umask: u32,
}

impl From<u32> for NewMode {
    fn from(bits: u32) -> NewMode {
        NewMode { bits, umask: 0 }
    }
}

impl AccessListKind {
    /// The list as a program reads it.
    pub(crate) fn read(self, state: &State, set: &ExtendedSet) -> Result<Vec<u8>, Error> {
        if state.kind() == FileKind::Symlink {
            return Err(Error::Unsupported);
        }
        let list = set.get(self.name()).ok_or(Error::NoAttribute)?;
        Ok(if self == AccessListKind::Access { with_mode(list, state.record.mode) } else { list.to_vec() })
    }

    /// Whether the list may become `entries`, or go (`None`). [`Error::NoAttribute`]: there is nothing to
    /// remove.
    pub(crate) fn check_change(
        self,
        credentials: &Credentials,
        state: &State,
        set: &ExtendedSet,
        entries: Option<&[Entry]>,
    ) -> Result<(), Error> {
        match state.kind() {
            FileKind::Symlink => return Err(Error::Unsupported),
            FileKind::Directory => {}
            _ if self == AccessListKind::Access => {}
            _ if entries.is_some() => return Err(Error::Denied),
            _ => return Err(Error::NoAttribute),
        }
        if !credentials.owns(&state.record) {
            return Err(Error::NotPermitted);
        }
        match entries {
            Some(entries) => access_list::check(entries).map_err(error_of),
            None => set.get(self.name()).map(drop).ok_or(Error::NoAttribute),
        }
    }
}

pub(crate) fn error_of(error: ListError) -> Error {
    match error {
        ListError::Version(_) => Error::Unsupported,
        ListError::Unreadable | ListError::Entries => Error::Invalid,
    }
}

impl State {
    /// The list that a new inode in this directory starts with. Empty: there is none.
    #[inline]
    pub(crate) fn default_list(&self) -> Result<&[u8], Halt> {
        if !self.record.default_list {
            return Ok(b"");
        }
        let set = self.extended().ok_or(Halt::Extended(self.record.inode))?;
        Ok(set.get(DEFAULT_LIST).unwrap_or_default())
    }

    /// Gives a new inode its directory's default list.
    pub(crate) fn inherit_list(&mut self, list: &[u8]) {
        if list.is_empty() {
            return;
        }
        if !is_plain(list) {
            self.put_extended(ACCESS_LIST, Some(list));
        }
        if self.kind() == FileKind::Directory {
            self.put_extended(DEFAULT_LIST, Some(list));
        }
    }
}

/// Group and mode of a new inode in a directory whose default list is `list`.
pub(crate) fn inherited(
    credentials: &Credentials,
    directory: &State,
    list: &[u8],
    kind: FileKind,
    mode: NewMode,
) -> (u32, u32) {
    let (gid, bits) = credentials.inherit(&directory.record, kind, mode.bits & 0o7777);
    let kept = if list.is_empty() { !mode.umask } else { mode_of(list) | !0o777 };
    (gid, bits & kept)
}
