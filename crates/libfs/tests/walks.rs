//! Walking into a tree that another session made: leases granted ahead save questions, and are never older
//! than changes by other sessions.

use crate::common::{Caller, InProcess, Store, root, small};
use cuesta_format::wire::{Request, Response};
use cuesta_libfs::{Allocation, Base, Client, Error, Link, LinkError};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

const DIRECTORIES: u32 = 40;
const FILES: u32 = 25;

/// A link that counts questions.
struct Counting {
    link: InProcess,
    asked: Arc<AtomicU32>,
}

impl Link for Counting {
    fn call(&mut self, request: &Request, descriptors: &mut Vec<OwnedFd>) -> Result<Response, LinkError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.link.call(request, descriptors)
    }
}

fn path(directory: u32, file: u32) -> String {
    format!("tree/{directory}/{file}")
}

fn all() -> impl Iterator<Item = (u32, u32)> {
    (0..DIRECTORIES).flat_map(|directory| (0..FILES).map(move |file| (directory, file)))
}

/// A tree that ended sessions made: one session all of it, or each directory another, so that numbers are far
/// apart.
fn made(one_session: bool) -> Store {
    let store = Store::new(small()).digesting();
    let mut maker = store.attach();
    root(&maker).mkdir("tree").unwrap();
    for directory in 0..DIRECTORIES {
        let call = root(&maker);
        call.mkdir(&format!("tree/{directory}")).unwrap();
        for file in 0..FILES {
            call.write_file(&path(directory, file), &vec![7; file as usize]).unwrap();
        }
        call.symlink("to/where", &format!("tree/{directory}/link")).unwrap();
        if !one_session {
            maker.detach();
            maker = store.attach();
        }
    }
    maker.detach();
    store
}

fn walk(call: &Caller) {
    for (directory, file) in all() {
        assert_eq!(call.stat(&path(directory, file)).unwrap().size, u64::from(file));
        let target =
            call.client.read_link(&call.who, Base::Root, format!("tree/{directory}/link").as_bytes());
        assert_eq!(target.unwrap(), b"to/where");
    }
}

#[test]
fn programs_that_look_where_they_are_ask_nothing_and_see_changes() {
    let store = Store::new(small()).digesting();
    let maker = store.attach();
    for directory in ["a", "a/b", "a/b/c"] {
        root(&maker).mkdir(directory).unwrap();
    }
    let place = root(&maker).stat("a/b/c").unwrap().inode;
    maker.detach();
    let asked = Arc::new(AtomicU32::new(0));
    let come = || {
        let link = Counting { link: store.link(), asked: Arc::clone(&asked) };
        Client::attach_at(Box::new(link), "looker", place).unwrap()
    };
    let come_and_look = || {
        let looker = come();
        let before = asked.load(Ordering::Relaxed);
        let up = ["a/b/c", "a/b", "a"].map(|path| root(&looker).stat(path).unwrap().inode);
        assert_eq!((up[0], asked.load(Ordering::Relaxed) - before), (place, 0));
        looker
    };
    // The second takes only single leases from the first.
    let lookers = [come_and_look(), come_and_look()];
    let changer = store.attach();
    root(&changer).write_file("a/new", b"new").unwrap();
    root(&changer).rename("a/b/c", "a/c").unwrap();
    for looker in &lookers {
        assert_eq!(root(looker).read_file("a/new").unwrap(), b"new");
        assert_eq!(root(looker).stat("a/c").unwrap().inode, place);
        assert!(root(looker).stat("a/b/c").is_err());
    }
}

#[test]
fn a_walk_through_a_thousand_files_asks_few_questions() {
    for (one_session, questions_max) in [(true, 12), (false, 12 + 3 * DIRECTORIES)] {
        let store = made(one_session);
        let asked = Arc::new(AtomicU32::new(0));
        let link = Counting { link: store.link(), asked: Arc::clone(&asked) };
        let client = Client::attach(Box::new(link), "walker").unwrap();
        let before = asked.load(Ordering::Relaxed);
        walk(&root(&client));
        let questions = asked.load(Ordering::Relaxed) - before;
        assert!(questions <= questions_max, "{questions} questions, one session: {one_session}");
        // Then the session knows all of it.
        walk(&root(&client));
        assert_eq!(asked.load(Ordering::Relaxed) - before, questions);
    }
}

/// Like a program that delivers mail into a folder with thousands of letters.
#[test]
fn new_names_in_a_large_directory_are_not_asked_for_one_by_one() {
    const OLD: u32 = 3000;
    const NEW: u32 = 600;
    let store = Store::new(small()).digesting();
    let maker = store.attach();
    root(&maker).mkdir("large").unwrap();
    (0..OLD).for_each(|number| root(&maker).write_file(&format!("large/{number}"), b"").unwrap());
    maker.detach();
    let asked = Arc::new(AtomicU32::new(0));
    let link = Counting { link: store.link(), asked: Arc::clone(&asked) };
    let client = Client::attach(Box::new(link), "deliverer").unwrap();
    let call = root(&client);
    for number in OLD..OLD + NEW {
        call.write_file(&format!("large/{number}"), b"").unwrap();
    }
    let questions = asked.load(Ordering::Relaxed);
    assert!(questions < NEW / 3, "{questions} questions");
    // The fetched names are no older than changes by other sessions.
    let other = store.attach();
    root(&other).write_file("large/others", b"seen").unwrap();
    root(&other).rename("large/7", "large/moved").unwrap();
    assert_eq!(call.read_file("large/others").unwrap(), b"seen");
    assert!(call.stat("large/moved").is_ok() && call.stat("large/7").is_err());
}

#[test]
fn changes_by_others_to_inodes_granted_ahead_are_seen() {
    let store = made(true);
    let (walker, other) = (store.attach(), store.attach());
    let (walking, call) = (root(&walker), root(&other));
    // A few files of one directory bring the others, and other directories, along.
    for file in 0..5 {
        walking.stat(&path(0, file)).unwrap();
    }
    call.write_file("tree/9/7", b"something else").unwrap();
    call.unlink("tree/9/8").unwrap();
    call.write_file("tree/9/new", b"new").unwrap();
    call.rename("tree/9/9", "tree/10/9").unwrap();
    call.rename("tree/11", "tree/9/moved").unwrap();
    assert_eq!(walking.read_file("tree/9/7").unwrap(), b"something else");
    assert_eq!(walking.stat("tree/9/8").err(), Some(Error::NotFound));
    assert_eq!(walking.read_file("tree/9/new").unwrap(), b"new");
    assert_eq!(walking.stat("tree/9/9").err(), Some(Error::NotFound));
    assert_eq!(walking.stat("tree/10/9").unwrap().size, 9);
    assert_eq!(walking.stat("tree/11").err(), Some(Error::NotFound));
    assert_eq!(walking.stat("tree/9/moved/12").unwrap().size, 12);
    // The other way round: the walker may change an inode that it was granted ahead.
    walking.write_file("tree/20/3", b"walker").unwrap();
    walking.unlink("tree/20/4").unwrap();
    assert_eq!(call.read_file("tree/20/3").unwrap(), b"walker");
    assert_eq!(call.stat("tree/20/4").err(), Some(Error::NotFound));
    let mut names = walking.list("tree/20").unwrap();
    assert_eq!(names, call.list("tree/20").unwrap());
    names.retain(|name| name != "link");
    assert_eq!(names.len() as u32, FILES - 1);
}

/// Threads of a session walk through the tree while another session writes ever longer files. No thread sees
/// a file shorter than it was before.
#[test]
fn nothing_granted_ahead_is_older_than_an_earlier_answer() {
    let store = made(true);
    let (walker, writer) = (store.attach(), store.attach());
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (walker, stop) = (&walker, &stop);
            scope.spawn(move || {
                let call = root(walker);
                let mut random = fastrand::Rng::with_seed(thread);
                let mut seen = vec![0; (DIRECTORIES * FILES) as usize];
                while !stop.load(Ordering::Relaxed) {
                    let start = random.u32(..DIRECTORIES);
                    for (directory, file) in all().skip((start * FILES) as usize).take(60) {
                        let size = call.stat(&path(directory, file)).unwrap().size;
                        let last = &mut seen[(directory * FILES + file) as usize];
                        assert!(size >= *last, "{directory}/{file}: {size} after {last}");
                        *last = size;
                    }
                }
            });
        }
        let call = root(&writer);
        let mut random = fastrand::Rng::with_seed(99);
        for round in 1..200_u64 {
            let (directory, file) = (random.u32(..DIRECTORIES), random.u32(..FILES));
            call.client
                .truncate(&call.who, Base::Root, path(directory, file).as_bytes(), 100 + round as i64)
                .unwrap();
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_stat_of_an_inode_granted_ahead_agrees_with_opening_it() {
    let store = Store::new(small()).digesting();
    let maker = store.attach();
    let call = root(&maker);
    call.mkdir("tree").unwrap();
    for (name, bytes) in [("empty", 0), ("short", 5), ("block", 4096), ("two", 4097)] {
        call.write_file(&format!("tree/{name}"), &vec![7; bytes]).unwrap();
    }
    call.write_file("tree/sparse", b"").unwrap();
    call.with_file("tree/sparse", |client, file| {
        client.pwrite(file, &[b"middle".as_slice().into()], 500_000).unwrap();
        client.truncate_open(file, 1 << 20).unwrap();
    });
    call.write_file("tree/beyond", b"kept").unwrap();
    call.with_file("tree/beyond", |client, file| {
        client.allocate(file, Allocation::KeepSize, 0, 64 << 10).unwrap();
    });
    call.symlink("short", "tree/link").unwrap();
    call.link("tree/short", "tree/twice").unwrap();
    call.mkdir("tree/below").unwrap();
    call.write_file("tree/below/file", b"below").unwrap();
    let names = call.list("tree").unwrap();
    maker.detach();

    let (looker, opener) = (store.attach(), store.attach());
    for (client, opens_first) in [(&looker, false), (&opener, true)] {
        let call = root(client);
        call.list("tree").unwrap();
        for _ in 0..2 {
            for name in &names {
                let path = format!("tree/{name}");
                let open = |call: &Caller| {
                    let file = call.open(&path, libc::O_PATH | libc::O_NOFOLLOW).unwrap();
                    let record = call.client.stat_open(&file).unwrap().record;
                    call.client.close(file).unwrap();
                    record
                };
                let opened = opens_first.then(|| open(&call));
                let looked = call.stat(&path).unwrap();
                assert_eq!(opened.unwrap_or_else(|| open(&call)), looked, "{path}");
            }
        }
        let follow = |path: &str, follow| call.client.stat(&call.who, Base::Root, path.as_bytes(), follow);
        assert_eq!(follow("tree/link", true), follow("tree/short", true));
        assert_ne!(follow("tree/link", false), follow("tree/short", false));
        assert_eq!(follow("tree/../tree/./link", true), follow("tree/twice", true));
        assert_eq!(call.stat("tree/none").err(), Some(Error::NotFound));
        assert_eq!(call.stat("tree/none/file").err(), Some(Error::NotFound));
        assert_eq!(call.stat("tree/short/").err(), Some(Error::NotDirectory));
        assert_eq!(call.stat("tree/short/file").err(), Some(Error::NotDirectory));
        assert_eq!(call.stat(&format!("tree/{}", "x".repeat(256))).err(), Some(Error::NameTooLong));
        assert_eq!(call.stat("tree/link/file").err(), Some(Error::NotDirectory));
    }
}

/// A link that answers posted requests at once, and reads the answers no sooner than it must.
struct Early {
    link: InProcess,
    answer: Option<Response>,
    unread: Arc<AtomicU32>,
}

impl Link for Early {
    fn call(&mut self, request: &Request, descriptors: &mut Vec<OwnedFd>) -> Result<Response, LinkError> {
        assert!(self.answer.is_none(), "answers are read in order");
        self.link.call(request, descriptors)
    }

    fn post(&mut self, request: &Request) -> Result<bool, LinkError> {
        let answer = self.link.call(request, &mut Vec::new())?;
        if matches!(&answer, Response::Ahead(parcel) if !parcel.is_empty()) {
            self.unread.fetch_add(1, Ordering::Relaxed);
        }
        assert!(self.answer.replace(answer).is_none(), "one question at a time");
        Ok(true)
    }

    fn collect(&mut self, wait: bool) -> Result<Option<Response>, LinkError> {
        Ok(if wait { self.answer.take() } else { None })
    }
}

#[test]
fn an_unread_grant_is_revoked_like_any_other() {
    let store = made(true);
    let unread = Arc::new(AtomicU32::new(0));
    let link = Early { link: store.link(), answer: None, unread: Arc::clone(&unread) };
    let (walker, other) = (Client::attach(Box::new(link), "walker").unwrap(), store.attach());
    let (walking, call) = (root(&walker), root(&other));
    // The walk begins at the end, so that it posts requests while most of the tree is unseen.
    let mut looked_at = all().filter(|&(directory, _)| directory >= DIRECTORIES - 8);
    while unread.load(Ordering::Relaxed) == 0 {
        let (directory, file) = looked_at.next().expect("a walk asks for what lies behind");
        assert_eq!(walking.stat(&path(directory, file)).unwrap().size, u64::from(file));
    }
    // All of the tree, including the part in the unread answer.
    for (directory, file) in all() {
        let path = path(directory, file);
        match file % 3 {
            0 => call.write_file(&path, &vec![9; 1000 + file as usize]).unwrap(),
            1 => call.unlink(&path).unwrap(),
            _ => call.rename(&path, &format!("{path}-moved")).unwrap(),
        }
    }
    for (directory, file) in all() {
        let path = path(directory, file);
        let seen = walking.stat(&path).map(|record| record.size);
        match file % 3 {
            0 => assert_eq!(seen, Ok(1000 + u64::from(file)), "{path}"),
            _ => assert_eq!(seen, Err(Error::NotFound), "{path}"),
        }
        if file % 3 == 2 {
            assert_eq!(walking.stat(&format!("{path}-moved")).unwrap().size, u64::from(file));
        }
    }
}
