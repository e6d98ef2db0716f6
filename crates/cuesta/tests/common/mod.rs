//! The installed command, and stores in memory for it, gone after the test.

#![allow(dead_code)]

pub mod conversation;
pub mod disk;
pub mod mounted;
pub mod room;
pub mod tiered;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// A place with `bin/cuesta`, `lib/libcuesta_preload.so` and room for stores.
pub struct TestFolder {
    folder: TempDir,
}

impl TestFolder {
    pub fn new() -> TestFolder {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let built = Path::new(env!("CARGO_BIN_EXE_cuesta"));
        let library = "libcuesta_preload.so";
        for (part, from) in [
            ("bin/cuesta", built.to_path_buf()),
            ("lib/libcuesta_preload.so", built.with_file_name("deps").join(library)),
        ] {
            let to = folder.path().join(part);
            std::fs::create_dir_all(to.parent().unwrap()).unwrap();
            // By another process: a file open for writing here could be inherited by a test that forks just
            // then, and could not be executed.
            assert!(Command::new("cp").arg(&from).arg(&to).status().unwrap().success());
        }
        TestFolder { folder }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.path("bin/cuesta"));
        command.args(arguments).current_dir(self.folder.path()).env_remove("CUESTA_STORE");
        command.stdin(Stdio::null());
        command
    }

    /// Runs the command to its end.
    pub fn cuesta(&self, arguments: &[&str]) -> Ended {
        Ended(self.command(arguments).output().unwrap())
    }

    /// Kills the store's daemon.
    pub fn kill_daemon(&self) {
        signal(&self.daemon(), "KILL");
    }

    /// A daemon that was killed has the store until the kernel has ended it.
    pub fn wait_until_unused(&self) {
        std::fs::File::open(self.path("store/lock")).unwrap().lock().unwrap();
    }

    /// Kills the daemon, and waits until the kernel has ended it. Another one may have begun by then, if a command goes on meanwhile.
    pub fn kill_daemon_to_its_end(&self) {
        TestFolder::kill_to_its_end(&self.daemon());
    }

    /// The same for the daemon of that process, which may have ended already.
    pub fn kill_to_its_end(daemon: &str) {
        let _ = Command::new("kill").args(["-KILL", daemon]).stderr(Stdio::null()).status();
        let is_there = || {
            let stat = std::fs::read_to_string(format!("/proc/{daemon}/stat")).unwrap_or_default();
            stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
        };
        while is_there() {
            std::thread::yield_now();
        }
    }

    /// The process of the store's daemon.
    pub fn daemon(&self) -> String {
        let status = self.cuesta(&["status", "store", "--json"]).text();
        let pid = status.split("\"pid\":").nth(1).and_then(|rest| rest.split([',', '}']).next());
        pid.unwrap_or_else(|| panic!("no daemon: {status}")).trim().to_owned()
    }

    /// A small new store named `store`.
    pub fn with_store() -> TestFolder {
        TestFolder::with_store_of("8M")
    }

    pub fn with_store_of(size: &str) -> TestFolder {
        let place = TestFolder::new();
        let made = place.cuesta(&["mkfs", "store", "--medium", "memory", "--nvm", size]);
        assert_eq!(made.status(), 0, "{}", made.errors());
        place
    }
}

/// Whether this process may mount; says so if not.
pub fn can_mount() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let capabilities = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap().trim();
    let administers = u64::from_str_radix(capabilities, 16).unwrap() & 1 << 21 != 0;
    let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::CLOEXEC;
    let can = administers && rustix::fs::open("/dev/fuse", flags, rustix::fs::Mode::empty()).is_ok();
    if !can {
        println!("skipped: needs root, and FUSE");
    }
    can
}

/// Sends a process a signal.
pub fn signal(pid: &str, name: &str) {
    assert!(Command::new("kill").args(["-s", name, pid]).status().unwrap().success());
}

/// A process that does nothing until this is let go of.
pub struct Stopped<'a>(&'a str);

impl Stopped<'_> {
    /// Returns once none of its threads runs any more: the kernel has them stop one after the other.
    pub fn new(pid: &str) -> Stopped<'_> {
        signal(pid, "STOP");
        let runs = |thread: std::io::Result<std::fs::DirEntry>| {
            // One that has ended meanwhile does not.
            let line = std::fs::read_to_string(thread.ok()?.path().join("stat")).ok()?;
            (!line.rsplit_once(')')?.1.starts_with(" T")).then_some(())
        };
        let threads = || std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        while threads().any(|thread| runs(thread).is_some()) {
            std::thread::yield_now();
        }
        Stopped(pid)
    }
}

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        // It may have been killed.
        let _ = Command::new("kill").args(["-s", "CONT", self.0]).stderr(Stdio::null()).status();
    }
}

impl Drop for TestFolder {
    fn drop(&mut self) {
        // A test that failed may have left a daemon.
        let _ = self.command(&["stop", "store"]).output();
    }
}

/// The outcome of a command.
pub struct Ended(pub Output);

impl Ended {
    pub fn status(&self) -> i32 {
        self.0.status.code().unwrap_or(-1)
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.0.stdout.clone()).unwrap()
    }

    pub fn errors(&self) -> String {
        String::from_utf8(self.0.stderr.clone()).unwrap()
    }

    /// It failed with `status` and exactly one line, which contains each of `words`.
    #[track_caller]
    pub fn refused(&self, status: i32, words: &[&str]) {
        let errors = self.errors();
        assert_eq!(self.status(), status, "{errors}");
        assert_eq!(errors.lines().count(), 1, "{errors}");
        for word in words {
            assert!(errors.contains(word), "{word:?} is missing: {errors}");
        }
    }
}
