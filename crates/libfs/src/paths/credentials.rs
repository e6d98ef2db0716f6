//! Credentials: the user, the groups and the capabilities that a call acts for, and the mode bits' answer to
//! them.

use crate::errno::Error;
use crate::paths::capabilities::{Capabilities, Capability};
use crate::paths::confinement::Confinement;
use cuesta_format::{FileKind, InodeRecord};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The credentials of a thread: its fsuid, fsgid, supplementary groups and effective capabilities.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Credentials {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
    /// The effective capabilities, which hold regardless of the mode bits.
    pub capabilities: Capabilities,
    /// The Landlock rulesets by which the process confines itself.
    pub confinement: Option<Arc<Confinement>>,
    /// SharedFS sees the same credentials for the process, so its calls may be sent there.
    pub is_plain: bool,
}

/// Bit of a right: to read.
pub(crate) const READ: u32 = 4;

/// Bit of a right: to write.
pub(crate) const WRITE: u32 = 2;

/// Bit of a right: to execute, or to search a directory.
pub(crate) const EXECUTE: u32 = 1;

/// Decides which set-id bits a write takes away, and which quotas it is charged to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Writer {
    keeps_set_id: bool,
    /// Quotas of users and groups do not hold for the writer.
    pub(crate) passes_quotas: bool,
    gid: u32,
    /// The file's group at open, if the writer was in it. If the file gets another group later, only the
    /// writer's first group is known.
    group: Option<u32>,
}

impl Writer {
    /// The set-id bits that a write by this writer clears. Without the group's execute bit, the set-gid bit
    /// asks for mandatory locks: a writer that may set it keeps it.
    #[inline]
    pub(crate) fn takes(self, record: &InodeRecord) -> u32 {
        let mode = record.mode;
        if mode & (libc::S_ISUID | libc::S_ISGID) == 0 || self.keeps_set_id {
            return 0;
        }
        let in_group = record.gid == self.gid || Some(record.gid) == self.group;
        let keeps_group = mode & libc::S_IXGRP == 0 && in_group;
        mode & if keeps_group { libc::S_ISUID } else { libc::S_ISUID | libc::S_ISGID }
    }
}

impl Credentials {
    /// The credentials of a user: root has every capability, other users have none.
    #[must_use]
    pub const fn of_user(uid: u32, gid: u32, groups: Vec<u32>) -> Credentials {
        let capabilities = if uid == 0 { Capabilities::ALL } else { Capabilities::NONE };
        Credentials { uid, gid, groups, capabilities, confinement: None, is_plain: false }
    }

    /// The credentials as those of a writer of the inode.
    #[must_use]
    pub fn writer(&self, record: &InodeRecord) -> Writer {
        let group = self.is_in_group(record.gid).then_some(record.gid);
        let passes_quotas = self.may(Capability::PassQuotas);
        Writer { keeps_set_id: self.may(Capability::KeepSetId), passes_quotas, gid: self.gid, group }
    }

    /// Whether the credentials include the capability.
    #[inline]
    #[must_use]
    pub fn may(&self, capability: Capability) -> bool {
        self.capabilities.has(capability)
    }

    /// Whether the group is one of the credentials' groups.
    #[must_use]
    pub fn is_in_group(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.contains(&gid)
    }

    /// Whether the credentials own the inode, or may act as its owner.
    #[must_use]
    pub fn owns(&self, record: &InodeRecord) -> bool {
        self.uid == record.uid || self.may(Capability::ActAsOwner)
    }

    /// Whether a set-gid bit stays when these credentials set it, or leave it, on a file of this group.
    pub(crate) fn keeps_set_gid(&self, gid: u32) -> bool {
        self.is_in_group(gid) || self.may(Capability::KeepSetId)
    }

    /// Checks the mode bits, and the capabilities that override them, for `rights` (bits of `R_OK`, `W_OK`,
    /// `X_OK`). Access lists are checked in [`crate::paths::permissions`].
    #[inline]
    pub(crate) fn check_mode(&self, record: &InodeRecord, rights: u32) -> Result<(), Error> {
        let allowed = if self.uid == record.uid {
            record.mode >> 6
        } else if self.is_in_group(record.gid) {
            record.mode >> 3
        } else {
            record.mode
        };
        if rights & !allowed & 7 == 0 || self.overrides(record, rights) { Ok(()) } else { Err(Error::Denied) }
    }

    /// Whether capabilities give the rights that the mode bits do not.
    pub(crate) fn overrides(&self, record: &InodeRecord, rights: u32) -> bool {
        let is_directory = record.kind() == FileKind::Directory;
        let to_execute = rights & EXECUTE != 0;
        let readable = if is_directory { rights & WRITE == 0 } else { rights == READ };
        readable && self.may(Capability::ReadAndSearch)
            || (is_directory || !to_execute || record.mode & 0o111 != 0)
                && self.may(Capability::OverrideAccess)
    }

    /// Checks that a name may be removed from `directory`, which the caller may write. A sticky directory
    /// allows that only to owners.
    pub(crate) fn check_sticky(&self, directory: &InodeRecord, inode: &InodeRecord) -> Result<(), Error> {
        let sticky = directory.mode & libc::S_ISVTX != 0;
        if sticky && !self.owns(inode) && !self.owns(directory) {
            return Err(Error::NotPermitted);
        }
        Ok(())
    }

    /// Group and mode of a new inode in `directory`. A set-gid directory hands its group down.
    pub(crate) fn inherit(&self, directory: &InodeRecord, kind: FileKind, mode: u32) -> (u32, u32) {
        if directory.mode & libc::S_ISGID == 0 {
            return (self.gid, mode);
        }
        let mode = if kind == FileKind::Directory {
            mode | libc::S_ISGID
        } else if mode & 0o2010 == 0o2010 && !self.keeps_set_gid(directory.gid) {
            mode & !libc::S_ISGID
        } else {
            mode
        };
        (directory.gid, mode)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuesta_format::{InodeNumber, Timestamp};

    fn record(mode: u32) -> InodeRecord {
        InodeRecord::new(InodeNumber(9), mode, 10, 20, Timestamp(0))
    }

    fn user(uid: u32, gid: u32, groups: &[u32]) -> Credentials {
        Credentials::of_user(uid, gid, groups.to_vec())
    }

    #[test]
    fn the_first_class_that_fits_decides() {
        let file = record(0o100_047);
        assert_eq!(user(10, 20, &[]).check_mode(&file, READ), Err(Error::Denied));
        assert_eq!(user(11, 20, &[]).check_mode(&file, READ), Ok(()));
        assert_eq!(user(11, 1, &[20]).check_mode(&file, WRITE), Err(Error::Denied));
        assert_eq!(user(11, 1, &[]).check_mode(&file, READ | WRITE | EXECUTE), Ok(()));
        assert_eq!(user(0, 0, &[]).check_mode(&record(0o100_000), READ | WRITE), Ok(()));
        assert_eq!(user(0, 0, &[]).check_mode(&record(0o100_644), EXECUTE), Err(Error::Denied));
    }

    #[test]
    fn capabilities_pass_the_mode_bits_one_by_one() {
        let with = |capability: Capability| Credentials {
            capabilities: Capabilities::from_bits(1 << capability as u8),
            ..user(7, 7, &[])
        };
        let (closed, program, directory) = (record(0o100_000), record(0o100_100), record(0o040_000));
        let reader = with(Capability::ReadAndSearch);
        assert_eq!(reader.check_mode(&closed, READ), Ok(()));
        assert_eq!(reader.check_mode(&closed, READ | WRITE), Err(Error::Denied));
        assert_eq!(reader.check_mode(&program, EXECUTE), Err(Error::Denied));
        assert_eq!(reader.check_mode(&directory, READ | EXECUTE), Ok(()));
        assert_eq!(reader.check_mode(&directory, WRITE), Err(Error::Denied));
        let overrider = with(Capability::OverrideAccess);
        assert_eq!(overrider.check_mode(&closed, READ | WRITE), Ok(()));
        assert_eq!(overrider.check_mode(&closed, EXECUTE), Err(Error::Denied));
        assert_eq!(overrider.check_mode(&program, EXECUTE), Ok(()));
        assert_eq!(overrider.check_mode(&directory, READ | WRITE | EXECUTE), Ok(()));
        assert!(!overrider.owns(&closed) && with(Capability::ActAsOwner).owns(&closed));
        let powerless = Credentials { capabilities: Capabilities::NONE, ..user(0, 0, &[]) };
        assert_eq!(powerless.check_mode(&closed, READ), Err(Error::Denied));
        assert!(!powerless.owns(&closed));
    }

    #[test]
    fn sticky_directories_protect_the_names_of_others() {
        let directory = record(0o041_777);
        let file = InodeRecord { uid: 5, ..record(0o100_644) };
        assert_eq!(user(5, 1, &[]).check_sticky(&directory, &file), Ok(()));
        assert_eq!(user(10, 1, &[]).check_sticky(&directory, &file), Ok(()));
        assert_eq!(user(6, 1, &[]).check_sticky(&directory, &file), Err(Error::NotPermitted));
    }

    #[test]
    fn a_write_takes_set_id_bits() {
        let takes = |user: Credentials, mode| user.writer(&record(0)).takes(&record(mode));
        let (root, member, other) = (user(0, 0, &[]), user(5, 1, &[20]), user(10, 1, &[]));
        assert_eq!(takes(root, 0o106_777), 0);
        for (mode, of_member, of_other) in [
            (0o106_777, 0o6000, 0o6000),
            (0o102_767, 0, 0o2000),
            (0o106_767, 0o4000, 0o6000),
            (0o100_777, 0, 0),
        ] {
            assert_eq!(takes(member.clone(), mode), of_member, "{mode:o}");
            assert_eq!(takes(other.clone(), mode), of_other, "{mode:o}");
        }
        let given_away = InodeRecord { gid: 21, ..record(0o102_767) };
        assert_eq!(member.writer(&record(0)).takes(&given_away), 0o2000);
        assert_eq!(member.writer(&record(0)).takes(&InodeRecord { gid: 1, ..given_away }), 0);
    }

    #[test]
    fn set_gid_directories_hand_down_their_group() {
        let directory = record(0o042_775);
        let maker = user(5, 1, &[]);
        assert_eq!(maker.inherit(&directory, FileKind::Directory, 0o755), (20, 0o2755));
        assert_eq!(maker.inherit(&directory, FileKind::File, 0o2755), (20, 0o755));
        assert_eq!(maker.inherit(&record(0o040_775), FileKind::File, 0o644), (1, 0o644));
    }
}
