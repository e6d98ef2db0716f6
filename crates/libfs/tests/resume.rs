//! Sessions that outlive their daemon: acknowledged writes are there, open files stay open, and calls
//! continue.

use crate::common::{ROOT, Store, root, small};
use cuesta_format::wire::{Refusal, Request, Response};
use cuesta_format::{InodeNumber, SessionId};
use cuesta_libfs::{Base, Client, Error, Link, LinkError};
use cuesta_sharedfs::{Options, SharedFs};
use libc::{O_APPEND, O_CREAT, O_RDWR};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The present daemon; `None`: there is none.
type Daemon = Arc<Mutex<Option<Arc<SharedFs>>>>;

/// A process that lives as long as the test needs one that is not this daemon's own.
struct Process(Child);

impl Process {
    fn new() -> Process {
        Process(Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.0.kill().and_then(|()| self.0.wait()).expect("it was there");
    }
}

/// A link of that process, which breaks with its daemon.
struct Breaking {
    daemon: Daemon,
    connected: Option<Arc<SharedFs>>,
    session: SessionId,
    pid: u32,
    refuse_resyncs: Arc<AtomicU32>,
    tier: PathBuf,
    die_at_resyncs: Arc<AtomicU32>,
    /// The answer, which is not read before a thread must.
    posted: Option<Response>,
    unread_aheads: Arc<AtomicU32>,
}

impl Breaking {
    fn ask(&mut self, request: &Request, descriptors: &mut Vec<OwnedFd>) -> Result<Response, LinkError> {
        // The daemon is killed before it answers, or after.
        let mut daemon = self.daemon.lock().unwrap();
        let lives = |connected: &&Arc<SharedFs>| daemon.as_ref().is_some_and(|it| Arc::ptr_eq(it, connected));
        let Some(shared) = self.connected.as_ref().filter(lives) else {
            return Err(LinkError::Gone("killed".into()));
        };
        let left = |refusals: u32| refusals.checked_sub(1);
        if matches!(request, Request::Resync)
            && self.refuse_resyncs.fetch_update(Ordering::Relaxed, Ordering::Relaxed, left).is_ok()
        {
            return Ok(Response::Failed(Refusal::Internal("a test".into())));
        }
        if matches!(request, Request::Resync)
            && self.die_at_resyncs.fetch_update(Ordering::Relaxed, Ordering::Relaxed, left).is_ok()
        {
            std::mem::forget(daemon.take());
            *daemon = Some(SharedFs::open(&self.tier, Options::default()).unwrap());
            return Err(LinkError::Gone("killed".into()));
        }
        let mut request = request.clone();
        if let Request::Attach { pid, .. } = &mut request {
            *pid = self.pid;
        }
        let response = shared.handle(self.session, &request, descriptors);
        if let Response::Attached(welcome) = &response {
            self.session = welcome.session;
        }
        Ok(response)
    }
}

impl Link for Breaking {
    fn call(&mut self, request: &Request, descriptors: &mut Vec<OwnedFd>) -> Result<Response, LinkError> {
        assert!(self.posted.is_none(), "answers are read in order");
        self.ask(request, descriptors)
    }

    fn post(&mut self, request: &Request) -> Result<bool, LinkError> {
        let answer = self.ask(request, &mut Vec::new())?;
        if matches!(&answer, Response::Ahead(parcel) if !parcel.is_empty()) {
            self.unread_aheads.fetch_add(1, Ordering::Relaxed);
        }
        assert!(self.posted.replace(answer).is_none(), "one question at a time");
        Ok(true)
    }

    fn collect(&mut self, wait: bool) -> Result<Option<Response>, LinkError> {
        let daemon = self.daemon.lock().unwrap();
        let lives = match (&*daemon, &self.connected) {
            (Some(daemon), Some(connected)) => Arc::ptr_eq(daemon, connected),
            _ => false,
        };
        if !lives {
            self.posted = None;
            return Err(LinkError::Gone("killed".into()));
        }
        Ok(if wait { self.posted.take() } else { None })
    }

    fn reconnect(&mut self) -> Result<bool, LinkError> {
        let daemon = self.daemon.lock().unwrap().clone();
        self.connected = Some(daemon.ok_or_else(|| LinkError::Gone("no daemon listens".into()))?);
        self.posted = None;
        Ok(true)
    }
}

struct World {
    store: Store,
    daemon: Daemon,
    process: Process,
    /// The number of resyncs to refuse from now on.
    refuse_resyncs: Arc<AtomicU32>,
    /// The number of resyncs at which the daemon is killed instead of answering. The next daemon is there at
    /// once.
    die_at_resyncs: Arc<AtomicU32>,
    /// Posted answers that arrived while no thread waited.
    unread_aheads: Arc<AtomicU32>,
}

impl World {
    fn new() -> World {
        let store = Store::new(small());
        let daemon = Arc::new(Mutex::new(Some(Arc::clone(&store.shared))));
        World {
            store,
            daemon,
            process: Process::new(),
            refuse_resyncs: Arc::default(),
            die_at_resyncs: Arc::default(),
            unread_aheads: Arc::default(),
        }
    }

    fn attach(&self) -> Arc<Client> {
        let connected = self.daemon.lock().unwrap().clone();
        let daemon = Arc::clone(&self.daemon);
        let refuse_resyncs = Arc::clone(&self.refuse_resyncs);
        let unread_aheads = Arc::clone(&self.unread_aheads);
        let die_at_resyncs = Arc::clone(&self.die_at_resyncs);
        let link = Breaking {
            daemon,
            connected,
            session: SessionId::NOBODY,
            pid: self.process.0.id(),
            refuse_resyncs,
            tier: self.store.tier().to_owned(),
            die_at_resyncs,
            posted: None,
            unread_aheads,
        };
        Client::attach(Box::new(link), "test").unwrap()
    }

    /// The daemon is killed, and the next one recovers the store.
    fn replace_daemon(&self) -> Arc<SharedFs> {
        // A killed daemon puts nothing in order.
        std::mem::forget(self.daemon.lock().unwrap().take());
        let next = self.store.take_over();
        *self.daemon.lock().unwrap() = Some(Arc::clone(&next));
        next
    }
}

/// The number of inodes. Those that no process has open any more are removed first.
fn inodes(shared: &SharedFs) -> u64 {
    match shared.handle(SessionId::NOBODY, &Request::Statfs { tree: InodeNumber::NONE }, &mut Vec::new()) {
        Response::Statfs(totals) => totals.inodes,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_session_goes_on_with_the_next_daemon() {
    let world = World::new();
    let client = world.attach();
    let call = root(&client);
    let file = call.open("f", O_CREAT | O_RDWR).unwrap();
    for round in 0..5_u64 {
        assert_eq!(client.pwrite(&file, &[b"12345678"[..].into()], 8 * round as i64).unwrap(), 8);
        let next = world.replace_daemon();
        assert_eq!(next.recovered().sessions, 1);
        assert_eq!(call.stat("f").unwrap().size, 8 * (round + 1));
    }
    assert_eq!(call.read_file("f").unwrap(), b"12345678".repeat(5));
    client.digest().unwrap();
    assert_eq!(call.read_file("f").unwrap(), b"12345678".repeat(5));
}

#[test]
fn each_acknowledged_append_is_there_once_whenever_daemons_are_replaced() {
    let world = World::new();
    let client = world.attach();
    let file = root(&client).open("f", O_CREAT | O_RDWR | O_APPEND).unwrap();
    let (done, written) = (AtomicBool::new(false), AtomicU32::new(0));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let number = written.fetch_add(1, Ordering::Relaxed);
                    let wrote = client.write(&file, &[number.to_le_bytes()[..].into()]);
                    if wrote != Ok(4) {
                        done.store(true, Ordering::Relaxed);
                        panic!("append {number}: {wrote:?}");
                    }
                }
            });
        }
        for round in 1..=20 {
            while written.load(Ordering::Relaxed) < round * 500 && !done.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            world.replace_daemon();
        }
        done.store(true, Ordering::Relaxed);
    });
    let content = root(&client).read_file("f").unwrap();
    let mut numbers: Vec<u32> =
        content.as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect();
    numbers.sort_unstable();
    let expected: Vec<u32> = (0..written.into_inner()).collect();
    assert!(numbers == expected, "{} appends, {} in the file", expected.len(), numbers.len());
}

#[test]
fn a_nameless_open_file_outlives_the_daemon_until_it_is_closed() {
    let world = World::new();
    let (client, other) = (world.attach(), world.attach());
    let call = root(&client);
    let own = call.open("own", O_CREAT | O_RDWR).unwrap();
    client.pwrite(&own, &[b"mine"[..].into()], 0).unwrap();
    client.unlink(&ROOT, Base::Root, b"own").unwrap();
    let others = call.open("others", O_CREAT | O_RDWR).unwrap();
    client.pwrite(&others, &[b"theirs"[..].into()], 0).unwrap();
    other.unlink(&ROOT, Base::Root, b"others").unwrap();

    let next = world.replace_daemon();
    // A session that has not come back may have anything open.
    assert_eq!(inodes(&next), 3);
    root(&other).write_file("g", b"before the other one comes back").unwrap();
    other.digest().unwrap();
    assert_eq!(inodes(&next), 4);

    let mut content = [0; 8];
    assert_eq!(client.pread(&own, &mut [content.as_mut().into()], 0).unwrap(), 4);
    assert_eq!(&content[..4], b"mine");
    assert_eq!(client.pread(&others, &mut [content.as_mut().into()], 0).unwrap(), 6);
    assert_eq!(&content[..6], b"theirs");
    client.close(own).unwrap();
    client.close(others).unwrap();
    client.digest().unwrap();
    assert_eq!(inodes(&next), 2, "the root and g");
}

#[test]
fn leases_are_forgotten_though_the_first_resync_behind_a_resume_is_refused() {
    let world = World::new();
    let (client, other) = (world.attach(), world.attach());
    let call = root(&client);
    call.write_file("f", b"before").unwrap();
    client.digest().unwrap();
    assert_eq!(call.read_file("f").unwrap(), b"before");

    world.replace_daemon();
    world.refuse_resyncs.store(1, Ordering::Relaxed);
    assert!(call.write_file("g", b"").is_err());
    root(&other).write_file("f", b"by another").unwrap();
    assert_eq!(call.read_file("f").unwrap(), b"by another");
}

#[test]
fn daemons_may_follow_one_another_while_a_session_goes_on() {
    let world = World::new();
    let client = world.attach();
    let call = root(&client);
    call.write_file("f", b"kept").unwrap();
    world.replace_daemon();
    world.die_at_resyncs.store(3, Ordering::Relaxed);
    assert_eq!(call.read_file("f").unwrap(), b"kept");
    assert_eq!(world.die_at_resyncs.load(Ordering::Relaxed), 0);
    call.write_file("g", b"goes on").unwrap();
    assert_eq!(call.read_file("g").unwrap(), b"goes on");
}

/// The caller gets an error, and continues once a daemon stays.
#[test]
fn a_question_that_no_daemon_outlives_is_given_up() {
    let world = World::new();
    let client = world.attach();
    let call = root(&client);
    call.write_file("f", b"kept").unwrap();
    client.give_up_after(Duration::ZERO);
    world.replace_daemon();
    world.die_at_resyncs.store(1000, Ordering::Relaxed);
    let refused = call.read_file("f").unwrap_err();
    assert_eq!(refused.errno(), libc::EIO, "{refused}");
    let daemons = 1000 - world.die_at_resyncs.swap(0, Ordering::Relaxed);
    assert!((8..200).contains(&daemons), "it wore out {daemons} daemons");
    assert_eq!(call.read_file("f").unwrap(), b"kept");
}

#[test]
fn a_session_that_the_next_daemon_does_not_know_fails() {
    let world = World::new();
    let client = world.attach();
    let call = root(&client);
    call.write_file("f", b"kept").unwrap();
    std::mem::forget(world.daemon.lock().unwrap().take());
    let options = Options { await_sessions: false, ..Default::default() };
    let next = world.store.take_over_with(options);
    *world.daemon.lock().unwrap() = Some(next);
    assert_eq!(call.stat("f").err(), Some(Error::SessionEnded));
    assert_eq!(call.write_file("f", b"lost"), Err(Error::SessionEnded));
}

/// The posted request is lost with the daemon, or was answered. Either way the next answer is the next
/// daemon's.
#[test]
fn a_walk_continues_with_the_next_daemon_and_sees_changes_by_others() {
    const DIRECTORIES: u32 = 40;
    const FILES: u32 = 30;
    let path = |directory: u32, file: u32| format!("tree/{directory}/{file}");
    let all = || (0..DIRECTORIES).flat_map(|directory| (0..FILES).map(move |file| (directory, file)));
    for answer_is_read in [false, true] {
        let world = World::new();
        let maker = world.attach();
        let call = root(&maker);
        call.mkdir("tree").unwrap();
        for directory in 0..DIRECTORIES {
            call.mkdir(&format!("tree/{directory}")).unwrap();
            (0..FILES).for_each(|file| call.write_file(&path(directory, file), &[7; 3]).unwrap());
        }
        maker.digest().unwrap();
        maker.detach();

        let (walker, other) = (world.attach(), world.attach());
        let walking = root(&walker);
        // From the middle on, so that the walk posts requests while most of the tree is unseen.
        let mut looked_at = all().filter(|&(directory, _)| directory >= DIRECTORIES / 2);
        while world.unread_aheads.load(Ordering::Relaxed) == 0 {
            let (directory, file) = looked_at.next().expect("a walk asks for what lies behind");
            assert_eq!(walking.stat(&path(directory, file)).unwrap().size, 3);
        }
        if answer_is_read {
            walker.statfs().unwrap();
        }
        world.replace_daemon();
        let call = root(&other);
        for (directory, file) in all() {
            call.write_file(&path(directory, file), &vec![9; 1000 + file as usize]).unwrap();
        }
        for (directory, file) in all() {
            let size = walking.stat(&path(directory, file)).unwrap().size;
            assert_eq!(size, 1000 + u64::from(file), "{directory}/{file}, read: {answer_is_read}");
        }
    }
}
