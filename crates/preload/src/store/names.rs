//! Calls on paths, and on what they name.
//!
//! A call on names in a directory that SharedFS keeps for several sessions is sent to it ([`cuesta_libfs::Client::sending`]).

use cuesta_format::InodeNumber;
use cuesta_format::wire::StoreTotals;
use cuesta_libfs::{Credentials, Error, ExtendedFlags, NewMode, RenameFlags, SetAttributes, Stat};

use crate::store::targets::{at, unconfined};
use crate::store::{Base, Client, LinkSource, OpenFile, Target, shipping};

impl Client {
    /// Does a call on names by the session, or has SharedFS do it: for a process without a session, and where SharedFS keeps a directory.
    #[inline]
    pub(super) fn by_name<T>(
        &self,
        credentials: &Credentials,
        own: impl Fn(&cuesta_libfs::Client) -> Result<T, Error>,
        served: impl FnOnce(&cuesta_served::Client) -> Result<T, Error>,
    ) -> Result<T, Error> {
        match self {
            Client::Own(client) if credentials.is_plain => match client.sending(&own) {
                Err(Error::Shipped(_)) => match shipping::served_for(credentials) {
                    Some(connection) => served(connection),
                    None => own(client),
                },
                done => done,
            },
            Client::Own(client) => own(client),
            Client::Served(client) => served(client),
        }
    }

    /// `truncate`.
    pub fn truncate(
        &self,
        credentials: &Credentials,
        base: Base<'_>,
        path: &[u8],
        size: i64,
    ) -> Result<(), Error> {
        match self {
            // Never sent: what programs run is for the session to find out.
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
        self.by_name(
            credentials,
            |client| client.stat(credentials, base.own()?, path, follow),
            |client| client.stat(at(base, path, follow)?).map(|record| Stat { record }),
        )
    }

    /// `statfs`.
    pub fn statfs(
        &self,
        credentials: &Credentials,
        base: Base<'_>,
        path: &[u8],
        follow: bool,
    ) -> Result<StoreTotals, Error> {
        self.by_name(
            credentials,
            |client| client.statfs_in(client.stat(credentials, base.own()?, path, follow)?.record.tree),
            |client| client.statfs(at(base, path, follow)?),
        )
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
        self.by_name(
            credentials,
            |client| client.access(credentials, base.own()?, path, rights, follow),
            |client| client.access(at(base, path, follow)?, rights),
        )
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
        self.by_name(
            credentials,
            |client| client.read_link(credentials, base.own()?, path),
            |client| client.read_link(at(base, path, false)?),
        )
    }

    /// `chmod`, `chown` and `utimensat` in one.
    pub fn set_attributes(
        &self,
        credentials: &Credentials,
        target: Target<'_>,
        set: SetAttributes,
    ) -> Result<(), Error> {
        self.on_target(
            credentials,
            &target,
            |client| client.set_attributes(credentials, target.own()?, set),
            |client| {
                if let Target::File(file) = target {
                    file.check_not_path()?;
                }
                client.set_attributes(target.subject()?, set)
            },
        )
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
        self.by_name(
            credentials,
            |client| client.make_directory(credentials, base.own()?, path, mode).map(drop),
            |client| {
                unconfined(credentials)?;
                client.make_directory(base.place()?, path, mode)
            },
        )
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
        self.by_name(
            credentials,
            |client| Ok(client.make_node(credentials, base.own()?, path, mode, device)?.inode),
            |client| {
                unconfined(credentials)?;
                client.make_node(base.place()?, path, mode, device)
            },
        )
    }

    /// `symlink`.
    pub fn symlink(
        &self,
        credentials: &Credentials,
        target: &[u8],
        base: Base<'_>,
        path: &[u8],
    ) -> Result<(), Error> {
        self.by_name(
            credentials,
            |client| client.symlink(credentials, target, base.own()?, path).map(drop),
            |client| {
                unconfined(credentials)?;
                client.symlink(target, base.place()?, path)
            },
        )
    }

    /// `link`.
    pub fn link(
        &self,
        credentials: &Credentials,
        source: LinkSource<'_>,
        base: Base<'_>,
        path: &[u8],
    ) -> Result<(), Error> {
        match (self, source) {
            // An open file is not named by a path, and so not sent.
            (Client::Own(client), Target::File(_)) => {
                client.link(credentials, source.own_source()?, base.own()?, path).map(drop)
            }
            _ => self.by_name(
                credentials,
                |client| client.link(credentials, source.own_source()?, base.own()?, path).map(drop),
                |client| {
                    unconfined(credentials)?;
                    client.link(source.subject()?, base.place()?, path)
                },
            ),
        }
    }

    /// `unlink`.
    pub fn unlink(&self, credentials: &Credentials, base: Base<'_>, path: &[u8]) -> Result<(), Error> {
        self.by_name(
            credentials,
            |client| client.unlink(credentials, base.own()?, path),
            |client| {
                unconfined(credentials)?;
                client.unlink(base.place()?, path, false)
            },
        )
    }

    /// `rmdir`.
    pub fn remove_directory(
        &self,
        credentials: &Credentials,
        base: Base<'_>,
        path: &[u8],
    ) -> Result<(), Error> {
        self.by_name(
            credentials,
            |client| client.remove_directory(credentials, base.own()?, path),
            |client| {
                unconfined(credentials)?;
                client.unlink(base.place()?, path, true)
            },
        )
    }

    /// `rename`.
    pub fn rename(
        &self,
        credentials: &Credentials,
        (old_base, old_path): (Base<'_>, &[u8]),
        (new_base, new_path): (Base<'_>, &[u8]),
        flags: RenameFlags,
    ) -> Result<(), Error> {
        self.by_name(
            credentials,
            |client| {
                client.rename(credentials, (old_base.own()?, old_path), (new_base.own()?, new_path), flags)
            },
            |client| {
                unconfined(credentials)?;
                client.rename((old_base.place()?, old_path), (new_base.place()?, new_path), flags)
            },
        )
    }

    /// `getxattr`.
    pub fn get_extended(
        &self,
        credentials: &Credentials,
        target: Target<'_>,
        name: &[u8],
    ) -> Result<Vec<u8>, Error> {
        self.on_target(
            credentials,
            &target,
            |client| client.get_extended(credentials, target.own()?, name),
            |client| client.get_extended(target.subject()?, name),
        )
    }

    /// `listxattr`.
    pub fn list_extended(&self, credentials: &Credentials, target: Target<'_>) -> Result<Vec<u8>, Error> {
        self.on_target(
            credentials,
            &target,
            |client| client.list_extended(credentials, target.own()?),
            |client| client.list_extended(target.subject()?),
        )
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
        self.on_target(
            credentials,
            &target,
            |client| client.set_extended(credentials, target.own()?, name, value, flags),
            |client| client.set_extended(target.subject()?, name, value, flags),
        )
    }

    /// `removexattr`.
    pub fn remove_extended(
        &self,
        credentials: &Credentials,
        target: Target<'_>,
        name: &[u8],
    ) -> Result<(), Error> {
        self.on_target(
            credentials,
            &target,
            |client| client.remove_extended(credentials, target.own()?, name),
            |client| client.remove_extended(target.subject()?, name),
        )
    }

    /// Does a call on the file that a path names, or on an open file, by the server that has it.
    fn on_target<T>(
        &self,
        credentials: &Credentials,
        target: &Target<'_>,
        own: impl Fn(&cuesta_libfs::Client) -> Result<T, Error>,
        served: impl FnOnce(&cuesta_served::Client) -> Result<T, Error>,
    ) -> Result<T, Error> {
        match (self, target) {
            (Client::Own(client), Target::File(_)) => own(client),
            _ => self.by_name(credentials, own, served),
        }
    }
}
