//! One process of another user: its credentials, its open files, and each of its requests.
//!
//! Every request is performed with the credentials the kernel noted when the process connected. LibFS takes some things for granted
//! of a door, and this file makes sure of them: flags and modes that exist, and names without a zero byte.

mod held;
mod once;

use crate::answering::allowed::{PERMISSIONS, allowed, checked, permitted, without_pipes};
use crate::answering::callers::Connected;
use crate::answering::files::File;
use crate::answering::first_calls::Caller;
use crate::answering::shared::Shared;
use crate::protocol::messages::{
    Entry, Offset, PathBase, READ_BYTES_MAX, Request, Response, Subject, VERSION,
};
use crate::shares::accounts::{Holder, Share};
use crate::shares::limits::UNCOUNTED_BYTES;
use crate::shares::resource::Resource;
use cuesta_format::{FILE_BYTES_MAX, FileKind, InodeNumber, InodeRecord};
use cuesta_libfs::{
    CallingProcess, Capabilities, Client, Credentials, Error, LinkSource, OPEN_FLAGS, OPENING_FLAGS,
    OpenFile, SetAttributes, SharedOffset, Target,
};
use cuesta_media::{UserSlice, UserSliceMut};
use held::{HeldPlace, HeldSubject, is_same};
use parking_lot::Mutex;
use rustix::fd::OwnedFd;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Instant;

const READ: u32 = 4;
const WRITE: u32 = 2;
/// So many copies of the bytes of a read lie in memory before they are sent: as they were read, and as a message.
const READ_COPIES: usize = 2;
/// What names and their answer take of memory, at most, for each byte they are counted with.
const LIST_COPIES: usize = 4;
/// Bytes of a directory's answer beside each name.
const ENTRY_BYTES: usize = 24;

/// The process. The threads of its socket and of its lanes share it.
pub(crate) struct Connection<'s> {
    pub(crate) shared: &'s Shared,
    user: Credentials,
    /// The same with fewer capabilities, if the process said that it has fewer.
    narrowed: OnceLock<Credentials>,
    pub(crate) holder: Holder,
    files: Mutex<HashMap<u64, Weak<File>>>,
    file_limit: AtomicU64,
    /// The process, or 0.
    pub(super) process: u32,
    pub(super) first_calls: Caller,
    peer: Arc<dyn CallingProcess>,
    /// Which caller it is, once it said so.
    caller: Mutex<Option<Arc<Connected>>>,
    /// Numbers that are reserved for files of the process.
    pub(crate) reserved: Mutex<Vec<InodeNumber>>,
    /// The daemon ends the connection, and the process may come back.
    pub(crate) is_cut: AtomicBool,
}

/// A thread's state of the call that it performs.
#[derive(Debug, Default)]
pub(crate) struct InHand {
    /// The answer's memory, until the client has the answer.
    room: Option<Share>,
    /// The number of a call that moves an offset, if it was numbered; else 0.
    operation: u64,
}

/// An answer, and the token beside it.
pub(crate) type Answer = Result<(Response, Option<OwnedFd>), Error>;

impl<'s> Connection<'s> {
    pub(crate) fn new(
        shared: &'s Shared,
        who: Credentials,
        holder: Holder,
        process: u32,
        peer: Arc<dyn CallingProcess>,
    ) -> Connection<'s> {
        Connection {
            shared,
            user: who,
            narrowed: OnceLock::new(),
            holder,
            files: Mutex::default(),
            file_limit: AtomicU64::new(FILE_BYTES_MAX),
            process,
            first_calls: Caller::default(),
            peer,
            caller: Mutex::default(),
            reserved: Mutex::default(),
            is_cut: AtomicBool::new(false),
        }
    }

    /// The credentials that calls are judged by.
    pub(crate) fn who(&self) -> &Credentials {
        self.narrowed.get().unwrap_or(&self.user)
    }

    /// Takes `amount` of a resource for the user.
    pub(crate) fn take(&self, resource: Resource, amount: u64) -> Option<Share> {
        self.shared.files.accounts().take(self.holder, resource, amount)
    }

    /// Counts what an answer is about to take for the user; waits until there is room for it.
    fn make_room(&self, bytes: usize, in_hand: &mut InHand) -> Result<(), Error> {
        if bytes <= UNCOUNTED_BYTES {
            return Ok(());
        }
        let accounts = self.shared.files.accounts();
        let deadline = Instant::now() + accounts.limits().half_message;
        let share = accounts.wait_for(self.holder, Resource::MessageBytes, bytes as u64, deadline);
        let crowded = || Error::Daemon("this user's other requests take all the memory it may have".into());
        in_hand.room = Some(share.ok_or_else(crowded)?);
        Ok(())
    }

    /// Does what is asked, with the token that came beside it.
    pub(crate) fn answer(
        &self,
        request: Request<'_>,
        token: Option<OwnedFd>,
        in_hand: &mut InHand,
    ) -> Answer {
        let response = match request {
            Request::Hello { version: VERSION } => Response::Welcome { store: self.shared.client()?.store() },
            Request::Hello { .. } => {
                return Err(Error::Version(format!("the daemon serves users by protocol {VERSION}")));
            }
            Request::Capabilities { bits } => {
                let capabilities = self.user.capabilities.within(Capabilities::from_bits(bits));
                let narrowed =
                    self.narrowed.get_or_init(|| Credentials { capabilities, ..self.user.clone() });
                if narrowed.capabilities != capabilities {
                    return Err(Error::Invalid);
                }
                Response::Done
            }
            Request::Limit { bytes } => {
                self.file_limit.store(bytes.min(FILE_BYTES_MAX), Ordering::Relaxed);
                Response::Done
            }
            Request::Open { place, path, flags, mode, resolve } => {
                let place = self.place(place)?;
                let client = Arc::clone(place.client());
                let (flags, mode) = (flags & OPEN_FLAGS, allowed(mode, PERMISSIONS));
                let opened =
                    client.open_within(self.who(), place.base()?, checked(path)?, flags, mode, resolve);
                return self.keep(client, opened.map_err(without_pipes)?);
            }
            Request::Reopen { file, flags } => return self.reopen(file, flags & OPEN_FLAGS & !OPENING_FLAGS),
            Request::Redeem => {
                let token = token.ok_or(Error::AccessMode)?;
                let file = self.shared.files.redeem(&token).ok_or(Error::AccessMode)?;
                self.opened(&file)?
            }
            Request::Adopt { inode, flags, offset, cell } => {
                if !self.holder.is_trusted {
                    return Err(Error::NotPermitted);
                }
                let client = self.shared.client()?;
                let cell = match (token, cell) {
                    (Some(memory), Some(place)) => Some(SharedOffset::new(&memory, place)?),
                    _ => None,
                };
                let file = client.reopen(self.who(), inode, flags & OPEN_FLAGS & !OPENING_FLAGS, offset)?;
                let (file, token) = self.shared.files.add(client, file, (self.who(), self.holder), cell)?;
                return Ok((self.opened(&file)?, Some(token)));
            }
            Request::Close { file } => {
                let closed = self.files.lock().remove(&file).and_then(|file| file.upgrade());
                if let Some(file) = closed {
                    self.shared.files.close(&file);
                    self.shared.client()?.tell_accesses();
                }
                Response::Done
            }
            Request::Read { file, count, place } => self.read(file, count, place, in_hand)?,
            Request::Write { file, place, appends, data } => self.write(file, place, appends, data)?,
            Request::Seek { file, offset, whence } => {
                let file = self.file(file)?;
                let _moving = file.moving(in_hand.operation)?;
                Response::Number(file.client.seek(file.open()?, offset, whence)?)
            }
            Request::SetFlags { file, flags } => {
                let file = self.file(file)?;
                let open = file.open()?;
                let is_new = flags & !open.flags() & libc::O_NOATIME != 0;
                if is_new && !self.who().owns(&file.client.stat_open(open)?.record) {
                    return Err(Error::NotPermitted);
                }
                file.set_flags(flags)?;
                Response::Done
            }
            Request::Truncate { subject, size } => self.truncate(subject, size)?,
            Request::Allocate { file, what, offset, length } => {
                let file = self.file(file)?;
                let end = offset.checked_add(length).and_then(|end| u64::try_from(end).ok());
                self.check_growth(&file, end.unwrap_or(0))?;
                file.client.allocate(file.open()?, what, offset, length)?;
                Response::Done
            }
            Request::Sync => {
                self.shared.client()?.sync()?;
                Response::Done
            }
            Request::Dsync => {
                self.shared.client()?.dsync()?;
                Response::Done
            }
            Request::Fsync { file } => {
                let file = self.file(file)?;
                file.client.fsync(file.open()?)?;
                Response::Done
            }
            Request::List { file, bytes } => self.list(file, bytes, in_hand)?,
            Request::Stat { subject } => Response::Record(self.stat(subject)?),
            Request::Access { subject, rights } => self.access(subject, rights)?,
            Request::ReadLink { subject } => Response::Bytes(match self.subject(subject)? {
                HeldSubject::File(file) => file.client.read_link_open(file.open()?)?,
                HeldSubject::Path(place, path, _) => {
                    place.client().read_link(self.who(), place.base()?, path)?
                }
            }),
            Request::SetAttributes { subject, set } => {
                let subject = self.subject(subject)?;
                let set = permitted(set);
                match &subject {
                    HeldSubject::File(file) if file.open()?.check_not_path().is_err() => {
                        self.set_attributes_behind(file, set)?;
                    }
                    _ => subject.client().set_attributes(self.who(), subject.target()?, set)?,
                }
                Response::Done
            }
            Request::MakeDirectory { place, path, mode } => {
                let place = self.place(place)?;
                let mode = allowed(mode, PERMISSIONS);
                place.client().make_directory(self.who(), place.base()?, checked(path)?, mode)?;
                Response::Done
            }
            Request::MakeNode { place, path, mode, device } => {
                let place = self.place(place)?;
                let mode = allowed(mode, libc::S_IFMT | PERMISSIONS);
                let (base, path) = (place.base()?, checked(path)?);
                let made = place.client().make_node(self.who(), base, path, mode, device)?;
                Response::Number(made.inode.0)
            }
            Request::MakeLink { target, place, path } => {
                let place = self.place(place)?;
                place.client().symlink(self.who(), checked(target)?, place.base()?, checked(path)?)?;
                Response::Done
            }
            Request::Link { from, place, path } => {
                let (from, place) = (self.subject(from)?, self.place(place)?);
                is_same(from.client(), place.client())?;
                let source = match from.target()? {
                    Target::File(file) => LinkSource::File(file),
                    Target::Path { base, path, follow } => LinkSource::Path { base, path, follow },
                };
                place.client().link(self.who(), source, place.base()?, checked(path)?)?;
                Response::Done
            }
            Request::Unlink { place, path, directory } => {
                let place = self.place(place)?;
                let (client, base, path) = (place.client(), place.base()?, checked(path)?);
                match directory {
                    true => client.remove_directory(self.who(), base, path)?,
                    false => client.unlink(self.who(), base, path)?,
                }
                Response::Done
            }
            Request::Rename { place, path, new_place, new_path, flags } => {
                let (place, new_place) = (self.place(place)?, self.place(new_place)?);
                is_same(place.client(), new_place.client())?;
                let old = (place.base()?, checked(path)?);
                let new = (new_place.base()?, checked(new_path)?);
                place.client().rename(self.who(), old, new, flags)?;
                Response::Done
            }
            Request::GetExtended { subject, name } => {
                let subject = self.subject(subject)?;
                let value = subject.client().get_extended(self.who(), subject.target()?, checked(name)?)?;
                Response::Bytes(value)
            }
            Request::ListExtended { subject } => {
                let subject = self.subject(subject)?;
                Response::Bytes(subject.client().list_extended(self.who(), subject.target()?)?)
            }
            Request::SetExtended { subject, name, value, flags } => {
                let subject = self.subject(subject)?;
                let (client, target) = (subject.client(), subject.target()?);
                client.set_extended(self.who(), target, checked(name)?, value, flags)?;
                Response::Done
            }
            Request::RemoveExtended { subject, name } => {
                let subject = self.subject(subject)?;
                subject.client().remove_extended(self.who(), subject.target()?, checked(name)?)?;
                Response::Done
            }
            Request::LockFile { file } => {
                let locks = self.shared.files.lend_locks(&*self.file(file)?)?;
                return Ok((Response::Done, Some(locks)));
            }
            Request::AdoptLocks { file } => {
                if !self.holder.is_trusted {
                    return Err(Error::NotPermitted);
                }
                self.file(file)?.adopt_locks(token.ok_or(Error::AccessMode)?);
                Response::Done
            }
            Request::Settle => {
                self.shared.files.sendings().wait();
                self.shared.files.close_released();
                self.shared.client()?.tell_accesses();
                Response::Done
            }
            Request::DirectoryPath { file, guess } => {
                let file = self.file(file)?;
                Response::Bytes(file.client.directory_path(file.open()?, guess)?)
            }
            Request::Identify { caller } => {
                self.identify(caller, true)?;
                Response::Done
            }
            Request::Once(_) => return Err(Error::Invalid),
            Request::Statfs { subject } => {
                let tree = self.stat(subject)?.tree;
                Response::Totals(self.shared.client()?.statfs_in(tree)?)
            }
            Request::ShippedRead { file, at, count } => self.shipped_read(&file, at, count, in_hand)?,
            Request::ShippedWrite { file, at, data } => self.shipped_write(&file, at, data)?,
            Request::ShippedChange { file, change } => self.shipped_change(&file, change)?,
            Request::ShippedStat { file } => self.shipped_stat(&file)?,
            Request::Reserve => Response::Number(self.reserve()?.0),
            Request::ByNumber { who, call } => self.by_number(who, &call)?,
            Request::MakeFile { place, path, mode, inode, who } => {
                self.make_file(place, checked(path)?, allowed(mode, PERMISSIONS), inode, who)?
            }
            // The thread of the socket performs these itself.
            Request::Ring | Request::Lane { .. } | Request::Unheard => return Err(Error::Invalid),
        };
        Ok((response, None))
    }

    fn file(&self, number: u64) -> Result<Arc<File>, Error> {
        self.files.lock().get(&number).and_then(Weak::upgrade).ok_or(Error::AccessMode)
    }

    pub(crate) fn place(&self, place: PathBase) -> Result<HeldPlace, Error> {
        Ok(match place {
            PathBase::Root => HeldPlace::Root(self.shared.client()?),
            PathBase::Directory(file) => HeldPlace::Directory(self.file(file)?),
            PathBase::Inode(inode) => {
                self.check_trusted()?;
                HeldPlace::Inode(self.shared.client()?, inode)
            }
        })
    }

    fn subject<'a>(&self, subject: Subject<'a>) -> Result<HeldSubject<'a>, Error> {
        Ok(match subject {
            Subject::Path { place, path, follow } => {
                HeldSubject::Path(self.place(place)?, checked(path)?, follow)
            }
            Subject::File(file) => HeldSubject::File(self.file(file)?),
        })
    }

    /// A file that was just opened, for this process to use.
    fn keep(&self, client: Arc<Client>, file: Arc<OpenFile>) -> Answer {
        let (file, token) = self.shared.files.add(client, file, (self.who(), self.holder), None)?;
        Ok((self.opened(&file)?, Some(token)))
    }

    fn opened(&self, file: &Arc<File>) -> Result<Response, Error> {
        let mut files = self.files.lock();
        if files.len() == files.capacity() {
            files.retain(|_, file| file.strong_count() > 0);
        }
        files.insert(file.number, Arc::downgrade(file));
        drop(files);
        let open = file.open()?;
        let (inode, kind, flags) = (open.inode(), open.kind(), open.flags());
        Ok(Response::Opened { file: file.number, inode, kind, flags })
    }

    /// Opens the inode of an open file for another purpose, as by a path to it.
    fn reopen(&self, number: u64, flags: i32) -> Answer {
        let file = self.file(number)?;
        let open = file.open()?;
        if flags & libc::O_PATH == 0 {
            let rights = match flags & libc::O_ACCMODE {
                libc::O_RDONLY => READ,
                libc::O_WRONLY => WRITE,
                // The fourth way, which neither reads nor writes, takes both rights as well.
                _ => READ | WRITE,
            };
            match open.kind() {
                FileKind::File => {}
                FileKind::Directory if rights == READ => {}
                FileKind::Directory => return Err(Error::IsDirectory),
                FileKind::Symlink => return Err(Error::SymlinkLoop),
                _ => return Err(Error::Unsupported),
            }
            file.client.access_open(self.who(), open, rights)?;
            let owns = || Ok::<_, Error>(self.who().owns(&file.client.stat_open(open)?.record));
            if flags & libc::O_NOATIME != 0 && !owns()? {
                return Err(Error::NotPermitted);
            }
        }
        let reopened = file.client.reopen(self.who(), open.inode(), flags, 0)?;
        self.keep(Arc::clone(&file.client), reopened)
    }

    /// Sets attributes of what a file for paths only is of.
    fn set_attributes_behind(&self, file: &File, set: SetAttributes) -> Result<(), Error> {
        let opened = file.client.reopen(self.who(), file.open()?.inode(), libc::O_RDONLY, 0)?;
        let answer = file.client.set_attributes(self.who(), Target::File(&opened), set);
        file.client.close(opened)?;
        answer
    }

    /// Memory for what is read, which counts for the user.
    pub(crate) fn room_to_read(&self, count: u32, in_hand: &mut InHand) -> Result<Vec<u8>, Error> {
        let count = (count as usize).min(READ_BYTES_MAX);
        self.make_room(READ_COPIES * count, in_hand)?;
        Ok(vec![0; count])
    }

    fn read(&self, file: u64, count: u32, place: Offset, in_hand: &mut InHand) -> Result<Response, Error> {
        let file = self.file(file)?;
        let mut bytes = self.room_to_read(count, in_hand)?;
        let read = read_into(&file, place, UserSliceMut::from(bytes.as_mut_slice()))?;
        bytes.truncate(read);
        Ok(Response::Bytes(bytes))
    }

    /// Does a request that reads, into `out`. Nothing: it is another one, or reads more than that.
    pub(crate) fn read_to(
        &self,
        request: &Request<'_>,
        mut out: UserSliceMut<'_>,
    ) -> Option<Result<usize, Error>> {
        match request {
            Request::Read { file, count, place } if *count as usize <= out.len() => {
                let out = out.part(0, *count as usize);
                Some(self.file(*file).and_then(|file| read_into(&file, *place, out)))
            }
            Request::ShippedRead { file, at, count } if *count as usize <= out.len() => {
                Some(self.shipped_read_into(file, *at, out.part(0, *count as usize)))
            }
            _ => None,
        }
    }

    fn write(&self, file: u64, place: Offset, appends: bool, data: &[u8]) -> Result<Response, Error> {
        let file = self.file(file)?;
        let open = file.open()?;
        let mut data = data;
        let (at, _moving) = match place {
            Offset::At(at) => (Some(at), None),
            Offset::Own { operation } => (None, Some(file.moving(operation)?)),
        };
        if at.is_none() {
            check_end(open, data.len())?;
        }
        let limit = self.file_limit.load(Ordering::Relaxed);
        if limit < FILE_BYTES_MAX && !data.is_empty() && open.kind() == FileKind::File {
            let offset = match at {
                _ if appends => file.client.stat_open(open)?.record.size,
                Some(at) => u64::try_from(at).unwrap_or(0),
                None => open.offset(),
            };
            let room = limit.saturating_sub(offset);
            if room == 0 {
                return Err(Error::OverLimit);
            }
            data = &data[..data.len().min(usize::try_from(room).unwrap_or(usize::MAX))];
        }
        let written = file.client.write_appending(open, &[UserSlice::from(data)], at, appends)?;
        Ok(Response::Number(written as u64))
    }

    fn truncate(&self, subject: Subject<'_>, size: i64) -> Result<Response, Error> {
        let wanted = u64::try_from(size).unwrap_or(0);
        match self.subject(subject)? {
            HeldSubject::File(file) => {
                self.check_growth(&file, wanted)?;
                file.client.truncate_open(file.open()?, size)?;
            }
            HeldSubject::Path(place, path, _) => {
                let (client, base) = (place.client(), place.base()?);
                let limit = self.file_limit.load(Ordering::Relaxed);
                if wanted > limit && wanted > client.stat(self.who(), base, path, true)?.record.size {
                    return Err(Error::OverLimit);
                }
                client.truncate(self.who(), base, path, size)?;
            }
        }
        Ok(Response::Done)
    }

    /// Whether the process allows itself a file as long as `size`.
    fn check_growth(&self, file: &File, size: u64) -> Result<(), Error> {
        if size > self.file_limit.load(Ordering::Relaxed)
            && size > file.client.stat_open(file.open()?)?.record.size
        {
            return Err(Error::OverLimit);
        }
        Ok(())
    }

    /// The process says where reading goes on: the daemon does not know how much of the answer it takes.
    fn list(&self, file: u64, bytes: u32, in_hand: &mut InHand) -> Result<Response, Error> {
        let file = self.file(file)?;
        let open = file.open()?;
        let mut left = (bytes as usize).min(READ_BYTES_MAX);
        self.make_room(LIST_COPIES * left, in_hand)?;
        let _moving = file.moving(0)?;
        let offset = open.offset();
        let mut entries: Vec<Entry> = Vec::new();
        file.client.read_directory(open, &mut |item| {
            match left.checked_sub(ENTRY_BYTES + item.name.len()) {
                Some(rest) => left = rest,
                None if entries.is_empty() => left = 0,
                None => return false,
            }
            entries.push(Entry {
                inode: item.inode,
                next_cookie: item.next_cookie,
                kind: item.kind,
                name: item.name.to_vec(),
            });
            true
        })?;
        open.set_offset(offset);
        Ok(Response::Entries(entries))
    }

    fn stat(&self, subject: Subject<'_>) -> Result<InodeRecord, Error> {
        let stat = match self.subject(subject)? {
            HeldSubject::File(file) => file.client.stat_open(file.open()?)?,
            HeldSubject::Path(place, path, follow) => {
                place.client().stat(self.who(), place.base()?, path, follow)?
            }
        };
        Ok(stat.record)
    }

    fn access(&self, subject: Subject<'_>, rights: u32) -> Result<Response, Error> {
        match self.subject(subject)? {
            HeldSubject::File(file) => {
                file.client.access_open(self.who(), file.open()?, rights & 7)?;
            }
            HeldSubject::Path(place, path, follow) => {
                place.client().access(self.who(), place.base()?, path, rights, follow)?;
            }
        }
        Ok(Response::Done)
    }
}

impl Drop for Connection<'_> {
    fn drop(&mut self) {
        // The files of a killed process are closed now, and not when the watch comes to them.
        for file in self.files.get_mut().values().filter_map(Weak::upgrade) {
            self.shared.files.close(&file);
        }
    }
}

/// Reads into `out` what it has room for.
fn read_into(file: &File, place: Offset, out: UserSliceMut<'_>) -> Result<usize, Error> {
    let open = file.open()?;
    match place {
        Offset::At(at) => file.client.pread(open, &mut [out], at),
        Offset::Own { operation } => {
            let _moving = file.moving(operation)?;
            check_end(open, out.len())?;
            file.client.read(open, &mut [out])
        }
    }
}

/// No call at the file's offset may come to what `off_t` does not hold. A client checks the offsets that it names itself.
fn check_end(open: &OpenFile, length: usize) -> Result<(), Error> {
    let end = i64::try_from(open.offset()).ok().and_then(|from| from.checked_add(length as i64));
    end.map(drop).ok_or(Error::Invalid)
}
