//! `RENAME_WHITEOUT`: a rename that leaves a whiteout, a character device 0:0, at the old name. A union file
//! system whose upper directory is here marks deleted files of lower directories so.
//!
//! No single log entry does both, so the call logs several, in an order in which a crash loses nothing.
//! Recovery takes a prefix of them:
//!
//! | the new name | first | then | a crash between them leaves |
//! |---|---|---|---|
//! | is not there | the whiteout is made under it | both names change places | both, each under the other's name: nothing was renamed |
//! | is there | the whiteout is made under a name of its own | the rename, and the whiteout takes the old name | the whiteout under its own name |
//!
//! On a mount, the kernel has both directories locked meanwhile. Programs at the other door can see the steps
//! between.

use crate::calls::names::rename_flags::RenameFlags;
use crate::client::client::Client;
use crate::errno::Error;
use crate::paths::credentials::Credentials;
use crate::paths::path::Base;
use cuesta_format::InodeRecord;

/// The mode of a whiteout: no user may open it.
const MODE: u32 = libc::S_IFCHR;

/// The prefix of a whiteout's temporary name.
const PREFIX: &[u8] = b".cuesta-whiteout-";

impl Client {
    /// `renameat2` with `RENAME_WHITEOUT`.
    pub fn rename_leaving_whiteout(
        &self,
        credentials: &Credentials,
        old: (Base<'_>, &[u8]),
        new: (Base<'_>, &[u8]),
        no_replace: bool,
    ) -> Result<(), Error> {
        let moved = self.stat(credentials, old.0, old.1, false)?.record;
        match self.stat(credentials, new.0, new.1, false) {
            Ok(_) if no_replace => return Err(Error::Exists),
            // Both names stand for one inode: nothing happens.
            Ok(found) if found.record.inode == moved.inode => return Ok(()),
            Ok(_) => return self.replace_leaving_whiteout(credentials, old, new),
            Err(Error::NotFound) => {}
            Err(error) => return Err(error),
        }
        match self.make_whiteout(credentials, new) {
            Ok(_) => {}
            Err(Error::Exists) if !no_replace => {
                return self.replace_leaving_whiteout(credentials, old, new);
            }
            Err(error) => return Err(error),
        }
        let exchange = RenameFlags { exchange: true, ..RenameFlags::default() };
        let done = self.rename(credentials, old, new, exchange);
        self.unmake_whiteout_unless(done, credentials, new)
    }

    fn replace_leaving_whiteout(
        &self,
        credentials: &Credentials,
        old: (Base<'_>, &[u8]),
        new: (Base<'_>, &[u8]),
    ) -> Result<(), Error> {
        let slash = old.1.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
        let name = |number: u64| [&old.1[..slash], PREFIX, number.to_string().as_bytes()].concat();
        // A whiteout that a crash left still has its temporary name.
        let made = (0..).map(name).find_map(|path| match self.make_whiteout(credentials, (old.0, &path)) {
            Ok(_) => Some(Ok(path)),
            Err(Error::Exists) => None,
            Err(error) => Some(Err(error)),
        });
        let path = made.ok_or(Error::NoSpace)??;
        let done = self.rename(credentials, old, new, RenameFlags::default());
        self.unmake_whiteout_unless(done, credentials, (old.0, &path))?;
        // If the old name exists again, another process made it, and it stays.
        let no_replace = RenameFlags { no_replace: true, ..RenameFlags::default() };
        let left = self.rename(credentials, (old.0, &path), old, no_replace);
        self.unmake_whiteout_unless(left, credentials, (old.0, &path))
    }

    /// A process that may make a name may make a whiteout.
    fn make_whiteout(
        &self,
        credentials: &Credentials,
        (base, path): (Base<'_>, &[u8]),
    ) -> Result<InodeRecord, Error> {
        self.make_node(credentials, base, path, MODE, 0)
    }

    fn unmake_whiteout_unless(
        &self,
        done: Result<(), Error>,
        credentials: &Credentials,
        (base, path): (Base<'_>, &[u8]),
    ) -> Result<(), Error> {
        if done.is_err() {
            // The call has failed already, and the whiteout does no harm.
            let _ = self.unlink(credentials, base, path);
        }
        done
    }
}
