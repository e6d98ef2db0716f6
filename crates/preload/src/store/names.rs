//! Calls on paths, and on what they name.

use cuesta_format::InodeNumber;
use cuesta_format::wire::StoreTotals;
use cuesta_libfs::{Credentials, Error, ExtendedFlags, NewMode, RenameFlags, SetAttributes, Stat};

use super::targets::{at, unconfined};
use super::{Base, Client, LinkSource, OpenFile, Target};

impl Client {
    /// `truncate`.
    pub fn truncate(
        &self,
        credentials: &Credentials,
        base: Base<'_>,
        path: &[u8],
        size: i64,
    ) -> Result<(), Error> {
        match self {
            Client::Own(client) => client.truncate(credentials, base.own()?, path, size),
            Client::Served(client) => {
                unconfined(credentials)?;
                client.truncate(at(base, path, true)?, size)
            }
        }
    }

    /// `stat`.
    #[inline]
    pub fn stat(
        &self,
        credentials: &Credentials,
        base: Base<'_>,
        path: &[u8],
        follow: bool,
    ) -> Result<Stat, Error> {
        match self {
            Client::Own(client) => client.stat(credentials, base.own()?, path, follow),
            Client::Served(client) => client.stat(at(base, path, follow)?).map(|record| Stat { record }),
        }
    }

    /// `statfs`.
    pub fn statfs(
        &self,
        credentials: &Credentials,
        base: Base<'_>,
        path: &[u8],
        follow: bool,
    ) -> Result<StoreTotals, Error> {
        match self {
            Client::Own(client) => {
                client.statfs_in(client.stat(credentials, base.own()?, path, follow)?.record.tree)
            }
            Client::Served(client) => client.statfs(at(base, path, follow)?),
        }
    }

    /// `access`.
    pub fn access(
        &self,
        credentials: &Credentials,
        base: Base<'_>,
        path: &[u8],
        rights: u32,
        follow: bool,
    ) -> Result<(), Error> {
        match self {
            Client::Own(client) => client.access(credentials, base.own()?, path, rights, follow),
            Client::Served(client) => client.access(at(base, path, follow)?, rights),
        }
    }

    /// Whether what the program has forbidden itself leaves it to execute what a path names.
    pub fn check_may_execute(
        &self,
        credentials: &Credentials,
        base: Base<'_>,
        path: &[u8],
        follow: bool,
    ) -> Result<(), Error> {
        match self {
            Client::Own(client) => client.check_may_execute(credentials, base.own()?, path, follow),
            Client::Served(_) => unconfined(credentials),
        }
    }

    /// `readlink`.
    pub fn read_link(
        &self,
        credentials: &Credentials,
        base: Base<'_>,
        path: &[u8],
    ) -> Result<Vec<u8>, Error> {
        match self {
            Client::Own(client) => client.read_link(credentials, base.own()?, path),
            Client::Served(client) => client.read_link(at(base, path, false)?),
        }
    }

    /// `chmod`, `chown` and `utimensat` in one.
    pub fn set_attributes(
        &self,
        credentials: &Credentials,
        target: Target<'_>,
        set: SetAttributes,
    ) -> Result<(), Error> {
        match self {
            Client::Own(client) => client.set_attributes(credentials, target.own()?, set),
            Client::Served(client) => {
                if let Target::File(file) = target {
                    file.check_not_path()?;
                }
                client.set_attributes(target.subject()?, set)
            }
        }
    }

    /// The same of what an open file is of, be it one for paths only.
    pub fn set_attributes_behind(
        &self,
        credentials: &Credentials,
        file: &OpenFile,
        set: SetAttributes,
    ) -> Result<(), Error> {
        match self {
            Client::Own(client) if file.check_not_path().is_err() => {
                let file = client.reopen(credentials, file.inode(), libc::O_RDONLY, 0)?;
                let target = cuesta_libfs::Target::File(&file);
                let answer = client.set_attributes(credentials, target, set);
                client.close(file)?;
                answer
            }
            Client::Own(_) => self.set_attributes(credentials, Target::File(file), set),
            Client::Served(client) => client.set_attributes(Target::File(file).subject()?, set),
        }
    }

    /// `mkdir`.
    pub fn make_directory(
        &self,
        credentials: &Credentials,
        base: Base<'_>,
        path: &[u8],
        mode: NewMode,
    ) -> Result<(), Error> {
        match self {
            Client::Own(client) => client.make_directory(credentials, base.own()?, path, mode).map(drop),
            Client::Served(client) => {
                unconfined(credentials)?;
                client.make_directory(base.place()?, path, mode)
            }
        }
    }

    /// `mknod`.
    pub fn make_node(
        &self,
        credentials: &Credentials,
        base: Base<'_>,
        path: &[u8],
        mode: NewMode,
        device: u64,
    ) -> Result<InodeNumber, Error> {
        match self {
            Client::Own(client) => Ok(client.make_node(credentials, base.own()?, path, mode, device)?.inode),
            Client::Served(client) => {
                unconfined(credentials)?;
                client.make_node(base.place()?, path, mode, device)
            }
        }
    }

    /// `symlink`.
    pub fn symlink(
        &self,
        credentials: &Credentials,
        target: &[u8],
        base: Base<'_>,
        path: &[u8],
    ) -> Result<(), Error> {
        match self {
            Client::Own(client) => client.symlink(credentials, target, base.own()?, path).map(drop),
            Client::Served(client) => {
                unconfined(credentials)?;
                client.symlink(target, base.place()?, path)
            }
        }
    }

    /// `link`.
    pub fn link(
        &self,
        credentials: &Credentials,
        source: LinkSource<'_>,
        base: Base<'_>,
        path: &[u8],
    ) -> Result<(), Error> {
        match self {
            Client::Own(client) => {
                client.link(credentials, source.own_source()?, base.own()?, path).map(drop)
            }
            Client::Served(client) => {
                unconfined(credentials)?;
                client.link(source.subject()?, base.place()?, path)
            }
        }
    }

    /// `unlink`.
    pub fn unlink(&self, credentials: &Credentials, base: Base<'_>, path: &[u8]) -> Result<(), Error> {
        match self {
            Client::Own(client) => client.unlink(credentials, base.own()?, path),
            Client::Served(client) => {
                unconfined(credentials)?;
                client.unlink(base.place()?, path, false)
            }
        }
    }

    /// `rmdir`.
    pub fn remove_directory(
        &self,
        credentials: &Credentials,
        base: Base<'_>,
        path: &[u8],
    ) -> Result<(), Error> {
        match self {
            Client::Own(client) => client.remove_directory(credentials, base.own()?, path),
            Client::Served(client) => {
                unconfined(credentials)?;
                client.unlink(base.place()?, path, true)
            }
        }
    }

    /// `rename`.
    pub fn rename(
        &self,
        credentials: &Credentials,
        (old_base, old_path): (Base<'_>, &[u8]),
        (new_base, new_path): (Base<'_>, &[u8]),
        flags: RenameFlags,
    ) -> Result<(), Error> {
        match self {
            Client::Own(client) => {
                client.rename(credentials, (old_base.own()?, old_path), (new_base.own()?, new_path), flags)
            }
            Client::Served(client) => {
                unconfined(credentials)?;
                client.rename((old_base.place()?, old_path), (new_base.place()?, new_path), flags)
            }
        }
    }

    /// `getxattr`.
    pub fn get_extended(
        &self,
        credentials: &Credentials,
        target: Target<'_>,
        name: &[u8],
    ) -> Result<Vec<u8>, Error> {
        match self {
            Client::Own(client) => client.get_extended(credentials, target.own()?, name),
            Client::Served(client) => client.get_extended(target.subject()?, name),
        }
    }

    /// `listxattr`.
    pub fn list_extended(&self, credentials: &Credentials, target: Target<'_>) -> Result<Vec<u8>, Error> {
        match self {
            Client::Own(client) => client.list_extended(credentials, target.own()?),
            Client::Served(client) => client.list_extended(target.subject()?),
        }
    }

    /// `setxattr`.
    pub fn set_extended(
        &self,
        credentials: &Credentials,
        target: Target<'_>,
        name: &[u8],
        value: &[u8],
        flags: ExtendedFlags,
    ) -> Result<(), Error> {
        match self {
            Client::Own(client) => client.set_extended(credentials, target.own()?, name, value, flags),
            Client::Served(client) => client.set_extended(target.subject()?, name, value, flags),
        }
    }

    /// `removexattr`.
    pub fn remove_extended(
        &self,
        credentials: &Credentials,
        target: Target<'_>,
        name: &[u8],
    ) -> Result<(), Error> {
        match self {
            Client::Own(client) => client.remove_extended(credentials, target.own()?, name),
            Client::Served(client) => client.remove_extended(target.subject()?, name),
        }
    }
}
