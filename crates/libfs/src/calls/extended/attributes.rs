//! Reading, listing, setting and removing extended attributes. The two access control lists are in `lists`.

use crate::cache::extended_set::{AccessListKind, ExtendedSet};
use crate::cache::inode::{Inode, State};
use crate::calls::extended::permission::{AttributeAccess, Namespace};
use crate::client::attempt::Attempt;
use crate::client::client::Client;
use crate::client::halt::Halt;
use crate::errno::Error;
use crate::paths::capabilities::Capability;
use crate::paths::credentials::Credentials;
use crate::paths::path::Target;
use crate::paths::permissions::CAPABILITY;
use crate::sharing::call_tags::EntryRole;
use cuesta_format::operation::is_extended_name;
use cuesta_format::pin::TIER_ATTRIBUTE;
use cuesta_format::wire::Request;
use cuesta_format::{EXTENDED_VALUE_BYTES_MAX, FileKind, Operation};

/// What setting an extended attribute requires. Without a flag, the attribute may exist or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ExtendedFlags {
    /// The attribute must not exist (`XATTR_CREATE`).
    pub create: bool,
    /// The attribute must exist (`XATTR_REPLACE`).
    pub replace: bool,
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
        self.operate(|_attempt| {
            let inode = self.target(credentials, target)?;
            self.with_extended(&inode, |state, set| -> Result<Vec<u8>, Halt> {
                if let Some(list) = AccessListKind::of(name) {
                    return Ok(list.read(state, set)?);
                }
                AttributeAccess::Read.check(credentials, state, name)?;
                Ok(set.get(name).map(<[u8]>::to_vec).ok_or(Error::NoAttribute)?)
            })
        })
    }

    /// The names of extended attributes, each followed by a zero byte.
    pub fn list_extended(&self, credentials: &Credentials, target: Target<'_>) -> Result<Vec<u8>, Error> {
        self.operate(|_attempt| {
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

    /// Sets an extended attribute.
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
        if let Some(list) = AccessListKind::of(name) {
            return self.set_list(credentials, target, list, value);
        }
        if name == TIER_ATTRIBUTE {
            self.check_pin(value)?;
        }
        self.change_extended(credentials, target, name, AttributeAccess::Set(value), |state, set| {
            if name == TIER_ATTRIBUTE && value.contains(&b'=') && state.record.kind() != FileKind::Directory {
                // Rules for names are a directory's.
                return Err(Error::Invalid);
            }
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

    /// Removes an extended attribute.
    pub fn remove_extended(
        &self,
        credentials: &Credentials,
        target: Target<'_>,
        name: &[u8],
    ) -> Result<(), Error> {
        check_name(name)?;
        if let Some(list) = AccessListKind::of(name) {
            return self.set_list(credentials, target, list, b"");
        }
        self.change_extended(credentials, target, name, AttributeAccess::Remove, |_, set| {
            set.get(name).map(drop).ok_or(Error::NoAttribute)
        })
    }

    /// A value that pins content to a tier must name one that the store has. SharedFS knows them.
    fn check_pin(&self, value: &[u8]) -> Result<(), Error> {
        let request = Request::CheckPin { value: value.to_vec() };
        match self.operate(|_attempt| Ok(self.session.ask(&request)?)) {
            Ok(_) => Ok(()),
            Err(Error::NotFound) => Err(Error::Invalid),
            Err(error) => Err(error),
        }
    }

    /// Removes `security.capability` before the file gets another user's content, or another owner.
    pub(crate) fn take_capability(&self, inode: &Inode) -> Result<(), Error> {
        self.operate(|attempt| {
            if !self.reading(inode)?.may_hold_capability() {
                return Ok(());
            }
            self.change_extended_of(
                attempt,
                inode,
                EntryRole::Idempotent,
                (CAPABILITY, None),
                |state, set| {
                    if state.released || set.get(CAPABILITY).is_none() {
                        Err(Error::NoAttribute)
                    } else {
                        Ok(())
                    }
                },
            )
        })
        .or_else(|error| if error == Error::NoAttribute { Ok(()) } else { Err(error) })
    }

    fn change_extended(
        &self,
        credentials: &Credentials,
        target: Target<'_>,
        name: &[u8],
        access: AttributeAccess<'_>,
        check: impl Fn(&State, &ExtendedSet) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let value = match access {
            AttributeAccess::Set(value) => Some(value),
            _ => None,
        };
        self.operate(|attempt| {
            let inode = self.target(credentials, target)?;
            access.check(credentials, &*self.reading(&inode)?, name)?;
            self.change_extended_of(
                attempt,
                &inode,
                EntryRole::Effect,
                (name, value),
                |state, set| -> Result<(), Halt> {
                    access.check(credentials, state, name)?;
                    Ok(check(state, set)?)
                },
            )
        })
    }

    /// Sets an attribute, or removes it (no value), if `check` allows it. `check` sees all attributes.
    pub(crate) fn change_extended_of<E: Into<Halt>>(
        &self,
        attempt: &mut Attempt<'_>,
        inode: &Inode,
        role: EntryRole,
        (name, value): (&[u8], Option<&[u8]>),
        check: impl Fn(&State, &ExtendedSet) -> Result<(), E>,
    ) -> Result<(), Halt> {
        // Checked before the entry is prepared, because the answer may be no.
        self.with_extended(inode, &check)?;
        let operation = match value {
            Some(value) => Operation::SetExtended { inode: inode.number, name, value },
            None => Operation::RemoveExtended { inode: inode.number, name },
        };
        attempt.prepare_as(role, operation.body_bytes())?;
        let mut state = self.changing(inode)?;
        if state.released {
            return Err(Halt::Again);
        }
        // Between the two checks the session may have lost the lease and got it back without the attributes.
        let set = state.extended().ok_or(Halt::Again)?;
        check(&state, set).map_err(Into::into)?;
        let appended = attempt.append(&operation)?;
        state.put_extended(name, value);
        state.record.changed = attempt.now;
        state.logged = appended.end;
        Ok(())
    }
}

fn check_name(name: &[u8]) -> Result<(), Error> {
    if is_extended_name(name) { Ok(()) } else { Err(Error::Range) }
}
