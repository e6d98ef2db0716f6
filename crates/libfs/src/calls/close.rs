//! `close`, the end of an inode that has no name left, and the descriptors that keep an inode for other
//! processes.

use crate::cache::inode::{Content, Inode};
use crate::client::client::Client;
use crate::errno::Error;
use crate::open_files::open_file::OpenFile;
use crate::steering::predictions::Counts;
use crate::sync::{Arc, Ordering};
use cuesta_format::Operation;
use rustix::fd::OwnedFd;
use std::ops::Deref;

impl Client {
    /// Closes an open file. An inode without names ends with the last open file on it.
    pub fn close(&self, file: Arc<OpenFile>) -> Result<(), Error> {
        let Some(file) = Arc::into_inner(file) else {
            return Ok(());
        };
        let inode = Arc::clone(file.open.inode());
        let was_mapped = file.was_mapped.load(Ordering::Relaxed);
        self.tell_old_accesses();
        drop(file);
        if self.steers {
            self.settle_predictions(&inode, was_mapped);
        }
        if was_mapped {
            self.unpin_if_closed(&inode);
        }
        self.release_if_closed(&inode)
    }

    /// With the last close it is known whether an fsync came. Of a file in mapped mode nothing is known: a program writes it
    /// through its memory.
    #[cold]
    fn settle_predictions(&self, inode: &Inode, was_mapped: bool) {
        if was_mapped {
            inode.state.write().predictions = None;
        } else if inode.opens.load(Ordering::SeqCst) == 0 {
            let mut counts = Counts::default();
            let synced = inode.synced.swap(false, Ordering::Relaxed);
            if let Some(predictions) = &mut inode.state.write().predictions {
                predictions.note_end(synced, &self.sync_habit, &mut counts);
            }
            self.session.count_predictions(&counts, &self.sync_habit);
        }
    }

    /// A descriptor of the store's folder of lock files ([`cuesta_media::lock_files`]). A descriptor of an
    /// inode's lock file keeps the inode, and the locks on it, for every process that has a copy.
    #[must_use]
    pub fn references(&self) -> impl Deref<Target = OwnedFd> + '_ {
        self.session.references.read()
    }

    /// Tells SharedFS that the door opened a lock file. SharedFS removes it once no process has it.
    pub fn note_lock_file(&self) {
        self.session.note_lock_file();
    }

    /// Logs the end of an inode without names, if no file is open on it. Exactly one thread does so. The last
    /// close looks at `orphaned` after it counts down; an unlink looks at the count after it sets `orphaned`.
    pub(crate) fn release_if_closed(&self, inode: &Arc<Inode>) -> Result<(), Error> {
        if inode.opens.load(Ordering::SeqCst) > 0 || !inode.orphaned.load(Ordering::SeqCst) {
            return Ok(());
        }
        let released = self.operate(|attempt| {
            attempt.prepare(0, 0)?;
            let mut state = self.changing(inode)?;
            // Another session may have given the inode a name and removed it meanwhile.
            let is_ours = state.is_unlinked() && inode.orphaned.load(Ordering::SeqCst);
            if state.released || !is_ours || inode.opens.load(Ordering::SeqCst) > 0 {
                return Ok(None);
            }
            let appended = attempt.append(&Operation::Release { inode: inode.number })?;
            state.released = true;
            state.content = Content::Special;
            state.logged = appended.end;
            Ok(Some(appended.end))
        });
        match released {
            Ok(Some(logged)) => {
                // The cache drops the inode only once the entry stands. A fence that voids the entry must
                // find the inode here, to forget it.
                self.cache.remove(inode.number, logged);
                Ok(())
            }
            Ok(None) | Err(Error::NotFound) => Ok(()),
            Err(error) => Err(error),
        }
    }
}
