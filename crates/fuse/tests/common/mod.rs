//! A store with a mount, in this process, and a session beside it as programs under `cuesta run` have one.
//!
//! The variable `CUESTA_SHIP` says which operations SharedFS performs itself, as `ship` in `cuesta.toml` does.
//!
//! Needs root and FUSE; tests say so and end where these are not to be had.

#![allow(dead_code)]

use cuesta_format::durability::DurabilityWish;
use cuesta_format::event::Step;
use cuesta_format::geometry::{USERS_FOLDER, USERS_SOCKET_FILE};
use cuesta_format::superblock::{Medium, Superblock};
use cuesta_format::wire::{Request, Response};
use cuesta_format::{Geometry, InodeNumber, SessionId, StoreId};
use cuesta_fuse::Device;
use cuesta_fuse::Options as MountOptions;
use cuesta_fuse::Server as MountServer;
use cuesta_libfs::{Client, Credentials, Link as _, SocketLink};
use cuesta_sharedfs::server::{Listener, Server, StopReason};
use cuesta_sharedfs::{Options, SharedFs, Ship};
use rustix::fd::OwnedFd;
use rustix::mm::{MapFlags, ProtFlags, mmap};
use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

pub const ROOT: Credentials = Credentials::of_user(0, 0, Vec::new());

/// Whether a mount can be made here.
pub fn can_mount() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let capabilities = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap().trim();
    let administers = u64::from_str_radix(capabilities, 16).unwrap() & 1 << 21 != 0;
    let can = administers && Device::open().is_ok();
    if !can {
        println!("skipped: needs root, and FUSE");
    }
    can
}

pub struct Mounted {
    server: Option<Server<SharedFs>>,
    service: Option<cuesta_served::Server>,
    ship: Ship,
    mount: Option<MountServer>,
    device: Option<Device>,
    place: TempDir,
    folder: TempDir,
}

impl Mounted {
    pub fn new() -> Mounted {
        Mounted::shipping(ship_by_environment())
    }

    /// One where SharedFS itself performs the operations on these inodes.
    pub fn shipping(ship: Ship) -> Mounted {
        Mounted::with(ship, |socket| attached(socket, "test"))
    }

    /// One whose session is made by `attach`, which is told where SharedFS listens.
    pub fn by(attach: impl FnOnce(&Path) -> Arc<Client>) -> Mounted {
        Mounted::with(ship_by_environment(), attach)
    }

    fn with(ship: Ship, attach: impl FnOnce(&Path) -> Arc<Client>) -> Mounted {
        // A process that dumps its memory waits for a mount that it serves itself.
        let quiet = rustix::process::DumpableBehavior::NotDumpable;
        rustix::process::set_dumpable_behavior(quiet).unwrap();
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let geometry = Geometry { nvm_bytes: 64 << 20, arena_bytes: 16 << 20, ..Geometry::default() };
        let superblock = Superblock { store: StoreId([7; 16]), medium: Medium::Memory, geometry };
        SharedFs::create(folder.path(), superblock).unwrap();
        let place = tempfile::tempdir().unwrap();
        let mut mounted =
            Mounted { server: None, service: None, ship, mount: None, device: None, place, folder };
        mounted.start_daemon();
        let options = MountOptions { source: "a test".into(), allow_other: true, ..MountOptions::default() };
        let client = attach(&mounted.socket());
        let device = cuesta_fuse::mount(mounted.place.path(), &options).unwrap();
        mounted.device = Some(device.another().unwrap());
        mounted.mount = Some(MountServer::start(client, device, mounted.place.path()).unwrap());
        mounted
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("sock")
    }

    pub fn start_daemon(&mut self) {
        let listener = Listener::bind(&self.socket()).unwrap();
        let users = cuesta_served::Listener::bind(&self.folder.path().join(USERS_FOLDER)).unwrap();
        let options = Options { ship: self.ship, ..Options::default() };
        let shared = SharedFs::open(self.folder.path(), options).unwrap();
        self.server = Some(Server::start(shared, listener).unwrap());
        let service = cuesta_served::Server::start(users, &self.socket(), self.folder.path());
        self.service = Some(service.unwrap());
    }

    /// The daemon leaves in order; programs wait for the next one.
    pub fn stop_daemon(&mut self) {
        self.service.take().unwrap().stop();
        let server = self.server.take().unwrap();
        server.stop_sender().send(StopReason::Signal(0)).unwrap();
        server.wait();
    }

    /// One more session.
    pub fn session(&self) -> Arc<Client> {
        attached(&self.socket(), "test")
    }

    /// Sessions that SharedFS told to send operations.
    pub fn senders(&self) -> BTreeSet<SessionId> {
        let mut link = SocketLink::connect(self.socket().as_os_str().as_bytes(), 0).unwrap();
        let (mut senders, mut from) = (BTreeSet::new(), 0);
        loop {
            let events = link.call(&Request::Trace { from, wait_ms: 0 }, &mut Vec::new());
            let Ok(Response::Events(events)) = events else { panic!("no trace: {events:?}") };
            let Some(last) = events.last() else { return senders };
            from = last.number + 1;
            senders.extend(events.iter().filter_map(|event| match event.step {
                Step::Ship { session, .. } => Some(session),
                _ => None,
            }));
        }
    }

    /// How much the kernel has asked.
    pub fn requests(&self) -> u64 {
        self.mount.as_ref().map_or(0, MountServer::requests)
    }

    /// One more descriptor of the mount.
    pub fn device(&self) -> Device {
        self.device.as_ref().unwrap().another().unwrap()
    }

    /// Where it is mounted.
    pub fn at(&self) -> &Path {
        self.place.path()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.at().join(name)
    }
}

/// A session that sends operations.
fn attached(socket: &Path, program: &str) -> Arc<Client> {
    let client =
        Client::attach_to(socket.as_os_str().as_bytes(), 0, program, InodeNumber::NONE, DurabilityWish::NONE)
            .unwrap();
    let users = socket.with_file_name(USERS_FOLDER).join(USERS_SOCKET_FILE);
    cuesta_served::ship_beside(&client, users.as_os_str().as_bytes().to_vec());
    client
}

fn ship_by_environment() -> Ship {
    match std::env::var("CUESTA_SHIP").as_deref() {
        Err(_) | Ok("auto") => Ship::Auto,
        Ok("always") => Ship::Always,
        Ok("never") => Ship::Never,
        Ok("random") => Ship::Random,
        Ok(other) => panic!("CUESTA_SHIP={other}: auto, always, never or random"),
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.server.is_none() {
            self.start_daemon();
        }
        cuesta_fuse::unmount(self.place.path(), true).unwrap();
        self.device = None;
        if let Some(mount) = self.mount.take() {
            mount.wait();
        }
        if self.server.is_some() {
            self.stop_daemon();
        }
    }
}

/// A process of its own, which can wait in the kernel for this one's mount: one that maps files of the mount it serves itself
/// would wait for itself.
pub struct Child {
    process: Option<libc::pid_t>,
    ends: Ends,
}

/// How two processes take turns: each end is told by the other.
pub struct Ends {
    from: OwnedFd,
    to: OwnedFd,
}

impl Ends {
    /// Waits for the other's word.
    pub fn wait(&self) {
        assert_eq!(rustix::io::read(&self.from, &mut [0; 1]), Ok(1), "the other process is gone");
    }

    /// Says so to the other.
    pub fn tell(&self) {
        assert_eq!(rustix::io::write(&self.to, b"."), Ok(1));
    }
}

impl Child {
    /// Runs `work` in it. That may panic, and makes system calls; of this process's threads it has none.
    pub fn new(work: impl FnOnce(&Ends)) -> Child {
        let (ours, theirs) = (rustix::pipe::pipe().unwrap(), rustix::pipe::pipe().unwrap());
        // SAFETY: the child has this thread alone; its calls wait for no lock that another thread may have had, but
        // the allocator's, which the C library sets free in a child.
        let process = unsafe { libc::fork() };
        assert!(process >= 0);
        if process == 0 {
            let ends = Ends { from: theirs.0, to: ours.1 };
            drop((ours.0, theirs.1));
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(&ends)));
            // SAFETY: nothing of the parent's is undone.
            unsafe { libc::_exit(i32::from(done.is_err())) };
        }
        Child { process: Some(process), ends: Ends { from: ours.0, to: theirs.1 } }
    }

    pub fn wait(&mut self) {
        self.ends.wait();
    }

    pub fn tell(&mut self) {
        self.ends.tell();
    }

    /// Waits until it ended, in order.
    pub fn end(mut self) {
        let (process, mut status) = (self.process.take().unwrap(), 0);
        // SAFETY: the call stores one number.
        assert_eq!(unsafe { libc::waitpid(process, &raw mut status, 0) }, process);
        assert_eq!(status, 0);
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let Some(process) = self.process else { return };
        // SAFETY: it is this process's child, which no thread has waited for.
        unsafe {
            libc::kill(process, libc::SIGKILL);
            libc::waitpid(process, std::ptr::null_mut(), 0);
        }
    }
}

/// Maps a file's first bytes, for a process that does not serve its mount.
pub fn map_shared(file: &File, bytes: usize) -> *mut u8 {
    let rights = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: the kernel chooses where, and nothing but the caller knows of it.
    let mapped = unsafe { mmap(std::ptr::null_mut(), bytes, rights, MapFlags::SHARED, file, 0) };
    mapped.unwrap().cast()
}
