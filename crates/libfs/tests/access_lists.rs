//! Access control lists, in the log, digested, recovered, and passed from session to session. The expected
//! answers are those of Linux 6.18 on ext4; `preload/tests/same/scripts/access_lists.sh` asks both.

use crate::common::{Caller, Store, root, small};
use cuesta_format::SessionId;
use cuesta_format::access_list::{ACCESS_LIST, DEFAULT_LIST, Entry, Whom, encode};
use cuesta_format::wire::{Request, Response};
use cuesta_libfs::{
    Base, Client, Credentials, Error, ExtendedFlags, Link, LinkError, LinkSource, NewMode, SetAttributes,
    Target, UNNAMED,
};
use libc::{O_CREAT, O_RDONLY, O_RDWR, O_WRONLY};
use std::os::fd::OwnedFd;
use std::sync::Arc;

const R_OK: u32 = 4;
const W_OK: u32 = 2;

fn at(path: &str) -> Target<'_> {
    Target::Path { base: Base::Root, path: path.as_bytes(), follow: true }
}

/// A list that gives user 1000 `of_user`; owner, mask and others have what `mode` says.
fn list(mode: u32, of_user: u32) -> Vec<u8> {
    let entry = |whom, permissions| Entry { whom, permissions };
    encode(&[
        entry(Whom::Owner, mode >> 6 & 7),
        entry(Whom::User(1000), of_user),
        entry(Whom::OwningGroup, 4),
        entry(Whom::Mask, mode >> 3 & 7),
        entry(Whom::Others, mode & 7),
    ])
}

fn set(caller: &Caller, path: &str, name: &[u8], value: &[u8]) -> Result<(), Error> {
    caller.client.set_extended(&caller.who, at(path), name, value, ExtendedFlags::default())
}

fn get(caller: &Caller, path: &str, name: &[u8]) -> Result<Vec<u8>, Error> {
    caller.client.get_extended(&caller.who, at(path), name)
}

fn mode(caller: &Caller, path: &str) -> u32 {
    caller.stat(path).unwrap().mode & 0o7777
}

fn user(client: &Arc<Client>, uid: u32) -> Caller {
    Caller { client: Arc::clone(client), who: Credentials::of_user(uid, uid, Vec::new()) }
}

fn may(caller: &Caller, path: &str, rights: u32) -> Result<(), Error> {
    let answer = caller.client.access(&caller.who, Base::Root, path.as_bytes(), rights, true);
    let flags = if rights & W_OK != 0 { O_WRONLY } else { O_RDONLY };
    let opened = caller.open(path, flags);
    assert_eq!(opened.as_ref().err(), answer.as_ref().err(), "open and access of {path}");
    if let Ok(file) = opened {
        caller.client.close(file).unwrap();
    }
    answer
}

fn set_mode(caller: &Caller, path: &str, mode: u32) {
    let set = SetAttributes { mode: Some(mode), ..SetAttributes::default() };
    caller.client.set_attributes(&caller.who, at(path), set).unwrap();
}

fn make(caller: &Caller, path: &str, bits: u32) {
    let mode = NewMode { bits, umask: 0o077 };
    let file = caller.client.open(&caller.who, Base::Root, path.as_bytes(), O_CREAT | O_WRONLY, mode);
    caller.client.close(file.unwrap()).unwrap();
}

/// Checks the store after the only client (also `caller`'s) has ended.
fn finish(store: Store, client: Arc<Client>, callers: impl IntoIterator<Item = Caller>) {
    client.digest().unwrap();
    client.detach();
    drop((client, callers.into_iter().collect::<Vec<_>>()));
    let report = store.check();
    assert!(report.is_clean(), "{report:?}");
}

#[test]
fn a_list_and_the_mode_go_together() {
    let store = Store::new(small());
    let client = store.attach();
    let (caller, other) = (root(&client), user(&client, 1000));
    for digests in [false, true] {
        let digest = || {
            if digests {
                client.digest().unwrap()
            }
        };
        let path = if digests { "digested" } else { "logged" };
        caller.write_file(path, b"content").unwrap();
        set_mode(&caller, path, 0o600);
        digest();
        assert_eq!(may(&other, path, R_OK), Err(Error::Denied));
        set(&caller, path, ACCESS_LIST, &list(0o460, 7)).unwrap();
        digest();
        assert_eq!((mode(&caller, path), may(&other, path, R_OK | W_OK)), (0o460, Ok(())));
        set_mode(&caller, path, 0o640);
        digest();
        assert_eq!(get(&caller, path, ACCESS_LIST).unwrap(), list(0o640, 7), "chmod sets the mask");
        assert_eq!((may(&other, path, R_OK), may(&other, path, W_OK)), (Ok(()), Err(Error::Denied)));
        let plain = encode(&[
            Entry { whom: Whom::Owner, permissions: 6 },
            Entry { whom: Whom::OwningGroup, permissions: 2 },
            Entry { whom: Whom::Others, permissions: 1 },
        ]);
        set(&caller, path, ACCESS_LIST, &plain).unwrap();
        digest();
        assert_eq!((mode(&caller, path), get(&caller, path, ACCESS_LIST)), (0o621, Err(Error::NoAttribute)));
        assert_eq!(may(&other, path, R_OK), Err(Error::Denied));
        assert!(caller.client.list_extended(&caller.who, at(path)).unwrap().is_empty());
    }
    finish(store, client, [caller, other]);
}

#[test]
fn a_new_inode_gets_the_default_list_instead_of_the_umask() {
    let store = Store::new(small());
    let client = store.attach();
    let (caller, other) = (root(&client), user(&client, 1000));
    make(&caller, "masked", 0o666);
    assert_eq!(mode(&caller, "masked"), 0o600);
    for digests in [false, true] {
        let digest = || {
            if digests {
                client.digest().unwrap()
            }
        };
        let path = |name: &str| format!("d{digests}{name}");
        caller.client.make_directory(&caller.who, Base::Root, path("").as_bytes(), 0o755).unwrap();
        set(&caller, &path(""), DEFAULT_LIST, &list(0o770, 7)).unwrap();
        digest();
        make(&caller, &path("/f"), 0o664);
        let made = NewMode { bits: 0o755, umask: 0o077 };
        caller.client.make_directory(&caller.who, Base::Root, path("/s").as_bytes(), made).unwrap();
        make(&caller, &path("/s/f"), 0o606);
        let flags = UNNAMED | libc::O_DIRECTORY | O_RDWR;
        let unnamed = NewMode { bits: 0o666, umask: 0o777 };
        let file = client.open(&caller.who, Base::Root, path("").as_bytes(), flags, unnamed).unwrap();
        client.link(&caller.who, LinkSource::File(&file), Base::Root, path("/u").as_bytes()).unwrap();
        client.close(file).unwrap();
        digest();
        assert_eq!(mode(&caller, &path("/f")), 0o660, "others have nothing by the list");
        assert_eq!(get(&caller, &path("/f"), ACCESS_LIST).unwrap(), list(0o660, 7));
        assert_eq!(get(&caller, &path("/s"), ACCESS_LIST).unwrap(), list(0o750, 7));
        assert_eq!(get(&caller, &path("/s"), DEFAULT_LIST).unwrap(), list(0o770, 7));
        assert_eq!(get(&caller, &path("/s/f"), ACCESS_LIST).unwrap(), list(0o600, 7));
        assert_eq!(get(&caller, &path("/u"), ACCESS_LIST).unwrap(), list(0o660, 7));
        assert_eq!(may(&other, &path("/f"), R_OK | W_OK), Ok(()));
        assert_eq!(may(&other, &path("/s/f"), R_OK), Err(Error::Denied), "the mask leaves nothing");
    }
    finish(store, client, [caller, other]);
}

#[test]
fn another_session_and_the_next_daemon_judge_by_it() {
    let store = Store::new(small());
    let (first, second) = (store.attach(), store.attach());
    let (one, two) = (root(&first), user(&second, 1000));
    one.mkdir("d").unwrap();
    one.write_file("d/f", b"content").unwrap();
    set_mode(&one, "d/f", 0o600);
    assert_eq!(may(&two, "d/f", R_OK), Err(Error::Denied));
    set(&one, "d/f", ACCESS_LIST, &list(0o640, 4)).unwrap();
    assert_eq!((may(&two, "d/f", R_OK), may(&two, "d/f", W_OK)), (Ok(()), Err(Error::Denied)));
    set(&one, "d/f", ACCESS_LIST, &list(0o660, 6)).unwrap();
    set(&one, "d", ACCESS_LIST, &list(0o770, 1)).unwrap();
    assert_eq!(may(&two, "d/f", W_OK), Ok(()));
    set(&one, "d", ACCESS_LIST, &list(0o770, 6)).unwrap();
    assert_eq!(may(&two, "d/f", R_OK), Err(Error::Denied), "the directory cannot be searched");
    set(&one, "d", ACCESS_LIST, &list(0o770, 1)).unwrap();
    set(&one, "d", DEFAULT_LIST, &list(0o770, 5)).unwrap();
    make(&one, "d/last", 0o666);
    let shared = store.take_over();
    let third =
        Client::attach(Box::new(crate::common::InProcess::of(&shared, cuesta_format::SessionId(0))), "test");
    let third = third.unwrap();
    let (three, owner) = (user(&third, 1000), root(&third));
    assert_eq!(may(&three, "d/f", R_OK | W_OK), Ok(()));
    assert_eq!((may(&three, "d/last", R_OK), may(&three, "d/last", W_OK)), (Ok(()), Err(Error::Denied)));
    assert_eq!(get(&owner, "d/last", ACCESS_LIST).unwrap(), list(0o660, 5));
}

/// A list too large to come along with a lease is asked for where it is needed.
#[test]
fn long_lists_are_learned_before_they_judge() {
    let store = Store::new(small());
    let (first, second) = (store.attach(), store.attach());
    let (one, two) = (root(&first), user(&second, 1000));
    one.mkdir("d").unwrap();
    one.write_file("d/f", b"content").unwrap();
    let entry = |whom, permissions| Entry { whom, permissions };
    let users = (500..1001).map(|uid| entry(Whom::User(uid), if uid == 1000 { 5 } else { 0 }));
    let head = [entry(Whom::Owner, 7)].into_iter().chain(users);
    let tail = [entry(Whom::OwningGroup, 0), entry(Whom::Mask, 7), entry(Whom::Others, 0)];
    let long = encode(&head.chain(tail).collect::<Vec<_>>());
    for path in ["d/f", "d"] {
        set(&one, path, ACCESS_LIST, &long).unwrap();
        set(&one, path, b"user.large", &[7; 20_000]).unwrap();
    }
    set(&one, "d", DEFAULT_LIST, &long).unwrap();
    let three = user(&second, 999);
    assert_eq!(may(&three, "d/f", R_OK), Err(Error::Denied));
    assert_eq!((may(&two, "d/f", R_OK), may(&two, "d/f", W_OK)), (Ok(()), Err(Error::Denied)));
    let four = root(&store.attach());
    make(&four, "d/new", 0o666);
    assert_eq!(may(&two, "d/new", R_OK), Ok(()));
    let longer = [&long[..], &long[4..]].concat();
    assert_eq!(set(&one, "d/f", ACCESS_LIST, &longer), Err(Error::Invalid));
    let too_long = (0..520).map(|uid| entry(Whom::User(uid), 7));
    let too_long: Vec<Entry> = [entry(Whom::Owner, 7)].into_iter().chain(too_long).chain(tail).collect();
    assert_eq!(set(&one, "d/f", ACCESS_LIST, &encode(&too_long)), Err(Error::NoSpace));
}

/// A lookup that a permitted user made stays in the session's cache, and is shown to no user without
/// permission.
#[test]
fn only_users_who_may_search_learn_that_a_name_is_missing() {
    for in_one_session in [true, false] {
        for digests in [true, false] {
            let what = format!("one session: {in_one_session}, digested: {digests}");
            let store = Store::new(small());
            let first = store.attach();
            let second = if in_one_session { Arc::clone(&first) } else { store.attach() };
            let (owner, other) = (root(&first), user(&second, 1000));
            let allow = |of_user: u32| {
                set(&owner, "d", ACCESS_LIST, &list(0o770, of_user)).unwrap();
                if digests {
                    first.digest().unwrap();
                }
            };
            let both = || (owner.stat("d/f").map(drop), other.stat("d/f").map(drop));
            owner.mkdir("d").unwrap();
            allow(6);
            for _ in 0..2 {
                assert_eq!(both(), (Err(Error::NotFound), Err(Error::Denied)), "{what}");
                assert_eq!(may(&other, "d/f", R_OK), Err(Error::Denied), "{what}");
                assert_eq!(other.open("d/f", O_CREAT | O_RDWR).err(), Some(Error::Denied), "{what}");
                assert_eq!(other.unlink("d/f"), Err(Error::Denied), "{what}");
            }
            allow(1);
            assert_eq!(both(), (Err(Error::NotFound), Err(Error::NotFound)), "{what}");
            owner.write_file("d/f", b"content").unwrap();
            assert_eq!(both(), (Ok(()), Ok(())), "{what}");
            allow(6);
            assert_eq!(both(), (Ok(()), Err(Error::Denied)), "{what}");
            owner.unlink("d/f").unwrap();
            assert_eq!(both(), (Err(Error::NotFound), Err(Error::Denied)), "{what}");
            allow(1);
            // A refused caller first learns nothing that would be true later.
            assert_eq!(other.stat("d/g").err(), Some(Error::NotFound), "{what}");
            owner.write_file("d/g", b"content").unwrap();
            assert_eq!(other.stat("d/g").map(drop), Ok(()), "{what}");
        }
    }
}

/// A link that runs something else after a number of questions.
struct Meddled {
    inner: crate::common::InProcess,
    questions_left: u32,
    meddle: Option<Box<dyn FnOnce() + Send>>,
}

impl Link for Meddled {
    fn call(&mut self, request: &Request, descriptors: &mut Vec<OwnedFd>) -> Result<Response, LinkError> {
        let answer = self.inner.call(request, descriptors);
        match self.questions_left {
            0 => drop(self.meddle.take().map(|meddle| meddle())),
            _ => self.questions_left -= 1,
        }
        answer
    }
}

/// A list too long to come along is fetched. If its file is replaced meanwhile, the path still leads to a
/// file.
#[test]
fn a_file_that_is_replaced_while_its_list_is_learned_is_there() {
    let mut meddled = 0;
    for questions in 1..12 {
        let store = Store::new(small());
        let owner = root(&store.attach());
        owner.mkdir("d").unwrap();
        for path in ["d/f", "d/new"] {
            owner.write_file(path, b"content").unwrap();
            set(&owner, path, ACCESS_LIST, &list(0o640, 4)).unwrap();
            set(&owner, path, b"user.large", &[7; 20_000]).unwrap();
        }
        owner.client.digest().unwrap();
        let replace = {
            let owner = root(&owner.client);
            move || {
                owner.rename("d/new", "d/f").unwrap();
                owner.client.digest().unwrap();
            }
        };
        let inner = crate::common::InProcess::of(&store.shared, SessionId(0));
        let link = Meddled { inner, questions_left: questions, meddle: Some(Box::new(replace)) };
        let other = user(&Client::attach(Box::new(link), "test").unwrap(), 1000);
        assert_eq!(may(&other, "d/f", R_OK), Ok(()), "replaced after {questions} questions");
        assert_eq!(may(&other, "d/f", W_OK), Err(Error::Denied), "replaced after {questions} questions");
        meddled += u32::from(owner.stat("d/new").is_err());
    }
    assert!(meddled > 1, "replaced in the middle {meddled} times");
}

#[test]
fn only_the_owner_sets_lists() {
    let store = Store::new(small());
    let client = store.attach();
    let (caller, other) = (root(&client), user(&client, 1000));
    caller.write_file("f", b"").unwrap();
    caller.mkdir("d").unwrap();
    caller.symlink("f", "soft").unwrap();
    for (path, name) in [("f", ACCESS_LIST), ("d", ACCESS_LIST), ("d", DEFAULT_LIST)] {
        assert_eq!(set(&other, path, name, &list(0o666, 7)), Err(Error::NotPermitted));
        set(&caller, path, name, &list(0o666, 7)).unwrap();
        assert_eq!(client.remove_extended(&other.who, at(path), name), Err(Error::NotPermitted));
        assert_eq!(get(&other, path, name).unwrap(), list(0o666, 7));
        client.remove_extended(&caller.who, at(path), name).unwrap();
        client.remove_extended(&caller.who, at(path), name).unwrap();
        assert_eq!(get(&caller, path, name), Err(Error::NoAttribute));
    }
    assert_eq!(set(&caller, "f", DEFAULT_LIST, &list(0o666, 7)), Err(Error::Denied));
    assert_eq!(set(&caller, "f", ACCESS_LIST, b"rubbish"), Err(Error::Unsupported));
    assert_eq!(set(&caller, "f", ACCESS_LIST, &list(0o666, 9)), Err(Error::Invalid));
    let link = Target::Path { base: Base::Root, path: b"soft", follow: false };
    let set_link =
        client.set_extended(&caller.who, link, ACCESS_LIST, &list(0o666, 7), ExtendedFlags::default());
    assert_eq!(set_link, Err(Error::Unsupported));
    finish(store, client, [caller, other]);
}
