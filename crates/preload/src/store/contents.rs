//! Opening files, and calls on those that are open.

use std::os::fd::AsFd as _;
use std::sync::Arc;

use cuesta_format::wire::StoreTotals;
use cuesta_format::{InodeNumber, InodeRecord};
use cuesta_libfs::{Allocation, Credentials, DirectoryItem, Error, NewMode, Resolve, Stat, Whence};
use cuesta_media::{UserSlice, UserSliceMut};
use rustix::fd::OwnedFd;

use super::open_files::ServedFile;
use super::targets::unconfined;
use super::{Base, Client, OpenFile, Side, Target, Token, Version, stranger};
use crate::{process, trial};

impl Client {
    /// `open`.
    #[inline]
    pub fn open(
        &self,
        credentials: &Credentials,
        base: Base<'_>,
        path: &[u8],
        flags: i32,
        mode: impl Into<NewMode>,
    ) -> Result<OpenFile, Error> {
        self.open_within(credentials, base, path, flags, mode, Resolve::default())
    }

    /// `open` through what `resolve` leaves.
    #[inline]
    pub fn open_within(
        &self,
        credentials: &Credentials,
        base: Base<'_>,
        path: &[u8],
        flags: i32,
        mode: impl Into<NewMode>,
        resolve: Resolve,
    ) -> Result<OpenFile, Error> {
        let mode = mode.into();
        let opened = self.by_name(
            credentials,
            |client| {
                client.open_within(credentials, base.own()?, path, flags, mode, resolve).map(OpenFile::Own)
            },
            |client| {
                if flags & libc::O_PATH == 0 {
                    unconfined(credentials)?;
                }
                trial::spend(trial::COST_OF_OPEN);
                let (file, token) = client.open(base.place()?, path, flags, mode, resolve)?;
                Ok(OpenFile::served(token, file))
            },
        );
        match (opened, self) {
            // A named pipe, which only a session comes by.
            (Err(Error::Unsupported), Client::Served(_)) if trial::is_on() => {
                let client = process::session().map_err(|_| Error::Unsupported)?;
                client.open_within(credentials, base, path, flags, mode, resolve)
            }
            (Err(Error::Unsupported), Client::Own(client)) => {
                client.open_within(credentials, base.own()?, path, flags, mode, resolve).map(OpenFile::Own)
            }
            (opened, _) => opened,
        }
    }

    /// Opens an inode this process has open already, for a purpose of its own.
    pub fn reopen(&self, credentials: &Credentials, open: &OpenFile, flags: i32) -> Result<OpenFile, Error> {
        match self {
            Client::Own(client) => client.reopen(credentials, open.inode(), flags, 0).map(OpenFile::Own),
            Client::Served(client) => {
                trial::spend(trial::COST_OF_OPEN);
                let (file, token) = client.reopen(open.with_shared_fs()?, flags)?;
                Ok(OpenFile::served(token, file))
            }
        }
    }

    /// Opens an inode by its number, which only the process's own session may.
    pub fn reopen_number(
        &self,
        credentials: &Credentials,
        inode: InodeNumber,
        flags: i32,
        offset: u64,
    ) -> Result<OpenFile, Error> {
        match self {
            Client::Own(client) => client.reopen(credentials, inode, flags, offset).map(OpenFile::Own),
            Client::Served(_) => Err(Error::Denied),
        }
    }

    /// The file a token stands for, kept open by a token of its own.
    pub fn redeem(&self, token: &Token) -> Result<OpenFile, Error> {
        let token = token.copy()?;
        let file = self.with_shared_fs()?.redeem(token.as_fd())?;
        Ok(OpenFile::known(file, token))
    }

    /// Closes a file, unless it is in use elsewhere.
    pub fn close(&self, file: OpenFile) -> Result<(), Error> {
        match (self, file) {
            (Client::Own(client), OpenFile::Own(file)) => client.close(file),
            (_, OpenFile::Served(file)) => match (Arc::into_inner(file), self) {
                (Some(ServedFile { file, token, .. }), Client::Served(client)) => {
                    drop(token);
                    client.close(&file)
                }
                // SharedFS sees that the token is gone.
                _ => Ok(()),
            },
            (_, OpenFile::Own(file)) => {
                // It belongs to a session that is over.
                std::mem::forget(file);
                Ok(())
            }
        }
    }

    /// Reads at the file's offset.
    #[inline]
    pub fn read(&self, file: &OpenFile, out: &mut [UserSliceMut<'_>]) -> Result<usize, Error> {
        match self.side(file)? {
            Side::Own(client, file) => client.read(file, out),
            Side::Served(client, file) => {
                client.read(file, out, None).inspect(|bytes| trial::note_bytes(*bytes))
            }
        }
    }

    /// Reads at `offset`.
    #[inline]
    pub fn pread(&self, file: &OpenFile, out: &mut [UserSliceMut<'_>], offset: i64) -> Result<usize, Error> {
        match self.side(file)? {
            Side::Own(client, file) => client.pread(file, out, offset),
            Side::Served(client, file) => {
                client.read(file, out, Some(offset)).inspect(|bytes| trial::note_bytes(*bytes))
            }
        }
    }

    /// Writes at the file's offset, or its end.
    #[inline]
    pub fn write(&self, file: &OpenFile, data: &[UserSlice<'_>]) -> Result<usize, Error> {
        let appends = file.appends();
        match self.side(file)? {
            Side::Own(client, file) => client.write(file, data),
            Side::Served(client, file) => {
                client.write(file, data, None, appends).inspect(|bytes| trial::note_bytes(*bytes))
            }
        }
    }

    /// Writes at `offset`, or at the end.
    #[inline]
    pub fn pwrite(&self, file: &OpenFile, data: &[UserSlice<'_>], offset: i64) -> Result<usize, Error> {
        self.write_appending(file, data, Some(offset), file.appends())
    }

    /// As LibFS.
    #[inline]
    pub fn write_appending(
        &self,
        file: &OpenFile,
        data: &[UserSlice<'_>],
        offset: Option<i64>,
        appends: bool,
    ) -> Result<usize, Error> {
        match self.side(file)? {
            Side::Own(client, file) => client.write_appending(file, data, offset, appends),
            Side::Served(client, file) => {
                client.write(file, data, offset, appends).inspect(|bytes| trial::note_bytes(*bytes))
            }
        }
    }

    /// `lseek`.
    #[inline]
    pub fn seek(&self, file: &OpenFile, offset: i64, whence: Whence) -> Result<u64, Error> {
        match self.side(file)? {
            Side::Own(client, file) => client.seek(file, offset, whence),
            Side::Served(client, file) => client.seek(file, offset, whence),
        }
    }

    /// `fsync`.
    #[inline]
    pub fn fsync(&self, file: &OpenFile) -> Result<(), Error> {
        match self.side(file)? {
            Side::Own(client, file) => client.fsync(file),
            Side::Served(client, file) => client.fsync(file),
        }
    }

    /// Whether an `fsync` of an open file would only answer that all is well.
    #[inline]
    pub fn has_nothing_to_sync(&self) -> bool {
        matches!(self, Client::Own(client) if client.has_nothing_to_sync())
    }

    /// `syncfs`; of those who are served as other users are, what they did together.
    pub fn sync_everything(&self, file: &OpenFile) -> Result<(), Error> {
        match self {
            Client::Own(client) => {
                file.check_not_path()?;
                client.sync_everything()
            }
            Client::Served(client) => client.fsync(file.with_shared_fs()?),
        }
    }

    /// `ftruncate`.
    pub fn truncate_open(&self, file: &OpenFile, size: i64) -> Result<(), Error> {
        let target = Target::File(file);
        match self.side(file)? {
            Side::Own(client, file) => client.truncate_open(file, size),
            Side::Served(client, _) => client.truncate(target.subject()?, size),
        }
    }

    /// `fallocate`.
    pub fn allocate(&self, file: &OpenFile, what: Allocation, offset: i64, length: i64) -> Result<(), Error> {
        match self.side(file)? {
            Side::Own(client, file) => client.allocate(file, what, offset, length),
            Side::Served(client, file) => client.allocate(file, what, offset, length),
        }
    }

    /// As LibFS.
    pub fn read_directory(
        &self,
        file: &OpenFile,
        sink: &mut dyn FnMut(DirectoryItem<'_>) -> bool,
    ) -> Result<(), Error> {
        match self.side(file)? {
            Side::Own(client, file) => client.read_directory(file, sink),
            Side::Served(client, file) => client.read_directory(file, sink),
        }
    }

    /// Whether `credentials` have `rights` to what an open file is of.
    pub fn access_open(&self, credentials: &Credentials, file: &OpenFile, rights: u32) -> Result<(), Error> {
        let target = Target::File(file);
        match self.side(file)? {
            Side::Own(client, file) => client.access_open(credentials, file, rights),
            Side::Served(client, _) => client.access(target.subject()?, rights),
        }
    }

    /// `fstat`.
    #[inline]
    pub fn stat_open(&self, file: &OpenFile) -> Result<Stat, Error> {
        let target = Target::File(file);
        match self.side(file)? {
            Side::Own(client, file) => client.stat_open(file),
            Side::Served(client, _) => client.stat(target.subject()?).map(|record| Stat { record }),
        }
    }

    /// `fstatfs`.
    pub fn statfs_open(&self, file: &OpenFile) -> Result<StoreTotals, Error> {
        let target = Target::File(file);
        match self.side(file)? {
            Side::Own(client, file) => client.statfs_in(client.stat_open(file)?.record.tree),
            Side::Served(client, _) => client.statfs(target.subject()?),
        }
    }

    /// A descriptor of what programs that share mappings of the file map; `writes`: to be written, too.
    pub fn map_shared(&self, file: &OpenFile, writes: bool) -> Result<OwnedFd, Error> {
        match file {
            OpenFile::Own(own) => match self {
                Client::Own(client) => client.map_shared(own, writes),
                Client::Served(_) => Err(stranger()),
            },
            // Which only a session may.
            OpenFile::Served(_) => {
                let client = process::session().map_err(|_| Error::Unsupported)?;
                client.with_own(file, |client, file| client.map_shared(file, writes))
            }
        }
    }

    /// The present version of an open file's inode.
    pub fn version(&self, file: &OpenFile) -> Result<Version, Error> {
        match self.side(file)? {
            Side::Own(client, file) => client.version(file).map(Version::Own),
            Side::Served(..) => {
                let InodeRecord { inode, changed, modified, size, .. } = self.stat_open(file)?.record;
                Ok(Version::Served(inode, changed, modified, size))
            }
        }
    }

    /// Target of an open symbolic link.
    pub fn read_link_open(&self, file: &OpenFile) -> Result<Vec<u8>, Error> {
        let target = Target::File(file);
        match self.side(file)? {
            Side::Own(client, file) => client.read_link_open(file),
            Side::Served(client, _) => client.read_link(target.subject()?),
        }
    }

    /// Where an open directory lies.
    pub fn whereabouts(&self, file: &OpenFile, guess: &[u8]) -> Result<Vec<u8>, Error> {
        match self.side(file)? {
            Side::Own(client, file) => client.whereabouts(file, guess),
            Side::Served(client, file) => client.whereabouts(file, guess),
        }
    }
}
