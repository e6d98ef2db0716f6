//! Paths that another door changes while a call by the mount goes along them: the call ends as if it had come before or after.

use crate::common::{Mounted, ROOT, can_mount};
use cuesta_libfs::{Base, Client, Error, RenameFlags};
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

/// Both attempts of the kernel may find it elsewhere, and be unable to move it.
#[test]
fn a_directory_that_another_door_moves_all_the_time_is_there_or_not_but_never_stale() {
    const WORKERS: usize = 4;
    const ROUNDS: u32 = 300;
    if !can_mount() {
        return;
    }
    let mounted = Mounted::new();
    let session = mounted.session();
    for folder in ["a", "b", "a/moving"] {
        std::fs::create_dir(mounted.path(folder)).unwrap();
    }
    let check = |called: &str, round: u32, result: std::io::Result<()>| {
        let is_fine =
            result.as_ref().err().is_none_or(|error| matches!(error.raw_os_error(), Some(libc::ENOENT)));
        assert!(is_fine, "{called} in round {round}: {result:?}");
    };
    let root = mounted.at();
    let work = &|worker: usize| {
        let [here, there] = ["a/moving", "b/moving"].map(|name| root.join(name));
        for round in 0..ROUNDS {
            let (from, to) =
                if (round as usize + worker).is_multiple_of(2) { (&here, &there) } else { (&there, &here) };
            let name = format!("own-{worker}");
            check("mkdir", round, std::fs::create_dir(from.join(&name)).or_else(already_there));
            check("rename out of it", round, std::fs::rename(from.join(&name), root.join(&name)));
            check("rename", round, std::fs::rename(from, to));
            check("rename into it", round, std::fs::rename(root.join(&name), to.join(&name)));
            check("stat", round, to.metadata().map(|_| ()));
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS).map(|worker| scope.spawn(move || work(worker))).collect();
        let mut round = 0;
        while workers.iter().any(|worker| !worker.is_finished()) {
            let (old, new) = if round % 2 == 0 { ("a/moving", "b/moving") } else { ("b/moving", "a/moving") };
            let (old, new) = ((Base::Root, old.as_bytes()), (Base::Root, new.as_bytes()));
            // The mount moves it, too.
            let moved = session.rename(&ROOT, old, new, RenameFlags::default());
            assert!(matches!(moved, Ok(_) | Err(Error::NotFound)), "{moved:?}");
            round += 1;
        }
    });
}

fn already_there(error: std::io::Error) -> std::io::Result<()> {
    if error.kind() == ErrorKind::AlreadyExists { Ok(()) } else { Err(error) }
}
