//! Opening files, and calls on those that are open.

use std::os::fd::AsFd as _;
use std::sync::Arc;

use cuesta_format::wire::StoreTotals;
use cuesta_format::{InodeNumber, InodeRecord};
use cuesta_libfs::{Allocation, Credentials, DirectoryItem, Error, NewMode, Resolve, Stat, UNNAMED, Whence};
use cuesta_media::{UserSlice, UserSliceMut};
use rustix::fd::OwnedFd;

use crate::store::open_files::ServedFile;
use crate::store::targets::unconfined;
use crate::store::{Base, Client, OpenFile, Target, Token, Version, shipping, stranger};

/// Has SharedFS make a file that the session opens. `None`: the session is to open it, as it may be there already.
#[cold]
fn made(
    client: &cuesta_libfs::Client,
    credentials: &Credentials,
    base: Base<'_>,
    path: &[u8],
    flags: i32,
    mode: NewMode,
) -> Option<Result<Arc<cuesta_libfs::OpenFile>, Error>> {
    let shared_fs = shipping::served_for(credentials)?;
    let number = shared_fs.number_for_file().ok()?;
    let awaited = client.await_file(number, flags);
    match shared_fs.make_file(base.place().ok()?, path, mode, number, None) {
        Ok(record) => Some(Ok(client.open_made(credentials, awaited, &record, flags))),
        // It may have been made.
        Err(error @ (Error::Disconnected | Error::Daemon(_))) => Some(Err(error)),
        Err(_) => None,
    }
}

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
        match self {
            Client::Own(client) => {
                let open = |client: &cuesta_libfs::Client| {
                    client.open_within(credentials, base.own()?, path, flags, mode, resolve)
                };
                let may_make = flags & (libc::O_CREAT | libc::O_PATH | UNNAMED) == libc::O_CREAT;
                let may_send = may_make && credentials.is_plain && resolve == Resolve::default();
                let opened = match may_send.then(|| client.sending(open)) {
                    Some(Err(Error::Shipped(_))) => {
                        match made(client, credentials, base, path, flags, mode) {
                            Some(made) => made,
                            None => open(client),
                        }
                    }
                    Some(opened) => opened,
                    None => open(client),
                };
                opened.map(OpenFile::Own)
            }
            Client::Served(client) => {
                if flags & libc::O_PATH == 0 {
                    unconfined(credentials)?;
                }
                let (file, token) = client.open(base.place()?, path, flags, mode, resolve)?;
                Ok(OpenFile::served(token, file))
            }
        }
    }

    /// Opens an inode this process has open already, for a purpose of its own.
    pub fn reopen(&self, credentials: &Credentials, open: &OpenFile, flags: i32) -> Result<OpenFile, Error> {
        match self {
            Client::Own(client) => client.reopen(credentials, open.inode(), flags, 0).map(OpenFile::Own),
            Client::Served(client) => {
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
        let Client::Served(client) = self else { return Err(stranger()) };
        let token = token.copy()?;
        let file = client.redeem(token.as_fd())?;
        Ok(OpenFile::known(ServedFile { file, token }))
    }

    /// Closes a file, unless it is in use elsewhere.
    pub fn close(&self, file: OpenFile) -> Result<(), Error> {
        match (self, file) {
            (Client::Own(client), OpenFile::Own(file)) => client.close(file),
            (Client::Served(client), OpenFile::Served(file)) => match Arc::into_inner(file) {
                Some(ServedFile { file, token }) => {
                    drop(token);
                    client.close(&file)
                }
                None => Ok(()),
            },
            (_, OpenFile::Own(file)) => {
                // It belongs to a session that is over.
                std::mem::forget(file);
                Ok(())
            }
            (_, OpenFile::Served(_)) => Ok(()),
        }
    }

    /// Reads at the file's offset.
    #[inline]
    pub fn read(&self, file: &OpenFile, out: &mut [UserSliceMut<'_>]) -> Result<usize, Error> {
        match self {
            Client::Own(client) => client.read(file.own()?, out),
            Client::Served(client) => client.read(file.with_shared_fs()?, out, None),
        }
    }

    /// Reads at `offset`.
    #[inline]
    pub fn pread(&self, file: &OpenFile, out: &mut [UserSliceMut<'_>], offset: i64) -> Result<usize, Error> {
        match self {
            Client::Own(client) => client.pread(file.own()?, out, offset),
            Client::Served(client) => client.read(file.with_shared_fs()?, out, Some(offset)),
        }
    }

    /// Writes at the file's offset, or its end.
    #[inline]
    pub fn write(&self, file: &OpenFile, data: &[UserSlice<'_>]) -> Result<usize, Error> {
        match self {
            Client::Own(client) => client.write(file.own()?, data),
            Client::Served(client) => client.write(file.with_shared_fs()?, data, None, file.appends()),
        }
    }

    /// Writes at `offset`, or at the end.
    #[inline]
    pub fn pwrite(&self, file: &OpenFile, data: &[UserSlice<'_>], offset: i64) -> Result<usize, Error> {
        match self {
            Client::Own(client) => client.pwrite(file.own()?, data, offset),
            Client::Served(_) => self.write_appending(file, data, Some(offset), file.appends()),
        }
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
        match self {
            Client::Own(client) => client.write_appending(file.own()?, data, offset, appends),
            Client::Served(client) => client.write(file.with_shared_fs()?, data, offset, appends),
        }
    }

    /// `lseek`.
    #[inline]
    pub fn seek(&self, file: &OpenFile, offset: i64, whence: Whence) -> Result<u64, Error> {
        match self {
            Client::Own(client) => client.seek(file.own()?, offset, whence),
            Client::Served(client) => client.seek(file.with_shared_fs()?, offset, whence),
        }
    }

    /// `fsync`.
    #[inline]
    pub fn fsync(&self, file: &OpenFile) -> Result<(), Error> {
        match self {
            Client::Own(client) => client.fsync(file.own()?),
            Client::Served(client) => client.fsync(file.with_shared_fs()?),
        }
    }

    /// Whether an `fsync` of an open file would only answer that all is well.
    #[inline]
    pub fn has_nothing_to_sync(&self) -> bool {
        matches!(self, Client::Own(client) if client.has_nothing_to_sync())
    }

    /// `syncfs`; for a served process it covers the operations of all served processes together.
    pub fn sync_everything(&self, file: &OpenFile) -> Result<(), Error> {
        match self {
            Client::Own(client) => {
                file.check_not_path()?;
                client.sync_everything()
            }
            Client::Served(client) => client.fsync(file.with_shared_fs()?),
        }
    }

    /// Waits until the disk has everything that had returned in the store before.
    pub fn dsync(&self, file: &OpenFile) -> Result<(), Error> {
        match self {
            Client::Own(client) => {
                file.check_not_path()?;
                client.dsync()
            }
            Client::Served(client) => client.dsync(),
        }
    }

    /// `ftruncate`.
    pub fn truncate_open(&self, file: &OpenFile, size: i64) -> Result<(), Error> {
        match self {
            Client::Own(client) => client.truncate_open(file.own()?, size),
            Client::Served(client) => client.truncate(Target::File(file).subject()?, size),
        }
    }

    /// `fallocate`.
    pub fn allocate(&self, file: &OpenFile, what: Allocation, offset: i64, length: i64) -> Result<(), Error> {
        match self {
            Client::Own(client) => client.allocate(file.own()?, what, offset, length),
            Client::Served(client) => client.allocate(file.with_shared_fs()?, what, offset, length),
        }
    }

    /// As LibFS.
    pub fn read_directory(
        &self,
        file: &OpenFile,
        sink: &mut dyn FnMut(DirectoryItem<'_>) -> bool,
    ) -> Result<(), Error> {
        match self {
            Client::Own(client) => client.read_directory(file.own()?, sink),
            Client::Served(client) => client.read_directory(file.with_shared_fs()?, sink),
        }
    }

    /// Whether `credentials` have `rights` to what an open file is of.
    pub fn access_open(&self, credentials: &Credentials, file: &OpenFile, rights: u32) -> Result<(), Error> {
        match self {
            Client::Own(client) => client.access_open(credentials, file.own()?, rights),
            Client::Served(client) => client.access(Target::File(file).subject()?, rights),
        }
    }

    /// `fstat`.
    #[inline]
    pub fn stat_open(&self, file: &OpenFile) -> Result<Stat, Error> {
        match self {
            Client::Own(client) => client.stat_open(file.own()?),
            Client::Served(client) => {
                client.stat(Target::File(file).subject()?).map(|record| Stat { record })
            }
        }
    }

    /// `fstatfs`.
    pub fn statfs_open(&self, file: &OpenFile) -> Result<StoreTotals, Error> {
        match self {
            Client::Own(client) => client.statfs_in(client.stat_open(file.own()?)?.record.tree),
            Client::Served(client) => client.statfs(Target::File(file).subject()?),
        }
    }

    /// A descriptor of what programs that share mappings of the file map; `writes`: to be written, too.
    pub fn map_shared(&self, file: &OpenFile, writes: bool) -> Result<OwnedFd, Error> {
        match self {
            Client::Own(client) => client.map_shared(file.own()?, writes),
            Client::Served(_) => Err(Error::Unsupported),
        }
    }

    /// The present version of an open file's inode.
    pub fn version(&self, file: &OpenFile) -> Result<Version, Error> {
        match self {
            Client::Own(client) => client.version(file.own()?).map(Version::Own),
            Client::Served(_) => {
                let InodeRecord { inode, changed, modified, size, .. } = self.stat_open(file)?.record;
                Ok(Version::Served(inode, changed, modified, size))
            }
        }
    }

    /// Target of an open symbolic link.
    pub fn read_link_open(&self, file: &OpenFile) -> Result<Vec<u8>, Error> {
        match self {
            Client::Own(client) => client.read_link_open(file.own()?),
            Client::Served(client) => client.read_link(Target::File(file).subject()?),
        }
    }

    /// Where an open directory lies.
    pub fn directory_path(&self, file: &OpenFile, guess: &[u8]) -> Result<Vec<u8>, Error> {
        match self {
            Client::Own(client) => client.directory_path(file.own()?, guess),
            Client::Served(client) => client.directory_path(file.with_shared_fs()?, guess),
        }
    }
}
