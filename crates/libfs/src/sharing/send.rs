//! Sending operations on contended files to SharedFS.
//!
//! A file that several sessions change would move between them with each operation. SharedFS keeps the lease
//! of such a file in a session of its own, and says so when a session asks for the lease
//! ([`cuesta_format::wire::Response::Shipped`]). A session with a [`Shipper`] sends its operations, for the
//! term that the answer gave. A session without one gets the lease as before.
//!
//! The session in the daemon performs the sent operations ([`Client::perform`]), and an operation is complete
//! when its answer arrives. SharedFS digests the sender's log of the file before its own session gets the
//! lease. So both sessions see one order of all operations.

use crate::cache::inode::Inode;
use crate::calls::attributes::values::SetAttributes;
use crate::client::client::Client;
use crate::errno::Error;
use crate::open_files::open_file::OpenFile;
use crate::paths::credentials::Credentials;
use crate::sharing::shipped::{ShippedChange, ShippedFile, Shipper};
use crate::sharing::terms::send;
use crate::sync::Ordering;
use cuesta_format::InodeRecord;
use cuesta_format::wire::Sends;
use cuesta_media::{UserSlice, UserSliceMut};

impl Client {
    /// From now on operations on files that several sessions change go to SharedFS, by `shipper`.
    pub fn ship_by(&self, shipper: Box<dyn Shipper>) {
        // The first setting stays: a process has one door.
        let _ = self.shipping.shipper.set(shipper);
    }

    /// Makes a call on paths. If SharedFS keeps a directory on the path, the call does nothing and answers
    /// [`Error::Shipped`]. The caller then sends it.
    pub fn sending<T>(&self, call: impl FnOnce(&Client) -> T) -> T {
        if !self.can_ship() {
            return call(self);
        }
        let _sending = send(Sends::Names);
        call(self)
    }

    #[inline]
    pub(crate) fn can_ship(&self) -> bool {
        self.shipping.shipper.get().is_some()
    }

    /// The channel for an operation on a file, if SharedFS is known to keep the file.
    fn shipper_for(&self, inode: &Inode) -> Option<&dyn Shipper> {
        let shipper = self.shipping.shipper.get()?;
        // A lease that a fence took meanwhile does not count. The operation that this session just sent may
        // have caused the fence.
        let has_lease = || inode.state.read().lease.is_some() && !self.session.is_fenced();
        (inode.shipped.is_now(Sends::Contents) && !has_lease()).then_some(&**shipper)
    }

    /// Whether operations on a file are sent to SharedFS at present.
    pub(crate) fn is_sent(&self, file: &OpenFile) -> bool {
        self.shipper_for(file.inode_ref()).is_some()
    }

    fn shipped_file(&self, file: &OpenFile) -> ShippedFile {
        let (inode, writer) = (file.inode(), file.writer);
        let flags = file.flags() | if self.moves_no_access_times() { libc::O_NOATIME } else { 0 };
        ShippedFile { inode, flags, writer, limit: self.file_limit() }
    }

    /// Has SharedFS read. [`Error::Shipped`]: the session must read itself.
    #[cold]
    pub(crate) fn ship_read(
        &self,
        file: &OpenFile,
        out: &mut [UserSliceMut<'_>],
        at: u64,
    ) -> Result<usize, Error> {
        let shipper = self.shipping.shipper.get().ok_or(Error::Shipped(file.inode()))?;
        let read = shipper.read(&self.shipped_file(file), out, at)?;
        file.was_read_there.store(true, Ordering::Relaxed);
        Ok(read)
    }

    /// Whether reads are sent. SharedFS moves times of last access as most sessions do.
    #[inline]
    pub(crate) fn ships_reads(&self) -> bool {
        self.can_ship() && !self.moves_all_access_times()
    }

    /// Has SharedFS write. [`Error::Shipped`]: the session must write itself.
    #[cold]
    pub(crate) fn ship_write(
        &self,
        file: &OpenFile,
        data: &[UserSlice<'_>],
        at: Option<u64>,
    ) -> Result<(usize, u64), Error> {
        let shipper = self.shipping.shipper.get().ok_or(Error::Shipped(file.inode()))?;
        shipper.write(&self.shipped_file(file), data, at)
    }

    /// Has SharedFS change a file that it is known to keep. `None`: the session must do it.
    pub(crate) fn ship_change(&self, file: &OpenFile, change: ShippedChange) -> Option<Result<(), Error>> {
        let shipper = self.shipper_for(file.inode_ref())?;
        match shipper.change(&self.shipped_file(file), change) {
            Err(Error::Shipped(_)) => None,
            changed => Some(changed),
        }
    }

    /// Has SharedFS change attributes of a file that it is known to keep. `None`: the session must do it.
    pub(crate) fn ship_attributes(
        &self,
        credentials: &Credentials,
        file: &OpenFile,
        set: SetAttributes,
    ) -> Option<Result<(), Error>> {
        let shipper = self.shipper_for(file.inode_ref())?;
        match shipper.set_attributes(credentials, &self.shipped_file(file), set) {
            Err(Error::Shipped(_)) => None,
            set => Some(set),
        }
    }

    /// The attributes that SharedFS answers for a file that it is known to keep. `None`: the session must
    /// find them.
    pub(crate) fn ship_stat(&self, file: &OpenFile) -> Option<Result<InodeRecord, Error>> {
        let shipper = self.shipper_for(file.inode_ref())?;
        match shipper.record(&self.shipped_file(file)) {
            Err(Error::Shipped(_)) => None,
            record => Some(record),
        }
    }
}
