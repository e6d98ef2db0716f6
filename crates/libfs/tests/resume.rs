//! Sessions that outlive their daemon: what was acknowledged is there, what is open stays open, and calls go on.

mod common;

use common::{ROOT, Store, root, small};
use cuesta_format::SessionId;
use cuesta_format::wire::{Refusal, Request, Response};
use cuesta_libfs::{Base, Client, Error, Link, LinkError};
use cuesta_sharedfs::SharedFs;
use libc::{O_APPEND, O_CREAT, O_RDWR};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

/// The daemon of the moment; `None`: it is gone, and there is no other yet.
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

/// A link of that process's, which breaks with its daemon.
struct Breaking {
    daemon: Daemon,
    connected: Option<Arc<SharedFs>>,
    session: SessionId,
    pid: u32,
    refuse_resyncs: Arc<AtomicU32>,
}

impl Link for Breaking {
    fn call(&mut self, request: &Request, descriptors: &mut Vec<OwnedFd>) -> Result<Response, LinkError> {
        // It is killed before it answers, or after that.
        let daemon = self.daemon.lock().unwrap();
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

    fn reconnect(&mut self) -> Result<bool, LinkError> {
        let daemon = self.daemon.lock().unwrap().clone();
        self.connected = Some(daemon.ok_or_else(|| LinkError::Gone("nobody listens".into()))?);
        Ok(true)
    }
}

struct World {
    store: Store,
    daemon: Daemon,
    process: Process,
    /// Resyncs that are refused from now on.
    refuse_resyncs: Arc<AtomicU32>,
}

impl World {
    fn new() -> World {
        let store = Store::new(small());
        let daemon = Arc::new(Mutex::new(Some(Arc::clone(&store.shared))));
        World { store, daemon, process: Process::new(), refuse_resyncs: Arc::default() }
    }

    fn attach(&self) -> Arc<Client> {
        let connected = self.daemon.lock().unwrap().clone();
        let daemon = Arc::clone(&self.daemon);
        let refuse_resyncs = Arc::clone(&self.refuse_resyncs);
        let pid = self.process.0.id();
        let link = Breaking { daemon, connected, session: SessionId::NOBODY, pid, refuse_resyncs };
        Client::attach(Box::new(link), "test").unwrap()
    }

    /// The daemon is killed, and the next one recovers the store.
    fn replace_daemon(&self) -> Arc<SharedFs> {
        // One that is killed puts nothing in order.
        std::mem::forget(self.daemon.lock().unwrap().take());
        let next = self.store.take_over();
        *self.daemon.lock().unwrap() = Some(Arc::clone(&next));
        next
    }
}

/// Inodes there are; those that nobody has open any more are removed first.
fn inodes(shared: &SharedFs) -> u64 {
    match shared.handle(SessionId::NOBODY, &Request::Statfs, &mut Vec::new()) {
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
fn what_is_open_without_a_name_outlives_the_daemon_until_it_is_closed() {
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
    // Whoever has not come back may have anything open.
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
fn a_session_that_the_next_daemon_does_not_know_fails() {
    let world = World::new();
    let client = world.attach();
    let call = root(&client);
    call.write_file("f", b"kept").unwrap();
    std::mem::forget(world.daemon.lock().unwrap().take());
    let options = cuesta_sharedfs::Options { await_sessions: false, ..Default::default() };
    let next = world.store.take_over_with(options);
    *world.daemon.lock().unwrap() = Some(next);
    assert_eq!(call.stat("f").err(), Some(Error::SessionEnded));
    assert_eq!(call.write_file("f", b"lost"), Err(Error::SessionEnded));
}
