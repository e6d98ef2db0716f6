//! The offset and the status flags of an open file, wherever they are kept.

use crate::process;
use crate::store::{Client, OpenFile};
use cuesta_libfs::Whence;
use cuesta_served::READ_BYTES_MAX;

impl OpenFile {
    /// `fcntl(F_SETFL)`.
    pub fn set_flags(&self, flags: i32) {
        match self {
            OpenFile::Own(file) => file.set_flags(flags),
            OpenFile::Served(served) => {
                if let Some(Client::Served(client)) = process::attached() {
                    // An error shows with the next call.
                    let _ = client.set_flags(&served.file, flags);
                }
            }
        }
    }

    /// Where the next read or write starts.
    pub fn offset(&self) -> u64 {
        match self {
            OpenFile::Own(file) => file.offset(),
            OpenFile::Served(served) => match process::attached() {
                Some(Client::Served(client)) => {
                    client.seek(&served.file, 0, Whence::Current).unwrap_or_default()
                }
                _ => 0,
            },
        }
    }

    /// Where the next read or write of `length` bytes starts, for the check that it ends before the last offset. SharedFS
    /// checks a call itself that it gets whole, so here any offset does.
    #[inline]
    pub fn offset_to_check(&self, length: usize) -> u64 {
        match self {
            OpenFile::Served(_) if length <= READ_BYTES_MAX => 0,
            _ => self.offset(),
        }
    }
}
