//! A store that is mounted, gone after the test.

use super::{TestFolder, can_mount};
use std::path::PathBuf;
use std::process::Child;

/// A store, and where it is mounted.
pub struct Mounted {
    pub place: TestFolder,
}

impl Mounted {
    pub fn new() -> Option<Mounted> {
        Mounted::of_size("8M")
    }

    pub fn of_size(size: &str) -> Option<Mounted> {
        if !can_mount() {
            return None;
        }
        let place = TestFolder::with_store_of(size);
        std::fs::create_dir(place.path("files")).unwrap();
        let mounted = Mounted { place };
        mounted.mount();
        Some(mounted)
    }

    pub fn mount(&self) {
        self.mount_with("rw");
    }

    pub fn mount_with(&self, options: &str) {
        let made = self.place.cuesta(&["mount", "--allow-other", "-o", options, "store", "files"]);
        assert_eq!((made.status(), made.text(), made.errors()), (0, String::new(), String::new()));
    }

    /// A call that needs a daemon, while others may go on without.
    pub fn ask_daemon(&self) {
        rustix::fs::statvfs(self.path("")).unwrap();
    }

    /// As soon as no process uses it: another test's child may have inherited the files that were open here, until it executes its program.
    pub fn unmount(&self) {
        loop {
            let unmounted = self.place.cuesta(&["unmount", "files"]);
            if !unmounted.errors().contains("in use") {
                assert_eq!((unmounted.status(), unmounted.errors()), (0, String::new()));
                return;
            }
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.place.path("files").join(name)
    }

    /// A shell by the other door.
    pub fn run(&self, script: &str) -> String {
        let ended =
            self.place.cuesta(&["run", "--store", "store", "--at", "/cuesta", "--", "sh", "-ec", script]);
        assert_eq!(ended.status(), 0, "{}", ended.errors());
        ended.text()
    }

    /// What `cuesta status` says of the mount's session.
    pub fn of_session(&self, field: &str) -> u64 {
        let status = self.place.cuesta(&["status", "store", "--json"]).text();
        let status: serde_json::Value = serde_json::from_str(&status).unwrap();
        let sessions = status["sessions"].as_array().unwrap();
        // One that was unmounted may not have ended yet.
        let of_mount = sessions.iter().rfind(|session| session["program"] == "(mount)");
        of_mount.unwrap_or_else(|| panic!("no mount: {status}"))[field].as_u64().unwrap()
    }

    /// The process that serves the mount.
    pub fn process(&self) -> String {
        self.of_session("pid").to_string()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let here = self.place.path("").canonicalize().unwrap();
        for mounted in cuesta_fuse::mounts().unwrap().iter().filter(|mounted| mounted.at.starts_with(&here)) {
            let _ = cuesta_fuse::unmount(&mounted.at, true);
        }
    }
}

/// A program, killed when it is let go of.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
