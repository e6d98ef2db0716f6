//! Names that the kernel keeps of a mount: never beyond what another door makes of them, and not at the price of a program's
//! working directory.

use crate::common::{Mounted, ROOT, can_mount};
use cuesta_libfs::{Base, Client, RenameFlags};
use cuesta_sharedfs::Ship;
use rustix::fs::{CWD, RenameFlags as KernelFlags, renameat_with};
use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

fn make(session: &Client, name: &str) {
    let flags = libc::O_CREAT | libc::O_EXCL | libc::O_WRONLY;
    let file = session.open(&ROOT, Base::Root, name.as_bytes(), flags, 0o644).unwrap();
    session.close(file).unwrap();
}

fn move_to(session: &Client, old: &str, new: &str) {
    let (old, new) = ((Base::Root, old.as_bytes()), (Base::Root, new.as_bytes()));
    session.rename(&ROOT, old, new, RenameFlags::default()).unwrap();
}

fn inode(path: &Path) -> u64 {
    std::fs::symlink_metadata(path).unwrap().ino()
}

/// Looks until the kernel answers by itself; says whether it does within `within`.
fn is_kept(mounted: &Mounted, path: &Path, within: Duration) -> bool {
    let begin = Instant::now();
    loop {
        let before = mounted.requests();
        inode(path);
        if mounted.requests() == before {
            return true;
        }
        if begin.elapsed() > within {
            return false;
        }
    }
}

/// How often a directory of the mount had no name while `work` was done, in how many looks: then `getcwd` fails, and a
/// descriptor's link says "(deleted)".
fn lost_and_looks(inner: &Path, work: impl FnOnce()) -> (u32, u32) {
    let opened = File::open(inner).unwrap();
    let link = format!("/proc/self/fd/{}", opened.as_raw_fd());
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let looking = scope.spawn(|| {
            let (mut lost, mut looks) = (0, 0);
            while !is_over.load(Ordering::Relaxed) {
                looks += 1;
                lost += u32::from(std::fs::read_link(&link).unwrap() != inner);
            }
            (lost, looks)
        });
        work();
        is_over.store(true, Ordering::Relaxed);
        looking.join().unwrap()
    })
}

#[test]
fn a_working_directory_has_its_name_while_another_door_changes_what_is_beside_it() {
    if !can_mount() {
        return;
    }
    const CHANGES: u32 = 300;
    let mounted = Mounted::shipping(Ship::Auto);
    let session = mounted.session();
    let inner = mounted.path("inner");
    std::fs::create_dir(&inner).unwrap();
    let (lost, looks) = lost_and_looks(&inner, || {
        for number in 0..CHANGES {
            make(&session, &format!("name-{number}"));
            inode(&inner);
            session.unlink(&ROOT, Base::Root, format!("name-{number}").as_bytes()).unwrap();
            inode(&inner);
        }
    });
    assert_eq!(lost, 0, "of {looks} looks");
}

#[test]
fn a_working_directory_has_its_name_when_another_door_begins_to_change_what_is_beside_it() {
    if !can_mount() {
        return;
    }
    const DIRECTORIES: u32 = 40;
    let mounted = Mounted::shipping(Ship::Auto);
    let session = mounted.session();
    let inner = mounted.path("inner");
    std::fs::create_dir(&inner).unwrap();
    for number in 0..DIRECTORIES {
        std::fs::create_dir(mounted.path(&format!("inner/{number}"))).unwrap();
        File::create(mounted.path(&format!("inner/{number}/there"))).unwrap();
    }
    let (lost, looks) = lost_and_looks(&inner, || {
        for number in 0..DIRECTORIES {
            inode(&mounted.path(&format!("inner/{number}/there")));
            make(&session, &format!("inner/{number}/name"));
            inode(&mounted.path(&format!("inner/{number}/name")));
        }
    });
    assert_eq!(lost, 0, "of {looks} looks");
}

#[test]
fn a_name_the_kernel_keeps_is_another_s_as_soon_as_another_door_says_so() {
    if !can_mount() {
        return;
    }
    const DIRECTORIES: u32 = 20;
    let mounted = Mounted::shipping(Ship::Auto);
    let session = mounted.session();
    for number in 0..DIRECTORIES {
        let directory = mounted.path(&format!("{number}"));
        std::fs::create_dir(&directory).unwrap();
        // The session's way takes what is above: from here on it is not walked through.
        let opened = File::open(&directory).unwrap();
        let at = |name: &str| PathBuf::from(format!("/proc/self/fd/{}/{name}", opened.as_raw_fd()));
        let [name, next, none] = ["name", "next", "none"];
        File::create(at(name)).unwrap();
        File::create(at(next)).unwrap();
        let expected = inode(&at(next));
        assert!(is_kept(&mounted, &at(name), Duration::from_secs(60)), "nobody else changes it");
        assert!(!at(none).exists());
        let [name_there, next_there, none_there] = [name, next, none].map(|name| format!("{number}/{name}"));
        move_to(&session, &next_there, &name_there);
        make(&session, &none_there);
        assert_eq!(inode(&at(name)), expected);
        assert!(at(none).exists());
    }
}

/// The kernel takes a name it keeps along, into a directory of which it is to keep none.
#[test]
fn a_name_that_the_mount_moved_beside_what_another_door_changes_is_replaced_at_once() {
    if !can_mount() {
        return;
    }
    const CASES: [(KernelFlags, bool); 3] =
        [(KernelFlags::empty(), false), (KernelFlags::EXCHANGE, false), (KernelFlags::EXCHANGE, true)];
    let mounted = Mounted::shipping(Ship::Auto);
    let session = mounted.session();
    std::fs::create_dir(mounted.path("busy")).unwrap();
    for (number, (flags, is_from_busy)) in CASES.into_iter().enumerate() {
        let quiet = mounted.path(&format!("quiet-{number}"));
        std::fs::create_dir(&quiet).unwrap();
        // The session's way takes what is above: from here on it is not walked through.
        let opened = [File::open(mounted.path("busy")).unwrap(), File::open(quiet).unwrap()];
        let [busy, quiet] = opened.each_ref().map(|file| format!("/proc/self/fd/{}", file.as_raw_fd()));
        let [moved, kept] = [format!("{busy}/name-{number}"), format!("{quiet}/name")];
        File::create(&kept).unwrap();
        let [name, next] = [format!("busy/name-{number}"), format!("busy/next-{number}")];
        make(&session, &next);
        if flags == KernelFlags::EXCHANGE {
            make(&session, &name);
        }
        let expected = inode(&mounted.path(&next));
        let is_kept_there = is_kept(&mounted, Path::new(&kept), Duration::from_secs(5));
        assert!(is_kept_there, "nobody else changes what is there");
        let (from, to) = if is_from_busy { (&moved, &kept) } else { (&kept, &moved) };
        renameat_with(CWD, from, CWD, to, flags).unwrap();
        // The moved file is still there, by another name: the kernel can ask for it and be told that all is well.
        move_to(&session, &name, &format!("busy/away-{number}"));
        move_to(&session, &next, &name);
        assert_eq!(inode(Path::new(&moved)), expected, "{flags:?}, from busy: {is_from_busy}");
    }
}

#[test]
fn names_are_kept_again_once_changes_end_and_taken_back_with_the_next_one() {
    if !can_mount() {
        return;
    }
    let mounted = Mounted::shipping(Ship::Auto);
    let session = mounted.session();
    let path = mounted.path("name");
    make(&session, "name");
    make(&session, "next");
    inode(&path);
    let expected = inode(&mounted.path("next"));
    // Others have changed the directory: for a while no name of it is kept.
    make(&session, "another");
    inode(&path);
    assert!(!is_kept(&mounted, &path, Duration::from_millis(100)));
    assert!(is_kept(&mounted, &path, Duration::from_secs(60)), "nobody changes it any more");
    move_to(&session, "name", "away");
    move_to(&session, "next", "name");
    assert_eq!(inode(&path), expected);
}
