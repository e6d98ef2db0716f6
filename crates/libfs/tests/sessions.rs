//! Sessions: the socket link, losing the daemon, a child's second session, and many threads of several clients.

use crate::common::{Caller, ROOT, Store, root, small};
use cuesta_format::InodeNumber;
use cuesta_format::wire::{self, Question, Request, Response};
use cuesta_libfs::{Client, Error, Link, LinkError, OpenFile, SocketLink};
use libc::{O_APPEND, O_CREAT, O_RDONLY, O_RDWR};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use std::io::{IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn the_socket_carries_frames_in_pieces_and_descriptors() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut socket, _) = listener.accept().unwrap();
            assert_eq!(question(&mut socket), Request::GrowLog { have: 0, slots: 3 });
            let mut frame = Vec::new();
            wire::encode(&Response::Grown { offsets: vec![0, 0] }, &mut frame).unwrap();
            let files = [listener.as_fd(), listener.as_fd()];
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            assert!(control.push(SendAncillaryMessage::ScmRights(&files)));
            let first = [IoSlice::new(&frame[..3])];
            rustix::net::sendmsg(&socket, &first, &mut control, SendFlags::empty()).unwrap();
            socket.write_all(&frame[3..]).unwrap();
            assert_eq!(question(&mut socket), Request::Statfs { tree: InodeNumber::NONE });
            // Longer than any frame.
            socket.write_all(&[0xff, 0xff, 0xff, wire::PROTOCOL_VERSION as u8]).unwrap();
        });
        let mut link = SocketLink::connect(path.as_os_str().as_encoded_bytes(), 500).unwrap();
        let mut descriptors = Vec::new();
        let answer = link.call(&Request::GrowLog { have: 0, slots: 3 }, &mut descriptors).unwrap();
        assert_eq!(answer, Response::Grown { offsets: vec![0, 0] });
        assert_eq!(descriptors.len(), 2);
        assert!(descriptors.iter().all(|file| file.as_raw_fd() >= 500));
        let garbled = link.call(&Request::Statfs { tree: InodeNumber::NONE }, &mut descriptors);
        assert!(matches!(garbled, Err(LinkError::Garbled(_))), "{garbled:?}");
        let gone = link.call(&Request::Statfs { tree: InodeNumber::NONE }, &mut descriptors);
        assert!(matches!(gone, Err(LinkError::Gone(_))), "{gone:?}");
    });
    assert!(SocketLink::connect(b"/nowhere/socket", 0).is_err());
}

/// One frame that a client sent.
fn question(socket: &mut impl Read) -> Request {
    let mut head = [0; 4];
    socket.read_exact(&mut head).unwrap();
    let mut content = vec![0; wire::frame_length(head).unwrap()];
    socket.read_exact(&mut content).unwrap();
    wire::decode::<Question<Request>>(&content).unwrap().request
}

#[test]
fn a_client_that_hears_nothing_says_so_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut asked, _) = listener.accept().unwrap();
            assert_eq!(question(&mut asked), Request::Resync);
            // The daemon's thread waits for the processor on which the client runs.
            let (mut told, _) = listener.accept().unwrap();
            assert_eq!(question(&mut told), Request::Unheard);
            let mut frame = Vec::new();
            wire::encode(&Response::Done, &mut frame).unwrap();
            asked.write_all(&frame).unwrap();
        });
        let mut link = SocketLink::connect(path.as_os_str().as_encoded_bytes(), 0).unwrap();
        assert_eq!(link.call(&Request::Resync, &mut Vec::new()), Ok(Response::Done));
    });
}

/// A link that can be cut.
struct Cut<L> {
    link: L,
    cut: Arc<AtomicBool>,
}

impl<L: Link> Link for Cut<L> {
    fn call(&mut self, request: &Request, descriptors: &mut Vec<OwnedFd>) -> Result<Response, LinkError> {
        if self.cut.load(Ordering::Relaxed) {
            return Err(LinkError::Gone("cut".into()));
        }
        self.link.call(request, descriptors)
    }
}

#[test]
fn without_a_daemon_writing_goes_on_until_the_log_is_full() {
    let store = Store::new(small());
    let cut = Arc::new(AtomicBool::new(false));
    let link = Cut { link: store.link(), cut: Arc::clone(&cut) };
    let client = Client::attach(Box::new(link), "test").unwrap();
    let call = root(&client);
    let file = call.open("f", O_CREAT | O_RDWR).unwrap();
    // The first write brings credit for many.
    let mut written = client.write(&file, &[[5; 1000].as_slice().into()]).unwrap();
    cut.store(true, Ordering::Relaxed);
    let error = loop {
        match client.write(&file, &[[5; 1000].as_slice().into()]) {
            Ok(bytes) => written += bytes,
            Err(error) => break error,
        }
    };
    assert_eq!(error, Error::Disconnected);
    assert!(written > 50_000, "{written} bytes fit the log");
    assert_eq!(call.read_all(&file).unwrap(), vec![5; written]);
    assert_eq!(call.stat("g").err(), Some(Error::NotFound));
}

#[test]
fn a_child_opens_its_files_again_by_inode() {
    let store = Store::new(small()).digesting();
    let parent = store.attach();
    let call = root(&parent);
    call.write_file("f", b"before the fork").unwrap();
    let file = call.open("f", O_RDWR | O_APPEND).unwrap();
    file.set_offset(7);
    let unlinked = call.open("gone", O_CREAT | O_RDWR).unwrap();
    parent.write(&unlinked, &[b"kept".as_slice().into()]).unwrap();
    call.unlink("gone").unwrap();

    let child = store.attach();
    let again = |file: &OpenFile| child.reopen(&ROOT, file.inode(), file.flags(), file.offset()).unwrap();
    let (file_again, unlinked_again) = (again(&file), again(&unlinked));
    assert_eq!((file_again.flags() & O_APPEND, file_again.offset()), (O_APPEND, 7));
    let call_child = root(&child);
    assert_eq!(call_child.read_all(&file_again).unwrap(), b"before the fork");
    assert_eq!(call_child.read_all(&unlinked_again).unwrap(), b"kept");
    child.write(&file_again, &[b"!".as_slice().into()]).unwrap();
    child.close(unlinked_again).unwrap();
    assert_eq!(call.read_all(&file).unwrap(), b"before the fork!");
    assert_eq!(call.read_all(&unlinked).unwrap(), b"kept");
    parent.close(unlinked).unwrap();
    parent.digest().unwrap();
    assert_eq!(child.reopen(&ROOT, InodeNumber(999_999), O_RDONLY, 0).err(), Some(Error::NotFound));
    parent.after_fork_in_child();
    assert_eq!(call.stat("f").err(), Some(Error::Disconnected));
}

#[test]
fn threads_of_several_clients_in_the_same_directories() {
    let store = Store::new(small()).digesting();
    let clients: Vec<Arc<Client>> = (0..2).map(|_| store.attach()).collect();
    let first = root(&clients[0]);
    first.mkdir("a").unwrap();
    first.mkdir("b").unwrap();
    let expected = |result: Result<(), Error>| match result {
        Ok(()) | Err(Error::NotFound | Error::Exists | Error::NotEmpty) => {}
        Err(error) => panic!("{error}"),
    };
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let call: Caller = root(&clients[thread as usize % 2]);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(thread);
                for _ in 0..80 {
                    let mut path =
                        || format!("{}/{}", if random.bool() { "a" } else { "b" }, random.u8(0..5));
                    let (one, two) = (path(), path());
                    match random.u8(0..7) {
                        0..3 => expected(call.write_file(&one, one.as_bytes())),
                        3 => expected(call.rename(&one, &two)),
                        4 => expected(call.link(&one, &two)),
                        5 => expected(call.unlink(&one)),
                        _ => expected(call.read_file(&one).map(|content| {
                            assert!(content.is_empty() || content.len() == 3, "{content:?}");
                        })),
                    }
                }
            });
        }
    });
    let observer = root(&store.attach());
    for directory in ["a", "b"] {
        let names = observer.list(directory).unwrap();
        assert_eq!(observer.stat(directory).unwrap().size as usize, names.len());
        assert_eq!(first.list(directory).unwrap(), names);
        for name in names {
            let path = format!("{directory}/{name}");
            assert_eq!(first.read_file(&path).unwrap(), observer.read_file(&path).unwrap());
            assert_eq!(first.stat(&path).unwrap().links, observer.stat(&path).unwrap().links);
        }
    }
}
