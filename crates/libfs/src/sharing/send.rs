//! SendingNames operations on contended files to SharedFS.
//!
//! A file that several sessions change would move between them with each operation. SharedFS keeps the lease of such a file in a session of its
//! own, and says so when a session asks for the lease ([`cuesta_format::wire::Response::Shipped`]). A session with a [`Shipper`] sends its
//! operations, for the term that the answer gave. A session without one gets the lease as before.
//!
//! The session in the daemon performs what is sent ([`Client::perform`]), and the operation is complete when the answer arrives. SharedFS digests
//! what the sender logged of the file before its own session gets the lease. So both sessions see one order of all operations.

use crate::cache::inode::Inode;
use crate::calls::attributes::values::SetAttributes;
use crate::client::client::Client;
use crate::errno::Error;
use crate::open_files::open_file::OpenFile;
use crate::paths::credentials::Credentials;
use crate::sharing::shipped::{ShippedChange, ShippedFile, Shipper};
use crate::sharing::terms::send_names;
use cuesta_format::InodeRecord;
use cuesta_format::wire::Sends;
use cuesta_media::{UserSlice, UserSliceMut};

impl Client {
    /// Operations on files that several sessions change go to SharedFS from now on, by `shipper`.
    pub fn ship_by(&self, shipper: Box<dyn Shipper>) {
        // The first one stays: there is one door.
        let _ = self.shipping.shipper.set(shipper);
    }

    /// Makes a call on paths, which answers [`Error::Shipped`], with nothing done, if SharedFS keeps a directory on its way: it is to be
    /// sent then.
    pub fn sending<T>(&self, call: impl FnOnce(&Client) -> T) -> T {
        if !self.can_ship() {
            return call(self);
        }
        let _sending = send_names();
        call(self)
    }

    #[inline]
    pub(crate) fn can_ship(&self) -> bool {
        self.shipping.shipper.get().is_some()
    }

    /// The way for an operation on a file that SharedFS is known to have.
    fn shipper_for(&self, inode: &Inode) -> Option<&dyn Shipper> {
        let shipper = self.shipping.shipper.get()?;
        // A lease that was taken meanwhile, perhaps by what this session just sent, is none.
        let has_lease = || inode.state.read().lease.is_some() && !self.session.is_fenced();
        (inode.shipped.is_now(Sends::Contents) && !has_lease()).then_some(&**shipper)
    }

    fn shipped_file(&self, file: &OpenFile) -> ShippedFile {
        let (inode, flags, writer) = (file.inode(), file.flags(), file.writer);
        ShippedFile { inode, flags, writer, limit: self.file_limit() }
    }

    /// Has SharedFS read. `Err(Error::Shipped)`: it is to be done here.
    #[cold]
    pub(crate) fn ship_read(
        &self,
        file: &OpenFile,
        out: &mut [UserSliceMut<'_>],
        at: u64,
    ) -> Result<usize, Error> {
        let shipper = self.shipping.shipper.get().ok_or(Error::Shipped(file.inode()))?;
        shipper.read(&self.shipped_file(file), out, at)
    }

    /// Has SharedFS write. `Err(Error::Shipped)`: it is to be done here.
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

    /// Has SharedFS change a file that it is known to have. `None`: it is to be done here.
    pub(crate) fn ship_change(&self, file: &OpenFile, change: ShippedChange) -> Option<Result<(), Error>> {
        let shipper = self.shipper_for(file.inode_ref())?;
        match shipper.change(&self.shipped_file(file), change) {
            Err(Error::Shipped(_)) => None,
            changed => Some(changed),
        }
    }

    /// Has SharedFS change attributes of a file that it is known to have. `None`: it is to be done here.
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

    /// What SharedFS says of a file that it is known to have. `None`: it is to be found out here.
    pub(crate) fn ship_stat(&self, file: &OpenFile) -> Option<Result<InodeRecord, Error>> {
        let shipper = self.shipper_for(file.inode_ref())?;
        match shipper.record(&self.shipped_file(file)) {
            Err(Error::Shipped(_)) => None,
            record => Some(record),
        }
    }
}
