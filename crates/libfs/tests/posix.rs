//! Faults found by review: in the choice between several errors that fit, and in the traces of an ordinary
//! user's call. Every expected answer is that of Linux 6.18 on tmpfs and ext4 for the same calls by the same
//! user.

use crate::common::{CONTENT_CHANGES, Caller, ROOT, Store, root, small};
use cuesta_libfs::{Allocation, Base, Client, Credentials, Error, RenameFlags, SetAttributes, Target};
use libc::{O_APPEND, O_CREAT, O_RDWR, O_TRUNC, O_WRONLY};
use std::sync::Arc;

const NO_REPLACE: RenameFlags = RenameFlags { no_replace: true, exchange: false };
const EXCHANGE: RenameFlags = RenameFlags { no_replace: false, exchange: true };

fn user(client: &Arc<Client>) -> Caller {
    Caller { client: Arc::clone(client), who: Credentials::of_user(1000, 1000, Vec::new()) }
}

fn set(client: &Client, path: &str, set: SetAttributes) {
    let target = Target::Path { base: Base::Root, path: path.as_bytes(), follow: false };
    client.set_attributes(&ROOT, target, set).unwrap();
}

fn chmod(client: &Client, path: &str, mode: u32) {
    set(client, path, SetAttributes { mode: Some(mode), ..SetAttributes::default() });
}

fn mode(client: &Arc<Client>, path: &str) -> u32 {
    root(client).stat(path).unwrap().mode & 0o7777
}

/// A name no directory can hold.
fn too_long() -> String {
    "n".repeat(256)
}

#[test]
fn changing_content_takes_set_id_bits() {
    let store = Store::new(small());
    let client = store.attach();
    root(&client).write_file("f", b"content").unwrap();
    // The mode before, and behind a change by root, by one of the file's group, and by any other.
    for (before, by_root, by_member, by_other) in [
        (0o6777, 0o6777, 0o777, 0o777),
        (0o2777, 0o2777, 0o777, 0o777),
        (0o6767, 0o6767, 0o2767, 0o767),
        (0o2767, 0o2767, 0o2767, 0o767),
    ] {
        for (name, change) in CONTENT_CHANGES {
            let callers =
                [(root(&client), 0, by_root), (user(&client), 1000, by_member), (user(&client), 0, by_other)];
            for (caller, group, after) in callers {
                set(&client, "f", SetAttributes { gid: Some(group), ..SetAttributes::default() });
                chmod(&client, "f", before);
                change(&caller, "f");
                assert_eq!(mode(&client, "f"), after, "{name} of {before:o} by {:?}", caller.who);
                client.digest().unwrap();
                assert_eq!(mode(&store.attach(), "f"), after, "{name} of {before:o} by {:?}", caller.who);
            }
        }
    }
}

#[test]
fn renaming_between_two_names_of_one_inode_changes_nothing_for_any_user() {
    let store = Store::new(small());
    let client = store.attach();
    let (call, other) = (root(&client), user(&client));
    call.mkdir("d").unwrap();
    call.mkdir("d/sub").unwrap();
    call.write_file("d/a", b"").unwrap();
    call.link("d/a", "d/b").unwrap();
    assert_eq!(other.rename("d/a", "d/b"), Ok(()));
    assert_eq!(other.rename("d/a", "d/a"), Ok(()));
    assert_eq!(other.rename("d/sub", "d/sub"), Ok(()));
    assert_eq!(other.rename("d/a", "d/a/"), Err(Error::NotDirectory));
    assert_eq!(other.rename_with("d/a", "d/b", EXCHANGE), Ok(()));
    assert_eq!(other.rename_with("d/a", "d/b", NO_REPLACE), Err(Error::Exists));
    assert_eq!(call.list("d").unwrap(), ["a", "b", "sub"]);
}

#[test]
fn rights_are_looked_at_before_kinds() {
    let store = Store::new(small());
    let client = store.attach();
    let (call, other) = (root(&client), user(&client));
    for directory in ["d", "d/sub", "w", "w/sub", "w/closed", "sticky", "sticky/sub"] {
        call.mkdir(directory).unwrap();
    }
    for (directory, mode) in [("w", 0o777), ("w/sub", 0o777), ("sticky", 0o1777)] {
        chmod(&client, directory, mode);
    }
    for file in ["d/f", "w/f", "w/sub/f", "sticky/f"] {
        call.write_file(file, b"").unwrap();
    }
    for (path, answer) in [
        ("d/f", Error::Denied),
        ("d/f/", Error::Denied),
        ("w/f", Error::NotDirectory),
        ("w/f/", Error::NotDirectory),
        ("sticky/f", Error::NotPermitted),
        ("d/none", Error::NotFound),
    ] {
        assert_eq!(other.rmdir(path), Err(answer), "rmdir {path}");
    }
    for (path, answer) in [
        ("d/sub", Error::Denied),
        ("d/sub/", Error::IsDirectory),
        ("d/f/", Error::NotDirectory),
        ("d/none/", Error::NotFound),
        ("w/sub", Error::IsDirectory),
        ("sticky/sub", Error::NotPermitted),
    ] {
        assert_eq!(other.unlink(path), Err(answer), "unlink {path}");
    }
    for (old, new, answer) in [
        ("w/sub", "d/f", Error::Denied),
        ("w/f", "sticky/sub", Error::NotPermitted),
        ("w/sub", "sticky/f", Error::NotPermitted),
        ("w/closed", "w/sub/closed", Error::Denied),
        ("w/closed", "w/sub/f", Error::NotDirectory),
        ("w/f", "w/closed", Error::IsDirectory),
    ] {
        assert_eq!(other.rename(old, new), Err(answer), "rename {old} {new}");
    }
    assert_eq!(other.rename_with("w/sub/f", "w/closed", EXCHANGE), Err(Error::Denied));
    assert_eq!(other.rename_with("w/f", "w/closed", EXCHANGE), Ok(()), "its parent stays");
    let device =
        |path: &str| client.make_node(&other.who, Base::Root, path.as_bytes(), libc::S_IFCHR | 0o666, 5);
    assert_eq!(device("w/f"), Err(Error::Exists));
    assert_eq!(device("d/new"), Err(Error::Denied));
    assert_eq!(device("none/new"), Err(Error::NotFound));
    assert_eq!(device("w/new"), Err(Error::NotPermitted));
}

#[test]
fn a_directory_gets_no_second_name_and_says_so_last() {
    let store = Store::new(small());
    let client = store.attach();
    let call = root(&client);
    call.mkdir("w").unwrap();
    chmod(&client, "w", 0o777);
    let owner = user(&client);
    for directory in ["w/own", "w/closed"] {
        owner.mkdir(directory).unwrap();
    }
    chmod(&client, "w/closed", 0o555);
    assert_eq!(owner.link("w/own", "w/closed/x"), Err(Error::Denied));
    assert_eq!(owner.link("w/own", "w/closed"), Err(Error::Exists));
    assert_eq!(owner.link("w/own", "w/x"), Err(Error::NotPermitted));
}

#[test]
fn a_dot_needs_the_right_to_search() {
    let store = Store::new(small());
    let client = store.attach();
    let (call, other) = (root(&client), user(&client));
    call.mkdir("d").unwrap();
    chmod(&client, "d", 0o600);
    let stat = |path| other.stat(path).map(drop);
    assert_eq!(stat("d"), Ok(()));
    assert_eq!(stat("d/"), Ok(()));
    assert_eq!(stat("/"), Ok(()));
    for path in ["d/.", "d/./", "d/..", "d/./.."] {
        assert_eq!(stat(path), Err(Error::Denied), "{path}");
        assert_eq!(other.rmdir(path), Err(Error::Denied), "{path}");
        assert_eq!(other.mkdir(path), Err(Error::Denied), "{path}");
        assert_eq!(other.unlink(path), Err(Error::Denied), "{path}");
    }
    assert_eq!(call.rmdir("d/."), Err(Error::Invalid));
    chmod(&client, "/", 0o600);
    assert_eq!(stat("/"), Ok(()));
    assert_eq!(stat("/."), Err(Error::Denied));
    assert_eq!(stat("/.."), Err(Error::Denied), "and does not leave the store");
}

#[test]
fn both_paths_of_a_rename_are_walked_before_a_last_name_is_looked_at() {
    let store = Store::new(small());
    let client = store.attach();
    let (call, other) = (root(&client), user(&client));
    for directory in ["w", "closed"] {
        call.mkdir(directory).unwrap();
    }
    call.write_file("w/f", b"").unwrap();
    chmod(&client, "closed", 0o600);
    let long = too_long();
    for (old, new, answer) in [
        (long.as_str(), "none/x", Error::NotFound),
        (&long, "w/f/x", Error::NotDirectory),
        (&long, "closed/x", Error::Denied),
        (&long, "w/.", Error::Busy),
        (&long, "x", Error::NameTooLong),
        ("none", &long, Error::NotFound),
        ("none/x", &long, Error::NotFound),
        ("w/f", &long, Error::NameTooLong),
        (&format!("closed/{long}"), "none/x", Error::Denied),
        ("", "closed/x", Error::NotFound),
        ("closed/x", "", Error::Denied),
    ] {
        assert_eq!(other.rename(old, new), Err(answer), "rename {old} {new}");
    }
    for (old, new, answer) in [
        ("w/.", "w/x", Error::Busy),
        ("w/.", "w/..", Error::Busy),
        (&long, "w/.", Error::Exists),
        ("w/f", "w/.", Error::Exists),
    ] {
        assert_eq!(call.rename_with(old, new, NO_REPLACE), Err(answer), "no replace: {old} {new}");
    }
    assert_eq!(call.rename_with("w/.", "w/f", EXCHANGE), Err(Error::Busy));
}

#[test]
fn the_first_path_of_a_link_is_looked_up_whole_before_the_second() {
    let store = Store::new(small());
    let client = store.attach();
    let call = root(&client);
    call.mkdir("w").unwrap();
    call.write_file("w/f", b"").unwrap();
    let long = too_long();
    for (old, new, answer) in [
        (long.as_str(), "none/x", Error::NameTooLong),
        ("none", &long, Error::NotFound),
        ("w/f", &long, Error::NameTooLong),
        ("w/f", &format!("{long}/"), Error::NameTooLong),
        ("w/f", "w/.", Error::Exists),
        ("none", "w/.", Error::NotFound),
    ] {
        assert_eq!(call.link(old, new), Err(answer), "link {old} {new}");
    }
    call.symlink("w", "to-directory").unwrap();
    call.symlink("w/f", "to-file").unwrap();
    call.symlink("loop", "loop").unwrap();
    for (old, answer) in [
        ("to-directory/", Error::NotPermitted),
        ("to-file/", Error::NotDirectory),
        ("loop/", Error::SymlinkLoop),
    ] {
        assert_eq!(call.link(old, "new"), Err(answer), "a slash follows: {old}");
    }
    assert_eq!(call.link("loop", "new"), Ok(()), "else it is the symbolic link");
    for path in [long.clone(), format!("{long}/"), format!("w/{long}")] {
        assert_eq!(call.mkdir(&path), Err(Error::NameTooLong));
        assert_eq!(call.rmdir(&path), Err(Error::NameTooLong));
        assert_eq!(call.unlink(&path), Err(Error::NameTooLong));
        assert_eq!(call.symlink("x", &path), Err(Error::NameTooLong));
        assert_eq!(call.stat(&path).map(drop), Err(Error::NameTooLong));
    }
}

#[test]
fn a_size_is_too_big_only_for_a_user_who_may_set_it() {
    let store = Store::new(small());
    let client = store.attach();
    let (call, other) = (root(&client), user(&client));
    call.mkdir("d").unwrap();
    call.write_file("f", b"").unwrap();
    let truncate = |path: &str, size| client.truncate(&other.who, Base::Root, path.as_bytes(), size);
    assert_eq!(truncate("none", i64::MAX), Err(Error::NotFound));
    assert_eq!(truncate("none", -1), Err(Error::Invalid));
    assert_eq!(truncate("d", i64::MAX), Err(Error::IsDirectory));
    assert_eq!(truncate("d", -1), Err(Error::Invalid));
    assert_eq!(truncate("f", i64::MAX), Err(Error::Denied));
    chmod(&client, "f", 0o666);
    assert_eq!(truncate("f", i64::MAX), Err(Error::FileTooBig));
    assert_eq!(truncate("f", 1), Ok(()));
}

#[test]
fn no_file_grows_beyond_the_limit_of_its_writer() {
    let store = Store::new(small());
    let client = store.attach();
    let call = root(&client);
    call.write_file("f", &[b'x'; 2000]).unwrap();
    client.limit_files(1000);
    let file = call.open("f", O_RDWR).unwrap();
    let append = call.open("f", O_WRONLY | O_APPEND).unwrap();
    let bytes = [b'y'; 3000];
    let pwrite = |length, offset| client.pwrite(&file, &[bytes[..length].into()], offset);
    let write_end = |length| client.write(&append, &[bytes[..length].into()]);
    let size = || call.stat("f").unwrap().size;
    assert_eq!(pwrite(3000, 0), Ok(1000));
    assert_eq!(pwrite(20, 990), Ok(10));
    assert_eq!(pwrite(1, 1000), Err(Error::OverLimit), "there is something, but that does not count");
    assert_eq!(pwrite(0, 1500), Ok(0));
    assert_eq!(size(), 2000);
    assert_eq!(client.truncate_open(&file, 1900), Ok(()));
    assert_eq!(client.truncate_open(&file, 1900), Ok(()));
    assert_eq!(client.truncate_open(&file, 1950), Err(Error::OverLimit));
    assert_eq!(client.truncate(&ROOT, Base::Root, b"f", 1950), Err(Error::OverLimit));
    let allocate = |what, length| client.allocate(&file, what, 0, length);
    assert_eq!(allocate(Allocation::Extend, 1900), Ok(()));
    assert_eq!(allocate(Allocation::Extend, 1950), Err(Error::OverLimit));
    assert_eq!(allocate(Allocation::Zero, 1950), Err(Error::OverLimit));
    assert_eq!(allocate(Allocation::KeepSize, 1950), Ok(()));
    assert_eq!(allocate(Allocation::Punch, 1950), Ok(()));
    assert_eq!(call.read_file("f").unwrap(), [0; 1900]);
    assert_eq!(write_end(1), Err(Error::OverLimit));
    assert_eq!(client.truncate_open(&file, 500), Ok(()));
    assert_eq!(write_end(501), Ok(500));
    assert_eq!(write_end(1), Err(Error::OverLimit));
    assert_eq!(client.truncate_open(&file, i64::MAX), Err(Error::OverLimit));
    assert_eq!(size(), 1000);
    client.limit_files(0);
    assert_eq!(write_end(0), Ok(0));
    call.client.close(call.open("f", O_RDWR | O_TRUNC).unwrap()).unwrap();
    client.limit_files(u64::MAX);
    assert_eq!(client.truncate_open(&file, i64::MAX), Err(Error::FileTooBig));
    assert_eq!(pwrite(3000, 0), Ok(3000));
    let new = call.open("g", O_CREAT | O_RDWR).unwrap();
    let end = cuesta_format::FILE_BYTES_MAX as i64;
    assert_eq!(client.pwrite(&new, &[bytes[..100].into()], end - 10), Ok(10));
    assert_eq!(client.pwrite(&new, &[bytes[..1].into()], end), Err(Error::FileTooBig));
}

#[test]
fn a_write_that_is_cut_short_passes_over_empty_parts() {
    let store = Store::new(small());
    let client = store.attach();
    let file = root(&client).open("f", O_CREAT | O_RDWR).unwrap();
    client.limit_files(7);
    let parts = [b"one".as_slice().into(), b"".as_slice().into(), b"twothree".as_slice().into()];
    assert_eq!(client.write(&file, &parts), Ok(7));
    assert_eq!(root(&client).read_file("f").unwrap(), b"onetwot");
    client.digest().unwrap();
    assert_eq!(root(&store.attach()).read_file("f").unwrap(), b"onetwot");
}

#[test]
fn the_offset_of_a_file_in_use_can_be_asked_for() {
    let store = Store::new(small());
    let client = store.attach();
    let file = root(&client).open("f", O_CREAT | O_RDWR).unwrap();
    client.write(&file, &[b"before".as_slice().into()]).unwrap();
    let directory = root(&client).open("/", libc::O_RDONLY).unwrap();
    // The offset is locked within the call, as by a thread that a fork leaves behind.
    client
        .read_directory(&directory, &mut |_| {
            assert_eq!(directory.offset_before_fork(), 0);
            assert_eq!(file.offset_before_fork(), 6);
            false
        })
        .unwrap();
}

#[test]
fn the_group_of_an_open_file_may_change() {
    let store = Store::new(small());
    let client = store.attach();
    let call = root(&client);
    call.write_file("f", b"content").unwrap();
    let group = |gid| SetAttributes { gid: Some(gid), ..SetAttributes::default() };
    chmod(&client, "f", 0o666);
    for (opened, written, after) in [(1000, 0, 0o767), (0, 1000, 0o2767)] {
        set(&client, "f", group(opened));
        let file = user(&client).open("f", O_RDWR).unwrap();
        set(&client, "f", group(written));
        chmod(&client, "f", 0o2767);
        client.write(&file, &[b"x".as_slice().into()]).unwrap();
        assert_eq!(mode(&client, "f"), after);
        client.close(file).unwrap();
    }
}
