//! The server without a store: a service that only remembers its requests.

use crate::server::*;
use crate::{Ending, Error};
use cuesta_format::durability::DurabilityWish;
use cuesta_format::wire::{self, PROTOCOL_VERSION, Question, Refusal, Request, Response, StoreTotals};
use cuesta_format::{InodeNumber, SessionId};
use frames::{FrameError, Frames};
use rustix::event::{EventfdFlags, eventfd};
use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketType};
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::mpsc::Sender;
use std::sync::{Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

const FULL: u64 = 1000;
const FAILING: u64 = u64::MAX;
const LIMIT: Duration = Duration::from_secs(20);

#[derive(Debug, PartialEq)]
enum Told {
    Attached(String, u32),
    Ended(SessionId, Ending),
    Digested(u64),
    Stopped,
}

#[derive(Debug)]
struct Fake {
    told: Mutex<Sender<Told>>,
    sessions: AtomicU64,
    pending: AtomicU64,
    /// Appended while digests commit, one after the other, without a kick.
    late: Mutex<VecDeque<u64>>,
    /// How often the digest thread went to sleep, now and before each digest.
    rests: AtomicU64,
    rests_before: Mutex<Vec<u64>>,
    /// Pending entries cannot be seen yet.
    hidden: AtomicBool,
    unprepared: AtomicU64,
    untidy: AtomicU64,
    /// How often logs were to be written.
    written: AtomicU64,
    kicks: Mutex<Vec<SessionId>>,
    panics: AtomicBool,
    left: AtomicBool,
    kick: Mutex<Option<OwnedFd>>,
}

impl Fake {
    fn new(told: Sender<Told>) -> Fake {
        Fake {
            told: Mutex::new(told),
            sessions: AtomicU64::new(0),
            pending: AtomicU64::new(0),
            late: Mutex::default(),
            rests: AtomicU64::new(0),
            rests_before: Mutex::default(),
            hidden: AtomicBool::new(false),
            unprepared: AtomicU64::new(3),
            untidy: AtomicU64::new(3),
            written: AtomicU64::new(0),
            kicks: Mutex::default(),
            panics: AtomicBool::new(false),
            left: AtomicBool::new(false),
            kick: Mutex::default(),
        }
    }

    fn tell(&self, told: Told) {
        // The test that started the server may have ended.
        let _ = self.told.lock().unwrap().send(told);
    }
}

impl Service for Fake {
    fn attach(
        &self,
        pid: u32,
        program: &str,
        _first: InodeNumber,
        _wish: DurabilityWish,
    ) -> Result<Attached, Error> {
        self.tell(Told::Attached(program.into(), pid));
        let kick = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
        *self.kick.lock().unwrap() = Some(kick.try_clone().unwrap());
        let descriptors = vec![kick.try_clone().unwrap()];
        let session = SessionId(self.sessions.fetch_add(1, Ordering::Relaxed) + 1);
        Ok(Attached { session, answer: Answer { response: Response::Done, descriptors }, kick })
    }

    fn resume(
        &self,
        _session: SessionId,
        _pid: u32,
        _program: &str,
        _wish: DurabilityWish,
    ) -> Result<Attached, Error> {
        Err(Error::NoSession)
    }

    fn awaited(&self) -> Vec<(SessionId, Arc<OwnedFd>)> {
        Vec::new()
    }

    fn answered(&self, _: Option<SessionId>) {}

    fn keep_in_kernel(&self, _session: Option<SessionId>, device: Option<OwnedFd>) -> Answer {
        let term_ms = u32::from(device.is_some());
        Answer { response: Response::KeptInKernel { term_ms }, descriptors: Vec::new() }
    }

    fn handle(&self, session: Option<SessionId>, request: &Request) -> Answer {
        assert!(!self.panics.load(Ordering::Relaxed), "asked to panic");
        match (session, request) {
            (_, Request::Statfs { .. }) => answer(Response::Statfs(StoreTotals::default())),
            (None, _) => Refusal::Invalid("attach first".into()).into(),
            (Some(_), Request::Arenas { arenas }) => Answer {
                response: Response::Arenas { offsets: vec![0; arenas.len()] },
                descriptors: arenas.iter().map(|_| eventfd(7, EventfdFlags::CLOEXEC).unwrap()).collect(),
            },
            _ => answer(Response::Done),
        }
    }

    fn end_session(&self, session: SessionId, ending: Ending) -> Result<(), Error> {
        self.tell(Told::Ended(session, ending));
        Ok(())
    }

    fn write_logs(&self) -> Result<Option<Duration>, Error> {
        self.written.fetch_add(1, Ordering::SeqCst);
        Ok(None)
    }

    fn before_writing(&self) -> Option<Duration> {
        None
    }

    fn digest(&self, idle: bool) -> Result<bool, Error> {
        let pending = self.pending.load(Ordering::SeqCst);
        if pending == FAILING {
            return Err(Error::NoSpace);
        }
        if pending == 0 || (pending < FULL && !idle) {
            return Ok(false);
        }
        self.pending.store(self.late.lock().unwrap().pop_front().unwrap_or(0), Ordering::SeqCst);
        self.rests_before.lock().unwrap().push(self.rests.load(Ordering::SeqCst));
        self.hidden.store(true, Ordering::SeqCst);
        self.tell(Told::Digested(pending));
        Ok(true)
    }

    fn prepare(&self) -> Result<bool, Error> {
        Ok(self
            .unprepared
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1))
            .is_ok())
    }

    fn has_tiers_below_memory(&self) -> bool {
        false
    }

    fn write_back_tiers(&self) -> bool {
        false
    }

    fn stop_writing_back(&self) {}

    fn migrates(&self) -> bool {
        false
    }

    fn migrate_some(&self) -> bool {
        false
    }

    fn stop_migrating(&self) {}

    fn has_lower_tiers(&self) -> bool {
        false
    }

    fn bring_pinned(&self) -> bool {
        false
    }

    fn stop_bringing(&self) {}

    fn tidy(&self) -> Result<bool, Error> {
        let left = |left: u64| left.checked_sub(1);
        Ok(self.untidy.fetch_update(Ordering::SeqCst, Ordering::SeqCst, left).is_ok())
    }

    fn kicked(&self, session: SessionId) {
        self.kicks.lock().unwrap().push(session);
    }

    fn idle_after(&self) -> Option<Duration> {
        self.rests.fetch_add(1, Ordering::SeqCst);
        if self.hidden.swap(false, Ordering::SeqCst) {
            return None;
        }
        (self.pending.load(Ordering::SeqCst) > 0).then_some(Duration::from_millis(5))
    }

    fn stop(&self) -> Result<(), Error> {
        self.tell(Told::Stopped);
        Ok(())
    }

    fn leave(&self) {
        self.left.store(true, Ordering::SeqCst);
    }

    fn is_left(&self) -> bool {
        self.left.load(Ordering::SeqCst)
    }
}

fn answer(response: Response) -> Answer {
    Answer { response, descriptors: Vec::new() }
}

struct World {
    folder: tempfile::TempDir,
    service: Arc<Fake>,
    told: Receiver<Told>,
    stop: StopSender,
    server: JoinHandle<StopReason>,
}

impl World {
    fn new() -> World {
        let folder = tempfile::tempdir().unwrap();
        let (sender, told) = mpsc::channel();
        let service = Arc::new(Fake::new(sender));
        let listener = Listener::bind(&folder.path().join("socket")).unwrap();
        let server = Server::start(Arc::clone(&service), listener).unwrap();
        let stop = server.stop_sender();
        World { folder, service, told, stop, server: std::thread::spawn(move || server.wait()) }
    }

    fn connect(&self) -> Frames {
        let address = SocketAddrUnix::new(self.folder.path().join("socket")).unwrap();
        let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
        rustix::net::connect(&socket, &address).unwrap();
        Frames::new(socket)
    }

    fn attach(&self) -> Frames {
        let mut client = self.connect();
        let program = "test".to_owned();
        let request = Request::Attach {
            version: PROTOCOL_VERSION,
            pid: 1,
            program,
            first: InodeNumber::NONE,
            resume: SessionId::NOBODY,
            durability: DurabilityWish::NONE,
        };
        assert_eq!(ask(&mut client, &request), Response::Done);
        assert_eq!(self.heard(), Told::Attached("test".into(), std::process::id()));
        client
    }

    fn heard(&self) -> Told {
        self.told.recv_timeout(LIMIT).unwrap()
    }
}

fn ask(client: &mut Frames, request: &Request) -> Response {
    client.send(&Question { processor: None, request }, &[]).unwrap();
    client.receive().unwrap()
}

#[test]
fn a_hang_up_ends_the_session() {
    let world = World::new();
    let client = world.attach();
    drop(client);
    // The process that hung up is this one, and lives on.
    assert_eq!(world.heard(), Told::Ended(SessionId(1), Ending::GivenUp));
}

#[test]
fn a_detach_is_answered_after_the_session_ended() {
    let world = World::new();
    let mut client = world.attach();
    assert_eq!(ask(&mut client, &Request::Detach), Response::Done);
    assert_eq!(world.told.try_recv(), Ok(Told::Ended(SessionId(1), Ending::Gone)));
    assert!(matches!(client.receive::<Response>(), Err(FrameError::Closed)));
}

#[test]
fn two_questions_that_come_together_are_answered_one_after_the_other() {
    let world = World::new();
    let mut client = world.attach();
    let mut frames = Vec::new();
    for request in [Request::Statfs { tree: InodeNumber::NONE }, Request::Detach] {
        wire::encode(&Question { processor: None, request }, &mut frames).unwrap();
    }
    rustix::net::send(client.socket(), &frames, SendFlags::NOSIGNAL).unwrap();
    assert!(matches!(client.receive().unwrap(), Response::Statfs(_)));
    assert_eq!(client.receive::<Response>().unwrap(), Response::Done);
    assert_eq!(world.heard(), Told::Ended(SessionId(1), Ending::Gone));
}

#[test]
fn malformed_frames_close_the_connection_and_nothing_else() {
    let world = World::new();
    let version = PROTOCOL_VERSION as u8;
    for bytes in
        [&[0xff, 0xff, 0xff, version][..], &[3, 0, 0, version, 0xff, 0xff, 0xff], &[0, 0, 0, version]]
    {
        let mut client = world.attach();
        rustix::net::send(client.socket(), bytes, SendFlags::NOSIGNAL).unwrap();
        assert!(matches!(client.receive::<Response>(), Err(FrameError::Closed | FrameError::Broken(_))));
        assert!(matches!(world.heard(), Told::Ended(..)));
    }
    assert!(matches!(
        ask(&mut world.connect(), &Request::Statfs { tree: InodeNumber::NONE }),
        Response::Statfs(_)
    ));
}

#[test]
fn a_frame_of_another_version_is_answered_with_the_daemons() {
    let world = World::new();
    let mut client = world.attach();
    rustix::net::send(client.socket(), &[1, 0, 0, PROTOCOL_VERSION as u8 + 1], SendFlags::NOSIGNAL).unwrap();
    assert_eq!(client.receive::<Response>().unwrap(), Response::Done);
    assert!(matches!(client.receive::<Response>(), Err(FrameError::Closed | FrameError::Broken(_))));
    assert!(matches!(world.heard(), Told::Ended(..)));
}

#[test]
fn a_panic_in_the_service_costs_one_session() {
    let world = World::new();
    let mut client = world.attach();
    world.service.panics.store(true, Ordering::Relaxed);
    client.send(&Question { processor: None, request: Request::Resync }, &[]).unwrap();
    assert_eq!(world.heard(), Told::Ended(SessionId(1), Ending::GivenUp));
    world.service.panics.store(false, Ordering::Relaxed);
    assert!(matches!(
        ask(&mut world.connect(), &Request::Statfs { tree: InodeNumber::NONE }),
        Response::Statfs(_)
    ));
}

#[test]
fn another_protocol_version_is_refused() {
    let world = World::new();
    let request = Request::Attach {
        version: 99,
        pid: 1,
        program: String::new(),
        first: InodeNumber::NONE,
        resume: SessionId::NOBODY,
        durability: DurabilityWish::NONE,
    };
    assert_eq!(
        ask(&mut world.connect(), &request),
        Response::Failed(Refusal::Version { daemon: PROTOCOL_VERSION })
    );
}

#[test]
fn a_kick_leads_to_a_digest() {
    let world = World::new();
    let _client = world.attach();
    let kick = world.service.kick.lock().unwrap().take().unwrap();
    for pending in [1, 5 * FULL, 1] {
        world.service.pending.store(pending, Ordering::SeqCst);
        rustix::io::write(&kick, &1u64.to_ne_bytes()).unwrap();
        assert_eq!(world.heard(), Told::Digested(pending));
    }
}

#[test]
fn an_entry_appended_while_a_digest_commits_waits_for_no_kick() {
    let world = World::new();
    let _client = world.attach();
    let kick = world.service.kick.lock().unwrap().take().unwrap();
    world.service.late.lock().unwrap().push_back(7);
    world.service.pending.store(FULL, Ordering::SeqCst);
    rustix::io::write(&kick, &1u64.to_ne_bytes()).unwrap();
    assert_eq!((world.heard(), world.heard()), (Told::Digested(FULL), Told::Digested(7)));
    assert_eq!(*world.service.kicks.lock().unwrap(), [SessionId(1)]);
}

/// The thread did nothing else, as fast as it could, while a program wrote a little at a time.
#[test]
fn a_session_that_writes_all_the_time_is_not_digested_all_the_time() {
    let world = World::new();
    let _client = world.attach();
    let kick = world.service.kick.lock().unwrap().take().unwrap();
    world.service.late.lock().unwrap().extend([2, 3, 4]);
    world.service.pending.store(1, Ordering::SeqCst);
    rustix::io::write(&kick, &1u64.to_ne_bytes()).unwrap();
    (1..=4).for_each(|pending| assert_eq!(world.heard(), Told::Digested(pending)));
    let rests = world.service.rests_before.lock().unwrap();
    assert!(rests.is_sorted_by(|before, after| before < after), "{rests:?}");
}

#[test]
fn spare_segments_that_were_taken_are_made_again() {
    let world = World::new();
    let mut client = world.attach();
    let ready = || {
        while world.service.unprepared.load(Ordering::SeqCst) > 0 {
            std::thread::yield_now();
        }
    };
    ready();
    for request in [Request::Credit { blocks: 1 }, Request::GrowLog { have: 1, slots: 1 }] {
        world.service.unprepared.store(2, Ordering::SeqCst);
        ask(&mut client, &request);
        ready();
    }
}

#[test]
fn tidying_waits_until_nothing_is_taken() {
    let world = World::new();
    while world.service.untidy.load(Ordering::SeqCst) > 0 {
        std::thread::yield_now();
    }
    assert_eq!(world.service.unprepared.load(Ordering::SeqCst), 0, "what will be needed comes first");
}

#[test]
fn a_store_that_fails_stops_the_daemon() {
    let world = World::new();
    let _client = world.attach();
    let kick = world.service.kick.lock().unwrap().take().unwrap();
    world.service.pending.store(FAILING, Ordering::SeqCst);
    rustix::io::write(&kick, &1u64.to_ne_bytes()).unwrap();
    assert_eq!(world.heard(), Told::Stopped);
    assert!(matches!(world.server.join().unwrap(), StopReason::Failed(_)));
}

#[test]
fn stop_is_answered_when_all_is_digested() {
    let world = World::new();
    let mut client = world.connect();
    assert_eq!(ask(&mut client, &Request::Stop), Response::Done);
    assert_eq!(world.told.try_recv(), Ok(Told::Stopped));
    assert!(matches!(world.server.join().unwrap(), StopReason::Asked(_)));
    assert!(!world.folder.path().join("socket").exists());
}

#[test]
fn a_signal_stops_in_order() {
    let world = World::new();
    world.stop.send(StopReason::Signal(15)).unwrap();
    assert_eq!(world.heard(), Told::Stopped);
    assert!(matches!(world.server.join().unwrap(), StopReason::Signal(15)));
}

/// A daemon told to stop at the very moment the preparing thread's wait was over slept on, and never left.
#[test]
fn a_call_that_comes_as_the_preparers_wait_ends_is_not_lost() {
    let service = Fake::new(mpsc::channel().0);
    let (handle, called) = preparer::calls();
    handle.wake();
    handle.wake();
    assert!(preparer::tidy_until_called(&service, &called, Duration::ZERO));
    assert_eq!(service.untidy.load(Ordering::SeqCst), 3, "there was a call");
    drop(handle);
    assert!(!preparer::tidy_until_called(&service, &called, Duration::ZERO), "no thread is left");
}

/// A thread that served a connection kept the store open behind the daemon's end: closing it then wrote over what the next
/// one had begun.
#[test]
fn no_thread_has_the_service_when_the_server_has_stopped() {
    for _ in 0..20 {
        let world = World::new();
        let clients: Vec<Frames> = (0..3).map(|_| world.attach()).collect();
        world.stop.send(StopReason::Signal(15)).unwrap();
        world.server.join().unwrap();
        assert_eq!(Arc::strong_count(&world.service), 1, "but this test's");
        for mut client in clients {
            assert!(matches!(client.receive::<Response>(), Err(FrameError::Closed | FrameError::Broken(_))));
        }
    }
}
