//! Checking a call against the Landlock rulesets of its program: the walk up from an inode to the root, and
//! the checks.
//!
//! The kernel cannot see the paths inside the store, so LibFS walks them here. The rules themselves are in
//! [`crate::paths::confinement`]. The checks come in the kernel's order: behind the lookup, and before the
//! mode bits of the directory where a name is made or removed.

use crate::cache::inode::Inode;
use crate::client::client::Client;
use crate::client::halt::Halt;
use crate::errno::Error;
use crate::paths::confinement::{InodeAndKind, Rights};
use crate::paths::credentials::Credentials;
use crate::paths::path::{Base, Follow, LastName, Resolved};
use cuesta_format::InodeNumber;
use std::sync::Arc;

/// A rename, or a new link.
pub(crate) struct Refer<'a> {
    /// The directory of the old name; `None` for a file that was opened without a path.
    pub(crate) from: Option<&'a Arc<Inode>>,
    /// The inode that gets the new name.
    pub(crate) inode: InodeAndKind,
    /// The directory of the new name.
    pub(crate) to: &'a Arc<Inode>,
    /// The inode that has the new name already.
    pub(crate) replaced: Option<InodeAndKind>,
    /// The old name goes: it is a rename.
    pub(crate) moves: bool,
    /// The inode at the new name gets the old name.
    pub(crate) exchanges: bool,
}

impl Client {
    /// The directory and its ancestors up to the root. For a removed directory, those that still exist.
    fn ancestors(&self, directory: &Arc<Inode>) -> Result<Vec<InodeNumber>, Halt> {
        let mut ancestors = vec![directory.number];
        let mut at = Arc::clone(directory);
        while at.number != InodeNumber::ROOT {
            let state = self.reading(&at)?;
            let above = match self.directory_above(&state) {
                Ok(above) => above,
                Err(Error::NotFound) => break,
                Err(error) => return Err(error.into()),
            };
            drop(state);
            if ancestors.contains(&above.number) {
                // Only a damaged directory is its own ancestor. Nothing above it allows anything.
                break;
            }
            ancestors.push(above.number);
            at = above;
        }
        Ok(ancestors)
    }

    /// Checks that the program's rulesets allow `wanted` at the inode where a path led.
    pub(crate) fn check_confined(
        &self,
        credentials: &Credentials,
        found: &Resolved,
        wanted: Rights,
    ) -> Result<(), Halt> {
        let Some(confinement) = credentials.confinement.as_deref() else { return Ok(()) };
        let (Some((inode, _)), LastName::Name(_)) = (&found.inode, &found.last) else {
            let directory = found.inode.as_ref().map_or(&found.parent, |(inode, _)| inode);
            return self.check_confined_in(credentials, directory, wanted);
        };
        let mut ancestors = vec![inode.number];
        ancestors.extend(self.ancestors(&found.parent)?);
        if confinement.allow(&confinement.allowed(&ancestors), wanted) {
            Ok(())
        } else {
            Err(Error::Denied.into())
        }
    }

    /// Like [`Client::check_confined`], for a directory.
    pub(crate) fn check_confined_in(
        &self,
        credentials: &Credentials,
        directory: &Arc<Inode>,
        wanted: Rights,
    ) -> Result<(), Halt> {
        let Some(confinement) = credentials.confinement.as_deref() else { return Ok(()) };
        let allowed = confinement.allowed(&self.ancestors(directory)?);
        if confinement.allow(&allowed, wanted) { Ok(()) } else { Err(Error::Denied.into()) }
    }

    /// Whether the program's rulesets allow truncating the file where a path led.
    pub(crate) fn may_truncate_confined(
        &self,
        credentials: &Credentials,
        found: &Resolved,
    ) -> Result<bool, Halt> {
        match self.check_confined(credentials, found, Rights::TRUNCATE) {
            Err(Halt::Failed(Error::Denied)) => Ok(false),
            checked => checked.map(|()| true),
        }
    }

    /// Checks that the program's rulesets allow the rename or link.
    pub(crate) fn check_may_refer(&self, credentials: &Credentials, refer: &Refer<'_>) -> Result<(), Halt> {
        let Some(confinement) = credentials.confinement.as_deref() else { return Ok(()) };
        let (inode, kind) = refer.inode;
        let mut at_old = Rights::NONE;
        let mut at_new = Rights::to_make(kind);
        if let Some((_, replaced)) = refer.replaced {
            at_new = at_new | if refer.moves { Rights::to_remove(replaced) } else { Rights::NONE };
            at_old = at_old | if refer.exchanges { Rights::to_make(replaced) } else { Rights::NONE };
        }
        if refer.moves {
            at_old = at_old | Rights::to_remove(kind);
        }
        if refer.from.is_some_and(|from| from.number == refer.to.number) {
            return self.check_confined_in(credentials, refer.to, at_old | at_new);
        }
        let old = refer.from.map_or(Ok(Vec::new()), |from| self.ancestors(from))?;
        let (old, new) = (confinement.allowed(&old), confinement.allowed(&self.ancestors(refer.to)?));
        if !confinement.allow(&old, at_old) || !confinement.allow(&new, at_new) {
            return Err(Error::Denied.into());
        }
        let back = refer.replaced.filter(|_| refer.exchanges);
        let is_allowed = confinement.allow(&old, Rights::REFER)
            && confinement.allow(&new, Rights::REFER)
            && !confinement.gains(inode, kind, &old, &new)
            && !back.is_some_and(|(inode, kind)| confinement.gains(inode, kind, &new, &old));
        if is_allowed { Ok(()) } else { Err(Error::CrossDevice.into()) }
    }

    /// Checks that a program, confined as `credentials` say, may execute what a path names.
    pub fn check_may_execute(
        &self,
        credentials: &Credentials,
        base: Base<'_>,
        path: &[u8],
        follow: bool,
    ) -> Result<(), Error> {
        if credentials.confinement.is_none() {
            return Ok(());
        }
        let follow = if follow { Follow::Always } else { Follow::BeforeSlash };
        self.operate(|_attempt| {
            let found = self.walk(credentials, base, path, follow)?;
            self.check_confined(credentials, &found, Rights::EXECUTE | Rights::READ_FILE)
        })
    }
}
