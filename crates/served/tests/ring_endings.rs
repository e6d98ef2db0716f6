//! Daemons that go away while requests are in flight in a ring, and daemons that give none. They are played here.

use crate::common::ring::*;
use cuesta_format::StoreId;
use cuesta_libfs::{Error, RenameFlags};
use cuesta_media::wait;
use cuesta_served::{Client, Holder, Once, OpenFile, PathBase, Request, Response, Subject, VERSION};
use rustix::fs::MemfdFlags;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::io::{IoSlice, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;

/// More calls than a client makes before it asks for a ring.
const WARM: usize = 40;
const ROOT: Subject<'static> = Subject::Path { place: PathBase::Root, path: b".", follow: true };

#[derive(Debug)]
struct Path(PathBuf);

impl Holder for Path {
    fn path(&self) -> Vec<u8> {
        self.0.as_os_str().as_bytes().to_vec()
    }

    fn show(&self, _: &mut dyn FnMut(&OpenFile, BorrowedFd<'_>)) {}
}

/// One connection to a daemon, at the daemon's end.
struct Line(UnixStream);

impl Line {
    /// Takes the next connection, and greets.
    fn accept(listener: &UnixListener) -> Line {
        let mut line = Line(listener.accept().unwrap().0);
        let hello = line.receive();
        assert_eq!(postcard::from_bytes(&hello), Ok(Request::Hello { version: VERSION }));
        line.send(&Response::Welcome { store: StoreId([7; 16]) }, None);
        line
    }

    fn receive(&mut self) -> Vec<u8> {
        let mut head = [0; 4];
        self.0.read_exact(&mut head).unwrap();
        let mut body = vec![0; u32::from_le_bytes(head) as usize];
        self.0.read_exact(&mut body).unwrap();
        body
    }

    fn send(&mut self, response: &Response, descriptor: Option<&OwnedFd>) {
        // It rests on no log.
        let body = postcard::to_stdvec(&(response, None::<u64>)).unwrap();
        let head = (body.len() as u32).to_le_bytes();
        if let Some(descriptor) = descriptor {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            let files = [descriptor.as_fd()];
            control.push(SendAncillaryMessage::ScmRights(&files));
            let sent = sendmsg(&self.0, &[IoSlice::new(&head)], &mut control, SendFlags::empty());
            assert_eq!(sent, Ok(4));
        } else {
            self.0.write_all(&head).unwrap();
        }
        self.0.write_all(&body).unwrap();
    }

    /// Answers requests until `last` is asked. Before a ring the client says who it is.
    fn serve_until(&mut self, last: Request<'_>) {
        loop {
            let request = self.receive();
            match postcard::from_bytes::<Request<'_>>(&request).unwrap() {
                request if request == last => return,
                Request::Identify { .. } => self.send(&Response::Done, None),
                _ => self.send(&Response::Failed(Error::NotFound), None),
            }
        }
    }

    fn give_ring(&mut self) -> RawRing {
        self.serve_until(Request::Ring);
        let memory = wait::sealed_memfd("test-ring", RING_BYTES).unwrap();
        self.send(&Response::Done, Some(&memory));
        RawRing::map(&memory)
    }

    fn refuse_ring(&mut self) {
        self.serve_until(Request::Ring);
        self.send(&Response::Failed(Error::Descriptors), None);
    }
}

/// A daemon that finds something wrong ends the test.
struct EndOfTest;

impl Drop for EndOfTest {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::exit(1);
        }
    }
}

/// Runs a client beside its daemons.
fn beside(daemons: impl FnOnce(&UnixListener) + Send, client: impl FnOnce(&Client)) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sock");
    let listener = UnixListener::bind(&path).unwrap();
    std::thread::scope(|scope| {
        let daemons = scope.spawn(|| {
            // Without a daemon the client would wait for one.
            let _ending = EndOfTest;
            daemons(&listener);
        });
        let connected = Client::connect(path.as_os_str().as_bytes(), 0).unwrap();
        let connected = connected.held_by(Arc::new(Path(path.clone())));
        client(&connected);
        drop(connected);
        daemons.join().unwrap();
    });
}

/// A rename, and what it is known by.
fn numbered(message: &[u8]) -> (Once, Vec<u8>) {
    let (number, request) = postcard::take_from_bytes::<Request<'_>>(message).unwrap();
    let Request::Once(once) = number else { panic!("{number:?}") };
    assert!(matches!(postcard::from_bytes(request), Ok(Request::Rename { .. })));
    (once, request.to_vec())
}

fn stat(client: &Client) -> Result<(), Error> {
    client.stat(ROOT).map(drop)
}

fn warm(client: &Client) {
    (0..WARM).for_each(|_| {
        if !client.has_ring() {
            assert_eq!(stat(client), Err(Error::NotFound));
        }
    });
}

fn rename(client: &Client) -> Result<(), Error> {
    client.rename((PathBase::Root, b"old"), (PathBase::Root, b"new"), RenameFlags::default())
}

#[test]
fn a_request_that_no_daemon_began_is_withdrawn_and_asked_of_the_next() {
    let daemons = |listener: &UnixListener| {
        let mut line = Line::accept(listener);
        let ring = line.give_ring();
        ring.await_state(0, ASKED);
        let (first, renamed) = numbered(&ring.request(0));
        drop(line);
        let mut line = Line::accept(listener);
        line.refuse_ring();
        let (second, again) = numbered(&line.receive());
        assert_eq!(renamed, again);
        assert!(!second.again && second.number > first.number, "another call to the daemon");
        assert_eq!(ring.state(0), QUIET, "nobody runs it");
        line.send(&Response::Done, None);
    };
    beside(daemons, |client| {
        warm(client);
        assert_eq!(rename(client), Ok(()));
    });
}

#[test]
fn a_request_that_a_daemon_began_is_asked_again_as_the_same_call() {
    let daemons = |listener: &UnixListener| {
        let mut line = Line::accept(listener);
        let ring = line.give_ring();
        ring.await_state(0, ASKED);
        ring.set_state(0, RUNNING);
        let (first, renamed) = numbered(&ring.request(0));
        drop(line);
        let mut line = Line::accept(listener);
        let ring = line.give_ring();
        let asked = line.receive();
        assert_eq!(numbered(&asked), (Once { again: true, ..first }, renamed));
        assert!(first.slot > 0, "a slot of its own");
        // Its lane is not used until it is answered.
        assert_eq!(ring.state(0), QUIET);
        line.send(&Response::Done, None);
        ring.await_state(0, ASKED);
        ring.set_state(0, RUNNING);
        drop(line);
        let mut line = Line::accept(listener);
        let ring = line.give_ring();
        // A request that changes nothing has no number.
        assert_eq!(postcard::from_bytes(&line.receive()), Ok(Request::Stat { subject: ROOT }));
        line.send(&Response::Failed(Error::Busy), None);
        ring.await_state(0, ASKED);
        assert_eq!(postcard::from_bytes(&ring.request(0)), Ok(Request::Settle));
        ring.put_answer(0, &Response::Done);
    };
    beside(daemons, |client| {
        warm(client);
        assert_eq!(rename(client), Ok(()));
        assert_eq!(stat(client), Err(Error::Busy));
        assert_eq!(client.settle(), Ok(()));
    });
}

#[test]
fn a_request_that_waits_for_long_is_told_of_by_the_socket() {
    let daemons = |listener: &UnixListener| {
        let mut line = Line::accept(listener);
        let ring = line.give_ring();
        ring.await_state(0, ASKED);
        assert_eq!(postcard::from_bytes(&line.receive()), Ok(Request::Unheard));
        ring.set_state(0, RUNNING);
        line.send(&Response::Done, None);
        // One that was begun waits for what it does.
        ring.put_answer(0, &Response::Done);
        ring.await_state(0, ASKED);
        ring.put_answer(0, &Response::Done);
    };
    beside(daemons, |client| {
        warm(client);
        assert_eq!(rename(client), Ok(()));
        assert_eq!(client.settle(), Ok(()));
    });
}

/// All threads that wait for a daemon go on with the next one, by one connection.
#[test]
fn threads_that_wait_go_on_with_the_next_daemon_together() {
    const THREADS: usize = 3;
    let daemons = |listener: &UnixListener| {
        let mut line = Line::accept(listener);
        let ring = line.give_ring();
        for _ in 1..THREADS {
            assert!(matches!(postcard::from_bytes(&line.receive()), Ok(Request::Lane { .. })));
            line.send(&Response::Done, None);
        }
        (0..THREADS as u64).for_each(|lane| ring.await_state(lane, ASKED));
        drop(line);
        let mut line = Line::accept(listener);
        line.refuse_ring();
        for _ in 0..THREADS {
            numbered(&line.receive());
            line.send(&Response::Done, None);
        }
    };
    beside(daemons, |client| {
        warm(client);
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(|| rename(client))).collect();
            threads.into_iter().for_each(|thread| assert_eq!(thread.join().unwrap(), Ok(())));
        });
    });
}

#[test]
fn a_daemon_that_knows_no_rings_serves_by_the_socket() {
    let daemons = |listener: &UnixListener| {
        let mut line = Line::accept(listener);
        // It does not know the requests before a ring, either.
        while !matches!(postcard::from_bytes(&line.receive()), Ok(Request::Identify { .. })) {
            line.send(&Response::Failed(Error::NotFound), None);
        }
        drop(line);
        let mut line = Line::accept(listener);
        for _ in 0..WARM {
            assert_eq!(postcard::from_bytes(&line.receive()), Ok(Request::Stat { subject: ROOT }));
            line.send(&Response::Failed(Error::Busy), None);
        }
    };
    beside(daemons, |client| {
        while stat(client) != Err(Error::Busy) {}
        (1..WARM).for_each(|_| assert_eq!(stat(client), Err(Error::Busy)));
        assert!(!client.has_ring());
    });
}

#[test]
fn a_ring_that_is_refused_or_could_shrink_is_none() {
    for is_given in [false, true] {
        let daemons = move |listener: &UnixListener| {
            let mut line = Line::accept(listener);
            line.serve_until(Request::Ring);
            let memory = rustix::fs::memfd_create("test-ring", MemfdFlags::CLOEXEC).unwrap();
            rustix::fs::ftruncate(&memory, RING_BYTES).unwrap();
            match is_given {
                true => line.send(&Response::Done, Some(&memory)),
                false => line.send(&Response::Failed(Error::Descriptors), None),
            }
            line.serve_until(Request::Settle);
            line.send(&Response::Done, None);
        };
        beside(daemons, |client| {
            warm(client);
            assert!(!client.has_ring());
            assert_eq!(client.settle(), Ok(()));
        });
    }
}
