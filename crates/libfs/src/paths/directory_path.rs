//! The path of a directory: the names that lead to it from the root, as they are now.
//!
//! A directory knows its parent, but not its own name there, so the parent's names must be searched. A caller
//! that asks often has a guess, from when it entered the directory. If the guess still leads there, nothing
//! is searched.

use crate::cache::inode::Inode;
use crate::client::client::Client;
use crate::client::halt::Halt;
use crate::errno::Error;
use crate::open_files::open_file::OpenFile;
use crate::paths::credentials::Credentials;
use crate::sync::Arc;
use cuesta_format::{FileKind, InodeNumber};

impl Client {
    /// The path of an open directory, with a slash before each name; empty for the root. The path has no
    /// symbolic links. It is found regardless of permissions.
    pub fn directory_path(&self, file: &OpenFile, guess: &[u8]) -> Result<Vec<u8>, Error> {
        let anybody = Credentials::of_user(0, 0, Vec::new());
        self.operate(|_attempt| {
            if self.leads_to(&anybody, guess, file.inode_ref())? {
                return Ok(guess.to_vec());
            }
            self.ascend(file.inode_ref())
        })
    }

    /// Whether plain names lead to the directory.
    fn leads_to(&self, anybody: &Credentials, path: &[u8], directory: &Inode) -> Result<bool, Halt> {
        let mut here = self.cache.get_or_insert(InodeNumber::ROOT);
        let Some(names) = path.strip_prefix(b"/") else {
            return Ok(path.is_empty() && here.number == directory.number);
        };
        for name in names.split(|&byte| byte == b'/') {
            match self.look_up(anybody, &here, name) {
                Ok(Some((inode, FileKind::Directory))) if !name.is_empty() => here = inode,
                Ok(_) | Err(Halt::Failed(Error::NotFound | Error::NotDirectory | Error::NameTooLong)) => {
                    return Ok(false);
                }
                Err(halt) => return Err(halt),
            }
        }
        Ok(here.number == directory.number)
    }

    fn ascend(&self, directory: &Arc<Inode>) -> Result<Vec<u8>, Halt> {
        let mut path = Vec::new();
        let mut here = Arc::clone(directory);
        while here.number != InodeNumber::ROOT {
            let state = self.reading(&here)?;
            if state.is_unlinked() || state.released {
                return Err(Error::NotFound.into());
            }
            let above = self.directory_above(&state)?;
            drop(state);
            // If the directory was moved meanwhile, the next attempt searches again.
            let listing = self.list(&above, libc::O_NOATIME)?;
            let name = listing.name_of(here.number).ok_or(Halt::Again)?;
            path.splice(0..0, [b"/", name].concat());
            here = above;
        }
        Ok(path)
    }
}
