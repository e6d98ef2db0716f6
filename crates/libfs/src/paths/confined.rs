//! Checking a call against the Landlock rulesets of its program: the walk up from an inode to the root, and the checks.
//!
//! The kernel cannot see the paths inside the store, so LibFS walks them here. The rules themselves are in [`crate::paths::confinement`]. The
//! checks come in the kernel's order: behind the lookup, and before the mode bits of the directory where a name is made or removed.

use crate::cache::inode::Inode;
use crate::client::client::Client;
use crate::client::halt::Halt;
use crate::errno::Error;
use crate::paths::confinement::{InodeAndKind, Rights};
use crate::paths::credentials::Credentials;
use crate::paths::path::{Base, Follow, LastName, Resolved};
use cuesta_format::InodeNumber;
use std::sync::Arc;

/// A move or another name.
pub(crate) struct Refer<'a> {
    /// The directory it is named in; `None` if nobody knows by which name the file was opened.
    pub(crate) from: Option<&'a Arc<Inode>>,
    /// What it is.
    pub(crate) inode: InodeAndKind,
    /// The directory of the new name.
    pub(crate) to: &'a Arc<Inode>,
    /// What has the new name.
    pub(crate) replaced: Option<InodeAndKind>,
    /// The old name goes.
    pub(crate) moves: bool,
    /// What has the new name gets the old one.
    pub(crate) exchanges: bool,
}

impl Client {
    /// The directory and those above it, up to the root. Of one that was removed, as far as they are there.
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
                // Only a damaged directory lies in itself: nothing above it allows anything.
                break;
            }
            ancestors.push(above.number);
            at = above;
        }
        Ok(ancestors)
    }

    /// Checks that the program leaves itself `wanted` at what exists where a path led.
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

    /// As [`Client::check_confined`], of a directory.
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

    /// Whether the program leaves itself to cut the file that a path led to.
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

    /// Checks that the program leaves itself to give something another name.
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

    /// Checks that a program confined as `credentials` say may execute what a path names.
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
