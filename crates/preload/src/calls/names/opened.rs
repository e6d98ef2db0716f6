//! The result of an open.

use crate::store::OpenFile;
use cuesta_format::InodeNumber;

/// The result of an open, by what has to make the descriptor.
pub enum Opened {
    /// A file of the store, and its name.
    File(OpenFile, Vec<u8>),
    /// A named pipe, which the kernel opens, and its name.
    Pipe(InodeNumber, Vec<u8>),
    /// A device, which the kernel opens if the store is mounted, and its name.
    Device(InodeNumber, Vec<u8>),
}
