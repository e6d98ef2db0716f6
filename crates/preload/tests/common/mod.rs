//! A store with a daemon, and programs run on it under the library just built.

#![allow(dead_code)]

use std::cell::RefCell;
use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use cuesta_format::geometry::USERS_FOLDER;
use cuesta_format::superblock::Superblock;
use cuesta_format::{Geometry, Medium, StoreId};
use cuesta_sharedfs::server::{Listener, Server};
use cuesta_sharedfs::{Options, SharedFs};
use rustix::process::{Pid, Signal, kill_process_group};

/// Far more than any program here needs, on a machine that is busy with other things, too.
const DURATION_MAX: Duration = Duration::from_secs(120);

/// Where programs find the store.
pub const PREFIX: &str = "/cuesta";

/// The library: cargo builds it beside the test.
pub fn library() -> PathBuf {
    let test = std::env::current_exe().expect("path of the test");
    let folder = test.parent().expect("folder of the test");
    let library = folder.join("libcuesta_preload.so");
    assert!(library.exists(), "{} is missing", library.display());
    library
}

/// A command under the library, with a cache of sites of its own.
pub fn preloaded(program: &str, socket: &Path, cache: &Path) -> Command {
    preloaded_at(program, socket, cache, Path::new(PREFIX))
}

fn preloaded_at(program: &str, socket: &Path, cache: &Path, at: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .env("LD_PRELOAD", library())
        .env("CUESTA_SOCKET", socket)
        .env("CUESTA_AT", at)
        .env("XDG_RUNTIME_DIR", cache)
        .env_remove("CUESTA_PATCH");
    command
}

/// Running a program to its end.
pub trait Finish {
    /// Its output and how it ended. It is started with the standard streams and no other descriptor. One that does not end fails the test, and is killed with all it started.
    fn finish(&mut self) -> Output;
}

impl Finish for Command {
    fn finish(&mut self) -> Output {
        self.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        // Whatever the tests themselves were started with.
        // SAFETY: between fork and exec one system call is made.
        unsafe {
            self.pre_exec(|| {
                match libc::syscall(libc::SYS_close_range, 3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) {
                    0 => Ok(()),
                    _ => Err(std::io::Error::last_os_error()),
                }
            });
        }
        let program = self.spawn().expect("runs");
        let group = Pid::from_child(&program);
        let (sender, ended) = mpsc::channel();
        std::thread::spawn(move || sender.send(program.wait_with_output()));
        let output = ended.recv_timeout(DURATION_MAX).unwrap_or_else(|_| {
            kill_process_group(group, Signal::KILL).expect("it runs");
            let said = ended.recv_timeout(DURATION_MAX).map(|output| told(&output.expect("its end")));
            panic!("it does not end: {self:?}\nIt said: {}", said.unwrap_or_default());
        });
        output.expect("its end")
    }
}

/// Standard output and error, and how it ended, as text to compare.
pub fn told(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!("{}{}{}\n", text(&output.stdout), text(&output.stderr), output.status)
}

/// A store in memory with its daemon. That is a process of its own: in this one, every program that another test starts would
/// have copies of the daemon's descriptors between its fork and its exec, and hold the locks that are set on them.
pub struct Served {
    folder: tempfile::TempDir,
    daemon: Child,
    /// The daemon answers each byte with the number of inodes, and ends when no more can come.
    questions: RefCell<UnixStream>,
}

/// Where the daemon finds its store.
const STORE_VARIABLE: &str = "CUESTA_TEST_STORE";

/// What its daemons are configured to do, if not what they do by default: lines as those of `cuesta.toml`.
const OPTIONS_VARIABLE: &str = "CUESTA_TEST_OPTIONS";

/// The daemon of a [`Served`], which runs this program for it. Without a store it has nothing to do.
#[test]
fn daemon() {
    let Some(folder) = std::env::var_os(STORE_VARIABLE) else { return };
    let folder = Path::new(&folder);
    let geometry = Geometry { nvm_bytes: 1 << 30, ..Geometry::default() };
    // By its number the machine's processes tell which store's programs they run.
    let mut store = StoreId([0; 16]);
    std::fs::File::open("/dev/urandom")
        .and_then(|mut random| random.read_exact(&mut store.0))
        .expect("16 bytes");
    let superblock = Superblock { store, medium: Medium::Memory, geometry };
    SharedFs::create(folder, superblock).expect("a new store");
    let listener = Listener::bind(&folder.join("sock")).expect("socket");
    let options = std::env::var(OPTIONS_VARIABLE).unwrap_or_default();
    let options = Options::parse(&options).expect("lines of a configuration");
    let shared = SharedFs::open(folder, options).expect("the store");
    let _server = Server::start(Arc::clone(&shared), listener).expect("server");
    let users = cuesta_served::Listener::bind(&folder.join(USERS_FOLDER)).expect("socket");
    let _users = cuesta_served::Server::start(users, &folder.join("sock"), folder).expect("server");
    let mut questions =
        UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned().expect("the questions"));
    // The first is whether it serves.
    while matches!(questions.read(&mut [0; 1]), Ok(1)) {
        let inodes = shared.totals().expect("totals").inodes;
        questions.write_all(&inodes.to_ne_bytes()).expect("who asks waits");
    }
}

impl Served {
    pub fn new() -> Self {
        Self::configured("")
    }

    /// With a daemon that is configured by these lines, if there are any.
    pub fn configured(lines: &str) -> Self {
        let folder = tempfile::tempdir_in("/dev/shm").expect("folder");
        let (ours, theirs) = UnixStream::pair().expect("sockets");
        let name =
            module_path!().split_once("::").map_or("daemon".into(), |(_, path)| format!("{path}::daemon"));
        let daemon = Command::new(std::env::current_exe().expect("path of the test"))
            .args(["--exact", "--nocapture", &name])
            .env(STORE_VARIABLE, folder.path())
            .envs((!lines.is_empty()).then_some((OPTIONS_VARIABLE, lines)))
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::null())
            .spawn()
            .expect("runs");
        let served = Self { folder, daemon, questions: RefCell::new(ours) };
        served.inodes();
        served
    }

    /// Inodes there are, the root among them.
    pub fn inodes(&self) -> u64 {
        let mut questions = self.questions.borrow_mut();
        questions.write_all(b"?").expect("the daemon serves");
        let mut inodes = [0; 8];
        questions.read_exact(&mut inodes).expect("the daemon answers");
        u64::from_ne_bytes(inodes)
    }

    /// Where it lies.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A command on the store.
    pub fn command(&self, program: &str) -> Command {
        self.command_at(program, Path::new(PREFIX))
    }

    /// A command to which the store appears at `at`.
    pub fn command_at(&self, program: &str, at: &Path) -> Command {
        preloaded_at(program, &self.folder.path().join("sock"), self.folder.path(), at)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // Processes that are being started have copies of this end, too.
        let _ = self.questions.get_mut().shutdown(Shutdown::Both);
        let ended = self.daemon.wait();
        if !std::thread::panicking() {
            assert!(ended.is_ok_and(|status| status.success()), "the daemon failed");
        }
    }
}

/// Fails at the first line in which the two differ.
pub fn compare(expected: &str, found: &str) {
    for (line, (one, other)) in expected.lines().zip(found.lines()).enumerate() {
        assert_eq!(one, other, "line {line}; all of it:\n{found}");
    }
    assert_eq!(expected.lines().count(), found.lines().count(), "all of it:\n{found}");
}

/// A C program, compiled into `folder` under `name`.
pub fn compiled(folder: &Path, name: &str, source: &str, options: &[&str]) -> PathBuf {
    let program = folder.join(name);
    let text = folder.join(format!("{name}.c"));
    std::fs::write(&text, source).expect("source");
    let compiler = Command::new("gcc")
        .args(["-O1", "-Wall", "-D_GNU_SOURCE", "-pthread", "-o"])
        .arg(&program)
        .arg(&text)
        .args(options)
        .output()
        .expect("gcc runs");
    assert!(compiler.status.success(), "{}", told(&compiler));
    program
}
