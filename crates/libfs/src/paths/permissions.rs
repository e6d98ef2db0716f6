//! Permission checks on an inode: its mode bits, and its access control list if it has one.
//!
//! The record says whether there is a list, so a file without one costs nothing. The list itself is one of
//! the extended attributes, which the session must have fetched.

use crate::cache::inode::State;
use crate::client::halt::Halt;
use crate::errno::Error;
use crate::paths::credentials::{Credentials, Writer};
use cuesta_format::access_list::{ACCESS_LIST, Whom, entries};
use cuesta_format::{FileKind, InodeRecord};

/// Mode bits of the group. On a file with an access control list they are the mask.
const GROUP_BITS: u32 = 0o070;

/// The attribute by which a program file gives capabilities to the process that runs it.
pub(crate) const CAPABILITY: &[u8] = b"security.capability";

impl State {
    /// Whether `credentials` have `rights` (bits of `R_OK`, `W_OK`, `X_OK`).
    #[inline]
    pub(crate) fn check(&self, credentials: &Credentials, rights: u32) -> Result<(), Halt> {
        // If the mask is empty, Linux looks at the mode alone.
        if self.record.access_list
            && self.record.mode & GROUP_BITS != 0
            && credentials.uid != self.record.uid
            && self.kind() != FileKind::Symlink
        {
            return self.check_list(credentials, rights);
        }
        Ok(credentials.check_mode(&self.record, rights)?)
    }

    #[cold]
    fn check_list(&self, credentials: &Credentials, rights: u32) -> Result<(), Halt> {
        let set = self.extended().ok_or(Halt::Extended(self.record.inode))?;
        let list = set.get(ACCESS_LIST).unwrap_or_default();
        if gives(list, credentials, &self.record, rights) || credentials.overrides(&self.record, rights) {
            return Ok(());
        }
        Err(Error::Denied.into())
    }

    /// Whether a write by `writer` takes away a privilege of the file: a set-id bit or capabilities.
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

/// Whether the list gives these rights to credentials that do not own the inode. The first entry that names
/// the user decides. Of the entries that name one of the groups, any one that gives all rights suffices. The
/// entry for others counts only if no entry named the user or a group.
fn gives(list: &[u8], credentials: &Credentials, record: &InodeRecord, rights: u32) -> bool {
    let mask = record.mode >> 3;
    let mut in_group = false;
    for entry in entries(list) {
        let has_all = rights & !entry.permissions & 7 == 0;
        let is_member = match entry.whom {
            Whom::User(uid) if uid == credentials.uid => return has_all && rights & !mask & 7 == 0,
            Whom::OwningGroup => credentials.is_in_group(record.gid),
            Whom::Group(gid) => credentials.is_in_group(gid),
            _ => false,
        };
        if is_member && has_all {
            return rights & !mask & 7 == 0;
        }
        in_group |= is_member;
    }
    !in_group && rights & !record.mode & 7 == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::inode::{Content, Inode};
    use cuesta_format::access_list::{Entry, encode};
    use cuesta_format::{InodeNumber, LogPosition, Timestamp};

    const READ: u32 = 4;
    const WRITE: u32 = 2;

    fn inode(mode: u32, list: &[(Whom, u32)]) -> Inode {
        let list: Vec<Entry> = list.iter().map(|&(whom, permissions)| Entry { whom, permissions }).collect();
        let record = InodeRecord::new(InodeNumber(9), 0o100_000 | mode, 10, 20, Timestamp(0));
        let mut inode = Inode::made(record, Content::Special, LogPosition(0));
        inode.state.get_mut().put_extended(ACCESS_LIST, Some(&encode(&list)));
        inode
    }

    fn may(inode: &Inode, uid: u32, groups: &[u32], rights: u32) -> bool {
        let user = Credentials::of_user(uid, 1, groups.to_vec());
        match inode.state.read().check(&user, rights) {
            Ok(()) => true,
            Err(Halt::Failed(Error::Denied)) => false,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_list_decides_in_its_order_and_within_the_mask() {
        use Whom::*;
        // The entries of owner, mask and others are those of the mode.
        let list = [
            (Owner, 0),
            (User(11), 6),
            (User(12), 0),
            (OwningGroup, 4),
            (Group(21), 2),
            (Mask, 0),
            (Others, 0),
        ];
        let file = inode(0o664, &list);
        assert!(may(&file, 10, &[], READ | WRITE), "the owner");
        assert!(may(&file, 11, &[], READ | WRITE));
        assert!(!may(&file, 12, &[20], READ), "a named user is in no group");
        assert!(may(&file, 13, &[20], READ) && !may(&file, 13, &[20], WRITE));
        assert!(may(&file, 13, &[21], WRITE) && !may(&file, 13, &[21], READ));
        assert!(!may(&file, 13, &[20, 21], READ | WRITE), "no single entry gives both");
        assert!(may(&file, 13, &[20, 21], READ) && may(&file, 13, &[20, 21], WRITE));
        assert!(may(&file, 14, &[], READ) && !may(&file, 14, &[], WRITE), "others");
        assert!(may(&file, 0, &[], READ | WRITE), "root");
        let masked = inode(0o644, &list);
        assert!(may(&masked, 11, &[], READ) && !may(&masked, 11, &[], WRITE));
        let closed = inode(0o604, &list);
        assert!(may(&closed, 11, &[], READ), "as Linux has it: without a mask the mode decides");
    }

    #[test]
    fn an_unknown_list_is_fetched() {
        let mut file = inode(0o660, &[(Whom::User(11), 6)]);
        file.state.get_mut().extended = None;
        let user = Credentials::of_user(11, 1, Vec::new());
        let answer = file.state.read().check(&user, READ);
        assert!(matches!(answer, Err(Halt::Extended(InodeNumber(9)))), "{answer:?}");
    }
}
