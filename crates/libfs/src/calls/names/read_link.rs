//! `readlink`.

use crate::cache::inode::{Content, Inode};
use crate::client::client::Client;
use crate::client::halt::Halt;
use crate::errno::Error;
use crate::open_files::open_file::OpenFile;
use crate::paths::credentials::Credentials;
use crate::paths::path::Base;

impl Client {
    /// `readlink`.
    pub fn read_link(
        &self,
        credentials: &Credentials,
        base: Base<'_>,
        path: &[u8],
    ) -> Result<Vec<u8>, Error> {
        self.operate(|_attempt| {
            let (inode, _) = self.find(credentials, base, path, false)?;
            self.read_target(&inode, Error::Invalid)
        })
    }

    /// Target of an open symbolic link (`readlinkat` with an empty path).
    pub fn read_link_open(&self, file: &OpenFile) -> Result<Vec<u8>, Error> {
        self.operate(|_attempt| self.read_target(file.inode_ref(), Error::NotFound))
    }

    fn read_target(&self, inode: &Inode, none: Error) -> Result<Vec<u8>, Halt> {
        let state = self.reading(inode)?;
        let Content::Symlink(target) = &state.content else { return Err(none.into()) };
        self.note_access(0, inode, &state);
        Ok(target.to_vec())
    }
}
