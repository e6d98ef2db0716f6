//! Calls that name inodes by their numbers, as the kernel does. The mount's session makes them itself, or sends
//! them ([`crate::mount::calls`]).
//!
//! This is a leaf. [`crate::sharing::perform_by_number`] performs the calls.

use crate::calls::attributes::values::SetAttributes;
use crate::calls::names::rename_flags::RenameFlags;
use crate::errno::Error;
use crate::paths::access_list::NewMode;
use crate::paths::capabilities::Capabilities;
use crate::paths::credentials::Credentials;
use cuesta_format::InodeNumber;
use serde::{Deserialize, Serialize};

/// The credentials of a call that the kernel has checked. Groups are the kernel's to check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asker {
    uid: u32,
    gid: u32,
    capabilities: u64,
}

/// A call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum CallByNumber<'a> {
    /// The attributes of an inode.
    Stat { inode: InodeNumber },
    /// The attributes of what a name leads to.
    LookUp {
        directory: InodeNumber,
        #[serde(borrow, with = "serde_bytes")]
        name: &'a [u8],
    },
    /// `mkdir`.
    MakeDirectory {
        directory: InodeNumber,
        #[serde(borrow, with = "serde_bytes")]
        name: &'a [u8],
        mode: NewMode,
    },
    /// `mknod`.
    MakeNode {
        directory: InodeNumber,
        #[serde(borrow, with = "serde_bytes")]
        name: &'a [u8],
        mode: NewMode,
        device: u64,
    },
    /// `symlink`.
    MakeLink {
        directory: InodeNumber,
        #[serde(borrow, with = "serde_bytes")]
        name: &'a [u8],
        #[serde(borrow, with = "serde_bytes")]
        target: &'a [u8],
    },
    /// `link`.
    Link {
        inode: InodeNumber,
        directory: InodeNumber,
        #[serde(borrow, with = "serde_bytes")]
        name: &'a [u8],
    },
    /// `unlink`.
    Unlink {
        directory: InodeNumber,
        #[serde(borrow, with = "serde_bytes")]
        name: &'a [u8],
    },
    /// `rmdir`.
    RemoveDirectory {
        directory: InodeNumber,
        #[serde(borrow, with = "serde_bytes")]
        name: &'a [u8],
    },
    /// `rename`. Answers the attributes of a directory that is in another one since.
    Rename {
        directory: InodeNumber,
        #[serde(borrow, with = "serde_bytes")]
        name: &'a [u8],
        new_directory: InodeNumber,
        #[serde(borrow, with = "serde_bytes")]
        new_name: &'a [u8],
        flags: RenameFlags,
    },
    /// `chmod`, `chown` and `utimensat`.
    SetAttributes { inode: InodeNumber, set: SetAttributes },
    /// `truncate`.
    Truncate { inode: InodeNumber, size: i64 },
    /// Takes away what a write takes away. Answers the attributes if there was anything to take.
    TakeRights { inode: InodeNumber },
}

impl CallByNumber<'_> {
    /// Whether the call may change what other processes see.
    #[must_use]
    pub fn may_change(&self) -> bool {
        !matches!(self, CallByNumber::Stat { .. } | CallByNumber::LookUp { .. })
    }

    /// Refuses what no kernel asks for: names with a zero byte, and bits of a mode that do not exist.
    pub fn check(&self) -> Result<(), Error> {
        let (texts, mode) = match *self {
            CallByNumber::Stat { .. } | CallByNumber::Truncate { .. } | CallByNumber::TakeRights { .. } => {
                ([b"".as_slice(); 2], 0)
            }
            CallByNumber::SetAttributes { set, .. } => ([b"".as_slice(); 2], set.mode.unwrap_or(0)),
            CallByNumber::MakeDirectory { name, mode, .. } => ([name, b""], mode.bits),
            CallByNumber::MakeNode { name, mode, .. } => ([name, b""], mode.bits & !libc::S_IFMT),
            CallByNumber::MakeLink { name, target, .. } => ([name, target], 0),
            CallByNumber::LookUp { name, .. }
            | CallByNumber::Link { name, .. }
            | CallByNumber::Unlink { name, .. }
            | CallByNumber::RemoveDirectory { name, .. } => ([name, b""], 0),
            CallByNumber::Rename { name, new_name, .. } => ([name, new_name], 0),
        };
        let is_text = texts.iter().all(|text| !text.contains(&0));
        if is_text && mode & !0o7777 == 0 { Ok(()) } else { Err(Error::Invalid) }
    }
}

impl Asker {
    /// The parts of credentials that travel.
    #[must_use]
    pub fn of(credentials: &Credentials) -> Asker {
        let Credentials { uid, gid, capabilities, .. } = *credentials;
        Asker { uid, gid, capabilities: capabilities.bits() }
    }

    /// The credentials.
    #[must_use]
    pub fn credentials(&self) -> Credentials {
        let capabilities = Capabilities::from_bits(self.capabilities);
        Credentials { uid: self.uid, gid: self.gid, capabilities, ..Credentials::default() }
    }
}
