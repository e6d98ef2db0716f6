//! Which inodes are open, seen without asking their openers: [`cuesta_format::control`] says where.
//!
//! An inode that is seen open may be closed at any moment, but none is opened anew: to open an inode without a
//! name, a program must have it open, or have a descriptor of it. The slots of sessions are looked at first, then
//! the lock files of descriptors. Which lock files there are is looked at once. Whether a process has one is looked
//! at when the inode is asked about.
//!
//! Lock files that no process has any more are taken away when there have been enough new ones since that was last
//! done ([`References::sweep_if_many`]), and any there are when the daemon is idle ([`References::sweep_if_any`]).

use super::control::Control;
use crate::Error;
use cuesta_format::InodeNumber;
use cuesta_format::geometry::REFERENCES_FOLDER;
use cuesta_media::lock_files::{self, Mark};
use hashbrown::HashSet;
use parking_lot::Mutex;
use std::fs::{File, Permissions};
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

/// Lock files that are listed; if there are more, one is looked for by its name.
const LISTED_MAX: usize = 4096;
/// So many new lock files at least before it is looked which are unused.
const NEW_MIN: u64 = 256;
/// Sessions make lock files in it as its owner ([`cuesta_media::owner_rights`]). No other user comes near it.
const FOLDER_MODE: u32 = 0o700;

/// The folder of lock files.
#[derive(Debug)]
pub(crate) struct References {
    folder: File,
    sweeping: Mutex<Sweeping>,
}

#[derive(Debug)]
struct Sweeping {
    /// Lock files asked for since the last look, as far as sessions have said so.
    new: u64,
    /// Lock files that were in use then.
    left: u64,
}

/// The inodes that were open when it was made.
#[derive(Debug)]
pub(crate) struct Openers<'a> {
    sessions: HashSet<InodeNumber>,
    /// Below this number anything may be open.
    unseen_below: InodeNumber,
    /// A session has more open than it can list.
    unlisted: bool,
    /// Inodes with lock files; `None`: too many to list.
    lock_files: Option<HashSet<InodeNumber>>,
    references: &'a References,
}

impl References {
    /// Opens the folder of the tier, and makes it if there is none.
    pub(crate) fn open(tier: &Path) -> Result<References, Error> {
        let path = tier.join(REFERENCES_FOLDER);
        match std::fs::create_dir(&path) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                return Err(Error::io("create a folder")(error));
            }
            _ => {}
        }
        let folder = File::open(&path).map_err(Error::io("open a folder"))?;
        folder
            .set_permissions(Permissions::from_mode(FOLDER_MODE))
            .map_err(Error::io("set the mode of a folder"))?;
        // Sessions of an earlier daemon left them.
        Ok(References { folder, sweeping: Mutex::new(Sweeping { new: 1, left: 0 }) })
    }

    /// A descriptor for a session, which makes lock files by it.
    pub(crate) fn descriptor(&self) -> Result<OwnedFd, Error> {
        self.folder.try_clone().map(OwnedFd::from).map_err(Error::io("copy a descriptor"))
    }

    /// The folder, for other files that lie in it.
    pub(crate) fn folder(&self) -> Result<File, Error> {
        self.folder.try_clone().map_err(Error::io("copy a descriptor"))
    }

    /// Whether a process has a descriptor for writing of the inode.
    pub(crate) fn have_writer(&self, inode: InodeNumber) -> bool {
        self.have(inode, Mark::Writer)
    }

    /// Whether a process has a descriptor of a description of the inode that was sent under this number.
    pub(crate) fn have_passed(&self, inode: InodeNumber, number: u64) -> bool {
        self.have(inode, Mark::Passed(number))
    }

    /// Of what cannot be looked at nothing is known to be unused.
    fn have(&self, inode: InodeNumber, mark: Mark) -> bool {
        !matches!(lock_files::is_marked(&self.folder, inode, mark), Ok(false))
    }

    /// A session has asked for so many more lock files.
    pub(crate) fn note_new(&self, count: u64) {
        let mut sweeping = self.sweeping.lock();
        sweeping.new = sweeping.new.saturating_add(count);
    }

    /// Takes unused lock files away if it is worth while.
    pub(crate) fn sweep_if_many(&self) -> Result<(), Error> {
        let mut sweeping = self.sweeping.lock();
        if sweeping.new >= sweeping.left.max(NEW_MIN) { self.sweep(&mut sweeping) } else { Ok(()) }
    }

    /// Takes unused lock files away if there may be any.
    pub(crate) fn sweep_if_any(&self) -> Result<(), Error> {
        let mut sweeping = self.sweeping.lock();
        if sweeping.new > 0 { self.sweep(&mut sweeping) } else { Ok(()) }
    }

    fn sweep(&self, sweeping: &mut Sweeping) -> Result<(), Error> {
        sweeping.new = 0;
        let left = lock_files::remove_unused(&self.folder);
        sweeping.left = left.map_err(|errno| Error::io("remove a lock file")(errno.into()))? as u64;
        Ok(())
    }
}

impl<'a> Openers<'a> {
    /// Looks at the slots of sessions, then at the lock files. There are sessions whose slots say nothing yet, and which
    /// may have inodes below `unseen_below` open.
    pub(crate) fn look(
        sessions: &[Arc<Control>],
        unseen_below: InodeNumber,
        references: &'a References,
    ) -> Openers<'a> {
        let mut open = HashSet::new();
        let mut unlisted = false;
        for session in sessions {
            unlisted |= !session.visit_open(|inode| {
                open.insert(inode);
            });
        }
        let listed = lock_files::list(&references.folder, LISTED_MAX).ok().flatten();
        let lock_files = listed.map(|listed| listed.into_iter().collect());
        Openers { sessions: open, unseen_below, unlisted, lock_files, references }
    }

    /// Whether the inode may be open.
    pub(crate) fn have(&self, inode: InodeNumber) -> bool {
        self.unlisted
            || inode < self.unseen_below
            || self.sessions.contains(&inode)
            || self.lock_files.as_ref().is_none_or(|listed| listed.contains(&inode))
                && self.references.have(inode, Mark::Opener)
    }
}
