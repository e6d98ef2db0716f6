//! Access control lists: the two extended attributes that are them, and what is made under a default list.
//!
//! | | access list | default list |
//! |---|---|---|
//! | on | anything but symbolic links | directories |
//! | changed by | the owner | the owner |
//! | setting it | sets the mode bits, too: with one entry of the log | leaves the mode alone |
//! | one that says no more than a mode | only sets that | is kept |
//!
//! Errors come in the order Linux finds them; what setting an attribute may require (`XATTR_CREATE`) it passes over here, as
//! ext4 does, and taking away what is not there succeeds.

use crate::attributes::Target;
use crate::call_tags::Part;
use crate::client::{Client, Halt, Turn};
use crate::credentials::Credentials;
use crate::errno::Error;
use crate::extended_set::ExtendedSet;
use crate::inode::{Inode, State};
use cuesta_format::access_list::{
    self, ACCESS_LIST, DEFAULT_LIST, Entry, LIST_BYTES_MAX, ListError, encode, is_plain, mode_of, with_mode,
};
use cuesta_format::{FileKind, Operation};

/// The mode something is made with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct NewMode {
    /// The bits that are asked for.
    pub bits: u32,
    /// Those the process wants nothing to be made with, unless the directory has a default list.
    pub umask: u32,
}

impl From<u32> for NewMode {
    fn from(bits: u32) -> NewMode {
        NewMode { bits, umask: 0 }
    }
}

/// One of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum List {
    Access,
    Default,
}

impl List {
    /// The one that is kept under this name.
    pub(crate) fn of(name: &[u8]) -> Option<List> {
        match name {
            ACCESS_LIST => Some(List::Access),
            DEFAULT_LIST => Some(List::Default),
            _ => None,
        }
    }

    fn name(self) -> &'static [u8] {
        match self {
            List::Access => ACCESS_LIST,
            List::Default => DEFAULT_LIST,
        }
    }

    /// What is read of it.
    pub(crate) fn read(self, state: &State, set: &ExtendedSet) -> Result<Vec<u8>, Error> {
        if state.kind() == FileKind::Symlink {
            return Err(Error::Unsupported);
        }
        let list = set.get(self.name()).ok_or(Error::NoAttribute)?;
        Ok(if self == List::Access { with_mode(list, state.record.mode) } else { list.to_vec() })
    }

    /// Whether it may become `entries`, or nothing. Where nothing is to be done: no attribute.
    fn check_change(
        self,
        credentials: &Credentials,
        state: &State,
        set: &ExtendedSet,
        entries: Option<&[Entry]>,
    ) -> Result<(), Error> {
        match state.kind() {
            FileKind::Symlink => return Err(Error::Unsupported),
            FileKind::Directory => {}
            _ if self == List::Access => {}
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

fn error_of(error: ListError) -> Error {
    match error {
        ListError::Version(_) => Error::Unsupported,
        ListError::Unreadable | ListError::Entries => Error::Invalid,
    }
}

impl State {
    /// The list that what is made in this directory starts with; empty: none.
    #[inline]
    pub(crate) fn default_list(&self) -> Result<&[u8], Halt> {
        if !self.record.default_list {
            return Ok(b"");
        }
        let set = self.extended().ok_or(Halt::Extended(self.record.inode))?;
        Ok(set.get(DEFAULT_LIST).unwrap_or_default())
    }

    /// What was just made takes over its directory's default list.
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

/// Group and mode of what is made in a directory whose default list is `list`.
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

impl Client {
    /// Gives a file a list, or (of no bytes, or no entries) takes it away.
    pub(crate) fn set_list(
        &self,
        credentials: &Credentials,
        target: Target<'_>,
        list: List,
        value: &[u8],
    ) -> Result<(), Error> {
        let answer = self.operate(|turn| {
            let inode = self.target(credentials, target)?;
            let entries = if value.is_empty() { None } else { access_list::read(value).map_err(error_of)? };
            let entries = entries.as_deref();
            match list {
                List::Access => self.set_access_list(turn, credentials, &inode, entries),
                List::Default => {
                    let kept = entries.map(encode);
                    self.change_extended_of(
                        turn,
                        &inode,
                        Part::Effect,
                        (DEFAULT_LIST, kept.as_deref()),
                        |state, set| -> Result<(), Error> {
                            list.check_change(credentials, state, set, entries)?;
                            kept.as_deref()
                                .map_or(Ok(()), |kept| self.check_list_room(state, set, list, kept))
                        },
                    )
                }
            }
        });
        match answer {
            Err(Error::NoAttribute) => Ok(()),
            answer => answer,
        }
    }

    fn set_access_list(
        &self,
        turn: &mut Turn<'_>,
        credentials: &Credentials,
        inode: &Inode,
        entries: Option<&[Entry]>,
    ) -> Result<(), Halt> {
        let list = entries.map(encode).unwrap_or_default();
        let kept: &[u8] = if is_plain(&list) { b"" } else { &list };
        let check = |state: &State, set: &ExtendedSet| {
            List::Access.check_change(credentials, state, set, entries)?;
            self.check_list_room(state, set, List::Access, kept)
        };
        // Asked before room is made: the answer may be no.
        self.with_extended(inode, check)?;
        let operation = |mode| Operation::SetAccessList { inode: inode.number, mode, list: kept };
        turn.prepare_effect(operation(0).body_bytes(), 0)?;
        let mut state = self.changing(inode)?;
        if state.released {
            return Err(Halt::Again);
        }
        check(&state, state.extended().ok_or(Halt::Again)?)?;
        let mut mode = state.record.mode & 0o7777;
        if entries.is_some() {
            mode = mode & !0o777 | mode_of(&list);
            if !credentials.keeps_set_gid(state.record.gid) {
                mode &= !libc::S_ISGID;
            }
        }
        let appended = turn.append(&operation(mode))?;
        state.put_extended(ACCESS_LIST, (!kept.is_empty()).then_some(kept));
        state.record.mode = state.record.mode & libc::S_IFMT | mode;
        state.record.changed = turn.now;
        state.logged = appended.end;
        Ok(())
    }

    fn check_list_room(
        &self,
        state: &State,
        set: &ExtendedSet,
        list: List,
        value: &[u8],
    ) -> Result<(), Error> {
        if value.len() > LIST_BYTES_MAX {
            return Err(Error::NoSpace);
        }
        self.check_extended_room(state, set, list.name(), value)
    }
}
