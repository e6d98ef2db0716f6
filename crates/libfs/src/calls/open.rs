//! `open`: a walk, the checks, and one more open of the inode. Also opening an inode that this process
//! already has a descriptor of.

use crate::cache::inode::{Inode, State};
use crate::calls::names::make::NewInode;
use crate::client::attempt::Attempt;
use crate::client::client::Client;
use crate::client::halt::Halt;
use crate::errno::Error;
use crate::log::cost;
use crate::open_files::open_file::OpenFile;
use crate::open_files::open_flags::UNNAMED;
use crate::open_files::open_handle::OpenHandle;
use crate::paths::access_list::NewMode;
use crate::paths::confinement::Rights;
use crate::paths::credentials::{Credentials, READ, WRITE, Writer};
use crate::paths::path::{Base, Follow, LastName, Resolve, Resolved};
use crate::sharing::shipped::ShippedFile;
use crate::sync::Arc;
use cuesta_format::{FileKind, InodeNumber, InodeRecord};
use libc::{
    O_ACCMODE, O_CREAT, O_DIRECTORY, O_EXCL, O_NOATIME, O_NOFOLLOW, O_PATH, O_RDONLY, O_TRUNC, O_WRONLY,
};
use std::cell::Cell;

/// How far an open has come.
enum Opening {
    Done(OpenHandle, InodeRecord),
    /// The open cuts the file's content, so set-id bits and capabilities go first. Then the open starts over.
    Rights(Arc<Inode>, Writer),
}

impl Client {
    /// Opens `path`. `flags` are `O_*` bits.
    pub fn open(
        &self,
        credentials: &Credentials,
        base: Base<'_>,
        path: &[u8],
        flags: i32,
        mode: impl Into<NewMode>,
    ) -> Result<Arc<OpenFile>, Error> {
        self.open_within(credentials, base, path, flags, mode, Resolve::default())
    }

    /// Like [`Client::open`], within the restrictions of `resolve`.
    pub fn open_within(
        &self,
        credentials: &Credentials,
        base: Base<'_>,
        path: &[u8],
        flags: i32,
        mode: impl Into<NewMode>,
        resolve: Resolve,
    ) -> Result<Arc<OpenFile>, Error> {
        Ok(self.open_as_it_was(credentials, base, path, flags, mode.into(), resolve)?.0)
    }

    /// Like [`Client::open`]. Also answers the inode as it was then, because another process may remove a new
    /// file at once.
    pub fn open_or_make(
        &self,
        credentials: &Credentials,
        base: Base<'_>,
        path: &[u8],
        flags: i32,
        mode: impl Into<NewMode>,
    ) -> Result<(Arc<OpenFile>, InodeRecord), Error> {
        self.open_as_it_was(credentials, base, path, flags, mode.into(), Resolve::default())
    }

    fn open_as_it_was(
        &self,
        credentials: &Credentials,
        base: Base<'_>,
        path: &[u8],
        flags: i32,
        mode: NewMode,
        resolve: Resolve,
    ) -> Result<(Arc<OpenFile>, InodeRecord), Error> {
        let flags = if flags & O_PATH != 0 {
            flags & (O_PATH | O_DIRECTORY | O_NOFOLLOW | libc::O_CLOEXEC)
        } else {
            flags
        };
        let unnamed = flags & UNNAMED != 0;
        if flags & (O_CREAT | O_DIRECTORY) == O_CREAT | O_DIRECTORY
            || unnamed && (flags & O_DIRECTORY == 0 || flags & O_ACCMODE == O_RDONLY)
        {
            return Err(Error::Invalid);
        }
        let exclusive = flags & (O_CREAT | O_EXCL) == O_CREAT | O_EXCL;
        let follow = match (flags & O_CREAT != 0, flags & O_NOFOLLOW != 0) {
            (true, no_follow) => Follow::ToMake { links: !exclusive && !no_follow },
            (false, true) => Follow::BeforeSlash,
            (false, false) => Follow::Always,
        };
        // Some programs only open files in a directory. By the count SharedFS decides whether sessions or itself perform operations there.
        self.session.count(0, 0);
        loop {
            let may_truncate = Cell::new(true);
            let opening = self.operate(|attempt| {
                let found = self.walk_within(credentials, base, path, follow, resolve)?;
                may_truncate.set(self.may_truncate_confined(credentials, &found)?);
                match (&found.inode, &found.last) {
                    (Some((directory, FileKind::Directory)), _) if unnamed => {
                        let wanted = Rights::to_open(FileKind::File, flags);
                        self.check_confined_in(credentials, directory, wanted)?;
                        let exclusive = flags & O_EXCL != 0;
                        let (inode, record) =
                            self.make_unnamed(attempt, credentials, directory, mode, exclusive)?;
                        let open = OpenHandle::made(&inode, FileKind::File, flags, &self.session.open_slots);
                        Ok(Opening::Done(open, record))
                    }
                    (Some(_), _) if unnamed => Err(Error::NotDirectory.into()),
                    (Some(_), _) if exclusive => Err(Error::Exists.into()),
                    (Some((inode, kind)), _) => {
                        self.open_existing(attempt, credentials, inode, *kind, &found, flags)
                    }
                    (None, LastName::Name(name)) if flags & O_CREAT != 0 => {
                        let wanted = Rights::to_make(FileKind::File) | Rights::to_open(FileKind::File, flags);
                        self.check_confined_in(credentials, &found.parent, wanted)?;
                        let new_inode = NewInode {
                            kind: FileKind::File,
                            mode,
                            device: 0,
                            target: b"",
                            open: true,
                            number: None,
                        };
                        let (inode, record) =
                            self.make(attempt, credentials, &found.parent, name, &new_inode)?;
                        let open = OpenHandle::made(&inode, FileKind::File, flags, &self.session.open_slots);
                        Ok(Opening::Done(open, record))
                    }
                    (None, _) => Err(Error::NotFound.into()),
                }
            })?;
            match opening {
                Opening::Done(open, record) => {
                    let writer = credentials.writer(&record);
                    return Ok((self.opened(open, flags, writer, may_truncate.get()), record));
                }
                Opening::Rights(inode, writer) => self.take_rights(&inode, writer)?,
            }
        }
    }

    pub(crate) fn opened(
        &self,
        open: OpenHandle,
        flags: i32,
        writer: Writer,
        may_truncate: bool,
    ) -> Arc<OpenFile> {
        Arc::new(OpenFile::new(open, flags, writer, may_truncate))
    }

    fn open_existing(
        &self,
        attempt: &mut Attempt<'_>,
        credentials: &Credentials,
        inode: &Arc<Inode>,
        kind: FileKind,
        found: &Resolved,
        flags: i32,
    ) -> Result<Opening, Halt> {
        let path_only = flags & O_PATH != 0;
        let writes = flags & O_ACCMODE != O_RDONLY;
        let truncates = flags & O_TRUNC != 0 && kind == FileKind::File;
        match kind {
            FileKind::Directory if !path_only && (writes || flags & (O_CREAT | O_TRUNC) != 0) => {
                return Err(Error::IsDirectory.into());
            }
            FileKind::Directory if !path_only && flags & libc::O_DIRECT != 0 => {
                return Err(Error::Invalid.into());
            }
            FileKind::Directory => {}
            _ if found.slash || flags & O_DIRECTORY != 0 => return Err(Error::NotDirectory.into()),
            _ if path_only => {}
            FileKind::Symlink => return Err(Error::SymlinkLoop.into()),
            // The permission check comes first: without permission the error is EACCES, even for a kind that
            // cannot be opened.
            _ => {}
        }
        let is_confined = self.check_confined(credentials, found, Rights::to_open(kind, flags));
        let mut rights = if flags & O_ACCMODE == O_WRONLY { 0 } else { READ };
        if writes || flags & O_TRUNC != 0 {
            rights |= WRITE;
        }
        let check = |state: &State| {
            if path_only {
                return Ok(());
            }
            state.check(credentials, rights)?;
            if flags & O_NOATIME != 0 && !credentials.owns(&state.record) {
                return Err(Halt::from(Error::NotPermitted));
            }
            if rights & WRITE != 0 {
                self.check_not_running(&state.record)?;
            }
            Ok(())
        };
        if truncates {
            attempt.prepare_effect(0, cost::of_truncation(0))?;
            let mut state = self.changing(inode)?;
            check(&state)?;
            is_confined?;
            if state.is_unlinked() {
                return Err(Halt::Again);
            }
            let writer = credentials.writer(&state.record);
            if state.loses_rights(writer) {
                return Ok(Opening::Rights(Arc::clone(inode), writer));
            }
            self.truncate_locked(attempt, inode, &mut state, 0)?;
            return Ok(Opening::Done(self.count_open(inode, kind, flags), state.record));
        }
        let state = if writes && !path_only { self.opening_to_write(inode)? } else { self.reading(inode)? };
        check(&state)?;
        is_confined?;
        match kind {
            _ if path_only => {}
            FileKind::File | FileKind::Directory | FileKind::Symlink => {}
            FileKind::Fifo => return Err(Error::Pipe(inode.number).into()),
            FileKind::Socket => return Err(Error::NoDevice.into()),
            FileKind::CharacterDevice | FileKind::BlockDevice => return Err(Error::Unsupported.into()),
        }
        // A process's working directory stays usable as "." after it is removed.
        if state.released || state.is_unlinked() && !matches!(found.last, LastName::Dot | LastName::DotDot) {
            return Err(Halt::Again);
        }
        Ok(Opening::Done(self.count_open(inode, kind, flags), state.record))
    }

    pub(crate) fn count_open(&self, inode: &Arc<Inode>, kind: FileKind, flags: i32) -> OpenHandle {
        OpenHandle::new(inode, kind, flags, &self.session.open_slots)
    }

    /// Opens an inode again that this process has a descriptor of, after fork or exec. It checks no
    /// permissions, because the first open did.
    pub fn reopen(
        &self,
        credentials: &Credentials,
        inode: InodeNumber,
        flags: i32,
        offset: u64,
    ) -> Result<Arc<OpenFile>, Error> {
        let (open, writer) = self.open_number(credentials, inode, flags)?;
        let file = self.opened(open, flags, writer, true);
        file.set_offset(offset);
        Ok(file)
    }

    /// Opens the file of an operation that another session sent.
    pub(crate) fn reopen_for(&self, file: &ShippedFile) -> Result<Arc<OpenFile>, Error> {
        let (open, _) = self.open_number(&Credentials::default(), file.inode, file.flags)?;
        Ok(self.opened(open, file.flags, file.writer, true))
    }

    fn open_number(
        &self,
        credentials: &Credentials,
        inode: InodeNumber,
        flags: i32,
    ) -> Result<(OpenHandle, Writer), Error> {
        self.operate(|_attempt| {
            if self.cache.get(inode).is_none() {
                // This session may have removed the inode's last name, without having it open. Then SharedFS
                // must learn of that first.
                self.digest_own_log()?;
            }
            let inode = self.cache.get_or_insert(inode);
            let writes = flags & O_PATH == 0 && flags & O_ACCMODE != O_RDONLY;
            let state = if writes { self.opening_to_write(&inode)? } else { self.reading(&inode)? };
            if state.released {
                return Err(Halt::Again);
            }
            Ok((self.count_open(&inode, state.kind(), flags), credentials.writer(&state.record)))
        })
    }
}
