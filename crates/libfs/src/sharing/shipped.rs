//! Operations that SharedFS performs: their form, and the trait of the channel that sends them.
//!
//! This is a leaf. [`crate::sharing::send`] sends, [`crate::sharing::perform`] performs.

use crate::calls::attributes::values::SetAttributes;
use crate::calls::data::allocation::Allocation;
use crate::errno::Error;
use crate::paths::access_list::NewMode;
use crate::paths::credentials::{Credentials, Writer};
use crate::sharing::by_number::{Asker, CallByNumber};
use crate::sharing::observed::Observed;
use cuesta_format::{InodeNumber, InodeRecord};
use cuesta_media::{UserSlice, UserSliceMut};
use serde::{Deserialize, Serialize};
use std::sync::OnceLock;

/// The open file that an operation is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShippedFile {
    /// The inode. It stays, because the sender has it open.
    pub inode: InodeNumber,
    /// The flags, as `fcntl(F_GETFL)` shows them.
    pub flags: i32,
    /// The credentials that opened it.
    pub writer: Writer,
    /// The file must not grow beyond this.
    pub limit: u64,
}

/// A change to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum ShippedChange {
    Truncate {
        size: i64,
    },
    Allocate {
        what: Allocation,
        offset: i64,
        length: i64,
    },
    /// `fsync`.
    Sync,
    /// `fchmod`, `fchown`, `futimens`, with the credentials that the channel has.
    SetAttributes {
        set: SetAttributes,
    },
}

/// The channel to SharedFS for operations. Each method answers [`Error::Shipped`] if there is no channel, and
/// has sent nothing then.
pub trait Shipper: Send + Sync {
    /// Reads at an offset.
    fn read(&self, file: &ShippedFile, out: &mut [UserSliceMut<'_>], at: u64) -> Result<usize, Error>;
    /// Writes at an offset, or at the end. Answers the bytes written, and the offset behind them.
    fn write(
        &self,
        file: &ShippedFile,
        data: &[UserSlice<'_>],
        at: Option<u64>,
    ) -> Result<(usize, u64), Error>;
    /// Changes attributes of the file with these credentials. SharedFS must judge by the same ones.
    fn set_attributes(
        &self,
        credentials: &Credentials,
        file: &ShippedFile,
        set: SetAttributes,
    ) -> Result<(), Error>;
    /// Makes another change of the file.
    fn change(&self, file: &ShippedFile, change: ShippedChange) -> Result<(), Error>;
    /// Has SharedFS's session tell what it noted of reads.
    fn settle(&self) -> Result<(), Error>;
    /// Makes everything durable that SharedFS performed.
    fn sync(&self) -> Result<(), Error>;
    /// How far SharedFS's log goes, as its answers said.
    fn observed(&self) -> Option<&Observed>;
    /// The attributes of the inode.
    fn record(&self, file: &ShippedFile) -> Result<InodeRecord, Error>;
    /// Makes a call that names inodes by their numbers.
    fn by_number(&self, who: Asker, call: &CallByNumber<'_>) -> Result<Option<InodeRecord>, Error>;
    /// A number for a file that is to be made.
    fn number_for_file(&self) -> Result<InodeNumber, Error>;
    /// Makes a file with such a number. If the name exists, the error is [`Error::Exists`].
    /// [`Error::Shipped`]: SharedFS does not know the number.
    fn make_file(
        &self,
        who: Asker,
        directory: InodeNumber,
        name: &[u8],
        mode: NewMode,
        inode: InodeNumber,
    ) -> Result<InodeRecord, Error>;
}

/// The session's channel for sending operations, if it has one.
#[derive(Default)]
pub(crate) struct Shipping {
    pub(super) shipper: OnceLock<Box<dyn Shipper>>,
}

impl Shipping {
    #[inline]
    pub(crate) fn shipper(&self) -> Option<&dyn Shipper> {
        self.shipper.get().map(|shipper| &**shipper)
    }
}
