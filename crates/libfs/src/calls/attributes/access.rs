//! `access` and `faccessat`.

use crate::client::client::Client;
use crate::errno::Error;
use crate::open_files::open_file::OpenFile;
use crate::paths::credentials::Credentials;
use crate::paths::path::Base;

impl Client {
    /// `access`: whether the credentials have `rights` (bits of `R_OK`, `W_OK`, `X_OK`).
    pub fn access(
        &self,
        credentials: &Credentials,
        base: Base<'_>,
        path: &[u8],
        rights: u32,
        follow: bool,
    ) -> Result<(), Error> {
        if rights & !7 != 0 {
            return Err(Error::Invalid);
        }
        self.operate(|_attempt| {
            let record = self.record_at_path(credentials, base, path, follow)?;
            if record.access_list {
                let (inode, _) = self.find(credentials, base, path, follow)?;
                return self.reading(&inode)?.check(credentials, rights);
            }
            Ok(credentials.check_mode(&record, rights)?)
        })
    }

    /// Whether the credentials have `rights` (bits of `R_OK`, `W_OK`, `X_OK`) to an open file's inode.
    pub fn access_open(&self, credentials: &Credentials, file: &OpenFile, rights: u32) -> Result<(), Error> {
        self.operate(|_attempt| self.reading(file.inode_ref())?.check(credentials, rights))
    }
}
