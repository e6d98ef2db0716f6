//! Policy: leases that a new session is granted with the answer to its first question.
//!
//! Most programs begin by looking where they are: at the directory they were started in and at those above it, up
//! to the store's root. Many do so at the same time, and few change the directories they pass through. So those
//! above are granted to read, beside the readers there are, and only where no session has to let go of anything.

use super::ahead::Ahead;
use super::ahead::PARCEL_BYTES_MAX;
use super::packing::ParcelSource;
use crate::metadata::{MetadataError, Snapshot};
use crate::requests::Trouble;
use crate::{Error, SharedFs};
use cuesta_format::event::Step;
use cuesta_format::parcel::Packer;
use cuesta_format::wire::LeaseMode;
use cuesta_format::{InodeNumber, SessionId};

/// Directories farther above are left to questions of their own,
const ABOVE_MAX: usize = 16;
/// and so are those with more names.
const NAMES_ABOVE_MAX: usize = 128;

impl SharedFs {
    /// Leases on what a session looks at first and on the directories above it, as a parcel: nothing if it says
    /// nothing, or must ask to learn why not.
    pub(crate) fn grant_first(&self, session: SessionId, first: InodeNumber) -> Vec<u8> {
        if first == InodeNumber::NONE {
            return Vec::new();
        }
        self.try_grant_first(session, first).unwrap_or_default()
    }

    fn try_grant_first(&self, session: SessionId, first: InodeNumber) -> Result<Vec<u8>, Trouble> {
        // A directory that SharedFS keeps would be fenced from it, for a session that sends its calls there.
        let is_kept = self.core.lock().leases.shipped_for(first, self.opened.elapsed(), false).is_some();
        let mut granted = match is_kept {
            true => Vec::new(),
            false => vec![(first, self.lease(session, first, LeaseMode::Read, &Ahead::none())?)],
        };
        let above = self.directories_above(first)?;
        let mut core = self.core.lock();
        for directory in above {
            if core.leases.join_readers(session, directory) {
                granted.push((directory, LeaseMode::Read));
            }
        }
        drop(core);
        let mut packer = Packer::default();
        let left_out = ParcelSource::now(self).pack(&mut packer, &granted, PARCEL_BYTES_MAX)?;
        self.give_back_unread(session, &left_out);
        // The first was told of as it was granted.
        let count = (granted.len() - left_out.len()).saturating_sub(usize::from(!is_kept)) as u64;
        if count > 0 {
            self.events.record(Step::GrantAhead { session, inode: first, count });
        }
        Ok(packer.finish())
    }

    /// The directories above an inode, the nearest first, as of the last commit. Those with many names are left out.
    fn directories_above(&self, inode: InodeNumber) -> Result<Vec<InodeNumber>, Error> {
        let snapshot = self.metadata.read()?;
        let (mut above, mut at) = (Vec::new(), inode);
        for _ in 0..ABOVE_MAX {
            let Some(found) = snapshot.inode(at)?.filter(|_| at != InodeNumber::ROOT) else { break };
            at = found.record.parent;
            if at == InodeNumber::NONE {
                break;
            }
            if !has_more_names(&snapshot, at, NAMES_ABOVE_MAX)? {
                above.push(at);
            }
        }
        Ok(above)
    }
}

/// Whether a directory has more than so many names.
fn has_more_names(snapshot: &Snapshot, directory: InodeNumber, count: usize) -> Result<bool, MetadataError> {
    let mut names = 0;
    let all = snapshot.visit_names(directory, b"", |_, _| {
        names += 1;
        names <= count
    })?;
    Ok(!all)
}
