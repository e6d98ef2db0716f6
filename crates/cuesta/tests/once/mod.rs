//! Calls of programs that the daemon serves are executed exactly once, while daemons are killed.
//!
//! | file | what |
//! |---|---|
//! | `mod` | a store whose daemons are killed, and clients that are served as another user |
//! | `each_call` | every call, and its daemon dies at one planted moment of it |
//! | `opening` | files that are opened just as the daemon dies |
//! | `programs` | programs as they are |
//! | `campaign` | random calls against what they must come to, and daemons that die at random moments |

mod campaign;
mod each_call;
mod opening;
mod programs;

use crate::common::TestFolder;
use cuesta_format::InodeNumber;
use cuesta_format::geometry::{SOCKET_FILE, USERS_FOLDER, USERS_SOCKET_FILE};
use cuesta_libfs::{Error, RESUME_WAIT, Resolve, patiently};
use cuesta_media::planted::Death;
use cuesta_media::{UserSlice, UserSliceMut};
use cuesta_served::{Client, Holder, OpenFile, PathBase as Base};
use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::fs::{Permissions, set_permissions};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};

const NOBODY: u32 = 65534;

/// A store that serves other users, by one daemon after the other.
struct Daemons {
    place: TestFolder,
    daemon: Mutex<Option<Child>>,
    /// A client has failed: no daemon dies in a call any more.
    has_failed: AtomicBool,
}

/// Says so if the thread that has it panics.
struct Failing<'d>(&'d Daemons);

impl Drop for Failing<'_> {
    fn drop(&mut self) {
        self.0.has_failed.fetch_or(std::thread::panicking(), Ordering::Relaxed);
    }
}

/// Has root replace daemons on behalf of threads that are other users.
struct Replacing {
    wanted: Sender<(Replace, Sender<()>)>,
}

/// How one daemon follows another.
enum Replace {
    /// The one before is killed; the next dies as planted.
    Kill(Option<Planted>),
    /// The one before dies by itself; the next dies as planted.
    Await(Option<Planted>),
}

/// A daemon dies when it comes to such a moment for the `count`th time.
#[derive(Clone, Copy, Debug)]
struct Planted {
    death: Death,
    count: u64,
}

impl Replacing {
    /// Begins it; the receiver tells when the next daemon serves.
    fn begin(&self, how: Replace) -> Receiver<()> {
        let (done, heard) = mpsc::channel();
        self.wanted.send((how, done)).unwrap();
        heard
    }
}

impl Daemons {
    /// `None`: the test cannot become another user.
    fn new() -> Option<Daemons> {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: only root becomes somebody else");
            return None;
        }
        let place = TestFolder::with_store_of("64M");
        set_permissions(place.path(""), Permissions::from_mode(0o755)).unwrap();
        set_permissions(place.path("store"), Permissions::from_mode(0o711)).unwrap();
        let daemons = Daemons { place, daemon: Mutex::new(None), has_failed: AtomicBool::new(false) };
        daemons.start(None);
        let made = daemons.place.cuesta(&["run", "--store", "store", "--", "chmod", "777", "/cuesta"]);
        assert_eq!(made.status(), 0, "{}", made.errors());
        Some(daemons)
    }

    /// Starts a daemon, which dies as `planted`. Returns when it serves.
    fn start(&self, planted: Option<Planted>) {
        let mut command = self.place.command(&["serve", "store"]);
        command.stderr(Stdio::null()).stdout(Stdio::null());
        if let Some(Planted { death, count }) = planted {
            command.env(Death::VARIABLE, format!("{}:{count}", death.name()));
        }
        let mut daemon = command.spawn().unwrap();
        let socket = self.place.path("store").join(SOCKET_FILE);
        while UnixStream::connect(&socket).is_err() {
            assert!(daemon.try_wait().unwrap().is_none(), "the daemon does not start");
            std::thread::yield_now();
        }
        let before = self.daemon.lock().unwrap().replace(daemon);
        assert!(before.is_none());
    }

    /// Waits for the end of one that dies by itself.
    fn await_death(&self) {
        let mut daemon = self.daemon.lock().unwrap().take().unwrap();
        while daemon.try_wait().unwrap().is_none() {
            if self.has_failed.load(Ordering::Relaxed) {
                daemon.kill().unwrap();
            }
            std::thread::yield_now();
        }
    }

    /// Waits for the end of one that dies by itself, or of a program. Says whether it was the daemon.
    fn dies_before(&self, program: &mut Child) -> bool {
        let mut present = self.daemon.lock().unwrap();
        let daemon = present.as_mut().unwrap();
        loop {
            if daemon.try_wait().unwrap().is_some() {
                *present = None;
                return true;
            }
            if program.try_wait().unwrap().is_some() {
                return false;
            }
            std::thread::yield_now();
        }
    }

    fn kill(&self) {
        self.daemon.lock().unwrap().as_mut().unwrap().kill().unwrap();
        self.await_death();
    }

    fn socket(&self) -> PathBuf {
        self.place.path("store").join(USERS_FOLDER).join(USERS_SOCKET_FILE)
    }

    /// Runs `act` in a thread that is user 65534 to the kernel, while this one replaces daemons.
    fn as_nobody(&self, act: impl FnOnce(&Replacing) + Send) {
        self.beside(|replacing| {
            become_nobody();
            act(replacing);
        });
    }

    /// Runs `act` in a thread, while this one replaces daemons.
    fn beside(&self, act: impl FnOnce(&Replacing) + Send) {
        let (wanted, asked) = mpsc::channel::<(Replace, Sender<()>)>();
        std::thread::scope(|scope| {
            let thread = scope.spawn(move || {
                let _failing = Failing(self);
                act(&Replacing { wanted });
            });
            for (how, done) in asked {
                let planted = match how {
                    Replace::Kill(planted) => {
                        self.kill();
                        planted
                    }
                    Replace::Await(planted) => {
                        self.await_death();
                        planted
                    }
                };
                self.start(planted);
                let _ = done.send(());
            }
            thread.join().unwrap();
        });
    }

    /// A client of this thread's user.
    fn client(&self) -> Served {
        let open = Arc::<Mutex<Vec<Arc<Open>>>>::default();
        let holder = Shown { path: self.socket(), open: Arc::clone(&open) };
        let path = self.socket();
        let connect = || Client::connect(path.as_os_str().as_bytes(), 0);
        let client = patiently(RESUME_WAIT, connect).unwrap().held_by(Arc::new(holder));
        Served { client, open }
    }
}

impl Drop for Daemons {
    fn drop(&mut self) {
        if let Some(mut daemon) = self.daemon.lock().unwrap().take() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

/// An open file and its token.
#[derive(Debug)]
struct Open {
    file: OpenFile,
    token: OwnedFd,
}

/// The open files that a client shows to the next daemon.
#[derive(Debug)]
struct Shown {
    path: PathBuf,
    open: Arc<Mutex<Vec<Arc<Open>>>>,
}

impl Holder for Shown {
    fn path(&self) -> Vec<u8> {
        self.path.as_os_str().as_bytes().to_vec()
    }

    fn show(&self, see: &mut dyn FnMut(&OpenFile, BorrowedFd<'_>)) {
        let open = self.open.lock().unwrap().clone();
        open.iter().for_each(|open| see(&open.file, open.token.as_fd()));
    }
}

/// A client, and the files that it has open.
struct Served {
    client: Client,
    open: Arc<Mutex<Vec<Arc<Open>>>>,
}

impl Served {
    fn open(&self, path: &[u8], flags: i32) -> Result<Arc<Open>, Error> {
        let opened = self.client.open(Base::Root, path, flags, 0o644.into(), Resolve::default());
        let (file, token) = opened?;
        let open = Arc::new(Open { file, token });
        self.open.lock().unwrap().push(Arc::clone(&open));
        Ok(open)
    }

    fn close(&self, open: Arc<Open>) -> Result<(), Error> {
        self.open.lock().unwrap().retain(|known| !Arc::ptr_eq(known, &open));
        let Open { file, token } = Arc::into_inner(open).unwrap();
        drop(token);
        self.client.close(&file)
    }

    fn write(&self, open: &Open, data: &[u8], at: Option<i64>, appends: bool) -> Result<usize, Error> {
        self.client.write(&open.file, &[UserSlice::from(data)], at, appends)
    }

    fn read(&self, path: &[u8]) -> Vec<u8> {
        let open = self.open(path, libc::O_RDONLY).unwrap();
        let mut bytes = vec![0; 1 << 20];
        let out = &mut [UserSliceMut::from(bytes.as_mut_slice())];
        let count = self.client.read(&open.file, out, Some(0)).unwrap();
        self.close(open).unwrap();
        bytes.truncate(count);
        bytes
    }

    /// The names in a directory, but `.` and `..`.
    fn list(&self, path: &[u8]) -> Vec<(Vec<u8>, InodeNumber)> {
        let open = self.open(path, libc::O_RDONLY | libc::O_DIRECTORY).unwrap();
        let mut names = Vec::new();
        let listed = self.client.read_directory(&open.file, &mut |item| {
            if item.name != b"." && item.name != b".." {
                names.push((item.name.to_vec(), item.inode));
            }
            true
        });
        listed.unwrap();
        self.close(open).unwrap();
        names.sort();
        names
    }
}

/// The calling thread is user 65534 from now on.
fn become_nobody() {
    // SAFETY: only this thread's credentials change, for libc is not asked.
    unsafe {
        assert_eq!(libc::syscall(libc::SYS_setgroups, 0, 0), 0);
        assert_eq!(libc::syscall(libc::SYS_setresgid, NOBODY, NOBODY, NOBODY), 0);
        assert_eq!(libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY), 0);
    }
}
