//! A store with a mount, in this process, and a session beside it as programs under `cuesta run` have one.
//!
//! Needs root and FUSE; tests say so and end where these are not to be had.

#![allow(dead_code)]

use cuesta_format::superblock::{Medium, Superblock};
use cuesta_format::{Geometry, InodeNumber, StoreId};
use cuesta_fuse::Device;
use cuesta_fuse::Options as MountOptions;
use cuesta_fuse::Server as MountServer;
use cuesta_libfs::{Client, Credentials};
use cuesta_sharedfs::server::{Listener, Server, StopReason};
use cuesta_sharedfs::{Options, SharedFs};
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
    mount: Option<MountServer>,
    device: Option<Device>,
    place: TempDir,
    folder: TempDir,
}

impl Mounted {
    pub fn new() -> Mounted {
        Mounted::by(|socket| attached(socket, "test"))
    }

    /// One whose session is made by `attach`, which is told where SharedFS listens.
    pub fn by(attach: impl FnOnce(&Path) -> Arc<Client>) -> Mounted {
        // A process that dumps its memory waits for a mount that it serves itself.
        let quiet = rustix::process::DumpableBehavior::NotDumpable;
        rustix::process::set_dumpable_behavior(quiet).unwrap();
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let geometry = Geometry { nvm_bytes: 64 << 20, arena_bytes: 16 << 20, ..Geometry::default() };
        let superblock = Superblock { store: StoreId([7; 16]), medium: Medium::Memory, geometry };
        SharedFs::create(folder.path(), superblock).unwrap();
        let place = tempfile::tempdir().unwrap();
        let mut mounted = Mounted { server: None, mount: None, device: None, place, folder };
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
        let shared = SharedFs::open(self.folder.path(), Options::default()).unwrap();
        self.server = Some(Server::start(shared, listener).unwrap());
    }

    /// The daemon leaves in order; programs wait for the next one.
    pub fn stop_daemon(&mut self) {
        let server = self.server.take().unwrap();
        server.stop_sender().send(StopReason::Signal(0)).unwrap();
        server.wait();
    }

    /// One more session.
    pub fn session(&self) -> Arc<Client> {
        attached(&self.socket(), "test")
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

fn attached(socket: &Path, program: &str) -> Arc<Client> {
    Client::attach_to(socket.as_os_str().as_bytes(), 0, program, InodeNumber::NONE).unwrap()
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
