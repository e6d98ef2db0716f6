//! Sessions that change the same things in turns: state kept while another session has the lease is true
//! again when the lease comes back.

use crate::common::{Caller, InProcess, Store, root, small};
use cuesta_format::SessionId;
use cuesta_format::wire::{Request, Response};
use cuesta_libfs::{Client, Link, LinkError};
use libc::{O_APPEND, O_CREAT, O_RDWR};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// A link that counts the names that answers bring.
struct Counting {
    link: InProcess,
    names: Arc<AtomicUsize>,
}

impl Link for Counting {
    fn call(&mut self, request: &Request, descriptors: &mut Vec<OwnedFd>) -> Result<Response, LinkError> {
        let response = self.link.call(request, descriptors)?;
        let names = match &response {
            Response::Granted { grant, .. } => grant.entries.len(),
            Response::Entries { entries, .. } => entries.len(),
            _ => 0,
        };
        self.names.fetch_add(names, Ordering::Relaxed);
        Ok(response)
    }

    fn post(&mut self, _: &Request) -> Result<bool, LinkError> {
        Ok(false)
    }

    fn collect(&mut self, _: bool) -> Result<Option<Response>, LinkError> {
        unreachable!("nothing is posted")
    }
}

/// A client, and how many names its answers brought.
fn counted(store: &Store) -> (Caller, Arc<AtomicUsize>) {
    let names = Arc::new(AtomicUsize::new(0));
    let link = Counting { link: InProcess::of(&store.shared, SessionId(0)), names: Arc::clone(&names) };
    (root(&Client::attach(Box::new(link), "counted").unwrap()), names)
}

#[test]
fn a_returning_directory_brings_only_changed_names() {
    const NAMES: usize = 3000;
    let store = Store::new(small()).digesting();
    let (one, told) = counted(&store);
    let other = root(&store.attach());
    one.mkdir("d").unwrap();
    for number in 0..NAMES {
        one.write_file(&format!("d/{number}"), b"").unwrap();
    }
    for turn in 0..20 {
        assert_eq!(other.read_file(&format!("d/{turn}")).unwrap(), b"");
        other.write_file(&format!("d/new-{turn}"), b"").unwrap();
        other.unlink(&format!("d/{turn}")).unwrap();
        other.rename(&format!("d/{}", 100 + turn), &format!("d/{}", 200 + turn)).unwrap();
        let before = told.load(Ordering::Relaxed);
        let names = one.list("d").unwrap();
        assert_eq!(names.len(), NAMES - turn - 1, "turn {turn}");
        let told = told.load(Ordering::Relaxed) - before;
        assert!(told < 10, "{told} names were told in turn {turn}");
        assert!(one.stat(&format!("d/new-{turn}")).is_ok() && one.stat(&format!("d/{turn}")).is_err());
        assert!(one.stat(&format!("d/{}", 100 + turn)).is_err());
        one.write_file(&format!("d/own-{turn}"), b"").unwrap();
        one.unlink(&format!("d/own-{turn}")).unwrap();
    }
}

/// The session that made the directory was idle meanwhile, and one of those that changed it has ended.
#[test]
fn a_session_idle_for_many_turns_sees_all_of_them() {
    let store = Store::new(small()).digesting();
    let sleeper = root(&store.attach());
    sleeper.mkdir("d").unwrap();
    sleeper.write_file("d/first", b"").unwrap();
    let awake = root(&store.attach());
    for guest in 0..5 {
        let short = root(&store.attach());
        for round in 0..50 {
            short.write_file(&format!("d/short-{guest}-{round}"), b"").unwrap();
            awake.write_file(&format!("d/awake-{guest}-{round}"), b"").unwrap();
        }
        // It has the lease at its end, which only the maker of the directory had before.
        assert_eq!(short.list("d").unwrap().len(), 1 + 100 * (guest + 1));
        short.client.detach();
    }
    assert_eq!(awake.list("d").unwrap().len(), 501);
    assert_eq!(sleeper.list("d").unwrap().len(), 501);
}

/// An action that happens once.
type Once = Mutex<Option<Box<dyn FnOnce() + Send>>>;

/// A link behind whose next lease something else happens first.
struct Interrupted {
    link: InProcess,
    first: Arc<Once>,
}

impl Link for Interrupted {
    fn call(&mut self, request: &Request, descriptors: &mut Vec<OwnedFd>) -> Result<Response, LinkError> {
        let response = self.link.call(request, descriptors);
        if matches!(request, Request::Acquire { .. })
            && let Some(first) = self.first.lock().unwrap().take()
        {
            first();
        }
        response
    }

    fn post(&mut self, _: &Request) -> Result<bool, LinkError> {
        Ok(false)
    }

    fn collect(&mut self, _: bool) -> Result<Option<Response>, LinkError> {
        unreachable!("nothing is posted")
    }
}

/// Another session takes the directory in the middle of a rename. The rename's entry is void, and the names
/// are as if it had not been logged.
#[test]
fn void_changes_are_undone_in_kept_names() {
    let store = Store::new(small()).digesting();
    let first: Arc<Once> = Arc::default();
    let link = Interrupted { link: InProcess::of(&store.shared, SessionId(0)), first: Arc::clone(&first) };
    let one = root(&Client::attach(Box::new(link), "interrupted").unwrap());
    let other = Arc::new(root(&store.attach()));
    for turn in 0..3 {
        let (from, to) = (format!("from-{turn}"), format!("to-{turn}"));
        one.mkdir(&from).unwrap();
        one.write_file(&format!("{from}/moved"), b"content").unwrap();
        other.mkdir(&to).unwrap();
        other.write_file(&format!("{to}/moved"), b"replaced").unwrap();
        let (guest, made) = (Arc::clone(&other), format!("{from}/made"));
        *first.lock().unwrap() = Some(Box::new(move || guest.write_file(&made, b"").unwrap()));
        one.rename(&format!("{from}/moved"), &format!("{to}/moved")).unwrap();
        assert!(first.lock().unwrap().is_none(), "nothing came between");
        for call in [&one, &*other] {
            assert_eq!(call.list(&from).unwrap(), ["made"]);
            assert_eq!(call.list(&to).unwrap(), ["moved"]);
            assert_eq!(call.read_file(&format!("{to}/moved")).unwrap(), b"content");
        }
    }
}

#[test]
fn names_made_at_the_same_time_are_all_there_for_everybody() {
    const ROUNDS: usize = 400;
    let store = Store::new(small()).digesting();
    let makers: Vec<Caller> = (0..2).map(|_| root(&store.attach())).collect();
    let sleeper = root(&store.attach());
    sleeper.mkdir("d").unwrap();
    std::thread::scope(|scope| {
        for (number, call) in makers.iter().enumerate() {
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let name = format!("d/{number}-{round}");
                    call.write_file(&format!("{name}.tmp"), b"content").unwrap();
                    call.rename(&format!("{name}.tmp"), &name).unwrap();
                    if round % 3 == 0 {
                        call.unlink(&name).unwrap();
                    }
                }
            });
        }
    });
    let left = 2 * (ROUNDS - ROUNDS.div_ceil(3));
    for call in makers.iter().chain([&sleeper]) {
        let names = call.list("d").unwrap();
        assert_eq!(names.len(), left);
        assert!(
            names.iter().all(|name| call.read_file(&format!("d/{name}")).is_ok_and(|it| it == b"content"))
        );
    }
}

/// Names and contents by several clients, one call after the other, against a model.
#[test]
fn random_calls_by_turns() {
    for seed in 0..6 {
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let store = Store::new(small()).digesting();
        let clients: Vec<Caller> = (0..3).map(|_| root(&store.attach())).collect();
        clients[0].mkdir("d").unwrap();
        clients[0].mkdir("e").unwrap();
        let mut model: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        for step in 0..1500 {
            // Now and then another client continues, so that each makes some calls under its lease.
            let call = &clients[if random.u8(0..4) == 0 { random.usize(0..3) } else { step / 40 % 3 }];
            let mut path = || format!("{}/{}", ["d", "d", "d", "e"][random.usize(0..4)], random.u8(0..30));
            let (one, two) = (path(), path());
            let context = format!("seed {seed}, step {step}: {one} {two}");
            match random.u8(0..7) {
                0 | 1 => {
                    let content = vec![random.u8(..); random.usize(1..9000)];
                    call.write_file(&one, &content).unwrap();
                    model.insert(one, content);
                }
                2 => {
                    let file = call.open(&one, O_RDWR | O_APPEND | O_CREAT).unwrap();
                    let record = [random.u8(..); 100];
                    assert_eq!(call.client.write(&file, &[record.as_slice().into()]), Ok(100), "{context}");
                    call.client.close(file).unwrap();
                    model.entry(one).or_default().extend(record);
                }
                3 => assert_eq!(call.unlink(&one).is_ok(), model.remove(&one).is_some(), "{context}"),
                4 => {
                    let moved = model.remove(&one);
                    assert_eq!(call.rename(&one, &two).is_ok(), moved.is_some(), "{context}");
                    model.extend(moved.map(|content| (two, content)));
                }
                5 => assert_eq!(call.read_file(&one).ok(), model.get(&one).cloned(), "{context}"),
                _ => {
                    let mut names = call.list("d").unwrap();
                    names.sort();
                    let wanted = model.keys().filter_map(|path| path.strip_prefix("d/"));
                    let mut wanted: Vec<&str> = wanted.collect();
                    wanted.sort_unstable();
                    assert_eq!(names, wanted, "{context}");
                }
            }
        }
    }
}

/// A link that keeps the eventfd by which its session wakes the digest thread.
struct Listening {
    link: InProcess,
    kick: Arc<Mutex<Option<OwnedFd>>>,
}

impl Link for Listening {
    fn call(&mut self, request: &Request, descriptors: &mut Vec<OwnedFd>) -> Result<Response, LinkError> {
        let response = self.link.call(request, descriptors)?;
        if matches!(response, Response::Attached(_)) {
            *self.kick.lock().unwrap() = Some(descriptors[2].try_clone().unwrap());
        }
        Ok(response)
    }

    fn post(&mut self, request: &Request) -> Result<bool, LinkError> {
        self.link.post(request)
    }

    fn collect(&mut self, wait: bool) -> Result<Option<Response>, LinkError> {
        self.link.collect(wait)
    }
}

/// How often the session kicked since the last call.
fn kicks(kick: &OwnedFd) -> u64 {
    let mut count = [0; 8];
    rustix::io::read(kick, &mut count).map_or(0, |_| u64::from_ne_bytes(count))
}

/// Each turn began with a kick. It woke an idle digest thread on a processor on which others waited.
#[test]
fn taking_turns_wakes_no_digest_thread() {
    const TURNS: u64 = 20;
    let store = Store::new(small());
    let kick = Arc::default();
    let link = Listening { link: InProcess::of(&store.shared, SessionId(0)), kick: Arc::clone(&kick) };
    let one = root(&Client::attach(Box::new(link), "listening").unwrap());
    let other = root(&store.attach());
    let kick = kick.lock().unwrap().take().unwrap();
    rustix::fs::fcntl_setfl(&kick, rustix::fs::OFlags::NONBLOCK).unwrap();
    one.write_file("f", b"0").unwrap();
    assert!(kicks(&kick) > 0, "it was alone at first");
    other.write_file("f", b"1").unwrap();
    one.write_file("f", b"2").unwrap();
    kicks(&kick);
    for turn in 0..TURNS {
        other.write_file("f", format!("other {turn}").as_bytes()).unwrap();
        one.write_file("f", format!("one {turn}").as_bytes()).unwrap();
    }
    assert_eq!(kicks(&kick), 0, "in {TURNS} turns");
    assert_eq!(other.read_file("f").unwrap(), format!("one {}", TURNS - 1).as_bytes());
}
