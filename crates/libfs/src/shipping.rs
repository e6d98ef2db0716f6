//! Operations that SharedFS performs: on files that several sessions change.
//!
//! Such a file would change hands with each operation. So SharedFS keeps its lease, in a session of its own, and says so to whoever asks
//! for one ([`cuesta_format::wire::Response::Shipped`]). A session with a way to send operations ([`Shipper`]) sends them, for as long as the
//! answer said; one without a way gets the lease as before.
//!
//! What is sent is performed by [`Client::perform`] of the session in the daemon, and is complete when it is answered. SharedFS digests what the
//! sender logged of the file before its own session gets the lease, so both see one order of all operations.

use crate::allocate::Allocation;
use crate::attributes::{SetAttributes, Stat, Target};
use crate::client::Client;
use crate::credentials::{Credentials, Writer};
use crate::dependencies::Observed;
use crate::errno::Error;
use crate::inode::Inode;
use crate::open_file::OpenFile;
use crate::sync::{Arc, AtomicU64, Ordering};
use cuesta_format::wire::Sends;
use cuesta_format::{InodeNumber, InodeRecord};
use cuesta_media::{UserSlice, UserSliceMut, clock};
use serde::{Deserialize, Serialize};
use std::cell::Cell;
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
    shipper: OnceLock<Box<dyn Shipper>>,
}

/// Until when SharedFS performs the operations on an inode: twice the kernel's ticks in milliseconds, and one more for a directory; 0 if it
/// never did.
#[derive(Debug, Default)]
pub(crate) struct ShippedUntil(AtomicU64);

thread_local! {
    /// The calling thread's call on names may be sent.
    static SENDS_NAMES: Cell<bool> = const { Cell::new(false) };
}

/// Says that calls of this thread may be sent no more.
struct Sending;

impl Drop for Sending {
    fn drop(&mut self) {
        SENDS_NAMES.set(false);
    }
}

/// What the calling thread's call would send rather than have the lease of a directory.
pub(crate) fn names() -> Sends {
    if SENDS_NAMES.get() { Sends::Names } else { Sends::Nothing }
}

impl ShippedUntil {
    pub(crate) fn set(&self, sends: Sends, term_ms: u32) {
        let until = clock::milliseconds() + u64::from(term_ms);
        self.0.store(until << 1 | u64::from(sends == Sends::Names), Ordering::Relaxed);
    }

    /// Whether such operations are to be sent now.
    #[inline]
    pub(crate) fn is_now(&self, sends: Sends) -> bool {
        match (self.0.load(Ordering::Relaxed), sends) {
            (0, _) | (_, Sends::Nothing) => false,
            (until, _) => (until & 1 == 1) == (sends == Sends::Names) && clock::milliseconds() < until >> 1,
        }
    }
}

impl Shipping {
    #[inline]
    pub(crate) fn shipper(&self) -> Option<&dyn Shipper> {
        self.shipper.get().map(|shipper| &**shipper)
    }
}

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
        SENDS_NAMES.set(true);
        let _sending = Sending;
        call(self)
    }

    #[inline]
    pub(crate) fn can_ship(&self) -> bool {
        self.shipping.shipper.get().is_some()
    }

    /// The way for an operation on a file that SharedFS is known to have.
    fn way_for(&self, inode: &Inode) -> Option<&dyn Shipper> {
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
        let shipper = self.way_for(file.inode_ref())?;
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
        let shipper = self.way_for(file.inode_ref())?;
        match shipper.set_attributes(credentials, &self.shipped_file(file), set) {
            Err(Error::Shipped(_)) => None,
            set => Some(set),
        }
    }

    /// What SharedFS says of a file that it is known to have. `None`: it is to be found out here.
    pub(crate) fn ship_stat(&self, file: &OpenFile) -> Option<Result<InodeRecord, Error>> {
        let shipper = self.way_for(file.inode_ref())?;
        match shipper.record(&self.shipped_file(file)) {
            Err(Error::Shipped(_)) => None,
            record => Some(record),
        }
    }

    /// In the daemon: opens the file that an operation was sent about.
    pub fn perform<T>(
        &self,
        file: &ShippedFile,
        operation: impl FnOnce(&Arc<OpenFile>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let open = self.reopen_for(file)?;
        let answer = operation(&open);
        self.close(open)?;
        answer
    }

    /// In the daemon: writes what was sent.
    pub fn perform_write(
        &self,
        file: &ShippedFile,
        data: &[UserSlice<'_>],
        at: Option<u64>,
    ) -> Result<(usize, u64), Error> {
        self.perform(file, |open| {
            let written = self.write_within(open, data, at, file.limit.min(self.file_limit()))?;
            self.sync_if_asked(open)?;
            Ok(written)
        })
    }

    /// In the daemon: reads what was asked for.
    pub fn perform_read(
        &self,
        file: &ShippedFile,
        out: &mut [UserSliceMut<'_>],
        at: u64,
    ) -> Result<usize, Error> {
        self.perform(file, |open| self.read_at(open, out, at))
    }

    /// In the daemon: makes a change that was sent, by the sender's credentials.
    pub fn perform_change(
        &self,
        credentials: &Credentials,
        file: &ShippedFile,
        change: ShippedChange,
    ) -> Result<(), Error> {
        self.perform(file, |open| {
            let grown = match change {
                ShippedChange::Truncate { size } => u64::try_from(size).ok(),
                ShippedChange::Allocate { offset, length, .. } => {
                    offset.checked_add(length).and_then(|end| u64::try_from(end).ok())
                }
                ShippedChange::Sync | ShippedChange::SetAttributes { .. } => None,
            };
            if grown.is_some_and(|size| size > file.limit) && grown > Some(self.stat_open(open)?.record.size)
            {
                return Err(Error::OverLimit);
            }
            match change {
                ShippedChange::Truncate { size } => self.truncate_open(open, size),
                ShippedChange::Allocate { what, offset, length } => self.allocate(open, what, offset, length),
                ShippedChange::Sync => self.fsync(open),
                ShippedChange::SetAttributes { set } => {
                    self.set_attributes(credentials, Target::File(open), set)
                }
            }
        })
    }

    /// In the daemon: what the inode is like.
    pub fn perform_stat(&self, file: &ShippedFile) -> Result<Stat, Error> {
        self.perform(file, |open| self.stat_open(open))
    }
}
