//! `cuesta mount` where the kernel offers rings (io_uring): who dies leaves nobody waiting, and who does not want them has none.
//!
//! Needs root, FUSE, and a kernel that offers them when asked to; skipped visibly otherwise.

mod common;
#[path = "../../fuse/tests/common/offer.rs"]
mod offer;

use common::{Place, signal};
use offer::Offer;
use std::fs::File;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

struct Mounted {
    place: Place,
}

impl Mounted {
    fn new(options: &str) -> Option<Mounted> {
        let is_root = rustix::process::geteuid().is_root();
        if !is_root || File::options().read(true).write(true).open("/dev/fuse").is_err() {
            println!("skipped: needs root, and FUSE");
            return None;
        }
        let mounted = Mounted { place: Place::with_store() };
        std::fs::create_dir(mounted.place.path("files")).unwrap();
        mounted.mount(options)?;
        Some(mounted)
    }

    fn mount(&self, options: &str) -> Option<()> {
        let _offer = Offer::new()?;
        let made = self.place.cuesta(&["mount", "-o", options, "store", "files"]);
        assert_eq!((made.status(), made.errors()), (0, String::new()));
        Some(())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path("files").join(name)
    }

    /// The process that serves the mount.
    fn process(&self) -> String {
        let status = self.place.cuesta(&["status", "store", "--json"]).text();
        let status: serde_json::Value = serde_json::from_str(&status).unwrap();
        let sessions = status["sessions"].as_array().unwrap();
        let of_mount = sessions.iter().find(|session| session["program"] == "(mount)");
        of_mount.unwrap_or_else(|| panic!("no mount: {status}"))["pid"].to_string()
    }

    fn is_by_rings(&self) -> bool {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.process())).unwrap();
        let names = threads.map(|thread| std::fs::read_to_string(thread.unwrap().path().join("comm")));
        names.flatten().any(|name| name.starts_with("fuse-ring"))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = self.place.command(&["unmount", "--lazy", "files"]).output();
    }
}

#[test]
fn who_does_not_want_rings_has_none() {
    let Some(mounted) = Mounted::new("nouring") else { return };
    assert!(!mounted.is_by_rings());
    std::fs::write(mounted.path("file"), "content").unwrap();
    assert_eq!(std::fs::read_to_string(mounted.path("file")).unwrap(), "content");
}

#[test]
fn programs_in_the_middle_of_calls_are_told_when_the_mount_s_process_is_killed() {
    let Some(mounted) = Mounted::new("") else { return };
    if !mounted.is_by_rings() {
        return println!("skipped: rings are not to be had here");
    }
    std::fs::write(mounted.path("file"), "content").unwrap();
    let held = File::open(mounted.path("file")).unwrap();
    held.lock().unwrap();
    // One that waits for a lock all the while, which ends with the mount: and whoever asks for others is told.
    let waits =
        Command::new("flock").args(["-x", "0"]).stdin(File::open(mounted.path("file")).unwrap()).spawn();
    let mut waits = waits.unwrap();
    let (ends, calls) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for number in 0..4 {
            let (mounted, ends, calls) = (&mounted, &ends, &calls);
            scope.spawn(move || {
                let path = mounted.path(&format!("file-{number}"));
                while !ends.load(Ordering::SeqCst) {
                    let _ = std::fs::write(&path, [7; 5000]).and_then(|()| std::fs::read(&path));
                    calls.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        while calls.load(Ordering::SeqCst) < 1000 {
            std::thread::yield_now();
        }
        signal(&mounted.process(), "KILL");
        while std::fs::metadata(mounted.path("file")).is_ok() {
            std::thread::yield_now();
        }
        ends.store(true, Ordering::SeqCst);
    });
    waits.wait().unwrap();
    drop(held);
    mounted.mount("").unwrap();
    assert!(mounted.is_by_rings());
    assert_eq!(std::fs::read_to_string(mounted.path("file")).unwrap(), "content");
}

#[test]
fn a_mount_by_rings_outlives_its_daemon() {
    let Some(mounted) = Mounted::new("") else { return };
    std::fs::write(mounted.path("file"), "before").unwrap();
    mounted.place.kill_daemon();
    let ended = mounted.place.cuesta(&[
        "run",
        "--store",
        "store",
        "--at",
        "/cuesta",
        "--",
        "sh",
        "-c",
        "printf ' after' >> /cuesta/file",
    ]);
    assert_eq!(ended.status(), 0, "{}", ended.errors());
    assert_eq!(std::fs::read_to_string(mounted.path("file")).unwrap(), "before after");
}
