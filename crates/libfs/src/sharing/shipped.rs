//! Operations that SharedFS performs: what is sent, and the trait of the channel that sends it.
//!
//! This is a leaf. [`crate::sharing::send`] sends, [`crate::sharing::perform`] performs.

use crate::calls::attributes::values::SetAttributes;
use crate::calls::data::allocation::Allocation;
use crate::errno::Error;
use crate::paths::credentials::{Credentials, Writer};
use crate::sharing::observed::Observed;
use cuesta_format::{InodeNumber, InodeRecord};
use cuesta_media::{UserSlice, UserSliceMut};
use serde::{Deserialize, Serialize};
use std::sync::OnceLock;

/// The open file that an operation is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShippedFile {
    /// Its inode, which stays: the sender has it open.
    pub inode: InodeNumber,
    /// Its flags, as `fcntl(F_GETFL)` shows them.
    pub flags: i32,
    /// Who opened it.
    pub writer: Writer,
    /// It does not grow beyond so many bytes.
    pub limit: u64,
}

/// A change that is sent.
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
    /// `fchmod`, `fchown`, `futimens`: by the credentials that the way has.
    SetAttributes {
        set: SetAttributes,
    },
}

/// The way to SharedFS for operations. Each answers [`Error::Shipped`] if the way cannot be had: nothing was sent then.
pub trait Shipper: Send + Sync {
    /// Reads at an offset.
    fn read(&self, file: &ShippedFile, out: &mut [UserSliceMut<'_>], at: u64) -> Result<usize, Error>;
    /// Writes at an offset, or at the end; answers how much, and the offset behind it.
    fn write(
        &self,
        file: &ShippedFile,
        data: &[UserSlice<'_>],
        at: Option<u64>,
    ) -> Result<(usize, u64), Error>;
    /// Changes attributes of the file by these credentials, which must be those that SharedFS judges by.
    fn set_attributes(
        &self,
        credentials: &Credentials,
        file: &ShippedFile,
        set: SetAttributes,
    ) -> Result<(), Error>;
    /// Changes the file otherwise.
    fn change(&self, file: &ShippedFile, change: ShippedChange) -> Result<(), Error>;
    /// The disk has everything that SharedFS performed when this returns.
    fn sync(&self) -> Result<(), Error>;
    /// What answers said of SharedFS's log.
    fn observed(&self) -> Option<&Observed>;
    /// What the inode is like.
    fn record(&self, file: &ShippedFile) -> Result<InodeRecord, Error>;
}

/// How this session sends operations, if it does.
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
