//! Which inodes are open, seen without asking anybody: [`cuesta_format::control`] says where.
//!
//! What is seen may end at any moment, and nothing begins: to open an inode without a name one must have it open, or
//! have a descriptor of it. The slots of sessions are looked at first, the locks of descriptors then.

use super::Control;
use crate::Error;
use cuesta_format::InodeNumber;
use cuesta_format::control::{PASSED_OFFSET, WRITERS_OFFSET};
use cuesta_format::geometry::REFERENCES_FOLDER;
use cuesta_media::byte_locks;
use hashbrown::HashSet;
use std::fs::File;
use std::io::ErrorKind;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

/// Locks that are looked at all at once; if there are more, they are asked about one by one.
const LISTED_MAX: usize = 64;

/// The folder whose locks say which inodes processes have descriptors of.
#[derive(Debug)]
pub(crate) struct References {
    folder: File,
}

/// The inodes that were open when it was made.
#[derive(Debug)]
pub(crate) struct Openers<'a> {
    sessions: HashSet<InodeNumber>,
    /// A session has more open than it can list.
    unlisted: bool,
    /// Numbers that are locked; `None`: too many to list.
    descriptors: Option<Vec<Range<u64>>>,
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
        let references = References { folder: File::open(&path).map_err(Error::io("open a folder"))? };
        byte_locks::marked(&references.folder, 0..u64::MAX)
            .map_err(|errno| Error::io("look at the locks of a folder")(errno.into()))?;
        Ok(references)
    }

    /// A descriptor for a session, which opens the folder anew by it.
    pub(crate) fn descriptor(&self) -> Result<OwnedFd, Error> {
        self.folder.try_clone().map(OwnedFd::from).map_err(Error::io("copy a descriptor"))
    }

    /// Whether somebody has a descriptor for writing of the inode.
    pub(crate) fn have_writer(&self, inode: InodeNumber) -> bool {
        let byte = WRITERS_OFFSET.saturating_add(inode.0);
        matches!(byte_locks::marked(&self.folder, byte..byte.saturating_add(1)), Ok(Some(_)))
    }

    /// Whether somebody has a descriptor of a description that was sent under this number.
    pub(crate) fn have_passed(&self, number: u64) -> bool {
        let byte = PASSED_OFFSET.saturating_add(number);
        !matches!(byte_locks::marked(&self.folder, byte..byte.saturating_add(1)), Ok(None))
    }

    /// All numbers that are locked; `None`: too many to list.
    fn list(&self) -> Option<Vec<Range<u64>>> {
        let mut found = Vec::new();
        let mut to_look: Vec<Range<u64>> = std::iter::once(0..WRITERS_OFFSET).collect();
        while let Some(range) = to_look.pop() {
            // That it cannot be looked at would have shown when the folder was opened.
            let Ok(Some(locked)) = byte_locks::marked(&self.folder, range.clone()) else { continue };
            to_look.extend((range.start < locked.start).then_some(range.start..locked.start));
            to_look.extend((locked.end < range.end).then_some(locked.end..range.end));
            found.push(locked);
            if found.len() > LISTED_MAX {
                return None;
            }
        }
        Some(found)
    }
}

impl<'a> Openers<'a> {
    /// Looks at the slots of sessions, then at the locks.
    pub(crate) fn look(sessions: &[Arc<Control>], references: &'a References) -> Openers<'a> {
        let mut open = HashSet::new();
        let mut unlisted = false;
        for session in sessions {
            unlisted |= !session.visit_open(|inode| {
                open.insert(inode);
            });
        }
        Openers { sessions: open, unlisted, descriptors: references.list(), references }
    }

    /// Whether the inode may be open.
    pub(crate) fn have(&self, inode: InodeNumber) -> bool {
        self.unlisted
            || self.sessions.contains(&inode)
            || match &self.descriptors {
                Some(listed) => listed.iter().any(|locked| locked.contains(&inode.0)),
                None => {
                    let mark =
                        byte_locks::marked(&self.references.folder, inode.0..inode.0.saturating_add(1));
                    !matches!(mark, Ok(None))
                }
            }
    }
}
