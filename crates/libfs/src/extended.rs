//! Extended attributes: who may read and change them, and doing so.
//!
//! | namespace | read | changed | on |
//! |---|---|---|---|
//! | `user.` | with the right to read the file | with the right to write it; in a sticky directory by its owner | files, directories |
//! | `trusted.` | by administrators (`CAP_SYS_ADMIN`); others do not see it | by them | anything |
//! | `security.` | by everybody | by administrators, or who may give capabilities | anything |
//! | `system.posix_acl_…` | by everybody | by the owner | see [`crate::access_lists`] |
//! | others | no: EOPNOTSUPP | no | |
//!
//! Errors come in the order Linux finds them. `security.capability` goes with what else gives a program rights, when
//! the file's content or owner changes.

use crate::access_lists::List;
use crate::attributes::Target;
use crate::call_tags::Part;
use crate::capabilities::Capability;
use crate::client::{Client, Halt, Turn};
use crate::credentials::{Credentials, READ, WRITE, Writer};
use crate::errno::Error;
use crate::extended_set::ExtendedSet;
use crate::inode::{Inode, State};
use crate::session::unexpected;
use crate::sync::Arc;
use cuesta_format::entry::HEADER_BYTES;
use cuesta_format::operation::is_extended_name;
use cuesta_format::wire::{Request, Response};
use cuesta_format::{
    EXTENDED_BYTES_MAX, EXTENDED_NAMES_BYTES_MAX, EXTENDED_VALUE_BYTES_MAX, FileKind, InodeNumber,
    InodeRecord, Operation,
};

/// Rights a program file gives whoever runs it.
pub(crate) const CAPABILITY: &[u8] = b"security.capability";

/// What setting an extended attribute requires of it; neither: it may be there or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ExtendedFlags {
    /// It must not be there (`XATTR_CREATE`).
    pub create: bool,
    /// It must be there (`XATTR_REPLACE`).
    pub replace: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Namespace {
    User,
    Trusted,
    Security,
    System,
    Unknown,
}

impl Namespace {
    /// Of a name, and whether there is something behind it.
    fn of(name: &[u8]) -> (Namespace, bool) {
        let known = [
            (Namespace::User, &b"user."[..]),
            (Namespace::Trusted, b"trusted."),
            (Namespace::Security, b"security."),
            (Namespace::System, b"system."),
        ];
        let found = known.iter().find_map(|&(namespace, prefix)| {
            let rest = name.strip_prefix(prefix)?;
            Some((namespace, !rest.is_empty()))
        });
        found.unwrap_or((Namespace::Unknown, true))
    }
}

/// What is to become of an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access<'a> {
    Read,
    Set(&'a [u8]),
    Remove,
}

impl Access<'_> {
    /// Whether `credentials` may do it to the attribute `name` of an inode.
    fn check(self, credentials: &Credentials, state: &State, name: &[u8]) -> Result<(), Halt> {
        let record = &state.record;
        let writes = self != Access::Read;
        let refused = if writes { Error::NotPermitted } else { Error::NoAttribute };
        let (namespace, is_named) = Namespace::of(name);
        match namespace {
            Namespace::Trusted if !credentials.may(Capability::Administer) => return Err(refused.into()),
            Namespace::User if !matches!(record.kind(), FileKind::File | FileKind::Directory) => {
                return Err(refused.into());
            }
            Namespace::User if writes && is_sticky(record) && !credentials.owns(record) => {
                return Err(refused.into());
            }
            Namespace::User | Namespace::Unknown => {
                state.check(credentials, if writes { WRITE } else { READ })?;
            }
            Namespace::Security if writes => {
                let is_capability = name == CAPABILITY;
                if let Access::Set(value) = self
                    && is_capability
                    && !holds_capabilities(value)
                {
                    return Err(Error::Invalid.into());
                }
                let needed =
                    if is_capability { Capability::SetFileCapabilities } else { Capability::Administer };
                if !credentials.may(needed) {
                    return Err(refused.into());
                }
            }
            Namespace::Trusted | Namespace::Security | Namespace::System => {}
        }
        match namespace {
            Namespace::System | Namespace::Unknown => Err(Error::Unsupported.into()),
            _ if !is_named => Err(Error::Invalid.into()),
            _ => Ok(()),
        }
    }
}

fn is_sticky(record: &InodeRecord) -> bool {
    record.kind() == FileKind::Directory && record.mode & libc::S_ISVTX != 0
}

/// Whether a value is one the kernel would take for a file's capabilities: their version and as many bytes as it has.
fn holds_capabilities(value: &[u8]) -> bool {
    const EFFECTIVE: u32 = 1;
    const VERSION_2: (u32, usize) = (0x0200_0000, 20);
    const VERSION_3: (u32, usize) = (0x0300_0000, 24);
    let Some(head) = value.first_chunk().map(|head| u32::from_le_bytes(*head)) else { return false };
    [VERSION_2, VERSION_3].contains(&(head & !EFFECTIVE, value.len()))
}

impl State {
    /// Its extended attributes, if they are known.
    #[inline]
    pub(crate) fn extended(&self) -> Option<&ExtendedSet> {
        if self.record.extended == 0 { Some(&crate::extended_set::NONE) } else { self.extended.as_deref() }
    }

    /// Sets or removes one of its extended attributes, which are known.
    pub(crate) fn put_extended(&mut self, name: &[u8], value: Option<&[u8]>) {
        let before =
            self.extended().and_then(|set| set.get(name)).map_or(0, |value| name.len() + value.len());
        let after = value.map_or(0, |value| name.len() + value.len());
        self.record.extended = self.record.extended - before as u32 + after as u32;
        match List::of(name) {
            Some(List::Access) => self.record.access_list = value.is_some(),
            Some(List::Default) => self.record.default_list = value.is_some(),
            None => {}
        }
        let set = self.extended.get_or_insert_default();
        match value {
            Some(value) => set.put(name, value),
            None => set.remove(name),
        }
    }

    /// Whether a write of `writer` takes something away that gives whoever runs the file rights.
    #[inline]
    pub(crate) fn loses_rights(&self, writer: Writer) -> bool {
        writer.takes(&self.record) != 0 || self.may_hold_capability()
    }

    /// Whether it may have `security.capability`.
    #[inline]
    pub(crate) fn may_hold_capability(&self) -> bool {
        self.record.extended != 0 && self.extended().is_none_or(|set| set.get(CAPABILITY).is_some())
    }
}

impl Client {
    /// The value of an extended attribute.
    pub fn get_extended(
        &self,
        credentials: &Credentials,
        target: Target<'_>,
        name: &[u8],
    ) -> Result<Vec<u8>, Error> {
        check_name(name)?;
        self.operate(|_turn| {
            let inode = self.target(credentials, target)?;
            self.with_extended(&inode, |state, set| -> Result<Vec<u8>, Halt> {
                if let Some(list) = List::of(name) {
                    return Ok(list.read(state, set)?);
                }
                Access::Read.check(credentials, state, name)?;
                Ok(set.get(name).map(<[u8]>::to_vec).ok_or(Error::NoAttribute)?)
            })
        })
    }

    /// The names of extended attributes, each with a zero byte behind it.
    pub fn list_extended(&self, credentials: &Credentials, target: Target<'_>) -> Result<Vec<u8>, Error> {
        self.operate(|_turn| {
            let inode = self.target(credentials, target)?;
            self.with_extended(&inode, |_, set| {
                let mut list = Vec::with_capacity(set.list_bytes());
                let sees_all = credentials.may(Capability::Administer);
                let shows = |name: &&[u8]| sees_all || Namespace::of(name).0 != Namespace::Trusted;
                for name in set.names().filter(shows) {
                    list.extend_from_slice(name);
                    list.push(0);
                }
                Ok::<_, Halt>(list)
            })
        })
    }

    /// Gives a file an extended attribute, or one it has another value.
    pub fn set_extended(
        &self,
        credentials: &Credentials,
        target: Target<'_>,
        name: &[u8],
        value: &[u8],
        flags: ExtendedFlags,
    ) -> Result<(), Error> {
        check_name(name)?;
        if value.len() > EXTENDED_VALUE_BYTES_MAX {
            return Err(Error::ValueTooLong);
        }
        if let Some(list) = List::of(name) {
            return self.set_list(credentials, target, list, value);
        }
        self.change_extended(credentials, target, name, Access::Set(value), |state, set| {
            let before = set.get(name);
            if before.is_none() && flags.replace {
                return Err(Error::NoAttribute);
            }
            if before.is_some() && flags.create {
                return Err(Error::Exists);
            }
            self.check_extended_room(state, set, name, value)
        })
    }

    /// Takes an extended attribute away.
    pub fn remove_extended(
        &self,
        credentials: &Credentials,
        target: Target<'_>,
        name: &[u8],
    ) -> Result<(), Error> {
        check_name(name)?;
        if let Some(list) = List::of(name) {
            return self.set_list(credentials, target, list, b"");
        }
        self.change_extended(credentials, target, name, Access::Remove, |_, set| {
            set.get(name).map(drop).ok_or(Error::NoAttribute)
        })
    }

    /// Takes `security.capability` away before somebody else's content, or owner, comes under it.
    pub(crate) fn take_capability(&self, inode: &Inode) -> Result<(), Error> {
        self.operate(|turn| {
            if !self.reading(inode)?.may_hold_capability() {
                return Ok(());
            }
            self.change_extended_of(turn, inode, Part::Beside, (CAPABILITY, None), |state, set| {
                if state.released || set.get(CAPABILITY).is_none() { Err(Error::NoAttribute) } else { Ok(()) }
            })
        })
        .or_else(|error| if error == Error::NoAttribute { Ok(()) } else { Err(error) })
    }

    fn change_extended(
        &self,
        credentials: &Credentials,
        target: Target<'_>,
        name: &[u8],
        access: Access<'_>,
        check: impl Fn(&State, &ExtendedSet) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let value = match access {
            Access::Set(value) => Some(value),
            _ => None,
        };
        self.operate(|turn| {
            let inode = self.target(credentials, target)?;
            access.check(credentials, &*self.reading(&inode)?, name)?;
            self.change_extended_of(
                turn,
                &inode,
                Part::Effect,
                (name, value),
                |state, set| -> Result<(), Halt> {
                    access.check(credentials, state, name)?;
                    Ok(check(state, set)?)
                },
            )
        })
    }

    /// Sets (or, without a value, removes) an attribute if `check` allows it, which knows them all.
    pub(crate) fn change_extended_of<E: Into<Halt>>(
        &self,
        turn: &mut Turn<'_>,
        inode: &Inode,
        part: Part,
        (name, value): (&[u8], Option<&[u8]>),
        check: impl Fn(&State, &ExtendedSet) -> Result<(), E>,
    ) -> Result<(), Halt> {
        // Asked before room is made: the answer may be no.
        self.with_extended(inode, &check)?;
        let operation = match value {
            Some(value) => Operation::SetExtended { inode: inode.number, name, value },
            None => Operation::RemoveExtended { inode: inode.number, name },
        };
        turn.prepare_part(part, operation.body_bytes())?;
        let mut state = self.changing(inode)?;
        if state.released {
            return Err(Halt::Again);
        }
        // Between the two looks the lease may have gone and come back without them.
        let set = state.extended().ok_or(Halt::Again)?;
        check(&state, set).map_err(Into::into)?;
        let appended = turn.append(&operation)?;
        state.put_extended(name, value);
        state.record.changed = turn.now;
        state.logged = appended.end;
        Ok(())
    }

    /// Whether an attribute fits: into the log, and beside the others.
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

    /// Shows the inode's extended attributes to `read`, fetching them first if need be. Within an attempt.
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
            self.learn_extended(inode)?;
        }
    }

    /// Has an inode's extended attributes known. Within an attempt.
    #[cold]
    pub(crate) fn learn_extended_of(&self, inode: InodeNumber) -> Result<(), Halt> {
        let inode = self.cache.get_or_insert(inode);
        self.with_extended(&inode, |_, _| Ok::<(), Halt>(()))
    }

    /// Fetches extended attributes that are not known yet. None of them is changed by what is in the log: whoever
    /// changes one knows all. The inode's lock is held over the question, so that nobody does so meanwhile.
    fn learn_extended(&self, inode: &Inode) -> Result<(), Error> {
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

    /// The inode a call is about. Within an attempt.
    pub(crate) fn target(&self, credentials: &Credentials, target: Target<'_>) -> Result<Arc<Inode>, Halt> {
        match target {
            Target::File(file) => {
                file.check_not_path()?;
                Ok(Arc::clone(file.inode_ref()))
            }
            Target::Path { base, path, follow } => Ok(self.find(credentials, base, path, follow)?.0),
        }
    }
}

fn check_name(name: &[u8]) -> Result<(), Error> {
    if is_extended_name(name) { Ok(()) } else { Err(Error::Range) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inode::Content;
    use cuesta_format::{LogPosition, Timestamp};

    #[test]
    fn only_capabilities_are_taken_for_such() {
        let value = |version: u8, bytes: usize| {
            let mut value = vec![0; bytes];
            (value[0], value[3]) = (1, version);
            value
        };
        assert!(holds_capabilities(&value(2, 20)) && holds_capabilities(&value(3, 24)));
        assert!(
            !holds_capabilities(&value(2, 24))
                && !holds_capabilities(&value(1, 20))
                && !holds_capabilities(b"\0\0\0")
        );
    }

    #[test]
    fn namespaces_have_rules_of_their_own() {
        let inode = |mode| {
            let record = InodeRecord::new(InodeNumber(9), mode, 10, 20, Timestamp(0));
            Inode::made(record, Content::Special, LogPosition(0))
        };
        let [root, owner, other] = [0, 10, 11].map(|uid| Credentials::of_user(uid, 1, Vec::new()));
        let (file, link, sticky) = (inode(0o100_644), inode(0o120_777), inode(0o041_777));
        let answer = |access: Access<'_>, who: &Credentials, inode: &Inode, name: &str| match access.check(
            who,
            &inode.state.read(),
            name.as_bytes(),
        ) {
            Ok(()) => Ok(()),
            Err(Halt::Failed(error)) => Err(error),
            Err(other) => panic!("{other:?}"),
        };
        let read = |who: &Credentials, inode: &Inode, name: &str| answer(Access::Read, who, inode, name);
        let set = |who: &Credentials, inode: &Inode, name: &str| answer(Access::Set(b""), who, inode, name);
        assert_eq!(set(&other, &file, "user.a"), Err(Error::Denied));
        assert_eq!((read(&other, &file, "user.a"), set(&owner, &file, "user.a")), (Ok(()), Ok(())));
        assert_eq!(set(&root, &link, "user.a"), Err(Error::NotPermitted));
        assert_eq!(read(&root, &link, "user.a"), Err(Error::NoAttribute));
        assert_eq!(set(&other, &sticky, "user.a"), Err(Error::NotPermitted));
        assert_eq!(set(&owner, &sticky, "user.a"), Ok(()));
        assert_eq!(set(&root, &link, "trusted.a"), Ok(()));
        assert_eq!(set(&owner, &file, "trusted.a"), Err(Error::NotPermitted));
        assert_eq!(read(&owner, &file, "trusted.a"), Err(Error::NoAttribute));
        assert_eq!((read(&other, &file, "security.a"), set(&root, &file, "security.a")), (Ok(()), Ok(())));
        assert_eq!(set(&owner, &file, "security.a"), Err(Error::NotPermitted));
        assert_eq!(set(&root, &file, "security.capability"), Err(Error::Invalid));
        assert_eq!(read(&root, &file, "user."), Err(Error::Invalid));
        assert_eq!(set(&other, &file, "user."), Err(Error::Denied));
        assert_eq!(set(&other, &file, "odd"), Err(Error::Denied));
        assert_eq!(read(&root, &file, "odd"), Err(Error::Unsupported));
        assert_eq!(set(&other, &file, "system.else"), Err(Error::Unsupported));
    }
}
