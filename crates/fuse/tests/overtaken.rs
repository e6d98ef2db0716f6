//! Paths that another door changes while a call by the mount goes along them: the call ends as if it had come before or after.

use crate::common::{Mounted, ROOT, can_mount};
use cuesta_libfs::{Base, Client, RenameFlags};
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;

fn move_to(session: &Client, old: &str, new: &str) {
    let (old, new) = ((Base::Root, old.as_bytes()), (Base::Root, new.as_bytes()));
    session.rename(&ROOT, old, new, RenameFlags::default()).unwrap();
}

#[test]
fn a_file_that_another_door_replaces_all_the_time_is_there_whenever_a_program_at_the_mount_opens_it() {
    const OPENERS: usize = 8;
    const OPENINGS: u32 = 2000;
    if !can_mount() {
        return;
    }
    let mounted = Mounted::new();
    let session = mounted.session();
    let path = mounted.path("name");
    File::create(&path).unwrap();
    std::thread::scope(|scope| {
        let open = || {
            for number in 0..OPENINGS {
                let found = File::open(&path);
                assert!(found.is_ok(), "opening {number}: {found:?}");
            }
        };
        let opening: Vec<_> = (0..OPENERS).map(|_| scope.spawn(open)).collect();
        while opening.iter().any(|opening| !opening.is_finished()) {
            let flags = libc::O_CREAT | libc::O_WRONLY;
            let file = session.open(&ROOT, Base::Root, b"next", flags, 0o644).unwrap();
            session.close(file).unwrap();
            move_to(&session, "next", "name");
        }
    });
}

/// The kernel has the directory where it was, and cannot move it: a rename has the locks that takes.
#[test]
fn a_directory_that_another_door_has_moved_can_be_moved_back_by_the_mount() {
    if !can_mount() {
        return;
    }
    let mounted = Mounted::new();
    let session = mounted.session();
    for folder in ["a", "b", "a/moving"] {
        std::fs::create_dir(mounted.path(folder)).unwrap();
    }
    File::create(mounted.path("a/moving/inner")).unwrap();
    let [here, there] = ["a/moving", "b/moving"].map(|name| mounted.path(name));
    let number = here.metadata().unwrap().ino();
    for round in 0..4 {
        // Moved by the other door, and back by the mount; then the other way round.
        let (from, to) = if round % 2 == 0 { (&here, &there) } else { (&there, &here) };
        let [old, new] = [from, to].map(|path| path.strip_prefix(mounted.at()).unwrap().to_str().unwrap());
        move_to(&session, old, new);
        std::fs::rename(to, from).unwrap();
        if round < 2 {
            assert_eq!(from.metadata().unwrap().ino(), number, "round {round}");
        }
        std::fs::rename(from, to).unwrap();
        move_to(&session, new, old);
        // The kernel finds it, and has no more to ask about it.
        assert_eq!(std::fs::read_link(from).unwrap_err().kind(), ErrorKind::InvalidInput);
        move_to(&session, old, new);
        std::fs::rename(to, from).unwrap();
        std::fs::rename(from, to).unwrap();
        assert_eq!(to.metadata().unwrap().ino(), number, "round {round}");
        File::open(to.join("inner")).unwrap();
        assert!(from.metadata().is_err());
    }
}
