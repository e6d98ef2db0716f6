//! One user's share of the daemon ends at its limit, while the store's owner works on.

use crate::common::*;
use cuesta_libfs::Error;
use cuesta_served::{Limits, Offset, Request, Response};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::time::Duration;

const MESSAGE_BYTES: usize = 1 << 20;
/// A message that ends a test if it is waited for.
const FAR: Duration = Duration::from_secs(600);
const SHORT: Duration = Duration::from_millis(200);
/// How long a socket that takes nothing is taken to be full.
const FULL: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

/// The owner opens, writes and reads by the same socket, as a process does that changes its user.
fn owner_works_on(store: &Store) {
    let mut raw = Raw::connect(store);
    let file = raw.opened(b"owned", libc::O_CREAT | libc::O_RDWR);
    let data = vec![7; MESSAGE_BYTES];
    let written = raw.ask(&Request::Write { file, place: Offset::At(0), appends: false, data: &data });
    assert_eq!(written, Response::Number(MESSAGE_BYTES as u64));
    let count = MESSAGE_BYTES as u32;
    assert_eq!(raw.ask(&Request::Read { file, count, place: Offset::At(0) }), Response::Bytes(data));
    write_as_root(store, b"by session", b"of root", 0o600);
    assert_eq!(read_as_root(store, b"by session"), b"of root");
}

/// Sends as much of `bytes` as is taken.
fn send_what_is_taken(raw: &mut Raw, mut bytes: &[u8]) -> usize {
    raw.0.set_nonblocking(true).unwrap();
    let wanted = bytes.len();
    while !bytes.is_empty() {
        match raw.0.write(bytes) {
            Ok(sent) => bytes = &bytes[sent..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                if poll(&mut [PollFd::new(&raw.0, PollFlags::OUT)], Some(&FULL)) == Ok(0) {
                    break;
                }
            }
            Err(error) => panic!("{error}"),
        }
    }
    raw.0.set_nonblocking(false).unwrap();
    wanted - bytes.len()
}

fn half_a_message(raw: &mut Raw) -> bool {
    let mut bytes = (MESSAGE_BYTES as u32).to_le_bytes().to_vec();
    bytes.resize(MESSAGE_BYTES - 10, 0);
    send_what_is_taken(raw, &bytes) == bytes.len()
}

#[test]
fn half_sent_messages_take_no_more_memory_than_their_user_may() {
    if !is_root() {
        return;
    }
    let limits = Limits { message_bytes_of_user: 2 << 20, half_message: FAR, ..Limits::default() };
    let store = store_within(limits);
    let all: Vec<(Raw, bool)> = as_nobody(|| {
        let half = |_| {
            let mut raw = Raw::connect(&store);
            let is_taken = half_a_message(&mut raw);
            (raw, is_taken)
        };
        (0..8).map(half).collect()
    });
    assert_eq!(all.iter().filter(|(_, is_taken)| *is_taken).count(), 2);
    owner_works_on(&store);
}

#[test]
fn a_message_that_stops_half_way_and_a_connection_that_says_nothing_are_given_up() {
    if !is_root() {
        return;
    }
    let store = store_within(Limits { half_message: SHORT, greeting: SHORT, ..Limits::default() });
    as_nobody(|| {
        let mut half = Raw::connect(&store);
        half_a_message(&mut half);
        let mut silent = Raw(std::os::unix::net::UnixStream::connect(&store.users).unwrap(), Vec::new());
        assert!(half.has_ended() && silent.has_ended());
        // A client that has said hello may be silent for as long as it likes.
        let mut quiet = Raw::connect(&store);
        let mut other = Raw::connect(&store);
        half_a_message(&mut other);
        assert!(other.has_ended());
        quiet.opened(b".", libc::O_RDONLY);
    });
}

#[test]
fn answers_that_are_not_taken_are_given_up_and_take_no_more_memory_than_their_user_may() {
    if !is_root() {
        return;
    }
    let limits = Limits { message_bytes_of_user: 4 << 20, half_message: SHORT, ..Limits::default() };
    let store = store_within(limits);
    write_as_root(&store, b"long", &vec![1; MESSAGE_BYTES], 0o644);
    let untaken: Vec<Raw> = as_nobody(|| {
        let ask = |_| {
            let mut raw = Raw::connect(&store);
            let file = raw.opened(b"long", libc::O_RDONLY);
            let count = MESSAGE_BYTES as u32;
            raw.send(&postcard::to_stdvec(&Request::Read { file, count, place: Offset::At(0) }).unwrap());
            raw
        };
        (0..16).map(ask).collect()
    });
    owner_works_on(&store);
    for mut raw in untaken {
        // It was given up with half of its answer sent, or had to wait for the others for too long.
        let mut head = [0; 4];
        if raw.0.read_exact(&mut head).is_ok() && u32::from_le_bytes(head) as usize > MESSAGE_BYTES {
            while !poll_for(&mut raw, PollFlags::HUP) {}
        }
    }
}

fn poll_for(raw: &mut Raw, flags: PollFlags) -> bool {
    let mut ends = [PollFd::new(&raw.0, PollFlags::empty())];
    poll(&mut ends, Some(&FULL)).unwrap();
    ends[0].revents().intersects(flags)
}

#[test]
fn open_files_and_connections_of_others_leave_half_of_the_descriptors() {
    if !is_root() {
        return;
    }
    let store = store_within(Limits { descriptors: 128, ..Limits::default() });
    write_as_root(&store, b"shown", b"to all", 0o644);
    let hostile = as_nobody(|| {
        let mut raw = Raw::connect(&store);
        let mut opened = 0;
        while matches!(raw.open(b"shown", libc::O_RDONLY), Response::Opened { .. }) {
            opened += 1;
            assert!(opened < 64, "more than half");
        }
        let refused = Response::Failed(Error::Descriptors);
        assert_eq!(raw.open(b"shown", libc::O_RDONLY), refused);
        assert!(opened >= 8, "{opened}");
        raw
    });
    owner_works_on(&store);
    let mut owner = Raw::connect(&store);
    (0..200).for_each(|_| assert!(owner.opened(b"shown", libc::O_RDONLY) > 0));
    // Closed files count no more.
    drop(hostile);
    as_nobody(|| {
        let mut raw = Raw::connect(&store);
        while !matches!(raw.open(b"shown", libc::O_RDONLY), Response::Opened { .. }) {}
    });
}

/// Descriptors that are on their way count for the daemon's user, and keep all its processes from sending some.
#[test]
fn a_connection_has_one_descriptor_on_its_way() {
    if !is_root() {
        return;
    }
    let store = store();
    write_as_root(&store, b"shown", b"to all", 0o644);
    as_nobody(|| {
        let mut raw = Raw::connect(&store);
        let open = Request::Open {
            place: cuesta_served::PathBase::Root,
            path: b"shown",
            flags: libc::O_RDONLY,
            mode: 0.into(),
            resolve: cuesta_libfs::Resolve::default(),
        };
        let open = postcard::to_stdvec(&open).unwrap();
        raw.send(&open);
        let mut answered = [PollFd::new(&raw.0, PollFlags::IN)];
        poll(&mut answered, None).unwrap();
        raw.send(&open);
        while !poll_for(&mut raw, PollFlags::HUP) {}
    });
}

#[test]
fn what_another_pipe_left_in_a_token_is_no_proof_against_it() {
    if !is_root() {
        return;
    }
    let store = store();
    let inode = write_as_root(&store, b"secret", b"of root", 0o600);
    let path = store.users.as_os_str().as_bytes();
    let client = cuesta_served::Client::connect(path, 0).unwrap();
    let token = client.adopt(inode, libc::O_RDONLY, 0, None, None).unwrap();
    // As an earlier proof did, by a pipe of the same number on another file system.
    let pipes = store.folder.path().join(cuesta_format::geometry::USERS_FILES_FOLDER);
    let ours = rustix::fs::fstat(&token).unwrap().st_ino;
    let entries = std::fs::read_dir(pipes).unwrap().map(Result::unwrap);
    let pipe = entries
        .map(|entry| entry.path())
        .find(|path| std::os::unix::fs::MetadataExt::ino(&path.metadata().unwrap()) == ours)
        .expect("the token's pipe");
    let mut other_end = std::fs::OpenOptions::new().write(true).open(pipe).unwrap();
    other_end.write_all(&[5; 16]).unwrap();
    let file = client.redeem(token.as_fd()).unwrap();
    assert_eq!(file.inode(), inode);
    // Full to the brim.
    while rustix::io::write(&other_end, &[5]).is_ok() {
        let mut ends = [PollFd::new(&other_end, PollFlags::OUT)];
        if poll(&mut ends, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) == Ok(0) {
            break;
        }
    }
    assert!(client.redeem(token.as_fd()).is_ok());
}
