//! Reads and writes that the kernel of a mount does in its own cache, noted in the session.
//!
//! LibFS does not see such reads and writes. The door tells it of them, so that times of last access move, and
//! privileges of a written file go.

use crate::client::client::Client;
use crate::errno::Error;
use crate::open_files::open_file::OpenFile;
use crate::paths::credentials::Credentials;
use crate::paths::path::Base;
use cuesta_format::{FileKind, InodeNumber, InodeRecord};
use cuesta_media::clock;

impl Client {
    /// Whether a read would move the time of last access.
    #[must_use]
    pub fn is_access_due(&self, record: &InodeRecord) -> bool {
        self.moves_access_time(record.accessed, record, clock::now())
    }

    /// Notes a read that this session's calls did not do, because the kernel's cache answered it.
    pub fn note_read(&self, file: &OpenFile) -> Result<(), Error> {
        let noted = self.operate(|_attempt| {
            let inode = file.inode_ref();
            let state = self.reading_or_ship(inode, self.can_ship())?;
            self.note_access(file.flags(), inode, &state);
            Ok(())
        });
        match noted {
            // The kernel keeps no content that SharedFS answered.
            Err(Error::Shipped(_)) => Ok(()),
            noted => noted,
        }
    }

    /// Takes away what a write by `credentials` takes away, without writing. Says whether anything was taken.
    pub fn take_rights_of(&self, credentials: &Credentials, number: InodeNumber) -> Result<bool, Error> {
        let found = self.operate(|_attempt| {
            let (inode, kind) = self.find(credentials, Base::Inode(number), b"", false)?;
            if kind != FileKind::File {
                return Ok(None);
            }
            let state = self.reading(&inode)?;
            let writer = credentials.writer(&state.record);
            let loses = state.loses_rights(writer);
            drop(state);
            Ok(loses.then_some((inode, writer)))
        })?;
        let Some((inode, writer)) = found else { return Ok(false) };
        self.take_rights(&inode, writer)?;
        Ok(true)
    }
}
