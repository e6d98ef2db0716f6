//! Faults found by review, each as the shortest program that shows it. A session must never log an entry that
//! a digest refuses, because everything acknowledged behind it is lost with it.

use crate::common::{Caller, ROOT, Store, root, small};
use cuesta_libfs::{Base, Client, Credentials, Error, SetAttributes, Target};
use libc::{O_CREAT, O_DIRECTORY, O_RDONLY, O_RDWR, O_WRONLY};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// SharedFS accepted everything logged so far.
fn assert_sound(client: &Arc<Client>) {
    client.digest().unwrap();
    client.sync().unwrap();
}

#[test]
fn nothing_is_made_in_the_removed_parent_of_a_removed_directory() {
    let store = Store::new(small());
    let client = store.attach();
    let call = root(&client);
    call.mkdir("a").unwrap();
    call.mkdir("a/b").unwrap();
    client.digest().unwrap();
    let b = call.open("a/b", O_RDONLY | O_DIRECTORY).unwrap();
    call.rmdir("a/b").unwrap();
    call.rmdir("a").unwrap();
    let made = client.open(&ROOT, Base::Directory(&b), b"../x", O_CREAT | O_WRONLY, 0o644);
    assert_eq!(made.err(), Some(Error::NotFound));
    let moved =
        client.rename(&ROOT, (Base::Root, b"nothing"), (Base::Directory(&b), b"../y"), Default::default());
    assert_eq!(moved, Err(Error::NotFound));
    call.write_file("later", b"kept").unwrap();
    assert_sound(&client);
}

/// Runs `disturb` on a path again and again while other threads make and remove the file.
fn race(disturb: impl Fn(&Caller) + Sync) {
    let store = Store::new(small()).digesting();
    let client = store.attach();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let call = root(&client);
                while !over.load(Ordering::Relaxed) {
                    disturb(&call);
                }
            });
        }
        let call = root(&client);
        for _ in 0..5_000 {
            if let Ok(file) = call.open("f", O_CREAT | O_RDWR) {
                let _ = client.close(file);
            }
            let _ = call.unlink("f");
        }
        over.store(true, Ordering::Relaxed);
    });
    assert_sound(&client);
}

#[test]
fn attributes_are_not_set_on_a_file_that_goes_meanwhile() {
    race(|call| {
        let target = Target::Path { base: Base::Root, path: b"f", follow: true };
        let set = SetAttributes { mode: Some(0o600), ..SetAttributes::default() };
        let _ = call.client.set_attributes(&ROOT, target, set);
    });
}

#[test]
fn a_file_that_goes_meanwhile_is_not_truncated() {
    race(|call| {
        let _ = call.client.truncate(&ROOT, Base::Root, b"f", 10);
    });
}

#[test]
fn a_file_removed_while_it_is_opened_is_kept_for_who_opened_it() {
    race(|call| {
        if let Ok(file) = call.open("f", O_CREAT | O_RDWR) {
            let _ = call.client.write(&file, &[b"x".as_slice().into()]);
            let _ = call.client.close(file);
        }
    });
}

#[test]
fn a_file_without_a_name_outlives_the_parent_that_removed_it() {
    let store = Store::new(small());
    let parent = store.attach();
    let file = root(&parent).open("scratch", O_CREAT | O_RDWR).unwrap();
    parent.write(&file, &[b"before".as_slice().into()]).unwrap();
    root(&parent).unlink("scratch").unwrap();
    let child = store.attach();
    let again = child.reopen(&ROOT, file.inode(), file.flags(), 0).unwrap();
    parent.detach();
    child.write(&again, &[b"behind".as_slice().into()]).unwrap();
    assert_eq!(root(&child).read_all(&again).unwrap(), b"behind");
    root(&child).write_file("other", b"acknowledged").unwrap();
    assert_sound(&child);
    assert_eq!(root(&child).read_file("other").unwrap(), b"acknowledged");
    assert_eq!(root(&child).read_all(&again).unwrap(), b"behind");
    child.detach();
    let totals = store.shared.totals().unwrap();
    assert_eq!(totals.inodes, 2, "the root and the file written last");
}

#[test]
fn acknowledged_writes_survive_the_daemon() {
    for round in 0..20 {
        let store = Store::new(small());
        let client = store.attach();
        let mut acknowledged = 0u64;
        let started = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let stopper = scope.spawn(|| {
                while !started.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
                store.shared.stop().unwrap();
            });
            let call = root(&client);
            let file = call.open("f", O_CREAT | O_RDWR).unwrap();
            while let Ok(1) = client.pwrite(&file, &[b"x".as_slice().into()], acknowledged as i64) {
                acknowledged += 1;
                if acknowledged == 50 {
                    started.store(true, Ordering::Relaxed);
                }
            }
            stopper.join().unwrap();
        });
        let later = store.attach();
        let kept = root(&later).stat("f").unwrap().size;
        assert!(kept >= acknowledged, "round {round}: {acknowledged} bytes were written, {kept} are there");
    }
}

#[test]
fn nothing_is_acknowledged_once_another_daemon_recovers_the_log() {
    let store = Store::new(small());
    let client = store.attach();
    let call = root(&client);
    call.write_file("before", b"kept").unwrap();
    let file = call.open("before", O_RDWR).unwrap();
    let successor = store.take_over();
    assert_eq!(client.write(&file, &[b"lost"[..].into()]), Err(Error::Disconnected));
    assert_eq!(client.read(&file, &mut [[0; 4][..].as_mut().into()]), Err(Error::Disconnected));
    assert_eq!(successor.recovered().sessions, 1);
    let found = successor.read_directory(cuesta_format::InodeNumber::ROOT).unwrap();
    let mut content = [0; 8];
    assert_eq!(successor.read_file(found[0].dirent.inode, 0, &mut content).unwrap(), 4);
    assert_eq!(&content[..4], b"kept");
}

#[test]
fn a_name_to_make_must_not_end_in_a_slash() {
    let store = Store::new(small());
    let client = store.attach();
    let call = root(&client);
    call.mkdir("d").unwrap();
    call.write_file("f", b"").unwrap();
    call.symlink("f", "to-file").unwrap();
    call.symlink("d/", "to-directory").unwrap();
    call.symlink("nothing", "dangling").unwrap();
    call.symlink("loop", "loop").unwrap();
    let opened = |path: &str, flags| call.open(path, flags).map(|_| ());
    for path in ["d/", "f/", "new/", "to-file/", "to-directory/", "dangling/", "loop/", "to-directory"] {
        assert_eq!(opened(path, O_CREAT | O_RDWR), Err(Error::IsDirectory), "{path}");
        assert_eq!(opened(path, O_CREAT | O_RDONLY), Err(Error::IsDirectory), "{path}");
    }
    assert_eq!(opened("f/", O_CREAT | libc::O_EXCL | O_RDWR), Err(Error::IsDirectory));
    assert_eq!(opened("to-directory", O_CREAT | libc::O_EXCL | O_RDWR), Err(Error::Exists));
    assert_eq!(opened("d/.", O_CREAT | libc::O_EXCL | O_RDWR), Err(Error::Exists));
    assert_eq!(opened("f/x/", O_CREAT | O_RDWR), Err(Error::NotDirectory));
    assert_eq!(opened("none/x/", O_CREAT | O_RDWR), Err(Error::NotFound));
    assert_eq!(opened("to-file", O_CREAT | O_RDWR | libc::O_NOFOLLOW), Err(Error::SymlinkLoop));
    assert_eq!(opened("d/", O_RDONLY), Ok(()));
    assert_eq!(opened("f/", O_RDONLY), Err(Error::NotDirectory));
}

#[test]
fn a_chown_without_an_owner_takes_set_id_bits() {
    let store = Store::new(small());
    let client = store.attach();
    let call = root(&client);
    let target = |path: &'static str| Target::Path { base: Base::Root, path: path.as_bytes(), follow: false };
    let chmod = |path, mode| {
        let set = SetAttributes { mode: Some(mode), ..SetAttributes::default() };
        client.set_attributes(&ROOT, target(path), set).unwrap();
    };
    let chown = |who: &Credentials, path| {
        let set = SetAttributes { chown: true, ..SetAttributes::default() };
        client.set_attributes(who, target(path), set)
    };
    let mode = |path| call.stat(path).unwrap().mode & 0o7777;
    let other = Credentials::of_user(5, 5, Vec::new());
    call.write_file("f", b"").unwrap();
    call.mkdir("d").unwrap();
    for (before, after) in [(0o6755, 0o755), (0o6745, 0o2745), (0o4711, 0o711), (0o644, 0o644)] {
        chmod("f", before);
        chown(&ROOT, "f").unwrap();
        assert_eq!(mode("f"), after, "{before:o}");
        client.digest().unwrap();
        assert_eq!(root(&store.attach()).stat("f").unwrap().mode & 0o7777, after, "{before:o}");
    }
    chmod("d", 0o6755);
    chown(&ROOT, "d").unwrap();
    assert_eq!(mode("d"), 0o6755, "a directory keeps them");
    assert_eq!(chown(&other, "f"), Ok(()), "there is nothing to take");
    chmod("f", 0o4755);
    assert_eq!(chown(&other, "f"), Err(Error::NotPermitted));
    assert_eq!(mode("f"), 0o4755);
    let theirs = SetAttributes { uid: Some(5), gid: Some(9), ..SetAttributes::default() };
    client.set_attributes(&ROOT, target("f"), theirs).unwrap();
    chmod("f", 0o2745);
    chown(&other, "f").unwrap();
    assert_eq!(mode("f"), 0o745, "its set-gid bit is not theirs to have");
}

#[test]
fn the_writer_of_a_reopened_file_decides_about_its_set_id_bits() {
    let store = Store::new(small());
    let parent = store.attach();
    let file = root(&parent).open("f", O_CREAT | O_RDWR).unwrap();
    let target = Target::Path { base: Base::Root, path: b"f", follow: false };
    let set = SetAttributes { mode: Some(0o4755), ..SetAttributes::default() };
    parent.set_attributes(&ROOT, target, set).unwrap();
    let child = store.attach();
    let other = Credentials::of_user(5, 5, Vec::new());
    for (who, mode) in [(ROOT, 0o4755), (other, 0o755)] {
        let again = child.reopen(&who, file.inode(), O_RDWR, 0).unwrap();
        child.write(&again, &[b"x".as_slice().into()]).unwrap();
        assert_eq!(root(&child).stat("f").unwrap().mode & 0o7777, mode);
    }
}

#[test]
fn permission_is_checked_before_the_kind_of_a_socket_or_device() {
    let store = Store::new(small());
    let client = store.attach();
    let node = |path: &[u8], mode| client.make_node(&ROOT, Base::Root, path, mode, 0).map(drop).unwrap();
    node(b"socket", libc::S_IFSOCK | 0o600);
    node(b"device", libc::S_IFCHR | 0o600);
    node(b"pipe", libc::S_IFIFO | 0o444);
    let somebody = Credentials::of_user(1000, 1000, Vec::new());
    let open = |who: &Credentials, path: &[u8], flags| client.open(who, Base::Root, path, flags, 0).err();
    assert_eq!(open(&somebody, b"socket", O_RDONLY), Some(Error::Denied));
    assert_eq!(open(&somebody, b"device", O_RDWR), Some(Error::Denied));
    assert_eq!(open(&ROOT, b"socket", O_RDONLY), Some(Error::NoDevice));
    assert_eq!(open(&ROOT, b"device", O_RDWR), Some(Error::Unsupported));
    // Truncation is a write, even where there is nothing to truncate.
    assert_eq!(open(&somebody, b"pipe", O_RDONLY | libc::O_TRUNC), Some(Error::Denied));
    assert!(matches!(open(&somebody, b"pipe", O_RDONLY), Some(Error::Pipe(_))));
}

/// Found by the linearizability campaign. One session executes calls of several processes. A directory that
/// was replaced between a call's walk and its locks looked as if it did not exist.
#[test]
fn a_directory_that_is_replaced_all_the_time_is_there_all_the_time() {
    const TURNS: usize = 3000;
    let store = Store::new(small());
    let client = store.attach();
    client.execute_for_callers();
    let (replacing, making) = (root(&client), root(&client));
    making.mkdir("there").unwrap();
    making.mkdir("away").unwrap();
    making.write_file("file", b"").unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _ending = Ending(&is_over);
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                replacing.mkdir("next").unwrap();
                // Not while the directory has an entry.
                while let Err(error) = replacing.rename("next", "there") {
                    assert_eq!(error, Error::NotEmpty);
                }
            }
        });
        for _ in 0..TURNS {
            making.mkdir("there/made").unwrap();
            making.rmdir("there/made").unwrap();
            making.rename("file", "there/file").unwrap();
            making.rename("there/file", "file").unwrap();
            making.rename("away", "there/away").unwrap();
            making.rename("there/away", "away").unwrap();
            making.link("file", "there/link").unwrap();
            making.unlink("there/link").unwrap();
            making.write_file("there/new", b"").unwrap();
            making.unlink("there/new").unwrap();
        }
    });
}

/// Ends a thread that works until told, even if this one panics.
struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
