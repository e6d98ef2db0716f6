//! Permission checks on extended attributes.
//!
//! | namespace | read | changed | on |
//! |---|---|---|---|
//! | `user.` | with the right to read the file | with the right to write it; in a sticky directory by its owner | files, directories |
//! | `trusted.` | by administrators (`CAP_SYS_ADMIN`); it is hidden from others | by administrators | anything |
//! | `security.` | by all | by administrators; capabilities by processes with `CAP_SETFCAP` | anything |
//! | `system.posix_acl_…` | by all | by the owner | see [`crate::paths::access_list`] |
//! | others | no: EOPNOTSUPP | no | |
//!
//! The checks come in the order in which Linux makes them.

use crate::cache::inode::State;
use crate::client::halt::Halt;
use crate::errno::Error;
use crate::paths::capabilities::Capability;
use crate::paths::credentials::{Credentials, READ, WRITE};
use crate::paths::permissions::CAPABILITY;
use cuesta_format::{FileKind, InodeRecord};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Namespace {
    User,
    Trusted,
    Security,
    System,
    Unknown,
}

impl Namespace {
    /// The namespace of a name, and whether the name has a part behind the prefix.
    pub(super) fn of(name: &[u8]) -> (Namespace, bool) {
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

/// The kind of access to an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AttributeAccess<'a> {
    Read,
    Set(&'a [u8]),
    Remove,
}

impl AttributeAccess<'_> {
    /// Whether `credentials` may do this to the attribute `name` of an inode.
    pub(super) fn check(self, credentials: &Credentials, state: &State, name: &[u8]) -> Result<(), Halt> {
        let record = &state.record;
        let writes = self != AttributeAccess::Read;
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
                if let AttributeAccess::Set(value) = self
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

/// Whether the kernel would accept the value as a file's capabilities: a known version, and the length that
/// it has.
fn holds_capabilities(value: &[u8]) -> bool {
    const EFFECTIVE: u32 = 1;
    const VERSION_2: (u32, usize) = (0x0200_0000, 20);
    const VERSION_3: (u32, usize) = (0x0300_0000, 24);
    let Some(head) = value.first_chunk().map(|head| u32::from_le_bytes(*head)) else { return false };
    [VERSION_2, VERSION_3].contains(&(head & !EFFECTIVE, value.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::inode::Content;
    use crate::cache::inode::Inode;
    use cuesta_format::InodeNumber;
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
        let answer = |access: AttributeAccess<'_>, who: &Credentials, inode: &Inode, name: &str| match access
            .check(who, &inode.state.read(), name.as_bytes())
        {
            Ok(()) => Ok(()),
            Err(Halt::Failed(error)) => Err(error),
            Err(other) => panic!("{other:?}"),
        };
        let read =
            |who: &Credentials, inode: &Inode, name: &str| answer(AttributeAccess::Read, who, inode, name);
        let set = |who: &Credentials, inode: &Inode, name: &str| {
            answer(AttributeAccess::Set(b""), who, inode, name)
        };
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
