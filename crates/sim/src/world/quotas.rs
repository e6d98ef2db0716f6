//! Quotas of directories: setting them, and whether they hold what they should.

use super::World;
use cuesta_format::quota::{Amounts, Limited, Limits};
use cuesta_format::wire::{Request, Response};
use cuesta_format::{FileKind, InodeNumber, SessionId};

impl World {
    /// Sets limits on a directory, or takes them away.
    pub fn set_quota(&self, directory: &str, limits: Option<Amounts>) -> Result<(), String> {
        let limits = limits.map(Limits::hard);
        let request = Request::SetQuota { of: Limited::Directory(directory.into()), limits };
        match self.daemon.current().handle(SessionId::NOBODY, &request, &mut Vec::new()) {
            Response::Done => Ok(()),
            other => Err(format!("quota of {directory}: {other:?}")),
        }
    }

    /// Everything counts for the quota of the nearest directory around it that has one, or for none.
    pub fn quotas_hold_all(&self) -> Result<(), String> {
        let shared = self.daemon.current();
        let failed = |error: cuesta_sharedfs::Error| error.to_string();
        let mut directories = vec![(InodeNumber::ROOT, InodeNumber::NONE)];
        while let Some((directory, around)) = directories.pop() {
            let record = shared.inode_record(directory).map_err(failed)?.ok_or("a directory is missing")?;
            let tree = if record.tree == directory { directory } else { around };
            if record.tree != tree {
                return Err(format!("directory {directory} counts for {}, not {tree}", record.tree));
            }
            for entry in shared.read_directory(directory).map_err(failed)? {
                let inode = entry.dirent.inode;
                if entry.dirent.kind == FileKind::Directory {
                    directories.push((inode, tree));
                    continue;
                }
                let record = shared.inode_record(inode).map_err(failed)?.ok_or("an inode is missing")?;
                if record.tree != tree && record.links == 1 {
                    return Err(format!("inode {inode} counts for {}, not {tree}", record.tree));
                }
            }
        }
        Ok(())
    }
}
