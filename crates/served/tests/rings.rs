//! Calls by a ring.

use crate::common::ring::*;
use crate::common::*;
use cuesta_format::control::CELL_HOLDER;
use cuesta_format::{FILE_BYTES_MAX, Medium};
use cuesta_libfs::{Allocation, Error, ExtendedFlags, RenameFlags, SetAttributes, Whence};
use cuesta_media::{Mapping, Protection, UserSlice, wait};
use cuesta_served::{Client, Offset, PathBase, Request, Response, Subject};
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::atomic::{AtomicU32, Ordering};

/// More calls than a client makes before it asks for a ring.
const WARM: usize = 40;

fn client(store: &Store) -> Client {
    let client = Client::connect(store.users.as_os_str().as_bytes(), 0).unwrap();
    let root = Subject::Path { place: PathBase::Root, path: b".", follow: true };
    (0..WARM).for_each(|_| assert!(client.stat(root).is_ok()));
    assert!(client.has_ring());
    client
}

/// One request of each kind that goes by a ring.
fn requests(file: u64, directory: u64) -> Vec<Request<'static>> {
    let root = PathBase::Root;
    let subject = Subject::File(file);
    let named = Subject::Path { place: root, path: b"file", follow: true };
    let flags = ExtendedFlags::default();
    vec![
        Request::Limit { bytes: 1 << 40 },
        Request::Write { file, place: Offset::At(3), appends: false, data: b"content" },
        Request::Write { file, place: Offset::Own { operation: 5 }, appends: true, data: b"more" },
        Request::Read { file, count: 100, place: Offset::At(0) },
        Request::Read { file, count: 100, place: Offset::Own { operation: 6 } },
        Request::Seek { file, offset: 2, whence: Whence::Set },
        Request::Seek { file, offset: -2, whence: Whence::Set },
        Request::SetFlags { file, flags: libc::O_APPEND },
        Request::Truncate { subject, size: 9 },
        Request::Truncate { subject: named, size: -1 },
        Request::Allocate { file, what: Allocation::Extend, offset: 0, length: 4096 },
        Request::Fsync { file },
        Request::MakeDirectory { place: root, path: b"made", mode: 0o755.into() },
        Request::MakeDirectory { place: root, path: b"made", mode: 0o755.into() },
        Request::MakeNode { place: root, path: b"node", mode: 0o100_600.into(), device: 0 },
        Request::MakeLink { target: b"target", place: root, path: b"link" },
        Request::ReadLink { subject: Subject::Path { place: root, path: b"link", follow: false } },
        Request::Link { from: subject, place: PathBase::Directory(directory), path: b"linked" },
        Request::Rename {
            place: root,
            path: b"node",
            new_place: PathBase::Directory(directory),
            new_path: b"renamed",
            flags: RenameFlags::default(),
        },
        Request::Access { subject: named, rights: 4 },
        Request::SetAttributes { subject, set: SetAttributes { mode: Some(0o640), ..Default::default() } },
        Request::SetExtended { subject, name: b"user.one", value: b"value", flags },
        Request::GetExtended { subject, name: b"user.one" },
        Request::GetExtended { subject, name: b"user.two" },
        Request::ListExtended { subject },
        Request::RemoveExtended { subject, name: b"user.one" },
        Request::Unlink { place: PathBase::Directory(directory), path: b"renamed", directory: false },
        Request::Unlink { place: root, path: b"absent", directory: false },
        Request::Settle,
        Request::DirectoryPath { file: directory, guess: b"/directory" },
        Request::Close { file },
        Request::Read { file, count: 100, place: Offset::At(0) },
    ]
}

#[test]
fn calls_by_a_ring_answer_as_by_the_socket() {
    let by_socket = {
        let store = store();
        let mut raw = Raw::connect(&store);
        assert_eq!(
            raw.ask(&Request::MakeDirectory {
                place: PathBase::Root,
                path: b"directory",
                mode: 0o755.into()
            }),
            Response::Done
        );
        let file = raw.opened(b"file", libc::O_CREAT | libc::O_RDWR);
        let directory = raw.opened(b"directory", libc::O_RDONLY);
        requests(file, directory).iter().map(|request| raw.ask(request)).collect::<Vec<_>>()
    };
    let store = store();
    let (mut raw, ring) = ringed(&store);
    let made = Request::MakeDirectory { place: PathBase::Root, path: b"directory", mode: 0o755.into() };
    assert_eq!(ring.ask(0, &made), Response::Done);
    let file = raw.opened(b"file", libc::O_CREAT | libc::O_RDWR);
    let directory = raw.opened(b"directory", libc::O_RDONLY);
    for (request, expected) in requests(file, directory).iter().zip(by_socket) {
        assert_eq!(ring.ask(0, request), expected, "{request:?}");
    }
    let Response::Entries(entries) = ring.ask(0, &Request::List { file: directory, bytes: 4096 }) else {
        panic!("no names")
    };
    assert_eq!(
        entries.iter().map(|entry| &entry.name[..]).collect::<Vec<_>>(),
        [b".", &b".."[..], b"linked"]
    );
}

#[test]
fn what_does_not_fit_a_lane_goes_by_the_socket() {
    let store = store();
    let client = client(&store);
    let flags = libc::O_CREAT | libc::O_RDWR;
    let (file, token) =
        client.open(PathBase::Root, b"long", flags, 0o644.into(), Default::default()).unwrap();
    let data: Vec<u8> = (0..300_000u32).map(|number| number as u8).collect();
    for length in [0, 1, 255, 32 << 10, 33 << 10, 34 << 10, 35 << 10, 64 << 10, 300_000] {
        assert_eq!(client.write(&file, &[data[..length].into()], Some(0), false), Ok(length));
        let mut read = vec![0; length];
        assert_eq!(client.read(&file, &mut [read.as_mut_slice().into()], Some(0)), Ok(length));
        assert!(read == data[..length], "{length}");
    }
    let value = vec![7; 40_000];
    let subject = Subject::File(file.number());
    client.set_extended(subject, b"user.long", &value, ExtendedFlags::default()).unwrap();
    assert_eq!(client.get_extended(subject, b"user.long"), Ok(value));
    client.close(&file).unwrap();
    drop(token);
}

/// Bytes before a bad address are written, as by the socket.
#[test]
fn bytes_come_from_several_places_up_to_a_bad_address() {
    let store = store();
    let client = client(&store);
    let flags = libc::O_CREAT | libc::O_RDWR;
    let opened = client.open(PathBase::Root, b"gathered", flags, 0o644.into(), Default::default());
    let (file, _token) = opened.unwrap();
    cuesta_media::install_fault_handler();
    let none = std::ptr::without_provenance(4096);
    // SAFETY: there is no memory: reading it faults, and is recovered from.
    let bad = unsafe { UserSlice::new(none, 100) };
    let written =
        client.write(&file, &[b"one "[..].into(), b""[..].into(), b"two"[..].into(), bad], Some(0), false);
    assert_eq!(written, Ok(7));
    assert_eq!(client.write(&file, &[bad], Some(0), false), Err(Error::Fault));
    assert_eq!(client.write(&file, &[], Some(0), false), Ok(0));
    let (mut first, mut second) = ([0; 3], [0; 10]);
    let mut out = [first.as_mut_slice().into(), second.as_mut_slice().into()];
    assert_eq!(client.read(&file, &mut out, Some(0)), Ok(7));
    assert_eq!((&first[..], &second[..4]), (&b"one"[..], &b" two"[..]));
}

#[test]
fn threads_of_a_process_have_calls_in_flight_at_once() {
    const THREADS: usize = 24;
    const CALLS: u32 = 200;
    let store = store();
    let client = client(&store);
    let left = AtomicU32::new(THREADS as u32 * CALLS);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (client, left) = (&client, &left);
            scope.spawn(move || {
                let name = |turn: u32| format!("{thread}-{turn}").into_bytes();
                client.make_node(PathBase::Root, &name(0), 0o100_600.into(), 0).unwrap();
                for turn in 0..CALLS {
                    let (old, new) = (name(turn), name(turn + 1));
                    client
                        .rename((PathBase::Root, &old), (PathBase::Root, &new), RenameFlags::default())
                        .unwrap();
                    left.fetch_sub(1, Ordering::Relaxed);
                }
                client.unlink(PathBase::Root, &name(CALLS), false).unwrap();
            });
        }
    });
    assert_eq!(left.into_inner(), 0);
}

/// A call that waits (here for an offset that another process uses) holds up no other lane.
#[test]
fn a_slow_call_holds_up_no_other_lane() {
    let store = store();
    let inode = write_as_root(&store, b"shared", b"content", 0o600);
    let memory = wait::sealed_memfd("test-offsets", 4096).unwrap();
    let cells = Mapping::of_file(&memory, 0, 4096, Protection::ReadWrite, Medium::Memory, false).unwrap();
    let client = client(&store);
    let token = client.adopt(inode, libc::O_RDONLY, 0, Some((memory.as_fd(), 0)), None).unwrap();
    let file = client.redeem(token.as_fd()).unwrap();
    // A process that is always there.
    let holder = cells.atomic_u32(CELL_HOLDER as u64).unwrap();
    holder.store(1, Ordering::Release);
    std::thread::scope(|scope| {
        let slow: Vec<_> = (0..3).map(|_| scope.spawn(|| client.seek(&file, 0, Whence::Current))).collect();
        let root = Subject::Path { place: PathBase::Root, path: b".", follow: true };
        (0..100).for_each(|_| assert!(client.stat(root).is_ok()));
        holder.store(0, Ordering::Release);
        slow.into_iter().for_each(|slow| assert_eq!(slow.join().unwrap(), Ok(0)));
    });
}

#[test]
fn a_connection_has_one_ring_and_each_of_its_lanes_once() {
    let store = store();
    let (mut raw, ring) = ringed(&store);
    let stat = Request::Stat { subject: Subject::Path { place: PathBase::Root, path: b".", follow: true } };
    assert_eq!(raw.ask(&Request::Lane { lane: 3 }), Response::Done);
    for lane in [0, 3] {
        assert!(matches!(ring.ask(lane, &stat), Response::Record(_)));
    }
    for request in
        [Request::Lane { lane: 0 }, Request::Lane { lane: 3 }, Request::Lane { lane: 8 }, Request::Ring]
    {
        assert_eq!(raw.ask(&request), Response::Failed(Error::Invalid), "{request:?}");
    }
    let mut other = Raw::connect(&store);
    assert_eq!(other.ask(&Request::Lane { lane: 0 }), Response::Failed(Error::Invalid), "without a ring");
}

#[test]
fn locks_and_tokens_come_by_the_socket_beside_a_ring() {
    let store = store();
    let client = client(&store);
    let flags = libc::O_CREAT | libc::O_RDWR;
    let opened = client.open(PathBase::Root, b"locked", flags, 0o644.into(), Default::default());
    let (file, token) = opened.unwrap();
    assert!(client.lock_file(&file).is_ok());
    assert_eq!(client.redeem(token.as_fd()).unwrap().number(), file.number());
    client.close(&file).unwrap();
}

#[test]
fn no_call_at_the_offset_of_a_file_leads_beyond_the_last_offset() {
    let store = store();
    let client = client(&store);
    let flags = libc::O_CREAT | libc::O_RDWR;
    let mode = 0o600.into();
    let (file, _token) = client.open(PathBase::Root, b"file", flags, mode, Default::default()).unwrap();
    client.write(&file, &[UserSlice::from(&b"content"[..])], None, false).unwrap();
    let far = client.seek(&file, FILE_BYTES_MAX as i64, Whence::Set).unwrap();
    let most = (i64::MAX as u64 - far) as usize;
    let mut bytes = vec![0; most + 1];
    let mut read = |length: usize| client.read(&file, &mut [(&mut bytes[..length]).into()], None);
    assert_eq!(read(most), Ok(0), "at the end");
    assert_eq!(read(most + 1), Err(Error::Invalid));
    let bytes = vec![0; most + 1];
    for appends in [false, true] {
        let write = client.write(&file, &[UserSlice::from(&bytes[..])], None, appends);
        assert_eq!(write, Err(Error::Invalid));
    }
    assert_eq!(client.seek(&file, 0, Whence::Current), Ok(far));
}

#[test]
fn files_that_are_opened_one_after_the_other_are_each_their_own() {
    let store = store();
    let (client, other) = (client(&store), Client::connect(store.users.as_os_str().as_bytes(), 0).unwrap());
    let open = |name: &str, flags| {
        client.open(PathBase::Root, name.as_bytes(), flags, 0o600.into(), Default::default()).unwrap()
    };
    let names: Vec<String> = (0..100).map(|number| format!("file {number}")).collect();
    let mut kept = None;
    for name in &names {
        let (file, token) = open(name, libc::O_CREAT | libc::O_WRONLY);
        client.write(&file, &[UserSlice::from(name.as_bytes())], None, false).unwrap();
        // Another process has a copy of the token of the file before, which stays open.
        let before = kept.replace((rustix::io::fcntl_dupfd_cloexec(&token, 0).unwrap(), name));
        drop(token);
        client.close(&file).unwrap();
        if let Some((token, name)) = before {
            let file = other.redeem(token.as_fd()).unwrap();
            assert_eq!(other.stat(Subject::File(file.number())).unwrap().size, name.len() as u64);
            drop(token);
            other.close(&file).unwrap();
            assert!(other.stat(Subject::File(file.number())).is_err(), "it is closed");
        }
    }
    for name in &names {
        let (file, token) = open(name, libc::O_RDONLY);
        let mut bytes = [0; 20];
        let read = client.read(&file, &mut [(&mut bytes[..]).into()], None).unwrap();
        assert_eq!(&bytes[..read], name.as_bytes());
        drop(token);
        client.close(&file).unwrap();
    }
    // A token that goes without a word closes its file, too.
    let (file, token) = open(&names[0], libc::O_RDONLY);
    drop(token);
    while client.stat(Subject::File(file.number())).is_ok() {
        std::thread::yield_now();
    }
}
