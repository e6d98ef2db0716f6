//! `stat` and its like: the attributes of an inode, from the cache.

use crate::cache::inode::{Content, Inode, next_fill};
use crate::cache::version::Version;
use crate::calls::attributes::values::Stat;
use crate::client::client::Client;
use crate::client::halt::Halt;
use crate::errno::Error;
use crate::open_files::open_file::OpenFile;
use crate::paths::credentials::Credentials;
use crate::paths::path::Base;
use cuesta_format::InodeRecord;

impl Client {
    /// `stat`, or `lstat` without `follow`.
    pub fn stat(
        &self,
        credentials: &Credentials,
        base: Base<'_>,
        path: &[u8],
        follow: bool,
    ) -> Result<Stat, Error> {
        self.operate(|_attempt| Ok(Stat { record: self.record_at_path(credentials, base, path, follow)? }))
    }

    /// `fstat`.
    pub fn stat_open(&self, file: &OpenFile) -> Result<Stat, Error> {
        if let Some(shipped) = self.ship_stat(file) {
            return Ok(Stat { record: shipped? });
        }
        self.operate(|_attempt| Ok(Stat { record: self.attributes_of(file.inode_ref())? }))
    }

    /// What `stat` answers for an inode. Call within an attempt.
    pub(crate) fn attributes_of(&self, inode: &Inode) -> Result<InodeRecord, Halt> {
        let state = self.reading(inode)?;
        let mut record = state.record;
        record.accessed = inode.accessed();
        if let Content::File(content) = &state.content {
            record.blocks = content.blocks(record.size, record.blocks);
        } else if let Some(mapped) = state.mapped() {
            record = self.mapped_record(mapped, &record)?;
        }
        Ok(record)
    }

    /// The present version of an open file's inode.
    pub fn version(&self, file: &OpenFile) -> Result<Version, Error> {
        self.operate(|_attempt| {
            let state = self.reading(file.inode_ref())?;
            // Stores through mappings change a file without notice.
            let filled = if state.mapped().is_some() { next_fill() } else { state.filled };
            Ok(Version { inode: file.inode(), filled, logged: state.logged })
        })
    }
}
