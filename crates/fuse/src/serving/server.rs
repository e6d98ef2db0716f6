//! Threads that take requests from the kernel and have them answered: by the door, in a mount of a store.
//!
//! A thread that leaves no other waiting starts one first, so that a request that waits (for a digest, for a lease, for
//! another request) never keeps others from being taken; one that finds enough of them waiting ends. What may wait for
//! as long as it likes, locks, waits in a thread of its own.

use super::agreed::Agreed;
use crate::door::{Door, Synchrony};
use crate::kernel::abi::{InHeader, InitIn, InitOut, MAJOR, MINOR, MINOR_LEAST, Opcode, init};
use crate::kernel::answer::Answer;
use crate::kernel::device::{Device, Received};
use crate::kernel::request::Request;
use crate::mounting::options::Options;
use crate::mounting::options_watch;
use crate::serving::keeping::Keeping;
use crate::serving::root;
use crate::serving::serves::{Outcome, Serves};
use cuesta_libfs::Client;
use parking_lot::{Condvar, Mutex};
use rustix::io::Errno;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread::Builder;
use zerocopy::{FromBytes as _, IntoBytes as _};

/// Content of one read or write at most, and pages of it.
const CONTENT_BYTES_MAX: usize = 1 << 20;
const PAGES_MAX: u16 = 256;
/// Room in front of content.
const HEAD_BYTES_MAX: usize = 8 << 10;
/// How far the kernel reads ahead.
const READ_AHEAD_BYTES: u32 = 256 << 10;
/// Requests without a waiting process (read ahead, write back) under way at once; from the second number on the kernel holds back.
const BACKGROUND_MAX: u16 = 64;
const CONGESTION: u16 = 48;
/// Threads that wait although there is no need for them, and the most there are at all.
const WAITING_MAX: usize = 3;
const THREADS_MAX: usize = 1000;

/// Everything that this side wants of the kernel, as far as it can.
const WANTED: u64 = init::ASYNC_READ
    | init::POSIX_LOCKS
    | init::BIG_WRITES
    | init::DONT_MASK
    | init::FLOCK_LOCKS
    | init::AUTO_INVAL_DATA
    | init::ASYNC_DIO
    | init::PARALLEL_DIROPS
    | init::POSIX_ACL
    | init::MAX_PAGES
    | init::CACHE_SYMLINKS
    | init::HANDLE_KILLPRIV_V2
    | init::SETXATTR_EXT
    | init::INIT_EXT
    | init::DIRECT_IO_ALLOW_MMAP
    | init::EXPORT_SUPPORT;

/// Why a mount is not served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The kernel's first words make no sense.
    #[error("the kernel does not begin as it should")]
    Handshake,
    /// The kernel is too old.
    #[error("the kernel speaks FUSE {major}.{minor}; {MAJOR}.{MINOR_LEAST} is needed (Linux 5.4)")]
    Kernel {
        /// Its protocol's major version,
        major: u32,
        /// and minor.
        minor: u32,
    },
    /// The device cannot be read.
    #[error("cannot read /dev/fuse: {0}")]
    Device(Errno),
    /// SharedFS does not agree.
    #[error("{0}")]
    Session(cuesta_libfs::Error),
    /// The first look at it fails.
    #[error("its root cannot be looked at: {0}")]
    Root(Errno),
    /// There are no threads.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
}

struct Shared {
    serves: Box<dyn Serves>,
    device: Arc<Device>,
    waiting: AtomicUsize,
    requests: AtomicU64,
    threads: Mutex<usize>,
    ended: Condvar,
}

/// A mount that is served.
pub struct Server {
    shared: Arc<Shared>,
}

impl Server {
    /// Serves the mount at `at`, behind `device`, by the session of `client`.
    pub fn start(client: Arc<Client>, device: Device, at: &Path) -> Result<Server, ServeError> {
        let server = Server::start_with(device, |device, agreed| {
            let keeping = what_is_kept(&client, device)?;
            let synchrony = Arc::new(Synchrony::default());
            let told = (Arc::downgrade(&client), Arc::clone(&synchrony));
            let tell = move |options: &Options| {
                told.1.set(options);
                told.0.upgrade().map(|client| client.set_access_times(options.access_times())).is_some()
            };
            options_watch::watch(at.to_path_buf(), tell).map_err(ServeError::Thread)?;
            Ok(Box::new(Door::new(client, Arc::clone(device), keeping, agreed, synchrony)))
        })?;
        root::make_known(at).map_err(ServeError::Root)?;
        Ok(server)
    }

    /// Serves the mount behind `device` by what `serves` makes when the kernel has begun.
    pub fn start_with(
        device: Device,
        serves: impl FnOnce(&Arc<Device>, Agreed) -> Result<Box<dyn Serves>, ServeError>,
    ) -> Result<Server, ServeError> {
        let agreed = shake_hands(&device)?;
        tracing::debug!(minor = agreed.minor, "the kernel has begun");
        let device = Arc::new(device);
        let shared = Arc::new(Shared {
            serves: serves(&device, agreed)?,
            device: Arc::clone(&device),
            waiting: AtomicUsize::new(0),
            requests: AtomicU64::new(0),
            threads: Mutex::new(0),
            ended: Condvar::new(),
        });
        shared.add(device).map_err(ServeError::Thread)?;
        Ok(Server { shared })
    }

    /// How many requests the kernel has made.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.shared.requests.load(Ordering::Relaxed)
    }

    /// Waits until the mount is gone and no thread serves it any more.
    pub fn wait(&self) {
        let mut threads = self.shared.threads.lock();
        while *threads > 0 {
            self.shared.ended.wait(&mut threads);
        }
    }
}

impl Shared {
    /// Starts a thread, unless there are enough.
    fn add(self: &Arc<Self>, device: Arc<Device>) -> io::Result<()> {
        let number = {
            let mut threads = self.threads.lock();
            if *threads == THREADS_MAX {
                return Ok(());
            }
            *threads += 1;
            *threads
        };
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let shared = Arc::clone(self);
        let started = Builder::new().name(format!("fuse-{number}")).spawn(move || {
            shared.work(&device);
            let mut threads = shared.threads.lock();
            *threads -= 1;
            if *threads == 0 {
                shared.serves.end();
                shared.ended.notify_all();
            }
        });
        if started.is_err() {
            self.waiting.fetch_sub(1, Ordering::SeqCst);
            *self.threads.lock() -= 1;
        }
        started.map(drop)
    }

    fn add_another(self: &Arc<Self>) {
        // Without one of its own it meets others where requests are handed out.
        let device = self.device.another().map_or_else(|_| Arc::clone(&self.device), Arc::new);
        if let Err(error) = self.add(device) {
            tracing::warn!(%error, "one thread fewer serves the mount");
        }
    }

    /// Takes requests until the mount is gone, or there are threads enough without this one.
    fn work(self: &Arc<Self>, device: &Arc<Device>) {
        let mut buffer = vec![0; HEAD_BYTES_MAX + CONTENT_BYTES_MAX];
        let mut answer = Answer::new(HEAD_BYTES_MAX + CONTENT_BYTES_MAX);
        loop {
            let received = device.receive(&mut buffer);
            let left = self.waiting.fetch_sub(1, Ordering::SeqCst) - 1;
            match received {
                Ok(Received::Request(bytes)) => {
                    if left == 0 {
                        self.add_another();
                    }
                    self.serve(device, &buffer[..bytes], &mut answer);
                }
                Ok(Received::Unmounted) => return,
                Err(error) => return tracing::error!(%error, "a thread does not serve the mount any more"),
            }
            if self.waiting.fetch_add(1, Ordering::SeqCst) >= WAITING_MAX {
                self.waiting.fetch_sub(1, Ordering::SeqCst);
                return;
            }
        }
    }

    fn serve(&self, device: &Arc<Device>, bytes: &[u8], answer: &mut Answer) {
        let Ok(request) = Request::read(bytes) else {
            return tracing::error!("the kernel sent what is no request");
        };
        let InHeader { unique, opcode, node, .. } = request.header;
        tracing::trace!(kind = ?request.opcode, opcode, node, "request");
        self.requests.fetch_add(1, Ordering::Relaxed);
        answer.clear();
        // What fails here must not leave a program waiting.
        let served = catch_unwind(AssertUnwindSafe(|| self.serves.serve(request, answer, device)));
        match served {
            Ok(Outcome::Answered) => device.answer(unique, answer.bytes()),
            Ok(Outcome::Refused(errno)) => device.refuse(unique, errno),
            Ok(Outcome::Silent) => {}
            Err(_) => {
                tracing::error!(opcode, "a request met an error of this program");
                device.refuse(unique, libc::EIO);
            }
        }
    }
}

/// The answers that the kernel may keep, once SharedFS can take them back.
fn what_is_kept(client: &Client, device: &Device) -> Result<Keeping, ServeError> {
    let another = device.another().map_err(ServeError::Device)?;
    let term = client.keep_in_kernel(another.into_file()).map_err(ServeError::Session)?;
    Ok(Keeping::for_term(term))
}

/// Agrees with the kernel on what both can.
fn shake_hands(device: &Device) -> Result<Agreed, ServeError> {
    let mut buffer = vec![0; HEAD_BYTES_MAX + CONTENT_BYTES_MAX];
    loop {
        let Received::Request(bytes) = device.receive(&mut buffer).map_err(ServeError::Device)? else {
            return Err(ServeError::Handshake);
        };
        let mut request = Request::read(&buffer[..bytes]).map_err(|_| ServeError::Handshake)?;
        if request.opcode != Some(Opcode::Init) {
            return Err(ServeError::Handshake);
        }
        // Older kernels say less.
        let mut said = [0; size_of::<InitIn>()];
        let length = (request.header.length as usize - size_of::<InHeader>()).min(said.len());
        said[..length].copy_from_slice(request.arguments.bytes(length).map_err(|_| ServeError::Handshake)?);
        let kernel = InitIn::read_from_bytes(&said).map_err(|_| ServeError::Handshake)?;
        let unique = request.header.unique;
        if kernel.major > MAJOR {
            // It asks once more, in our terms.
            device.answer(unique, InitOut { major: MAJOR, minor: MINOR, ..InitOut::default() }.as_bytes());
            continue;
        }
        if (kernel.major, kernel.minor) < (MAJOR, MINOR_LEAST) {
            device.refuse(unique, libc::EPROTO);
            return Err(ServeError::Kernel { major: kernel.major, minor: kernel.minor });
        }
        let offered = u64::from(kernel.flags) | u64::from(kernel.flags2) << 32;
        let agreed = offered & WANTED;
        let answer = InitOut {
            major: MAJOR,
            minor: MINOR,
            read_ahead_max: kernel.read_ahead_max.max(READ_AHEAD_BYTES),
            flags: agreed as u32,
            flags2: (agreed >> 32) as u32,
            background_max: BACKGROUND_MAX,
            congestion: CONGESTION,
            write_max: CONTENT_BYTES_MAX as u32,
            time_grain_ns: 1,
            pages_max: PAGES_MAX,
            ..InitOut::default()
        };
        device.answer(unique, answer.as_bytes());
        return Ok(Agreed { minor: kernel.minor, flags: agreed });
    }
}
