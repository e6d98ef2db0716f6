//! The calls, on a client with SharedFS in the same process: results, error numbers, and that a digest and a
//! fresh client see the same.

use crate::common::{ROOT, Store, root, small};
use cuesta_format::Medium;
use cuesta_libfs::{Base, Credentials, Error, RenameFlags, SetAttributes, SetTime, Target, Whence};
use cuesta_sharedfs::Options;
use libc::{O_APPEND, O_CREAT, O_DIRECTORY, O_EXCL, O_NOFOLLOW, O_PATH, O_RDONLY, O_RDWR, O_TRUNC, O_WRONLY};

#[test]
fn writes_are_read_before_and_after_a_digest() {
    let store = Store::new(small());
    let client = store.attach();
    let call = root(&client);
    call.write_file("a", b"hello").unwrap();
    assert_eq!(call.read_file("a").unwrap(), b"hello");
    client.digest().unwrap();
    assert_eq!(call.read_file("a").unwrap(), b"hello");
    let file = call.open("a", O_RDWR).unwrap();
    client.pwrite(&file, &[b"J".as_slice().into()], 0).unwrap();
    assert_eq!(call.read_file("a").unwrap(), b"Jello");
    client.digest().unwrap();
    assert_eq!(call.read_all(&file).unwrap(), b"Jello");
    client.close(file).unwrap();
    client.detach();
    assert_eq!(call.read_file("a"), Err(Error::Disconnected));
    assert_eq!(root(&store.attach()).read_file("a").unwrap(), b"Jello");
}

#[test]
fn offsets_appends_and_holes() {
    let store = Store::new(small());
    let client = store.attach();
    let call = root(&client);
    let file = call.open("f", O_CREAT | O_RDWR | O_EXCL).unwrap();
    let write = |bytes: &[u8]| client.write(&file, &[bytes.into()]);
    assert_eq!(write(b"abc"), Ok(3));
    assert_eq!(client.seek(&file, 10_000, Whence::End), Ok(10_003));
    assert_eq!(write(b"xyz"), Ok(3));
    assert_eq!(client.seek(&file, 0, Whence::Data), Ok(0));
    // Holes and data end at block boundaries.
    assert_eq!(client.seek(&file, 3, Whence::Hole), Ok(4096));
    assert_eq!(client.seek(&file, 3, Whence::Data), Ok(3));
    assert_eq!(client.seek(&file, 5000, Whence::Data), Ok(8192));
    assert_eq!(client.seek(&file, 8192, Whence::Hole), Ok(10_006));
    client.seek(&file, 0, Whence::End).unwrap();
    assert_eq!(client.seek(&file, 10_006, Whence::Data), Err(Error::NoData));
    assert_eq!(client.seek(&file, -1, Whence::Set), Err(Error::Invalid));
    for digested in [false, true] {
        if digested {
            client.digest().unwrap();
        }
        let content = call.read_all(&file).unwrap();
        assert_eq!((content.len(), &content[..3], &content[10_003..]), (10_006, &b"abc"[..], &b"xyz"[..]));
        assert!(content[3..10_003].iter().all(|&byte| byte == 0));
    }
    file.set_flags(O_APPEND);
    client.seek(&file, 0, Whence::Set).unwrap();
    assert_eq!(write(b"end"), Ok(3));
    assert_eq!(file.offset(), 10_009);
    client.truncate_open(&file, 2).unwrap();
    client.truncate_open(&file, 5).unwrap();
    assert_eq!(call.read_all(&file).unwrap(), b"ab\0\0\0");
    client.digest().unwrap();
    assert_eq!(call.read_all(&file).unwrap(), b"ab\0\0\0");
    client.truncate_open(&file, 20_000).unwrap();
    assert!(call.read_all(&file).unwrap()[2..].iter().all(|&byte| byte == 0));
    assert_eq!(client.truncate_open(&file, -1), Err(Error::Invalid));
    assert_eq!(client.truncate_open(&file, i64::MAX), Err(Error::FileTooBig));
    assert_eq!(client.pwrite(&file, &[b"x".as_slice().into()], -1), Err(Error::Invalid));
}

#[test]
fn opening_follows_the_rules() {
    let store = Store::new(small());
    let client = store.attach();
    let call = root(&client);
    call.mkdir("d").unwrap();
    call.write_file("f", b"x").unwrap();
    call.symlink("f", "s").unwrap();
    call.symlink("loop", "loop").unwrap();
    call.symlink("new", "dangling").unwrap();
    let fails = |path: &str, flags| call.open(path, flags).err();
    assert_eq!(fails("none", O_RDONLY), Some(Error::NotFound));
    assert_eq!(fails("", O_RDONLY), Some(Error::NotFound));
    assert_eq!(fails("f", O_CREAT | O_EXCL | O_RDWR), Some(Error::Exists));
    assert_eq!(fails("dangling", O_CREAT | O_EXCL | O_RDWR), Some(Error::Exists));
    assert_eq!(fails("f/x", O_RDONLY), Some(Error::NotDirectory));
    assert_eq!(fails("f/", O_RDONLY), Some(Error::NotDirectory));
    assert_eq!(fails("f", O_RDONLY | O_DIRECTORY), Some(Error::NotDirectory));
    assert_eq!(fails("d", O_WRONLY), Some(Error::IsDirectory));
    assert_eq!(fails("d", O_RDONLY | O_CREAT), Some(Error::IsDirectory));
    assert_eq!(fails("new/", O_RDWR | O_CREAT), Some(Error::IsDirectory));
    assert_eq!(fails("s", O_RDONLY | O_NOFOLLOW), Some(Error::SymlinkLoop));
    assert_eq!(fails("loop", O_RDONLY), Some(Error::SymlinkLoop));
    assert_eq!(fails(&"x".repeat(256), O_RDONLY), Some(Error::NameTooLong));
    assert_eq!(fails("f", O_RDWR | libc::O_TMPFILE), Some(Error::NotDirectory));
    assert_eq!(fails("d", O_RDONLY | libc::O_TMPFILE), Some(Error::Invalid));
    assert_eq!(fails("d", O_RDWR | O_CREAT | libc::O_TMPFILE), Some(Error::Invalid));
    let outside = Error::Leaves { path: b"../x".to_vec(), second: false };
    assert_eq!(fails("d/../../x", O_RDONLY), Some(outside));
    call.symlink("/etc/hosts", "away").unwrap();
    let outside = |second| Error::Leaves { path: b"/etc/hosts/x".to_vec(), second };
    assert_eq!(fails("away/x", O_RDONLY), Some(outside(false)));
    assert_eq!(call.rename("away/x", "f"), Err(outside(false)));
    assert_eq!(call.rename("f", "away/x"), Err(outside(true)));
    assert_eq!(call.link("f", "away/x"), Err(outside(true)));
    call.open("dangling", O_CREAT | O_RDWR).unwrap();
    assert!(call.stat("new").is_ok());
    let file = call.open("s", O_PATH).unwrap();
    assert_eq!(client.read(&file, &mut [vec![0; 1].as_mut_slice().into()]), Err(Error::AccessMode));
    let file = call.open("f", O_RDONLY).unwrap();
    assert_eq!(client.write(&file, &[b"x".as_slice().into()]), Err(Error::AccessMode));
    assert_eq!(client.truncate_open(&file, 0), Err(Error::Invalid));
    let directory = call.open("d", O_RDONLY).unwrap();
    let mut byte = [0];
    assert_eq!(client.read(&directory, &mut [byte.as_mut_slice().into()]), Err(Error::IsDirectory));
    call.open("f", O_WRONLY | O_TRUNC).unwrap();
    assert_eq!(call.stat("f").unwrap().size, 0);
}

#[test]
fn names_come_and_go() {
    let store = Store::new(small());
    let client = store.attach();
    let call = root(&client);
    call.mkdir("d").unwrap();
    assert_eq!(call.mkdir("d"), Err(Error::Exists));
    assert_eq!(call.mkdir("x/y"), Err(Error::NotFound));
    call.mkdir("d/e/").unwrap();
    call.write_file("d/f", b"1").unwrap();
    call.link("d/f", "g").unwrap();
    assert_eq!(call.link("d", "h"), Err(Error::NotPermitted));
    assert_eq!(call.link("d/f", "g"), Err(Error::Exists));
    assert_eq!(call.stat("g").unwrap().links, 2);
    assert_eq!(call.stat("d").unwrap().links, 3);
    assert_eq!(call.rmdir("d"), Err(Error::NotEmpty));
    assert_eq!(call.unlink("d"), Err(Error::IsDirectory));
    assert_eq!(call.rmdir("g"), Err(Error::NotDirectory));
    assert_eq!(call.rmdir("d/."), Err(Error::Invalid));
    assert_eq!(call.rmdir("d/.."), Err(Error::NotEmpty));
    assert_eq!(call.list("d").unwrap(), ["e", "f"]);
    client.digest().unwrap();
    let other = root(&store.attach());
    assert_eq!(other.list("d").unwrap(), ["e", "f"]);
    call.unlink("d/f").unwrap();
    assert_eq!(call.unlink("d/f"), Err(Error::NotFound));
    assert_eq!(call.read_file("g").unwrap(), b"1");
    assert_eq!(call.stat("g").unwrap().links, 1);
    call.rmdir("d/e").unwrap();
    call.rmdir("d").unwrap();
    assert_eq!(call.list("/").unwrap(), ["g"]);
    assert_eq!(other.list("/").unwrap(), ["g"]);
}

#[test]
fn renames_replace_exchange_and_refuse() {
    let store = Store::new(small());
    let client = store.attach();
    let call = root(&client);
    for name in ["a", "b", "a/x", "a/x/y"] {
        call.mkdir(name).unwrap();
    }
    call.write_file("f", b"f").unwrap();
    call.write_file("g", b"g").unwrap();
    assert_eq!(call.rename("a", "a/x/y/z"), Err(Error::Invalid));
    assert_eq!(call.rename("a", "a"), Ok(()));
    assert_eq!(call.rename("f", "a"), Err(Error::IsDirectory));
    assert_eq!(call.rename("a", "f"), Err(Error::NotDirectory));
    assert_eq!(call.rename("b", "a"), Err(Error::NotEmpty));
    assert_eq!(call.rename("none", "f"), Err(Error::NotFound));
    assert_eq!(call.rename("f", "none/f"), Err(Error::NotFound));
    assert_eq!(call.rename("a/.", "c"), Err(Error::Busy));
    assert_eq!(call.rename("a/x", "a"), Err(Error::NotEmpty));
    call.write_file("a/x/file", b"").unwrap();
    assert_eq!(call.rename("a/x/file", "a"), Err(Error::NotEmpty));
    call.unlink("a/x/file").unwrap();
    let no_replace = RenameFlags { no_replace: true, exchange: false };
    assert_eq!(call.rename_with("f", "g", no_replace), Err(Error::Exists));
    let exchange = RenameFlags { no_replace: false, exchange: true };
    call.rename_with("f", "a/x", exchange).unwrap();
    assert_eq!(call.read_file("a/x").unwrap(), b"f");
    assert_eq!(call.list("f").unwrap(), ["y"]);
    assert_eq!(call.stat("a").unwrap().links, 2);
    call.rename("a/x", "g").unwrap();
    assert_eq!(call.read_file("g").unwrap(), b"f");
    call.rename("f", "b").unwrap();
    call.rename("b/y", "a/y").unwrap();
    assert_eq!((call.stat("a").unwrap().links, call.stat("b").unwrap().links), (3, 2));
    assert_eq!(call.stat("/").unwrap().links, 4);
    client.digest().unwrap();
    let other = root(&store.attach());
    assert_eq!(other.list("/").unwrap(), ["a", "b", "g"]);
    assert_eq!(other.stat("/").unwrap().links, 4);
    assert_eq!(other.stat("a/y/..").unwrap().inode, other.stat("a").unwrap().inode);
}

#[test]
fn unlinked_files_live_while_they_are_open() {
    let store = Store::new(small());
    let client = store.attach();
    let call = root(&client);
    call.write_file("f", b"still here").unwrap();
    let file = call.open("f", O_RDWR).unwrap();
    call.unlink("f").unwrap();
    assert_eq!(call.open("f", O_RDONLY).err(), Some(Error::NotFound));
    for _ in 0..2 {
        assert_eq!(call.read_all(&file).unwrap(), b"still here");
        client.digest().unwrap();
    }
    client.pwrite(&file, &[b"S".as_slice().into()], 0).unwrap();
    assert_eq!(client.stat_open(&file).unwrap().record.links, 0);
    client.digest().unwrap();
    assert_eq!(call.read_all(&file).unwrap(), b"Still here");
    client.close(file).unwrap();
    client.digest().unwrap();

    call.mkdir("d").unwrap();
    let directory = call.open("d", O_RDONLY).unwrap();
    call.rmdir("d").unwrap();
    let inside = client.open(&ROOT, Base::Directory(&directory), b"x", O_CREAT | O_RDWR, 0o644);
    assert_eq!(inside.err(), Some(Error::NotFound));
    client.close(directory).unwrap();
    client.digest().unwrap();

    call.write_file("old", b"old").unwrap();
    call.write_file("new", b"new").unwrap();
    let file = call.open("old", O_RDONLY).unwrap();
    call.rename("new", "old").unwrap();
    client.digest().unwrap();
    assert_eq!(call.read_all(&file).unwrap(), b"old");
    client.close(file).unwrap();
    client.digest().unwrap();
    assert_eq!(call.read_file("old").unwrap(), b"new");
}

#[test]
fn mode_bits_bind_users_and_not_root() {
    let store = Store::new(small());
    let client = store.attach();
    let call = root(&client);
    let user =
        crate::common::Caller { client: client.clone(), who: Credentials::of_user(1000, 1000, vec![]) };
    call.mkdir("private").unwrap();
    let set = |path: &str, set| {
        client.set_attributes(
            &ROOT,
            Target::Path { base: Base::Root, path: path.as_bytes(), follow: true },
            set,
        )
    };
    set("private", SetAttributes { mode: Some(0o700), ..Default::default() }).unwrap();
    call.write_file("private/f", b"secret").unwrap();
    assert_eq!(user.read_file("private/f"), Err(Error::Denied));
    assert_eq!(user.write_file("f", b"x"), Err(Error::Denied));
    call.mkdir("tmp").unwrap();
    set("tmp", SetAttributes { mode: Some(0o1777), ..Default::default() }).unwrap();
    user.write_file("tmp/mine", b"x").unwrap();
    call.write_file("tmp/roots", b"x").unwrap();
    assert_eq!(user.unlink("tmp/roots"), Err(Error::NotPermitted));
    assert_eq!(user.rename("tmp/mine", "tmp/roots"), Err(Error::NotPermitted));
    set("tmp/mine", SetAttributes { mode: Some(0o6777), ..Default::default() }).unwrap();
    let file = user.open("tmp/mine", O_WRONLY).unwrap();
    client.write(&file, &[b"y".as_slice().into()]).unwrap();
    assert_eq!(call.stat("tmp/mine").unwrap().mode & 0o7777, 0o777);
    let chown = SetAttributes { uid: Some(5), ..Default::default() };
    let mine = Target::Path { base: Base::Root, path: b"tmp/mine", follow: true };
    assert_eq!(client.set_attributes(&user.who, mine, chown), Err(Error::NotPermitted));
    let times = SetAttributes { modified: SetTime::To(cuesta_format::Timestamp(5)), ..Default::default() };
    client.set_attributes(&user.who, mine, times).unwrap();
    assert_eq!(call.stat("tmp/mine").unwrap().modified.0, 5);
    client.digest().unwrap();
    assert_eq!(root(&store.attach()).stat("tmp/mine").unwrap().modified.0, 5);
    assert_eq!(client.access(&user.who, Base::Root, b"private", 4, true), Err(Error::Denied));
    assert_eq!(client.access(&user.who, Base::Root, b"tmp", 7, true), Ok(()));
}

#[test]
fn a_bad_buffer_is_an_error_and_leaves_the_file_alone() {
    cuesta_media::install_fault_handler();
    let store = Store::new(small());
    let client = store.attach();
    let call = root(&client);
    call.write_file("f", b"hello").unwrap();
    let file = call.open("f", O_RDWR).unwrap();
    // SAFETY: the address is never mapped, and the copy recovers from the fault.
    let (bad_in, mut bad_out) = unsafe {
        (
            cuesta_media::UserSlice::new(std::ptr::without_provenance(4096), 10),
            [cuesta_media::UserSliceMut::new(std::ptr::without_provenance_mut(4096), 10)],
        )
    };
    assert_eq!(client.pwrite(&file, &[bad_in], 0), Err(Error::Fault));
    assert_eq!(client.pread(&file, &mut bad_out, 0), Err(Error::Fault));
    assert_eq!(client.pwrite(&file, &[b"J".as_slice().into(), bad_in], 0), Ok(1));
    assert_eq!(call.read_all(&file).unwrap(), b"Jello");
    client.digest().unwrap();
    assert_eq!(call.read_all(&file).unwrap(), b"Jello");
    assert_eq!(client.pread(&file, &mut bad_out, 0), Err(Error::Fault));
}

/// More than a session has credit for in advance.
#[test]
fn freed_blocks_are_free_at_once() {
    const FILES: usize = 40;
    const BLOCKS: u64 = 100;
    let store = Store::new(small());
    let client = store.attach();
    let call = root(&client);
    let free = || client.statfs().unwrap().blocks_free;
    let before = free();
    for number in 0..FILES {
        call.write_file(&number.to_string(), &vec![1; BLOCKS as usize * 4096]).unwrap();
        client.digest().unwrap();
    }
    let with = free();
    assert!(before - with > FILES as u64 / 2 * BLOCKS, "{before} blocks were free, and {with} are");
    (0..FILES).for_each(|number| call.unlink(&number.to_string()).unwrap());
    let after = free();
    assert!(after - with > FILES as u64 / 2 * BLOCKS, "{with} blocks were free, and {after} are");
}

/// A door may then answer an fsync by itself.
#[test]
fn in_memory_nothing_is_left_to_sync_as_long_as_the_session_stands() {
    let on = |medium| Store::on(medium, small(), Options::default());
    let store = on(Medium::Memory);
    let (client, other, forked) = (store.attach(), store.attach(), store.attach());
    assert!([&client, &other, &forked].iter().all(|client| client.has_nothing_to_sync()));
    client.detach();
    assert!(!client.has_nothing_to_sync());
    forked.after_fork_in_child();
    assert!(!forked.has_nothing_to_sync());
    store.shared.stop().unwrap();
    assert!(!other.has_nothing_to_sync());
    assert!(!on(Medium::Block).attach().has_nothing_to_sync());
}
