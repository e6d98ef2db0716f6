//! Putting a file into mapped mode, keeping it there, and leaving the mode.
//!
//! A lease says only that a file is in this mode, and a pin keeps it there.

use crate::cache::inode::Inode;
use crate::client::client::Client;
use crate::client::halt::Halt;
use crate::errno::{Error, unexpected};
use crate::mapped::file::{MappedFile, failed, whole};
use crate::open_files::open_file::OpenFile;
use crate::sync::{Arc, Ordering};
use cuesta_format::InodeNumber;
use cuesta_format::wire::{Request, Response};
use cuesta_media::mapped_files;
use cuesta_media::mapped_files::Pin;
use rustix::fd::OwnedFd;

/// How often to ask for a file that leaves the mode meanwhile.
const MODE_TRIES: usize = 100;

impl Client {
    /// A descriptor of the file that programs map to share the content. Mappings of it keep the file in
    /// mapped mode. `writes`: the mappings may be written.
    pub fn map_shared(&self, file: &OpenFile, writes: bool) -> Result<OwnedFd, Error> {
        let inode = file.inode_ref();
        file.was_mapped.store(true, Ordering::Relaxed);
        for _ in 0..MODE_TRIES {
            self.operate(|_attempt| {
                let state = self.reading(inode)?;
                let is_mapped = state.mapped().is_some();
                self.note_access(file.flags(), inode, &state);
                drop(state);
                if is_mapped { Ok(()) } else { self.begin_mapped(inode) }
            })?;
            let references = self.session.references.read();
            if let Some(found) = whole(|| mapped_files::open_marked(&*references, inode.number, writes))? {
                return Ok(found);
            }
        }
        Err(Error::Busy)
    }

    fn begin_mapped(&self, inode: &Inode) -> Result<(), Halt> {
        let mut state = inode.state.write();
        // Extents that digests have yet to report would be taken for its content when it leaves the mode.
        if state.logged > self.session.retired() {
            return Err(Halt::Undigested);
        }
        let answer = self.session.ask(&Request::Map { inode: inode.number })?;
        let Response::Granted { grant, .. } = answer else {
            return Err(unexpected(&answer).into());
        };
        state.forget();
        if self.fill(inode, &mut state, *grant)? { Ok(()) } else { Err(Halt::Again) }
    }

    /// Stops keeping a closed file in mapped mode, unless it is still open here. If the log holds anything of
    /// it, the session must remember the file.
    pub(crate) fn unpin_if_closed(&self, inode: &Inode) {
        let mut state = inode.state.write();
        let is_open = inode.opens.load(Ordering::SeqCst) > 0;
        if !is_open && state.mapped().is_some() && state.logged <= self.session.retired() {
            state.forget();
        }
    }

    /// Ends the mode, for a call that a mapped file cannot do. If a process has the file mapped, the mode
    /// stays and the call is refused.
    pub(crate) fn leave_mapped(&self, inode: &Inode) -> Result<(), Error> {
        self.operate(|_attempt| {
            let mut state = inode.state.write();
            if state.mapped().is_some() {
                if state.logged > self.session.retired() {
                    return Err(Halt::Undigested);
                }
                state.forget();
            }
            drop(state);
            // SharedFS ends the mode for the session that asks, once every other session has let go and no
            // mapping is left.
            match self.changing(inode)?.mapped() {
                None => Ok(()),
                Some(_) => Err(Error::Unsupported.into()),
            }
        })
    }

    /// Pins an inode's file in mapped mode. `None`: it has left the mode.
    pub(crate) fn pin(&self, inode: InodeNumber) -> Result<Option<Arc<MappedFile>>, Error> {
        let references = self.session.references.read();
        let Some(file) = whole(|| mapped_files::open_marked(&*references, inode, true))? else {
            return Ok(None);
        };
        let pin = Pin::new(&file).map_err(failed)?;
        let descriptor = self.kept_descriptors.keep(&file);
        Ok(Some(Arc::new(MappedFile::new(inode, pin, descriptor))))
    }

    /// The file in mapped mode, if a write found it there before and it is still there as far as the session
    /// knows. `None` also if a write would take a privilege away.
    #[inline]
    pub(crate) fn known_mapped(&self, file: &OpenFile) -> Option<Arc<MappedFile>> {
        if !file.was_mapped.load(Ordering::Relaxed) {
            return None;
        }
        let state = file.inode_ref().state.read();
        let mapped = state.lease.and_then(|_| state.mapped());
        mapped.filter(|_| !state.loses_rights(file.writer)).map(Arc::clone)
    }

    /// The file, if it is in mapped mode.
    pub(crate) fn mapped(&self, inode: &Inode) -> Result<Option<Arc<MappedFile>>, Error> {
        self.operate(|_attempt| Ok(self.reading(inode)?.mapped().map(Arc::clone)))
    }
}
