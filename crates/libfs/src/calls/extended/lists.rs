//! Setting and removing the two extended attributes that are access control lists.
//!
//! | | access list | default list |
//! |---|---|---|
//! | on | anything but symbolic links | directories |
//! | changed by | the owner | the owner |
//! | setting it | also sets the mode bits, in the same entry of the log | leaves the mode alone |
//! | a list that says no more than a mode | only sets the mode | is kept |
//!
//! Errors come in the order in which Linux finds them. As on ext4, `XATTR_CREATE` has no effect here, and
//! removing a list that does not exist succeeds.

use crate::cache::extended_set::{AccessListKind, ExtendedSet};
use crate::cache::inode::{Inode, State};
use crate::client::attempt::Attempt;
use crate::client::client::Client;
use crate::client::halt::Halt;
use crate::errno::Error;
use crate::paths::access_list::error_of;
use crate::paths::credentials::Credentials;
use crate::paths::path::Target;
use crate::sharing::call_tags::EntryRole;
use cuesta_format::access_list::{
    ACCESS_LIST, DEFAULT_LIST, Entry, LIST_BYTES_MAX, encode, is_plain, mode_of,
};
use cuesta_format::{Operation, access_list};

impl Client {
    /// Gives a file a list. A list of no bytes, or of no entries, removes it.
    pub(crate) fn set_list(
        &self,
        credentials: &Credentials,
        target: Target<'_>,
        list: AccessListKind,
        value: &[u8],
    ) -> Result<(), Error> {
        let answer = self.operate(|attempt| {
            let inode = self.target(credentials, target)?;
            let entries = if value.is_empty() { None } else { access_list::read(value).map_err(error_of)? };
            let entries = entries.as_deref();
            match list {
                AccessListKind::Access => self.set_access_list(attempt, credentials, &inode, entries),
                AccessListKind::Default => {
                    let kept = entries.map(encode);
                    self.change_extended_of(
                        attempt,
                        &inode,
                        EntryRole::Effect,
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
        attempt: &mut Attempt<'_>,
        credentials: &Credentials,
        inode: &Inode,
        entries: Option<&[Entry]>,
    ) -> Result<(), Halt> {
        let list = entries.map(encode).unwrap_or_default();
        let kept: &[u8] = if is_plain(&list) { b"" } else { &list };
        let check = |state: &State, set: &ExtendedSet| {
            AccessListKind::Access.check_change(credentials, state, set, entries)?;
            self.check_list_room(state, set, AccessListKind::Access, kept)
        };
        // Checked before the entry is prepared, because the answer may be no.
        self.with_extended(inode, check)?;
        let operation = |mode| Operation::SetAccessList { inode: inode.number, mode, list: kept };
        attempt.prepare_effect(operation(0).body_bytes(), 0)?;
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
        let appended = attempt.append(&operation(mode))?;
        state.put_extended(ACCESS_LIST, (!kept.is_empty()).then_some(kept));
        state.record.mode = state.record.mode & libc::S_IFMT | mode;
        state.record.changed = attempt.now;
        state.logged = appended.end;
        Ok(())
    }

    fn check_list_room(
        &self,
        state: &State,
        set: &ExtendedSet,
        list: AccessListKind,
        value: &[u8],
    ) -> Result<(), Error> {
        if value.len() > LIST_BYTES_MAX {
            return Err(Error::NoSpace);
        }
        self.check_extended_room(state, set, list.name(), value)
    }
}
