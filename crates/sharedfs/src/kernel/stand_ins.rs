//! Stand-ins: the kernel's pipes and sockets for those of the store.
//!
//! Only the kernel joins the two ends of a pipe, or of a socket. So each such inode that is used has a stand-in: a
//! pipe or socket of the kernel's in a folder of the fast tier, named by the inode's number. Doors make stand-ins
//! when they need them; they are taken away with their inodes, here, or when the store is next opened. So are the
//! marks doors leave there for programs that run.

use crate::Error;
use crate::metadata::MetadataStore;
use cuesta_format::geometry::STAND_INS_FOLDER;
use cuesta_format::{FileKind, InodeNumber, InodeRecord};
use std::path::{Path, PathBuf};

/// The folder.
#[derive(Debug)]
pub(crate) struct StandIns {
    folder: PathBuf,
    /// How doors, in other processes, name it.
    named: PathBuf,
}

impl StandIns {
    /// Those of the store in `tier`, which other processes find at `named`.
    pub(crate) fn open(tier: &Path, named: &Path) -> Result<StandIns, Error> {
        let absolute = |path| std::path::absolute(path).map_err(Error::io("name a folder"));
        let (folder, named) =
            (absolute(tier)?.join(STAND_INS_FOLDER), absolute(named)?.join(STAND_INS_FOLDER));
        std::fs::create_dir_all(&folder).map_err(Error::io("create a folder"))?;
        Ok(StandIns { folder, named })
    }

    /// Takes away stand-ins that a killed daemon left. Call when nothing is in the logs any more.
    pub(crate) fn sweep(&self, metadata: &MetadataStore) -> Result<(), Error> {
        let snapshot = metadata.read()?;
        for entry in std::fs::read_dir(&self.folder).map_err(Error::io("list a folder"))? {
            let entry = entry.map_err(Error::io("list a folder"))?;
            let number = entry.file_name().to_str().and_then(|name| name.parse().ok()).map(InodeNumber);
            if number.map_or(Ok(None), |number| snapshot.inode(number))?.is_none() {
                std::fs::remove_file(entry.path()).map_err(Error::io("remove a stand-in"))?;
            }
        }
        Ok(())
    }

    /// Where doors find them.
    pub(crate) fn named(&self) -> &Path {
        &self.named
    }

    /// The inode is gone.
    pub(crate) fn forget(&self, record: &InodeRecord) {
        let is_program = record.kind() == FileKind::File && record.mode & 0o111 != 0;
        if is_program || matches!(record.kind(), FileKind::Fifo | FileKind::Socket) {
            // Most have none. One that stays harms nothing: its number is never used again.
            let _ = std::fs::remove_file(self.folder.join(record.inode.0.to_string()));
        }
    }
}
