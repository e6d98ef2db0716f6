//! `RENAME_WHITEOUT` by the mount: what moves is there, a whiteout is where it was, and nothing else is anywhere.

use crate::common::{Mounted, can_mount};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use std::fs::File;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

fn is_whiteout(path: &Path) -> bool {
    let found = std::fs::symlink_metadata(path).unwrap();
    found.file_type().is_char_device() && found.rdev() == 0 && found.mode() & 0o7777 == 0
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_whiteout_is_left_where_a_name_was() {
    if !can_mount() {
        return;
    }
    let mounted = Mounted::new();
    let path = |name: &str| mounted.path(name);
    let rename = |old: &str, new: &str, flags| renameat_with(CWD, path(old), CWD, path(new), flags);
    for folder in ["one", "two"] {
        std::fs::create_dir(path(folder)).unwrap();
    }
    for (file, content) in [("one/a", "a"), ("one/b", "b"), ("two/taken", "taken")] {
        std::fs::write(path(file), content).unwrap();
    }
    std::fs::create_dir(path("one/folder")).unwrap();
    std::fs::write(path("one/folder/in"), "in").unwrap();

    rename("one/a", "two/a", RenameFlags::WHITEOUT).unwrap();
    assert!(is_whiteout(&path("one/a")) && std::fs::read(path("two/a")).unwrap() == b"a");
    rename("one/b", "two/taken", RenameFlags::WHITEOUT).unwrap();
    assert!(is_whiteout(&path("one/b")) && std::fs::read(path("two/taken")).unwrap() == b"b");
    rename("one/folder", "two/folder", RenameFlags::WHITEOUT | RenameFlags::NOREPLACE).unwrap();
    assert!(is_whiteout(&path("one/folder")) && std::fs::read(path("two/folder/in")).unwrap() == b"in");

    let no_replace = RenameFlags::WHITEOUT | RenameFlags::NOREPLACE;
    assert_eq!(rename("two/a", "two/taken", no_replace), Err(Errno::EXIST));
    assert_eq!(rename("two/none", "two/new", RenameFlags::WHITEOUT), Err(Errno::NOENT));
    assert_eq!(rename("two/a", "two/folder", RenameFlags::WHITEOUT), Err(Errno::ISDIR));
    let both = RenameFlags::WHITEOUT | RenameFlags::EXCHANGE;
    assert_eq!(rename("two/a", "two/taken", both), Err(Errno::INVAL));
    assert_eq!(names(&path("one")), ["a", "b", "folder"]);
    assert_eq!(names(&path("two")), ["a", "folder", "taken"]);
    // Two names of one file: nothing happens.
    std::fs::hard_link(path("two/a"), path("two/again")).unwrap();
    rename("two/a", "two/again", RenameFlags::WHITEOUT).unwrap();
    assert_eq!(std::fs::read(path("two/a")).unwrap(), b"a");
    // A whiteout makes room for what comes.
    File::create_new(path("one/new")).unwrap();
    std::fs::rename(path("one/new"), path("one/a")).unwrap();
    assert_eq!(names(&path("one")), ["a", "b", "folder"]);
    let session = mounted.session();
    let root = crate::common::ROOT;
    let found = session.stat(&root, cuesta_libfs::Base::Root, b"one/b", false).unwrap().record;
    assert_eq!((found.mode, found.device), (libc::S_IFCHR, 0));
}
