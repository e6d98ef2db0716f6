//! SharedFS and LibFS in one process, joined without a socket: the real code, driven one operation
//! at a time.
//!
//! Nothing runs by itself: a digest happens when the test asks for one, or when an operation finds
//! the log full; then a helper thread does what the daemon's digest thread would.

mod callers;
mod daemon;
mod mappings;
mod open_files;
mod quotas;
mod sending;
mod shared_mapping;
mod small;
mod tiered;

pub use daemon::{HeldDaemon, in_daemon};
pub use mappings::pin_all;
pub use open_files::{LastingFile, LastingFiles};
pub use sending::{SendingWorld, Service};
pub use small::{
    LOWER_TIER_FOLDER, create, create_on, create_tiered, fsck, fsck_tiered, small_geometry,
    small_tiered_geometry,
};

use crate::operations::lists::{list_name, list_value};
use crate::operations::operation::{
    Attributes, Extended, FallocateMode, Kind, Operation, Outcome, PathText, SetCondition, Slot, Timestamp,
};
use crate::operations::sparse::Sparse;
use crate::operations::tree::{Content, Tree, TreeBuilder, join};
use cuesta_format::{Durability, InodeRecord, NAME_BYTES_MAX, SessionId};
use cuesta_libfs::{
    Allocation, Base, Client, Credentials, Error, ExtendedFlags, LinkSource, OpenFile, RenameFlags,
    SetAttributes, SetTime, Target, Whence,
};
use cuesta_sharedfs::server::{Listener, Server};
use cuesta_sharedfs::{Ending, Options, Recovered, SharedFs};
use daemon::{Daemon, InProcess};
use rustix::io::Errno;
use small::small_options;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// The caller unless another one is named.
const ROOT: Credentials = Credentials::of_user(0, 0, Vec::new());
/// How often the helper looks whether an operation waits for room in the log.
const HELP_EVERY: Duration = Duration::from_micros(200);
/// Times a path may leave the store and come in again.
/// Longest path of a call, with the zero byte that ends it in C.
const PATH_BYTES_MAX: usize = 4096;
const CROSSINGS_MAX: u32 = 40;
/// Bytes read at once.
const READ_BYTES: usize = 64 << 10;

/// The options of a store in optimistic mode. Recovery assumes a loss of power.
fn optimistic(options: Options) -> Options {
    Options { durability: Durability::Optimistic, assume_power_loss: true, ..options }
}

/// An open store and one session on it.
pub struct World {
    client: Arc<Client>,
    session: Arc<AtomicU64>,
    slots: BTreeMap<Slot, Arc<OpenFile>>,
    mappings: BTreeMap<Slot, shared_mapping::SharedMapping>,
    daemon: Arc<Daemon>,
    who: Credentials,
}

impl World {
    /// Opens the store in `directory`, which recovers it, and attaches.
    pub fn open(directory: &Path) -> Result<World, String> {
        World::open_with(directory, small_options(false))
    }

    /// The same with a daemon that can be killed: sessions go on with the next one.
    pub fn open_mortal(directory: &Path) -> Result<World, String> {
        let daemon = Daemon::mortal(directory, small_options(true))?;
        World::attach(&Arc::new(daemon)).map_err(|error| format!("attach: {error}"))
    }

    /// The daemon is killed behind so many stores, flushes and fences of its own, and the next one takes its place; once.
    pub fn kill_daemon_behind(&self, events: u64) {
        self.daemon.kill_behind(events);
    }

    /// Has the daemon outlive its sessions.
    pub fn hold_daemon(&self) -> HeldDaemon {
        HeldDaemon::new(&self.daemon)
    }

    /// Whether that happened.
    pub fn daemon_was_killed(&self) -> bool {
        self.daemon.was_killed()
    }

    /// The same with options of one's own.
    pub fn open_with(directory: &Path, options: Options) -> Result<World, String> {
        let shared = SharedFs::open(directory, options).map_err(|error| format!("open: {error}"))?;
        World::attach(&Arc::new(Daemon::of(shared))).map_err(|error| format!("attach: {error}"))
    }

    fn attach(daemon: &Arc<Daemon>) -> Result<World, Error> {
        let session = Arc::new(AtomicU64::new(0));
        let client = Client::attach(Box::new(InProcess::to(daemon, &session)), "sim")?;
        Ok(World {
            client,
            session,
            slots: BTreeMap::new(),
            mappings: BTreeMap::new(),
            daemon: Arc::clone(daemon),
            who: ROOT,
        })
    }

    /// The outcome of the recovery when the store was opened.
    pub fn recovered(&self) -> Recovered {
        *self.daemon.current().recovered()
    }

    /// A second session on the same store.
    pub fn another(&self) -> Result<World, String> {
        World::attach(&self.daemon).map_err(|error| format!("attach: {error}"))
    }

    /// A thread of the same client, without open files.
    pub fn thread(&self) -> World {
        World {
            client: Arc::clone(&self.client),
            session: Arc::clone(&self.session),
            slots: BTreeMap::new(),
            mappings: BTreeMap::new(),
            daemon: Arc::clone(&self.daemon),
            who: self.who.clone(),
        }
    }

    /// Serves the store by a socket, too, as the real daemon does, digests and all.
    pub fn listen(&self, socket: &Path) -> Result<Server<SharedFs>, String> {
        let listener = Listener::bind(socket).map_err(|error| error.to_string())?;
        Server::start(self.daemon.current(), listener).map_err(|error| error.to_string())
    }

    /// Later calls are made by `who`.
    pub fn act_as(&mut self, who: Credentials) {
        self.who = who;
    }

    /// The same in optimistic mode, after a loss of power. Nothing writes logs in the background.
    pub fn open_optimistic(directory: &Path) -> Result<World, String> {
        World::open_with(directory, optimistic(small_options(false)))
    }

    /// Waits until all is durable that any session did.
    pub fn dsync(&self) -> Result<(), String> {
        self.client.dsync().map_err(|error| format!("dsync: {error}"))
    }

    /// Waits until all that the session did is durable.
    pub fn sync(&self) -> Result<(), String> {
        self.client.sync().map_err(|error| format!("sync: {error}"))
    }

    /// Inodes in the shared area.
    pub fn inodes(&self) -> Result<u64, String> {
        self.client.statfs().map(|totals| totals.inodes).map_err(|error| format!("statfs: {error}"))
    }

    /// The work that a digest thread repeats.
    pub fn digests(&self) -> impl Fn() + Send + 'static {
        let shared = self.daemon.current();
        // A digest that fails shows in the operation that waits for it.
        move || {
            drop(
                shared
                    .backlogs()
                    .iter()
                    .find(|log| log.bytes > 0)
                    .map(|log| shared.digest_session(log.session)),
            )
        }
    }

    /// The session it is now.
    pub fn session(&self) -> SessionId {
        SessionId(self.session.load(Ordering::Relaxed))
    }

    /// The daemon sees the socket of another session close.
    pub fn end(&self, session: SessionId) -> Result<(), String> {
        self.daemon.current().end_session(session, Ending::Gone).map_err(|error| format!("end: {error}"))
    }

    /// Has everything digested.
    pub fn digest(&self) -> Result<(), String> {
        self.client.digest().map_err(|error| format!("digest: {error}"))
    }

    /// The client forgets from now on what it does not use, and gives it back.
    pub fn forget_early(&self) {
        self.client.limit_cache(0);
    }

    /// Ends the session in order.
    pub fn detach(mut self) {
        self.slots.clear();
        self.client.detach();
    }

    /// Runs `work` beside a thread that digests logs which are nearly full. Beside a daemon that can be killed there is
    /// none, for it would go on.
    pub fn helped<T>(&mut self, work: impl FnOnce(&mut World) -> T) -> T {
        if self.daemon.is_mortal() {
            return work(self);
        }
        let shared = self.daemon.current();
        let almost_full = shared.geometry().ring_bytes() / 2;
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let helper = scope.spawn(|| {
                while !done.load(Ordering::Acquire) {
                    if shared.backlogs().iter().any(|log| log.bytes > almost_full) {
                        // A digest that fails shows in the operation that waits for it.
                        let _ = shared.digest_step();
                    }
                    std::thread::park_timeout(HELP_EVERY);
                }
            });
            let result = work(self);
            done.store(true, Ordering::Release);
            helper.thread().unpark();
            result
        })
    }

    /// Carries out one call.
    pub fn apply(&mut self, operation: &Operation) -> Result<Outcome, Errno> {
        self.serve(operation).map_err(|error| Errno::from_raw_os_error(error.errno()))
    }

    /// The store is the whole world: a path that leaves it comes in again at its root.
    fn serve(&mut self, operation: &Operation) -> Result<Outcome, Error> {
        let mut operation = operation.clone();
        // Which path of a call is too long the caller of LibFS sees: of the second it says so once the first has been followed,
        // as of one with a folder whose name is too long.
        for second in [false, true] {
            if let Some(path) =
                operation.path_mut(second).filter(|path| path.as_bytes().len() >= PATH_BYTES_MAX)
            {
                *path = PathText([&[b'x'; NAME_BYTES_MAX + 1][..], b"/x"].concat());
            }
        }
        for _ in 0..CROSSINGS_MAX {
            let (path, second) = match self.serve_inside(&operation) {
                Err(Error::Leaves { path, second }) => (path, second),
                answered => return answered,
            };
            let mut inside = path.strip_prefix(b"..").unwrap_or(&path);
            if inside.iter().all(|byte| *byte == b'/') {
                // Where `..` of the root is the root, it still is no name.
                if path.starts_with(b"..") && matches!(operation, Operation::Rmdir { .. }) {
                    return Err(Error::NotEmpty);
                }
                inside = b"/";
            }
            *operation.path_mut(second).ok_or(Error::CrossDevice)? = PathText(inside.to_vec());
        }
        Err(Error::SymlinkLoop)
    }

    fn serve_inside(&mut self, operation: &Operation) -> Result<Outcome, Error> {
        use Operation::*;
        let client = Arc::clone(&self.client);
        match operation {
            Open { slot, path, flags, mode } => {
                self.close(*slot)?;
                let file = client.open(&self.who, Base::Root, path.as_bytes(), flags.bits(), *mode)?;
                self.slots.insert(*slot, file);
                Ok(Outcome::Done)
            }
            OpenUnnamed { slot, path, mode, exclusive } => {
                self.close(*slot)?;
                let exclusive = if *exclusive { libc::O_EXCL } else { 0 };
                let flags = libc::O_TMPFILE | libc::O_RDWR | exclusive;
                let file = client.open(&self.who, Base::Root, path.as_bytes(), flags, *mode)?;
                self.slots.insert(*slot, file);
                Ok(Outcome::Done)
            }
            LinkOpen { slot, new } => {
                let source = LinkSource::File(self.file(*slot)?);
                done(client.link(&self.who, source, Base::Root, new.as_bytes()).map_err(only_path))
            }
            Close { slot } => {
                self.file(*slot)?;
                self.close(*slot)
            }
            Write { slot, data } => {
                client.write(self.file(*slot)?, &[data.bytes().as_slice().into()]).map(Outcome::Written)
            }
            Pwrite { slot, offset, data } => client
                .pwrite(self.file(*slot)?, &[data.bytes().as_slice().into()], *offset as i64)
                .map(Outcome::Written),
            Read { slot, length } => {
                let mut bytes = vec![0; *length as usize];
                let got = client.read(self.file(*slot)?, &mut [bytes.as_mut_slice().into()])?;
                bytes.truncate(got);
                Ok(Outcome::Bytes(bytes))
            }
            Pread { slot, offset, length } => {
                let mut bytes = vec![0; *length as usize];
                let got =
                    client.pread(self.file(*slot)?, &mut [bytes.as_mut_slice().into()], *offset as i64)?;
                bytes.truncate(got);
                Ok(Outcome::Bytes(bytes))
            }
            Seek { slot, offset } => {
                done(client.seek(self.file(*slot)?, *offset as i64, Whence::Set).map(drop))
            }
            Ftruncate { slot, length } => done(client.truncate_open(self.file(*slot)?, *length as i64)),
            Fallocate { slot, mode, offset, length } => {
                let what = match mode {
                    FallocateMode::Extend => Allocation::Extend,
                    FallocateMode::KeepSize => Allocation::KeepSize,
                    FallocateMode::PunchHole | FallocateMode::ZeroKeepSize => Allocation::Punch,
                    FallocateMode::ZeroRange => Allocation::Zero,
                    FallocateMode::CollapseRange => Allocation::Collapse,
                    FallocateMode::InsertRange => Allocation::Insert,
                };
                done(client.allocate(self.file(*slot)?, what, *offset as i64, *length as i64))
            }
            Fsync { slot } => done(client.fsync(self.file(*slot)?)),
            Fchmod { slot, mode } => {
                let set = SetAttributes { mode: Some(mode & 0o7777), ..SetAttributes::default() };
                done(client.set_attributes(&self.who, Target::File(self.file(*slot)?), set))
            }
            Fstat { slot } => {
                client.stat_open(self.file(*slot)?).map(|stat| Outcome::Attributes(attributes(&stat.record)))
            }
            FsetExtended { slot, name, value } => done(client.set_extended(
                &self.who,
                Target::File(self.file(*slot)?),
                name.as_bytes(),
                &value.bytes(),
                ExtendedFlags::default(),
            )),
            FlistExtended { slot } => {
                let target = Target::File(self.file(*slot)?);
                Ok(Outcome::Names(self.extended_names(target)?))
            }
            SetExtended { .. }
            | RemoveExtended { .. }
            | GetExtended { .. }
            | ListExtended { .. }
            | SetList { .. } => self.serve_extended(operation),
            _ => self.serve_path(operation),
        }
    }

    /// The calls on extended attributes by path.
    fn serve_extended(&self, operation: &Operation) -> Result<Outcome, Error> {
        use Operation::*;
        let (client, who) = (&self.client, &self.who);
        let at = |path, follow: &bool| target(path, *follow);
        match operation {
            SetExtended { path, follow, name, value, condition } => {
                let flags = ExtendedFlags {
                    create: *condition == SetCondition::Create,
                    replace: *condition == SetCondition::Replace,
                };
                let (name, value) = (name.as_bytes(), value.bytes());
                done(client.set_extended(who, at(path, follow), name, &value, flags))
            }
            RemoveExtended { path, follow, name } => {
                done(client.remove_extended(who, at(path, follow), name.as_bytes()))
            }
            GetExtended { path, follow, name } => {
                client.get_extended(who, at(path, follow), name.as_bytes()).map(Outcome::Bytes)
            }
            SetList { path, default, list } => {
                let (name, value) = (list_name(*default), list_value(list));
                let flags = ExtendedFlags::default();
                done(client.set_extended(who, target(path, true), name.as_bytes(), &value, flags))
            }
            ListExtended { path, follow } => Ok(Outcome::Names(self.extended_names(at(path, follow))?)),
            _ => unreachable!("other calls are served elsewhere"),
        }
    }

    fn extended_names(&self, target: Target<'_>) -> Result<Vec<PathText>, Error> {
        let list = self.client.list_extended(&self.who, target)?;
        let names = list.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        Ok(names.map(|name| PathText(name.to_vec())).collect())
    }

    fn extended(&self, target: Target<'_>) -> Result<Extended, Error> {
        let names = self.extended_names(target)?;
        let value = |name: &PathText| self.client.get_extended(&self.who, target, name.as_bytes());
        names.into_iter().map(|name| Ok((name.clone(), value(&name)?))).collect()
    }

    /// The calls that take no slot.
    fn serve_path(&self, operation: &Operation) -> Result<Outcome, Error> {
        use Operation::*;
        let client = &self.client;
        let root = Base::Root;
        let rename = |from: &PathText, to: &PathText, flags| {
            done(client.rename(&self.who, (root, from.as_bytes()), (root, to.as_bytes()), flags))
        };
        let set = |path: &PathText, follow, set| {
            done(client.set_attributes(
                &self.who,
                Target::Path { base: root, path: path.as_bytes(), follow },
                set,
            ))
        };
        match operation {
            Truncate { path, length } => {
                done(client.truncate(&self.who, root, path.as_bytes(), *length as i64))
            }
            Mkdir { path, mode } => done(client.make_directory(&self.who, root, path.as_bytes(), *mode)),
            MakeNode { path, kind, mode, device } => {
                let mode = kind.bits() | mode & 0o7777;
                done(client.make_node(&self.who, root, path.as_bytes(), mode, *device))
            }
            Rmdir { path } => done(client.remove_directory(&self.who, root, path.as_bytes())),
            Link { existing, new } => {
                let source = LinkSource::Path { base: root, path: existing.as_bytes(), follow: false };
                done(client.link(&self.who, source, root, new.as_bytes()))
            }
            Symlink { target, path } => {
                done(client.symlink(&self.who, target.as_bytes(), root, path.as_bytes()))
            }
            Unlink { path } => done(client.unlink(&self.who, root, path.as_bytes())),
            Rename { from, to } => rename(from, to, RenameFlags::default()),
            RenameExchange { from, to } => {
                rename(from, to, RenameFlags { exchange: true, ..RenameFlags::default() })
            }
            RenameNoReplace { from, to } => {
                rename(from, to, RenameFlags { no_replace: true, ..RenameFlags::default() })
            }
            Chmod { path, mode } => {
                set(path, true, SetAttributes { mode: Some(mode & 0o7777), ..SetAttributes::default() })
            }
            Lchown { path, uid, gid } => {
                let given = |id: u32| (id != u32::MAX).then_some(id);
                let (uid, gid) = (given(*uid), given(*gid));
                set(path, false, SetAttributes { uid, gid, chown: true, ..SetAttributes::default() })
            }
            Utimens { path, modified } => {
                let time = SetTime::To(cuesta_format::Timestamp::new(modified.seconds, modified.nanoseconds));
                set(path, true, SetAttributes { accessed: time, modified: time, ..SetAttributes::default() })
            }
            Stat { path } => self.stat(path, true),
            Lstat { path } => self.stat(path, false),
            Readlink { path } => client
                .read_link(&self.who, root, path.as_bytes())
                .map(|target| Outcome::Target(PathText(target))),
            Readdir { path } => self.names(path).map(Outcome::Names),
            _ => unreachable!("calls on slots are served elsewhere"),
        }
    }

    fn stat(&self, path: &PathText, follow: bool) -> Result<Outcome, Error> {
        let stat = self.client.stat(&self.who, Base::Root, path.as_bytes(), follow)?;
        Ok(Outcome::Attributes(attributes(&stat.record)))
    }

    fn names(&self, path: &PathText) -> Result<Vec<PathText>, Error> {
        let flags = libc::O_RDONLY | libc::O_DIRECTORY;
        let directory = self.client.open(&self.who, Base::Root, path.as_bytes(), flags, 0)?;
        let mut names = Vec::new();
        self.client.read_directory(&directory, &mut |item| {
            if item.name != b"." && item.name != b".." {
                names.push(PathText(item.name.to_vec()));
            }
            true
        })?;
        self.client.close(directory)?;
        names.sort();
        Ok(names)
    }

    fn file(&self, slot: Slot) -> Result<&OpenFile, Error> {
        self.slots.get(&slot).map(|file| &**file).ok_or(Error::AccessMode)
    }

    fn close(&mut self, slot: Slot) -> Result<Outcome, Error> {
        done(self.slots.remove(&slot).map_or(Ok(()), |file| self.client.close(file)))
    }

    /// Everything the store shows.
    pub fn tree(&self) -> Result<Tree, String> {
        self.collect().map(TreeBuilder::finish)
    }

    fn collect(&self) -> Result<TreeBuilder, String> {
        let mut builder = TreeBuilder::default();
        self.walk(&PathText::from("/"), &mut builder).map_err(|error| format!("walk: {error}"))?;
        Ok(builder)
    }

    fn walk(&self, path: &PathText, builder: &mut TreeBuilder) -> Result<(), Error> {
        let record = self.client.stat(&self.who, Base::Root, path.as_bytes(), false)?.record;
        let attributes = attributes(&record);
        let content = match attributes.kind {
            Kind::Symlink => {
                Content::Symlink(PathText(self.client.read_link(&self.who, Base::Root, path.as_bytes())?))
            }
            Kind::File => {
                let file = self.client.open(&self.who, Base::Root, path.as_bytes(), libc::O_RDONLY, 0)?;
                let content = self.read_whole(&file, attributes.size)?;
                self.client.close(file)?;
                Content::File(content)
            }
            Kind::Directory => {
                for name in self.names(path)? {
                    self.walk(&join(path, name.as_bytes()), builder)?;
                }
                Content::Directory
            }
            Kind::Pipe | Kind::Socket | Kind::CharacterDevice | Kind::BlockDevice => {
                Content::Node { device: record.device }
            }
        };
        builder.add(path.clone(), record.inode.0, attributes, content, self.extended(target(path, false))?);
        Ok(())
    }

    fn read_whole(&self, file: &OpenFile, size: u64) -> Result<Sparse, Error> {
        let mut content = Sparse::default();
        let mut buffer = vec![0; READ_BYTES];
        let mut offset = 0;
        loop {
            let got = self.client.pread(file, &mut [buffer.as_mut_slice().into()], offset as i64)?;
            if got == 0 {
                break;
            }
            content.write(offset, &buffer[..got]);
            offset += got as u64;
        }
        content.set_size(offset);
        if offset == size { Ok(content) } else { Err(Error::Daemon("a file shorter than its size".into())) }
    }
}

fn target(path: &PathText, follow: bool) -> Target<'_> {
    Target::Path { base: Base::Root, path: path.as_bytes(), follow }
}

/// Of a call with one path it is the first.
fn only_path(error: Error) -> Error {
    match error {
        Error::Leaves { path, .. } => Error::Leaves { path, second: false },
        error => error,
    }
}

fn done<T>(result: Result<T, Error>) -> Result<Outcome, Error> {
    result.map(|_| Outcome::Done)
}

fn attributes(record: &InodeRecord) -> Attributes {
    let kind = Kind::of_mode(record.mode);
    let modified = record.modified;
    Attributes {
        kind,
        mode: record.mode & 0o7777,
        links: record.links,
        uid: record.uid,
        gid: record.gid,
        size: if kind == Kind::Directory { 0 } else { record.size },
        modified: Some(Timestamp {
            seconds: modified.0.div_euclid(1_000_000_000),
            nanoseconds: modified.0.rem_euclid(1_000_000_000) as u32,
        }),
    }
}
