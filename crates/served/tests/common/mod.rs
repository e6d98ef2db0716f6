//! A store that is served to other users, and a client that speaks the protocol itself, as user 65534.
//!
//! Needs root, to be another user in a thread of its own; skipped visibly otherwise.

#![allow(dead_code)]

pub mod ring;

use cuesta_format::geometry::{USERS_FOLDER, USERS_SOCKET_FILE};
use cuesta_format::superblock::{Medium, Superblock};
use cuesta_format::{Geometry, InodeNumber, StoreId};
use cuesta_libfs::{Base, Client, Credentials, Resolve, SocketLink};
use cuesta_served::{Limits, Listener as UsersListener, PathBase, Request, Response, Server, VERSION};
use cuesta_sharedfs::server::{Listener, Server as SharedServer};
use cuesta_sharedfs::{Options, SharedFs};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use std::io::{IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

pub const NOBODY: u32 = 65534;
pub const ROOT: Credentials = Credentials::of_user(0, 0, Vec::new());

pub struct Store {
    pub users: PathBuf,
    pub sharedfs: PathBuf,
    _server: Mutex<SharedServer<SharedFs>>,
    _users: Server,
    pub root: Arc<Client>,
    pub shared: Arc<SharedFs>,
    /// Removed when no process makes files in it any more.
    pub folder: tempfile::TempDir,
}

pub fn store() -> Store {
    store_within(Limits::default())
}

pub fn store_within(limits: Limits) -> Store {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o711)).unwrap();
    let geometry = Geometry { nvm_bytes: 64 << 20, arena_bytes: 16 << 20, ..Geometry::default() };
    let superblock = Superblock { store: StoreId([7; 16]), medium: Medium::Memory, geometry };
    SharedFs::create(folder.path(), superblock).unwrap();
    let (users, sharedfs) = (folder.path().join(USERS_FOLDER), folder.path().join("sock"));
    let listener = Listener::bind(&sharedfs).unwrap();
    let shared = SharedFs::open(folder.path(), Options::default()).unwrap();
    let server = SharedServer::start(Arc::clone(&shared), listener).unwrap();
    let service = Server::start_within(
        limits,
        UsersListener::bind(&users).unwrap(),
        &sharedfs,
        folder.path(),
        Arc::new(()),
    )
    .unwrap();
    let link = SocketLink::connect(sharedfs.as_os_str().as_bytes(), 0).unwrap();
    let root = Client::attach(Box::new(link), "test").unwrap();
    let users = users.join(USERS_SOCKET_FILE);
    Store { folder, users, sharedfs, shared, _server: Mutex::new(server), _users: service, root }
}

/// Runs `act` in a thread that is user 65534 to the kernel.
pub fn as_nobody<T: Send>(act: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // SAFETY: only this thread's credentials change, for libc is not asked.
            unsafe {
                assert_eq!(libc::syscall(libc::SYS_setgroups, 0, 0), 0);
                assert_eq!(libc::syscall(libc::SYS_setresgid, NOBODY, NOBODY, NOBODY), 0);
                assert_eq!(libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY), 0);
            }
            act()
        });
        thread.join().unwrap()
    })
}

pub fn is_root() -> bool {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root becomes somebody else");
    }
    rustix::process::geteuid().is_root()
}

/// The protocol by hand.
pub struct Raw(pub UnixStream, pub Vec<OwnedFd>);

impl Raw {
    pub fn connect(store: &Store) -> Raw {
        let mut raw = Raw(UnixStream::connect(&store.users).unwrap(), Vec::new());
        assert!(matches!(raw.ask(&Request::Hello { version: VERSION }), Response::Welcome { .. }));
        raw
    }

    pub fn send(&mut self, body: &[u8]) {
        self.0.write_all(&(body.len() as u32).to_le_bytes()).unwrap();
        self.0.write_all(body).unwrap();
    }

    pub fn ask(&mut self, request: &Request<'_>) -> Response {
        self.ask_frame(&postcard::to_stdvec(request).unwrap())
    }

    pub fn ask_frame(&mut self, body: &[u8]) -> Response {
        self.send(body);
        let mut head = [0; 4];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(&mut head)];
        let got = recvmsg(&self.0, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC).unwrap();
        assert_eq!(got.bytes, 4);
        for part in control.drain() {
            if let RecvAncillaryMessage::ScmRights(files) = part {
                self.1.extend(files);
            }
        }
        let mut body = vec![0; u32::from_le_bytes(head) as usize];
        self.0.read_exact(&mut body).unwrap();
        postcard::from_bytes(&body).unwrap()
    }

    /// Whether the other end has hung up.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.0.read(&mut [0; 16]), Ok(1..))
    }
}

pub fn write_as_root(store: &Store, path: &[u8], content: &[u8], mode: u32) -> InodeNumber {
    let flags = libc::O_CREAT | libc::O_RDWR;
    let file = store.root.open(&ROOT, Base::Root, path, flags, mode).unwrap();
    store.root.write(&file, &[content.into()]).unwrap();
    let inode = file.inode();
    store.root.close(file).unwrap();
    inode
}

pub fn read_as_root(store: &Store, path: &[u8]) -> Vec<u8> {
    let file = store.root.open(&ROOT, Base::Root, path, libc::O_RDONLY, 0).unwrap();
    let mut bytes = vec![0; 100];
    let count = store.root.read(&file, &mut [bytes.as_mut_slice().into()]).unwrap();
    store.root.close(file).unwrap();
    bytes.truncate(count);
    bytes
}

impl Raw {
    /// Opens a file; answers its number. Its token is put behind the others.
    pub fn open(&mut self, path: &[u8], flags: i32) -> Response {
        let (place, resolve) = (PathBase::Root, Resolve::default());
        self.ask(&Request::Open { place, path, flags, mode: 0o644.into(), resolve })
    }

    /// As [`Raw::open`], for a file that is there.
    pub fn opened(&mut self, path: &[u8], flags: i32) -> u64 {
        match self.open(path, flags) {
            Response::Opened { file, .. } => file,
            answer => panic!("{answer:?}"),
        }
    }
}
