//! A store in a temporary folder, SharedFS in this process, and clients linked to it without sockets.

#![allow(dead_code)]

pub mod quota;

#[path = "../../../media/tests/common/medium.rs"]
mod medium;
pub use medium::medium;

use cuesta_format::superblock::Superblock;
use cuesta_format::wire::{Request, Response};
use cuesta_format::{Geometry, Medium, SessionId, StoreId};
use cuesta_libfs::{Allocation, Base, Client, Credentials, Error, Link, LinkError, OpenFile};
use cuesta_sharedfs::check::{CheckReport, Mode, check};
use cuesta_sharedfs::{Options, Progress, SharedFs};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

pub const ROOT: Credentials = Credentials::of_user(0, 0, Vec::new());

pub struct InProcess {
    shared: Arc<SharedFs>,
    session: SessionId,
    /// The posted request; answered as late as a link may.
    posted: Option<Request>,
    looks: u32,
}

impl InProcess {
    pub fn of(shared: &Arc<SharedFs>, session: SessionId) -> InProcess {
        InProcess { shared: Arc::clone(shared), session, posted: None, looks: 0 }
    }
}

impl Link for InProcess {
    fn call(&mut self, request: &Request, descriptors: &mut Vec<OwnedFd>) -> Result<Response, LinkError> {
        let response = self.shared.handle(self.session, request, descriptors);
        if let Response::Attached(welcome) = &response {
            self.session = welcome.session;
        }
        Ok(response)
    }

    fn post(&mut self, request: &Request) -> Result<bool, LinkError> {
        assert!(self.posted.replace(request.clone()).is_none(), "one question at a time");
        Ok(true)
    }

    fn collect(&mut self, wait: bool) -> Result<Option<Response>, LinkError> {
        self.looks += 1;
        if !wait && !self.looks.is_multiple_of(3) {
            return Ok(None);
        }
        let posted = self.posted.take().expect("something was asked for");
        self.call(&posted, &mut Vec::new()).map(Some)
    }
}

pub struct Store {
    pub shared: Arc<SharedFs>,
    folder: tempfile::TempDir,
    stop: Arc<AtomicBool>,
    digester: Option<JoinHandle<()>>,
}

/// Sizes that make logs wrap and files scatter quickly.
pub fn small() -> Geometry {
    Geometry {
        arena_bytes: 1 << 20,
        segment_bytes: 64 << 10,
        ring_slots: 8,
        nvm_bytes: 64 << 20,
        checks_content: true,
    }
}

impl Store {
    /// A store whose digests run only when a test (or a full log) asks for them.
    pub fn new(geometry: Geometry) -> Store {
        let options = Options { spare_segments: 2, kick_bytes: 64 << 10, ..Options::default() };
        Store::with(geometry, options)
    }

    pub fn with(geometry: Geometry, options: Options) -> Store {
        Store::on(medium(), geometry, options)
    }

    pub fn on(medium: Medium, geometry: Geometry, options: Options) -> Store {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let superblock = Superblock { store: StoreId([7; 16]), medium, geometry };
        SharedFs::create(folder.path(), superblock).unwrap();
        let shared = SharedFs::open(folder.path(), options).unwrap();
        Store { shared, folder, stop: Arc::default(), digester: None }
    }

    /// Digests all the time in a thread of its own.
    pub fn digesting(mut self) -> Store {
        let (shared, stop) = (Arc::clone(&self.shared), Arc::clone(&self.stop));
        self.digester = Some(std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                if shared.digest_step().unwrap() == Progress::Idle {
                    std::thread::park_timeout(Duration::from_micros(200));
                }
            }
        }));
        self
    }

    /// Digests only while the log's writer waits: in whole batches, as late as can be.
    pub fn digesting_when_full(mut self) -> Store {
        let (shared, stop) = (Arc::clone(&self.shared), Arc::clone(&self.stop));
        let ring = self.shared.geometry().ring_bytes();
        self.digester = Some(std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                let longest = shared.backlogs().iter().map(|log| log.bytes).max();
                if longest.is_some_and(|bytes| bytes > ring / 2) {
                    shared.digest_step().unwrap();
                }
                std::thread::park_timeout(Duration::from_micros(200));
            }
        }));
        self
    }

    /// The next daemon, after this one was killed: it recovers the same store.
    pub fn take_over(&self) -> Arc<SharedFs> {
        self.take_over_with(Options::default())
    }

    pub fn take_over_with(&self, options: Options) -> Arc<SharedFs> {
        SharedFs::open(self.folder.path(), options).unwrap()
    }

    pub fn attach(&self) -> Arc<Client> {
        Client::attach(Box::new(self.link()), "test").unwrap()
    }

    pub fn link(&self) -> InProcess {
        InProcess::of(&self.shared, SessionId(0))
    }

    /// Closes the store and checks it. All clients must have ended, because only one process may have it open.
    pub fn check(mut self) -> CheckReport {
        let folder = std::mem::replace(&mut self.folder, tempfile::tempdir().unwrap());
        assert_eq!(Arc::strong_count(&self.shared), 1, "it is still open");
        drop(self);
        check(folder.path(), Mode::Report).unwrap()
    }

    /// The folder of its fast tier.
    pub fn tier(&self) -> &std::path::Path {
        self.folder.path()
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(digester) = self.digester.take() {
            let ended = digester.join();
            if !std::thread::panicking() {
                ended.unwrap();
            }
        }
    }
}

/// The calls as a test likes to write them.
pub struct Caller {
    pub client: Arc<Client>,
    pub who: Credentials,
}

pub fn root(client: &Arc<Client>) -> Caller {
    Caller { client: Arc::clone(client), who: ROOT }
}

/// A call that changes a file.
pub type Change = fn(&Caller, &str);

/// The calls that change the content of a file of at least four bytes.
pub const CONTENT_CHANGES: [(&str, Change); 5] = [
    ("truncate", |caller, path| {
        caller.client.truncate(&caller.who, Base::Root, path.as_bytes(), 3).unwrap();
    }),
    ("O_TRUNC", |caller, path| {
        let file = caller.open(path, libc::O_WRONLY | libc::O_TRUNC).unwrap();
        caller.client.close(file).unwrap();
    }),
    ("ftruncate", |caller, path| {
        caller.with_file(path, |client, file| client.truncate_open(file, 3).unwrap());
    }),
    ("write", |caller, path| {
        caller.with_file(path, |client, file| {
            assert_eq!(client.write(file, &[b"x".as_slice().into()]), Ok(1));
        });
    }),
    ("fallocate", |caller, path| {
        caller.with_file(path, |client, file| client.allocate(file, Allocation::Extend, 0, 100).unwrap());
    }),
];

impl Caller {
    /// Opens a file for one change.
    pub fn with_file(&self, path: &str, change: impl FnOnce(&Client, &OpenFile)) {
        let file = self.open(path, libc::O_RDWR).unwrap();
        change(&self.client, &file);
        self.client.close(file).unwrap();
    }

    pub fn open(&self, path: &str, flags: i32) -> Result<Arc<OpenFile>, Error> {
        self.client.open(&self.who, Base::Root, path.as_bytes(), flags, 0o644)
    }

    pub fn write_file(&self, path: &str, content: &[u8]) -> Result<(), Error> {
        let file = self.open(path, libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC)?;
        let mut rest = content;
        while !rest.is_empty() {
            let written = self.client.write(&file, &[rest.into()])?;
            rest = &rest[written..];
        }
        self.client.close(file)
    }

    pub fn read_file(&self, path: &str) -> Result<Vec<u8>, Error> {
        let file = self.open(path, libc::O_RDONLY)?;
        let content = self.read_all(&file)?;
        self.client.close(file)?;
        Ok(content)
    }

    pub fn read_all(&self, file: &OpenFile) -> Result<Vec<u8>, Error> {
        let mut content = Vec::new();
        let mut buffer = vec![0; 100_000];
        loop {
            let bytes = self.client.pread(file, &mut [buffer.as_mut_slice().into()], content.len() as i64)?;
            if bytes == 0 {
                return Ok(content);
            }
            content.extend_from_slice(&buffer[..bytes]);
        }
    }

    pub fn list(&self, path: &str) -> Result<Vec<String>, Error> {
        let file = self.open(path, libc::O_RDONLY | libc::O_DIRECTORY)?;
        let mut names = Vec::new();
        self.client.read_directory(&file, &mut |item| {
            names.push(String::from_utf8_lossy(item.name).into_owned());
            true
        })?;
        self.client.close(file)?;
        names.sort();
        Ok(names.into_iter().filter(|name| name != "." && name != "..").collect())
    }

    pub fn mkdir(&self, path: &str) -> Result<(), Error> {
        self.client.make_directory(&self.who, Base::Root, path.as_bytes(), 0o755).map(drop)
    }

    pub fn rmdir(&self, path: &str) -> Result<(), Error> {
        self.client.remove_directory(&self.who, Base::Root, path.as_bytes())
    }

    pub fn unlink(&self, path: &str) -> Result<(), Error> {
        self.client.unlink(&self.who, Base::Root, path.as_bytes())
    }

    pub fn rename(&self, old: &str, new: &str) -> Result<(), Error> {
        self.rename_with(old, new, Default::default())
    }

    pub fn rename_with(&self, old: &str, new: &str, flags: cuesta_libfs::RenameFlags) -> Result<(), Error> {
        let (old, new) = ((Base::Root, old.as_bytes()), (Base::Root, new.as_bytes()));
        self.client.rename(&self.who, old, new, flags)
    }

    pub fn symlink(&self, target: &str, path: &str) -> Result<(), Error> {
        self.client.symlink(&self.who, target.as_bytes(), Base::Root, path.as_bytes()).map(drop)
    }

    pub fn link(&self, old: &str, new: &str) -> Result<(), Error> {
        let source = cuesta_libfs::LinkSource::Path { base: Base::Root, path: old.as_bytes(), follow: false };
        self.client.link(&self.who, source, Base::Root, new.as_bytes()).map(drop)
    }

    pub fn stat(&self, path: &str) -> Result<cuesta_format::InodeRecord, Error> {
        Ok(self.client.stat(&self.who, Base::Root, path.as_bytes(), false)?.record)
    }
}
