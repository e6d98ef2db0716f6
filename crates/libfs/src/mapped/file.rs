//! A file in mapped mode, as the cache holds it: a pin that keeps it in the mode, and perhaps a descriptor.
//!
//! This is a leaf: `cache::inode` holds it as the content of an inode.

use crate::errno::Error;
use crate::mapped::kept_descriptors::{DescriptorInUse, KeptDescriptor};
use crate::sync::{Arc, AtomicU64, Mutex};
use cuesta_format::InodeNumber;
use cuesta_media::mapped_files::Pin;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;

/// The unit in which `stat` counts blocks.
pub(crate) const SECTOR_BYTES: u64 = 512;

/// A file that stays in mapped mode while this value lives.
#[derive(Debug)]
pub(crate) struct MappedFile {
    pub(super) inode: InodeNumber,
    _pin: Pin,
    pub(super) descriptor: Option<Arc<KeptDescriptor>>,
    /// Pages that the file may get before the session asks again whether there is room.
    pub(crate) allowance: AtomicU64,
    /// Held while an operation appends: from reading the end of the file until the append has moved it.
    pub(super) appending: Mutex<()>,
}

impl MappedFile {
    /// The file of `inode`, which `pin` keeps in the mode.
    pub(super) fn new(inode: InodeNumber, pin: Pin, descriptor: Option<Arc<KeptDescriptor>>) -> MappedFile {
        let (allowance, appending) = (AtomicU64::new(0), Mutex::new(()));
        MappedFile { inode, _pin: pin, descriptor, allowance, appending }
    }
}

pub(super) fn failed(errno: Errno) -> Error {
    match errno {
        Errno::NOSPC | Errno::NOMEM | Errno::DQUOT => Error::NoSpace,
        Errno::FBIG => Error::FileTooBig,
        Errno::INVAL => Error::Invalid,
        Errno::NXIO => Error::NoData,
        Errno::ACCESS | Errno::PERM => Error::Denied,
        Errno::MFILE | Errno::NFILE => Error::Descriptors,
        Errno::OPNOTSUPP => Error::Unsupported,
        errno => Error::Daemon(format!("a file in mapped mode: {errno}")),
    }
}

/// Repeats a call that a signal interrupted.
pub(crate) fn whole<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Error> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            answer => return answer.map_err(failed),
        }
    }
}

/// The kernel's file, for one call.
pub(crate) enum OpenMapped<'m> {
    Kept(DescriptorInUse<'m>),
    Now(OwnedFd),
}

impl AsFd for OpenMapped<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            OpenMapped::Kept(file) => file.as_fd(),
            OpenMapped::Now(file) => file.as_fd(),
        }
    }
}
