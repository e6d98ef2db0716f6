//! Extended attributes, in the log, digested, recovered, and passed from session to session. The expected
//! answers are those of Linux 6.18 on ext4.

use crate::common::{CONTENT_CHANGES, Caller, Change, Store, root, small};
use cuesta_format::{EXTENDED_VALUE_BYTES_MAX, Geometry};
use cuesta_libfs::{Allocation, Base, Client, Credentials, Error, ExtendedFlags, SetAttributes, Target};
use libc::{O_CREAT, O_PATH, O_RDONLY};
use std::sync::Arc;

const CREATE: ExtendedFlags = ExtendedFlags { create: true, replace: false };
const REPLACE: ExtendedFlags = ExtendedFlags { create: false, replace: true };
const CAPABILITY: &str = "security.capability";

fn at(path: &str) -> Target<'_> {
    Target::Path { base: Base::Root, path: path.as_bytes(), follow: true }
}

fn set_with(
    caller: &Caller,
    path: &str,
    name: &str,
    value: &[u8],
    flags: ExtendedFlags,
) -> Result<(), Error> {
    caller.client.set_extended(&caller.who, at(path), name.as_bytes(), value, flags)
}

fn set(caller: &Caller, path: &str, name: &str, value: &[u8]) -> Result<(), Error> {
    set_with(caller, path, name, value, ExtendedFlags::default())
}

fn get(caller: &Caller, path: &str, name: &str) -> Result<Vec<u8>, Error> {
    caller.client.get_extended(&caller.who, at(path), name.as_bytes())
}

fn remove(caller: &Caller, path: &str, name: &str) -> Result<(), Error> {
    caller.client.remove_extended(&caller.who, at(path), name.as_bytes())
}

fn list(caller: &Caller, path: &str) -> Vec<String> {
    let list = caller.client.list_extended(&caller.who, at(path)).unwrap();
    let names = list.split_inclusive(|byte| *byte == 0);
    names.map(|name| String::from_utf8(name.strip_suffix(b"\0").unwrap().to_vec()).unwrap()).collect()
}

fn user(client: &Arc<Client>) -> Caller {
    Caller { client: Arc::clone(client), who: Credentials::of_user(1000, 1000, Vec::new()) }
}

/// Checks the store after the only client (also `caller`'s) has ended.
fn finish(store: Store, client: Arc<Client>, caller: Caller) {
    client.digest().unwrap();
    client.detach();
    drop((client, caller));
    let report = store.check();
    assert!(report.is_clean(), "{report:?}");
}

#[test]
fn attributes_are_set_read_listed_and_removed() {
    let store = Store::new(small());
    let client = store.attach();
    let caller = root(&client);
    caller.write_file("f", b"content").unwrap();
    for digests in [false, true] {
        assert_eq!(get(&caller, "f", "user.a"), Err(Error::NoAttribute));
        assert_eq!(list(&caller, "f"), [""; 0]);
        assert_eq!(set_with(&caller, "f", "user.a", b"1", REPLACE), Err(Error::NoAttribute));
        set_with(&caller, "f", "user.a", b"1", CREATE).unwrap();
        if digests {
            client.digest().unwrap();
        }
        assert_eq!(set_with(&caller, "f", "user.a", b"2", CREATE), Err(Error::Exists));
        set_with(&caller, "f", "user.a", b"22", REPLACE).unwrap();
        set(&caller, "f", "trusted.b", b"").unwrap();
        set(&caller, "f", "user.c", &[b'c'; 3000]).unwrap();
        if digests {
            client.digest().unwrap();
        }
        assert_eq!(list(&caller, "f"), ["trusted.b", "user.a", "user.c"]);
        assert_eq!(list(&user(&client), "f"), ["user.a", "user.c"]);
        assert_eq!(get(&caller, "f", "user.a").unwrap(), b"22");
        assert_eq!(get(&caller, "f", "trusted.b").unwrap(), b"");
        assert_eq!(get(&caller, "f", "user.c").unwrap(), [b'c'; 3000]);
        for name in ["user.a", "trusted.b", "user.c"] {
            remove(&caller, "f", name).unwrap();
            assert_eq!(remove(&caller, "f", name), Err(Error::NoAttribute));
        }
    }
    finish(store, client, caller);
}

#[test]
fn another_session_and_the_next_daemon_see_them() {
    let store = Store::new(small());
    let (first, second) = (store.attach(), store.attach());
    let (one, two) = (root(&first), root(&second));
    one.write_file("small", b"").unwrap();
    one.mkdir("large").unwrap();
    set(&one, "small", "user.a", b"few bytes").unwrap();
    set(&one, "large", "user.a", &[b'x'; 5000]).unwrap();
    assert_eq!(get(&two, "small", "user.a").unwrap(), b"few bytes");
    assert_eq!(get(&two, "large", "user.a").unwrap(), [b'x'; 5000]);
    set(&two, "small", "user.a", b"other").unwrap();
    set(&two, "large", "user.b", b"b").unwrap();
    remove(&two, "large", "user.a").unwrap();
    assert_eq!(get(&one, "small", "user.a").unwrap(), b"other");
    assert_eq!(list(&one, "large"), ["user.b"]);
    assert_eq!(get(&one, "large", "user.a"), Err(Error::NoAttribute));
    set(&one, "small", "user.last", b"in the log").unwrap();
    let shared = store.take_over();
    let third =
        Client::attach(Box::new(crate::common::InProcess::of(&shared, cuesta_format::SessionId(0))), "test");
    let three = root(&third.unwrap());
    assert_eq!(list(&three, "small"), ["user.a", "user.last"]);
    assert_eq!(get(&three, "small", "user.last").unwrap(), b"in the log");
    assert_eq!(list(&three, "large"), ["user.b"]);
}

#[test]
fn they_stay_with_the_inode() {
    let store = Store::new(small());
    let client = store.attach();
    let caller = root(&client);
    caller.write_file("f", b"").unwrap();
    set(&caller, "f", "user.a", b"f's").unwrap();
    caller.link("f", "hard").unwrap();
    caller.rename("f", "moved").unwrap();
    caller.symlink("moved", "soft").unwrap();
    for path in ["hard", "moved", "soft"] {
        assert_eq!(get(&caller, path, "user.a").unwrap(), b"f's", "{path}");
    }
    caller.write_file("other", b"").unwrap();
    set(&caller, "other", "user.a", b"other's").unwrap();
    caller.rename("other", "moved").unwrap();
    assert_eq!(get(&caller, "moved", "user.a").unwrap(), b"other's");
    assert_eq!(get(&caller, "hard", "user.a").unwrap(), b"f's");

    let file = caller.open("hard", O_RDONLY).unwrap();
    caller.unlink("hard").unwrap();
    client.digest().unwrap();
    client.set_extended(&caller.who, Target::File(&file), b"user.b", b"orphan's", CREATE).unwrap();
    client.digest().unwrap();
    assert_eq!(client.get_extended(&caller.who, Target::File(&file), b"user.a").unwrap(), b"f's");
    assert_eq!(client.get_extended(&caller.who, Target::File(&file), b"user.b").unwrap(), b"orphan's");
    client.close(file).unwrap();
    caller.write_file("hard", b"").unwrap();
    assert_eq!(list(&caller, "hard"), [""; 0]);
    finish(store, client, caller);
}

#[test]
fn links_have_attributes_of_their_own() {
    let store = Store::new(small());
    let client = store.attach();
    let caller = root(&client);
    caller.write_file("f", b"").unwrap();
    caller.symlink("f", "soft").unwrap();
    let link = Target::Path { base: Base::Root, path: b"soft", follow: false };
    let set = |name: &[u8]| client.set_extended(&caller.who, link, name, b"v", ExtendedFlags::default());
    assert_eq!(set(b"user.a"), Err(Error::NotPermitted));
    assert_eq!(set(b"trusted.a"), Ok(()));
    client.digest().unwrap();
    assert_eq!(client.list_extended(&caller.who, link).unwrap(), b"trusted.a\0");
    assert_eq!(list(&caller, "soft"), [""; 0], "followed");
    assert_eq!(caller.client.read_link(&caller.who, Base::Root, b"soft").unwrap(), b"f");
    finish(store, client, caller);
}

#[test]
fn the_change_time_moves_and_nothing_else() {
    let store = Store::new(small());
    let client = store.attach();
    let caller = root(&client);
    caller.write_file("f", b"content").unwrap();
    let old = cuesta_libfs::SetTime::To(cuesta_format::Timestamp::new(1, 0));
    let times = SetAttributes { accessed: old, modified: old, ..SetAttributes::default() };
    client.set_attributes(&caller.who, at("f"), times).unwrap();
    let before = caller.stat("f").unwrap();
    // Times are as exact as the kernel's clock for files.
    let is_later = |time| loop {
        let changed = caller.stat("f").unwrap();
        if changed.changed > time {
            return changed;
        }
        set(&caller, "f", "user.a", b"1").unwrap();
    };
    let changed = is_later(before.changed);
    assert_eq!((changed.modified, changed.size, changed.mode), (before.modified, before.size, before.mode));
    client.digest().unwrap();
    assert_eq!(store.shared.inode_record(changed.inode).unwrap().unwrap().changed, changed.changed);
    get(&caller, "f", "user.a").unwrap();
    assert_eq!(caller.stat("f").unwrap().changed, changed.changed);
    finish(store, client, caller);
}

#[test]
fn attributes_that_do_not_fit_are_refused() {
    let store = Store::new(Geometry { segment_bytes: 256 << 10, ..small() });
    let client = store.attach();
    let caller = root(&client);
    caller.write_file("f", b"").unwrap();
    let large = vec![7; EXTENDED_VALUE_BYTES_MAX];
    assert_eq!(set(&caller, "f", "user.a", &[large.as_slice(), b"x"].concat()), Err(Error::ValueTooLong));
    assert_eq!(set(&caller, "f", "", b""), Err(Error::Range));
    assert_eq!(set(&caller, "f", &format!("user.{}", "n".repeat(251)), b""), Err(Error::Range));
    set(&caller, "f", &format!("user.{}", "n".repeat(250)), b"").unwrap();
    let mut count = 0;
    let full = loop {
        match set(&caller, "f", &format!("user.{count}"), &large) {
            Ok(()) => count += 1,
            Err(error) => break error,
        }
    };
    assert_eq!((full, count), (Error::NoSpace, 15));
    client.digest().unwrap();
    for number in 0..count {
        assert_eq!(get(&caller, "f", &format!("user.{number}")).unwrap(), large);
    }
    set(&caller, "f", "user.0", b"").unwrap();
    set(&caller, "f", "user.again", &large).unwrap();

    caller.write_file("names", b"").unwrap();
    let name = |number: usize| format!("user.{number:0250}");
    let fitting = (64 << 10) / 256;
    for number in 0..fitting {
        set(&caller, "names", &name(number), b"").unwrap();
    }
    assert_eq!(set(&caller, "names", "user.x", b""), Err(Error::NoSpace));
    set(&caller, "names", &name(0), b"value").unwrap();
    assert_eq!(list(&caller, "names").len(), fitting);
    finish(store, client, caller);
}

#[test]
fn a_value_larger_than_the_log_takes_is_refused() {
    let store = Store::new(Geometry { segment_bytes: 16 << 10, ring_slots: 4, ..small() });
    let client = store.attach();
    let caller = root(&client);
    caller.write_file("f", b"").unwrap();
    assert_eq!(set(&caller, "f", "user.a", &[7; 40_000]), Err(Error::NoSpace));
    set(&caller, "f", "user.a", &[7; 10_000]).unwrap();
    finish(store, client, caller);
}

#[test]
fn changing_content_or_owner_takes_capabilities() {
    let more: [(&str, Change); 2] = [
        ("punch", |caller, path| {
            caller.with_file(path, |client, file| client.allocate(file, Allocation::Punch, 0, 3).unwrap());
        }),
        ("chown", |caller, path| {
            let set = SetAttributes { chown: true, ..SetAttributes::default() };
            caller.client.set_attributes(&caller.who, at(path), set).unwrap();
        }),
    ];
    let store = Store::new(small());
    let client = store.attach();
    let caller = root(&client);
    let value = [&[0, 0, 0, 2][..], &[0; 16]].concat();
    for (what, change) in CONTENT_CHANGES.into_iter().chain(more) {
        for digests in [false, true] {
            let path = format!("{what} {digests}");
            caller.write_file(&path, b"content").unwrap();
            set(&caller, &path, CAPABILITY, &value).unwrap();
            set(&caller, &path, "user.a", &[1; 1000]).unwrap();
            let mut changer = root(&client);
            if digests {
                client.digest().unwrap();
                // Another session must fetch them first.
                changer = root(&store.attach());
            }
            change(&changer, &path);
            assert_eq!(list(&changer, &path), ["user.a"], "{path}");
            changer.client.digest().unwrap();
        }
    }
    finish(store, client, caller);
}

#[test]
fn a_chown_that_is_refused_takes_nothing() {
    let store = Store::new(small());
    let client = store.attach();
    let caller = root(&client);
    caller.write_file("f", b"").unwrap();
    let value = [&[0, 0, 0, 2][..], &[0; 16]].concat();
    set(&caller, "f", CAPABILITY, &value).unwrap();
    let to_user = SetAttributes { uid: Some(1000), chown: true, ..SetAttributes::default() };
    let user = user(&client);
    assert_eq!(client.set_attributes(&user.who, at("f"), to_user), Err(Error::NotPermitted));
    drop(user);
    assert_eq!(list(&caller, "f"), [CAPABILITY]);
    let mode = SetAttributes { mode: Some(0o755), ..SetAttributes::default() };
    client.set_attributes(&caller.who, at("f"), mode).unwrap();
    assert_eq!(get(&caller, "f", CAPABILITY).unwrap(), value);
    finish(store, client, caller);
}

#[test]
fn descriptors_serve_unless_they_are_for_paths_only() {
    let store = Store::new(small());
    let client = store.attach();
    let caller = root(&client);
    let file = caller.open("f", O_CREAT | O_RDONLY).unwrap();
    client.set_extended(&caller.who, Target::File(&file), b"user.a", b"1", CREATE).unwrap();
    let path = caller.open("f", O_PATH).unwrap();
    assert_eq!(
        client.get_extended(&caller.who, Target::File(&path), b"user.a").map(drop),
        Err(Error::AccessMode)
    );
    assert_eq!(client.list_extended(&caller.who, Target::File(&path)).map(drop), Err(Error::AccessMode));
    assert_eq!(client.remove_extended(&caller.who, Target::File(&path), b"user.a"), Err(Error::AccessMode));
    client.remove_extended(&caller.who, Target::File(&file), b"user.a").unwrap();
    client.close(path).unwrap();
    client.close(file).unwrap();
    finish(store, client, caller);
}
