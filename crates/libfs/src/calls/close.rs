//! `close`, the end of an inode that has no name left, and the descriptors that keep an inode for other processes.

use crate::cache::inode::{Content, Inode};
use crate::client::client::Client;
use crate::errno::Error;
use crate::open_files::open_file::OpenFile;
use crate::sync::{Arc, Ordering};
use cuesta_format::Operation;
use rustix::fd::OwnedFd;
use std::ops::Deref;

impl Client {
    /// Closes an open file. An inode without names goes with the last open file on it.
    pub fn close(&self, file: Arc<OpenFile>) -> Result<(), Error> {
        let Some(file) = Arc::into_inner(file) else {
            return Ok(());
        };
        let inode = Arc::clone(file.open.inode());
        let was_mapped = file.was_mapped.load(Ordering::Relaxed);
        self.tell_old_accesses();
        drop(file);
        if was_mapped {
            self.let_go_of_mapped(&inode);
        }
        self.release_if_closed(&inode)
    }

    /// A descriptor of the store's folder of lock files ([`cuesta_media::lock_files`]): one of an inode's keeps the inode,
    /// and the locks that are set on it, for whoever has a copy of that descriptor.
    #[must_use]
    pub fn references(&self) -> impl Deref<Target = OwnedFd> + '_ {
        self.session.references.read()
    }

    /// A lock file was asked for: SharedFS is to take it away when nobody has it any more.
    pub fn note_lock_file(&self) {
        self.session.note_lock_file();
    }

    /// Says that an inode without names is open no more, if that is so. Whoever comes last does it: the last close
    /// looks at `orphaned` after its count, an unlink at the count after it set `orphaned`.
    pub(crate) fn release_if_closed(&self, inode: &Arc<Inode>) -> Result<(), Error> {
        if inode.opens.load(Ordering::SeqCst) > 0 || !inode.orphaned.load(Ordering::SeqCst) {
            return Ok(());
        }
        let released = self.operate(|attempt| {
            attempt.prepare(0, 0)?;
            let mut state = self.changing(inode)?;
            // Others may have given it a name meanwhile, and taken that away.
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
                // Not before the entry stands: a fence that voids it must find the inode here, to forget it.
                self.cache.remove(inode.number, logged);
                Ok(())
            }
            Ok(None) | Err(Error::NotFound) => Ok(()),
            Err(error) => Err(error),
        }
    }
}
