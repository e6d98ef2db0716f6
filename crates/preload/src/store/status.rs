//! The offset and the status flags of an open file, wherever they are kept.

use crate::process;
use crate::store::{Client, OpenFile};
use cuesta_libfs::Whence;

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
}
