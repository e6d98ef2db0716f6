//! The channel by which a session sends operations ([`cuesta_libfs::Shipper`]): a connection of its process. A door
//! says where the connection comes from ([`Channel`]).

use crate::asking::client::Client;
use crate::protocol::messages::PathBase;
use cuesta_format::{InodeNumber, InodeRecord};
use cuesta_libfs::{
    Asker, CallByNumber, Credentials, Error, NewMode, Observed, SetAttributes, ShippedChange, ShippedFile,
    Shipper,
};
use cuesta_media::{UserSlice, UserSliceMut};
use std::ops::Deref;

/// A connection beside the session of a process.
pub trait Channel: Send + Sync {
    /// The connection, made if there is none yet. `None`: the session does without it.
    fn connection(&self) -> Option<impl Deref<Target = Client>>;
    /// The same, if SharedFS judges the connection's calls by these credentials.
    fn connection_for(&self, credentials: &Credentials) -> Option<impl Deref<Target = Client>>;
    /// What the answers said of the log of SharedFS's session.
    fn observed(&self) -> &Observed;
}

/// Sends by a channel.
#[derive(Debug)]
pub struct ByChannel<C>(pub C);

impl<C: Channel> ByChannel<C> {
    fn connection(&self, inode: InodeNumber) -> Result<impl Deref<Target = Client>, Error> {
        self.0.connection().ok_or(Error::Shipped(inode))
    }
}

impl<C: Channel> Shipper for ByChannel<C> {
    fn read(&self, file: &ShippedFile, out: &mut [UserSliceMut<'_>], at: u64) -> Result<usize, Error> {
        self.connection(file.inode)?.ship_read(file, out, at)
    }

    fn write(
        &self,
        file: &ShippedFile,
        data: &[UserSlice<'_>],
        at: Option<u64>,
    ) -> Result<(usize, u64), Error> {
        self.connection(file.inode)?.ship_write(file, data, at)
    }

    fn set_attributes(
        &self,
        credentials: &Credentials,
        file: &ShippedFile,
        set: SetAttributes,
    ) -> Result<(), Error> {
        let connection = self.0.connection_for(credentials).ok_or(Error::Shipped(file.inode))?;
        connection.ship_change(file, ShippedChange::SetAttributes { set })
    }

    fn change(&self, file: &ShippedFile, change: ShippedChange) -> Result<(), Error> {
        self.connection(file.inode)?.ship_change(file, change)
    }

    fn settle(&self) -> Result<(), Error> {
        self.0.connection().map_or(Ok(()), |connection| connection.settle())
    }

    fn sync(&self) -> Result<(), Error> {
        self.0.connection().ok_or(Error::Disconnected)?.sync()
    }

    fn observed(&self) -> Option<&Observed> {
        Some(self.0.observed())
    }

    fn record(&self, file: &ShippedFile) -> Result<InodeRecord, Error> {
        self.connection(file.inode)?.ship_stat(file)
    }

    fn by_number(&self, who: Asker, call: &CallByNumber<'_>) -> Result<Option<InodeRecord>, Error> {
        self.connection(InodeNumber::NONE)?.by_number(who, call)
    }

    fn number_for_file(&self) -> Result<InodeNumber, Error> {
        self.connection(InodeNumber::NONE)?.number_for_file()
    }

    fn make_file(
        &self,
        who: Asker,
        directory: InodeNumber,
        name: &[u8],
        mode: NewMode,
        inode: InodeNumber,
    ) -> Result<InodeRecord, Error> {
        let place = PathBase::Inode(directory);
        self.connection(directory)?.make_file(place, name, mode, inode, Some(who))
    }
}
