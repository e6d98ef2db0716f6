//! Sessions that send operations to SharedFS, as those of programs do: by a connection to the service in the daemon, which performs
//! them in a session of its own.
//!
//! All of it is the product's, but for the socket of SharedFS itself. The preload library's part between a program and the two
//! ways is played by [`SendingWorld`]: which calls are sent, and how a file is opened that SharedFS makes.

use super::small::small_options;
use super::{World, done, optimistic};
use crate::operations::operation::{Operation, Outcome};
use cuesta_format::geometry::USERS_SOCKET_FILE;
use cuesta_format::{InodeNumber, InodeRecord, LogDependency};
use cuesta_libfs::{
    Asker, CallByNumber, Client, Credentials, Error, NewMode, Observed, RenameFlags, SetAttributes,
    ShippedChange, ShippedFile, Shipper,
};
use cuesta_media::{UserSlice, UserSliceMut};
use cuesta_served::{Client as Connection, Listener, OwnSession, PathBase, Server, Subject};
use cuesta_sharedfs::{Options, Ship};
use rustix::io::Errno;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// A client that has made so many calls has a ring.
const CALLS_BEFORE_RING: usize = 16;

/// The service in the daemon, and its session.
pub struct Service {
    session: World,
    server: Option<Server>,
    /// Holds its socket, and what it keeps of open files. The store has none of that.
    folder: tempfile::TempDir,
}

/// A session that sends.
pub struct SendingWorld {
    world: World,
    way: Arc<Way>,
}

/// The session beside its connection, and what it saw of the service's log.
#[derive(Debug)]
struct Own {
    session: Weak<Client>,
    observed: Observed,
}

impl OwnSession for Own {
    fn undurable_end(&self) -> Option<LogDependency> {
        self.session.upgrade()?.undurable_end()
    }

    fn note(&self, seen: LogDependency) {
        self.observed.note(seen);
    }
}

/// How it sends.
struct Way {
    connection: Connection,
    own: Arc<Own>,
    /// Else the way cannot be had, and the session does the operation.
    is_open: AtomicBool,
    /// Requests that were sent.
    sent: AtomicU64,
}

/// The way as the session has it.
struct ByWay(Arc<Way>);

impl World {
    /// As [`World::open`], with a daemon that has operations sent of all files and directories which the session does not hold.
    pub fn open_shipping(directory: &Path) -> Result<World, String> {
        World::open_with(directory, Options { ship: Ship::Always, ..small_options(false) })
    }

    /// The same in optimistic mode, after a loss of power.
    pub fn open_optimistic_shipping(directory: &Path) -> Result<World, String> {
        World::open_with(directory, optimistic(Options { ship: Ship::Always, ..small_options(false) }))
    }

    /// The session sends from now on.
    pub fn sends_to(self, service: &Service) -> Result<SendingWorld, String> {
        let path = service.folder.path().join(USERS_SOCKET_FILE);
        let connection = Connection::connect(path.as_os_str().as_bytes(), 0);
        let own = Arc::new(Own { session: Arc::downgrade(&self.client), observed: Observed::new() });
        let connection = connection.map_err(|error| format!("connect: {error}"))?.beside(own.clone());
        let (is_open, sent) = (AtomicBool::new(false), AtomicU64::new(0));
        let way = Arc::new(Way { connection, own, is_open, sent });
        self.client.ship_by(Box::new(ByWay(Arc::clone(&way))));
        Ok(SendingWorld { world: self, way })
    }
}

impl Service {
    /// Serves the store by a further session of `world`'s daemon.
    pub fn start(world: &World) -> Result<Service, String> {
        let session = world.another()?;
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let listener = Listener::bind(folder.path()).map_err(|error| error.to_string())?;
        // There is no SharedFS behind any socket: the session is there already.
        let server = Server::start(listener, &folder.path().join("none"), folder.path());
        let server = server.map_err(|error| error.to_string())?;
        server.serve_by(Arc::clone(&session.client));
        Ok(Service { session, server: Some(server), folder })
    }

    /// Has everything digested that it did.
    pub fn digest(&self) -> Result<(), String> {
        self.session.digest()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.server.take().into_iter().for_each(Server::stop);
    }
}

impl SendingWorld {
    /// The session.
    pub fn world(&mut self) -> &mut World {
        &mut self.world
    }

    /// Calls sent from now on go by a ring.
    pub fn ask_for_ring(&self) -> Result<(), String> {
        let connection = &self.way.connection;
        let root = Subject::Path { place: PathBase::Root, path: b"/", follow: true };
        for _ in 0..CALLS_BEFORE_RING {
            connection.stat(root).map_err(|error| format!("stat: {error}"))?;
        }
        if connection.has_ring() { Ok(()) } else { Err("there is no ring".to_owned()) }
    }

    /// Carries out one call: by the session itself, or as `sends` has it by the service where SharedFS keeps what it is about. Answers
    /// also whether anything was sent.
    pub fn apply(&mut self, operation: &Operation, sends: bool) -> (Result<Outcome, Errno>, bool) {
        let Way { is_open, sent, .. } = &*self.way;
        is_open.store(sends, Ordering::Relaxed);
        let before = sent.load(Ordering::Relaxed);
        let way = &self.way;
        let answer = self.world.helped(|world| match sends && may_be_sent(operation) {
            true => {
                let client = Arc::clone(&world.client);
                match client.sending(|_| world.serve(operation)) {
                    Err(Error::Shipped(_)) => way.send(world, operation),
                    done => done,
                }
            }
            false => world.serve(operation),
        });
        let answer = answer.map_err(|error| Errno::from_raw_os_error(error.errno()));
        (answer, sent.load(Ordering::Relaxed) > before)
    }
}

/// Whether it is a call on names that is sent where SharedFS keeps a directory.
fn may_be_sent(operation: &Operation) -> bool {
    use Operation::*;
    match operation {
        Open { flags, .. } => flags.create,
        Mkdir { .. } | Rmdir { .. } | Link { .. } | Unlink { .. } | Rename { .. } => true,
        _ => false,
    }
}

impl Way {
    /// The connection, for one request; not if the operation is to be done by the session.
    fn connection(&self) -> Option<&Connection> {
        let is_open = self.is_open.load(Ordering::Relaxed);
        is_open.then(|| {
            self.sent.fetch_add(1, Ordering::Relaxed);
            &self.connection
        })
    }

    fn for_inode(&self, inode: InodeNumber) -> Result<&Connection, Error> {
        self.connection().ok_or(Error::Shipped(inode))
    }

    fn for_file(&self, file: &ShippedFile) -> Result<&Connection, Error> {
        self.for_inode(file.inode)
    }

    /// Sends a call on names.
    fn send(&self, world: &mut World, operation: &Operation) -> Result<Outcome, Error> {
        use Operation::*;
        let Some(connection) = self.connection() else { return world.serve(operation) };
        let root = PathBase::Root;
        match operation {
            Open { .. } => self.make_open(world, operation),
            Mkdir { path, mode } => done(connection.make_directory(root, path.as_bytes(), (*mode).into())),
            Rmdir { path } => done(connection.unlink(root, path.as_bytes(), true)),
            Link { existing, new } => {
                let existing = Subject::Path { place: root, path: existing.as_bytes(), follow: false };
                done(connection.link(existing, root, new.as_bytes()))
            }
            Unlink { path } => done(connection.unlink(root, path.as_bytes(), false)),
            Rename { from, to } => {
                let (from, to) = ((root, from.as_bytes()), (root, to.as_bytes()));
                done(connection.rename(from, to, RenameFlags::default()))
            }
            _ => unreachable!("other calls are not sent by their names"),
        }
    }

    /// Has SharedFS make the file that the session opens. If it is there already, the session opens it.
    fn make_open(&self, world: &mut World, operation: &Operation) -> Result<Outcome, Error> {
        let Operation::Open { slot, path, flags, mode } = operation else {
            unreachable!("it is a call that opens a file")
        };
        let number = self.connection.number_for_file()?;
        let awaited = world.client.await_file(number, flags.bits());
        match self.connection.make_file(PathBase::Root, path.as_bytes(), (*mode).into(), number, None) {
            Ok(record) => {
                world.close(*slot)?;
                let file = world.client.open_made(&world.who, awaited, &record, flags.bits());
                world.slots.insert(*slot, file);
                Ok(Outcome::Done)
            }
            Err(error @ (Error::Disconnected | Error::Daemon(_))) => Err(error),
            Err(_) => world.serve(operation),
        }
    }
}

impl Shipper for ByWay {
    fn read(&self, file: &ShippedFile, out: &mut [UserSliceMut<'_>], at: u64) -> Result<usize, Error> {
        self.0.for_file(file)?.ship_read(file, out, at)
    }

    fn write(
        &self,
        file: &ShippedFile,
        data: &[UserSlice<'_>],
        at: Option<u64>,
    ) -> Result<(usize, u64), Error> {
        self.0.for_file(file)?.ship_write(file, data, at)
    }

    fn set_attributes(&self, _: &Credentials, file: &ShippedFile, set: SetAttributes) -> Result<(), Error> {
        self.0.for_file(file)?.ship_change(file, ShippedChange::SetAttributes { set })
    }

    fn change(&self, file: &ShippedFile, change: ShippedChange) -> Result<(), Error> {
        self.0.for_file(file)?.ship_change(file, change)
    }

    fn settle(&self) -> Result<(), Error> {
        self.0.connection.settle()
    }

    fn sync(&self) -> Result<(), Error> {
        self.0.connection.sync()
    }

    fn observed(&self) -> Option<&Observed> {
        Some(&self.0.own.observed)
    }

    fn record(&self, file: &ShippedFile) -> Result<InodeRecord, Error> {
        self.0.for_file(file)?.ship_stat(file)
    }

    fn by_number(&self, who: Asker, call: &CallByNumber<'_>) -> Result<Option<InodeRecord>, Error> {
        self.0.for_inode(InodeNumber::NONE)?.by_number(who, call)
    }

    fn number_for_file(&self) -> Result<InodeNumber, Error> {
        self.0.for_inode(InodeNumber::NONE)?.number_for_file()
    }

    fn make_file(
        &self,
        who: Asker,
        directory: InodeNumber,
        name: &[u8],
        mode: NewMode,
        inode: InodeNumber,
    ) -> Result<InodeRecord, Error> {
        let place = PathBase::Inode(directory);
        self.0.for_inode(directory)?.make_file(place, name, mode, inode, Some(who))
    }
}
