//! A client that means harm: it wants what is root's.

use crate::common::*;
use cuesta_format::InodeNumber;
use cuesta_libfs::{
    Allocation, Asker, Base, CallByNumber, Credentials, Error, ExtendedFlags, RenameFlags, Resolve,
    SetAttributes, ShippedChange, ShippedFile, SocketLink, Whence,
};
use cuesta_served::{Offset, PathBase, Request, Response, Subject, VERSION};
use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::UnixStream;

#[test]
fn nothing_of_anothers_is_to_be_had_by_any_request() {
    if !is_root() {
        return;
    }
    let store = store();
    let inode = write_as_root(&store, b"secret", b"of root", 0o600);
    store.root.make_directory(&ROOT, Base::Root, b"private", 0o700).unwrap();
    write_as_root(&store, b"private/inner", b"inner", 0o666);
    let roots = store.root.open(&ROOT, Base::Root, b"secret", libc::O_RDWR, 0).unwrap();
    let secret_record = store.root.stat_open(&roots).unwrap().record;
    // A file of root's with SharedFS. No other process was told its number.
    let bridge = cuesta_served::Client::connect(store.users.as_os_str().as_bytes(), 0).unwrap();
    let token = bridge.adopt(inode, libc::O_RDWR, 0, None, None).unwrap();

    as_nobody(|| {
        let mut raw = Raw::connect(&store);
        let root = PathBase::Root;
        let secret = Subject::Path { place: root, path: b"secret", follow: true };
        let inner = Subject::Path { place: root, path: b"private/inner", follow: true };
        let (path, resolve) = (&b"secret"[..], Resolve::default());
        let set = |set: SetAttributes| set;
        let writer = Credentials::of_user(0, 0, Vec::new()).writer(&secret_record);
        let shipped = ShippedFile { inode, flags: libc::O_RDWR, writer, limit: u64::MAX };
        let as_root = Asker::of(&Credentials::of_user(0, 0, Vec::new()));
        let mut requests = vec![
            Request::ShippedRead { file: shipped, at: 0, count: 100 },
            Request::ShippedWrite { file: shipped, at: Some(0), data: b"mine" },
            Request::ShippedWrite { file: shipped, at: None, data: b"mine" },
            Request::ShippedChange { file: shipped, change: ShippedChange::Truncate { size: 0 } },
            Request::ShippedChange { file: shipped, change: ShippedChange::Sync },
            Request::ShippedStat { file: shipped },
            Request::ByNumber { who: as_root, call: CallByNumber::Stat { inode } },
            Request::ByNumber {
                who: as_root,
                call: CallByNumber::MakeDirectory {
                    directory: InodeNumber::ROOT,
                    name: b"made",
                    mode: 0o777.into(),
                },
            },
            Request::ByNumber { who: as_root, call: CallByNumber::Truncate { inode, size: 0 } },
            Request::ByNumber {
                who: as_root,
                call: CallByNumber::Unlink { directory: InodeNumber::ROOT, name: b"secret" },
            },
            Request::Reserve,
            Request::MakeFile { place: root, path: b"made", mode: 0o600.into(), inode, who: Some(as_root) },
            Request::MakeFile { place: root, path: b"made", mode: 0o600.into(), inode, who: None },
            Request::MakeFile {
                place: PathBase::Inode(inode),
                path: b"made",
                mode: 0o600.into(),
                inode,
                who: None,
            },
            Request::Adopt { inode, flags: libc::O_RDWR, offset: 0, cell: None },
            Request::Adopt { inode: InodeNumber::ROOT, flags: libc::O_RDONLY, offset: 0, cell: Some(0) },
            Request::Redeem,
            Request::Truncate { subject: secret, size: 0 },
            Request::Access { subject: secret, rights: 4 },
            Request::SetAttributes {
                subject: secret,
                set: set(SetAttributes { mode: Some(0o4777), ..Default::default() }),
            },
            Request::SetAttributes {
                subject: secret,
                set: set(SetAttributes { uid: Some(NOBODY), ..Default::default() }),
            },
            Request::Stat { subject: inner },
            Request::Access { subject: inner, rights: 0 },
            Request::Statfs { subject: inner },
            Request::ReadLink { subject: inner },
            Request::GetExtended { subject: secret, name: b"user.x" },
            Request::SetExtended {
                subject: secret,
                name: b"user.x",
                value: b"1",
                flags: ExtendedFlags::default(),
            },
            Request::RemoveExtended { subject: secret, name: b"user.x" },
            Request::SetExtended {
                subject: secret,
                name: b"security.capability",
                value: &[1; 20],
                flags: ExtendedFlags::default(),
            },
            Request::MakeDirectory { place: root, path: b"new", mode: 0o777.into() },
            Request::MakeNode { place: root, path: b"new", mode: 0o100_666.into(), device: 0 },
            Request::MakeLink { target: b"x", place: root, path: b"new" },
            Request::Link { from: secret, place: root, path: b"new" },
            Request::Link { from: inner, place: root, path: b"new" },
            Request::Unlink { place: root, path, directory: false },
            Request::Unlink { place: root, path: b"private", directory: true },
            Request::Rename {
                place: root,
                path,
                new_place: root,
                new_path: b"new",
                flags: RenameFlags::default(),
            },
        ];
        for flags in
            [libc::O_RDONLY, libc::O_WRONLY, libc::O_RDWR, libc::O_RDONLY | libc::O_TRUNC, libc::O_CREAT]
        {
            requests.push(Request::Open { place: root, path, flags, mode: 0o777.into(), resolve });
            requests.push(Request::Open {
                place: root,
                path: b"private/inner",
                flags,
                mode: 0.into(),
                resolve,
            });
        }
        // Numbers of files that are others', or no one's.
        for file in (0..64).chain([u64::MAX]) {
            let (subject, place) = (Subject::File(file), PathBase::Directory(file));
            requests.extend([
                Request::Read { file, count: 10, place: Offset::At(0) },
                Request::Read { file, count: 10, place: Offset::Own { operation: 0 } },
                Request::Write { file, place: Offset::At(0), appends: false, data: b"mine" },
                Request::Seek { file, offset: 0, whence: Whence::Set },
                Request::SetFlags { file, flags: libc::O_APPEND },
                Request::Truncate { subject, size: 0 },
                Request::Allocate { file, what: Allocation::Punch, offset: 0, length: 4096 },
                Request::Fsync { file },
                Request::List { file, bytes: 1000 },
                Request::Stat { subject },
                Request::Statfs { subject },
                Request::Access { subject, rights: 0 },
                Request::ReadLink { subject },
                Request::SetAttributes {
                    subject,
                    set: set(SetAttributes { mode: Some(0o666), ..Default::default() }),
                },
                Request::GetExtended { subject, name: b"user.x" },
                Request::ListExtended { subject },
                Request::Link { from: subject, place: root, path: b"new" },
                Request::Reopen { file, flags: libc::O_RDWR },
                Request::LockFile { file },
                Request::AdoptLocks { file },
                Request::DirectoryPath { file, guess: b"" },
                Request::Open { place, path: b"secret", flags: 0, mode: 0.into(), resolve },
                Request::MakeDirectory { place, path: b"new", mode: 0o777.into() },
            ]);
        }
        for request in &requests {
            let answer = raw.ask(request);
            assert!(matches!(answer, Response::Failed(_)), "{request:?}: {answer:?}");
        }
        assert_eq!(raw.ask(&Request::Close { file: 1 }), Response::Done);

        // To name a file takes no right to it; to use it does.
        let flags = libc::O_PATH;
        let answer = raw.ask(&Request::Open { place: root, path, flags, mode: 0.into(), resolve });
        let Response::Opened { file, .. } = answer else { panic!("{answer:?}") };
        for request in [
            Request::Reopen { file, flags: libc::O_RDONLY },
            Request::Read { file, count: 10, place: Offset::At(0) },
            Request::Write { file, place: Offset::At(0), appends: true, data: b"mine" },
            Request::Truncate { subject: Subject::File(file), size: 0 },
            Request::SetFlags { file, flags: libc::O_RDWR },
        ] {
            let answer = raw.ask(&request);
            let stays = matches!(request, Request::SetFlags { .. }) && answer == Response::Done;
            assert!(stays || matches!(answer, Response::Failed(_)), "{request:?}: {answer:?}");
        }
        assert!(matches!(
            raw.ask(&Request::Read { file, count: 1, place: Offset::Own { operation: 0 } }),
            Response::Failed(_)
        ));

        // SharedFS itself does not speak to it.
        assert!(SocketLink::connect(store.sharedfs.as_os_str().as_bytes(), 0).is_err());
        // Nor is any of its files there.
        for file in ["arenas", "logs"] {
            assert!(std::fs::read_dir(store.users.with_file_name(file)).is_err(), "{file}");
        }
        for file in ["meta.redb", "sessions", "superblock"] {
            assert!(std::fs::File::open(store.users.with_file_name(file)).is_err(), "{file}");
        }
    });
    assert_eq!(read_as_root(&store, b"secret"), b"of root");
    assert_eq!(store.root.stat_open(&roots).unwrap().record.mode, 0o100_600);
    assert_eq!(store.root.stat(&ROOT, Base::Root, b"new", false).err(), Some(Error::NotFound));
    drop(token);
}

#[test]
fn the_token_gives_the_file_and_no_other_pipe_does() {
    if !is_root() {
        return;
    }
    let store = store();
    let inode = write_as_root(&store, b"secret", b"of root", 0o600);
    let bridge = cuesta_served::Client::connect(store.users.as_os_str().as_bytes(), 0).unwrap();
    let token = bridge.adopt(inode, libc::O_RDONLY, 3, None, None).unwrap();
    as_nobody(|| {
        let client = cuesta_served::Client::connect(store.users.as_os_str().as_bytes(), 0).unwrap();
        let file = client.redeem(token.as_fd()).unwrap();
        let mut bytes = [0; 10];
        assert_eq!(client.read(&file, &mut [bytes.as_mut_slice().into()], None), Ok(4));
        assert_eq!(&bytes[..4], b"root");
        assert_eq!(client.write(&file, &[b"mine"[..].into()], Some(0), false), Err(Error::AccessMode));
        let (pipe, _other_end) = rustix::pipe::pipe().unwrap();
        assert!(client.redeem(pipe.as_fd()).is_err());
        let nothing = OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
        assert!(client.redeem(nothing.as_fd()).is_err());
        assert!(nothing.as_raw_fd() >= 0);
        client.close(&file).unwrap();
    });
    drop(token);
    assert_eq!(read_as_root(&store, b"secret"), b"of root");
}

#[test]
fn only_an_owner_keeps_times_from_moving_and_only_the_stores_user_says_where_locks_are() {
    if !is_root() {
        return;
    }
    let store = store();
    write_as_root(&store, b"shown", b"to all", 0o644);
    as_nobody(|| {
        let mut raw = Raw::connect(&store);
        let (place, path, resolve) = (PathBase::Root, &b"shown"[..], Resolve::default());
        let answer = raw.ask(&Request::Open { place, path, flags: libc::O_RDONLY, mode: 0.into(), resolve });
        let Response::Opened { file, .. } = answer else { panic!("{answer:?}") };
        let flags = libc::O_RDONLY | libc::O_NOATIME;
        for request in [
            Request::Open { place, path, flags, mode: 0.into(), resolve },
            Request::Reopen { file, flags },
            Request::SetFlags { file, flags },
            Request::AdoptLocks { file },
        ] {
            assert_eq!(raw.ask(&request), Response::Failed(Error::NotPermitted), "{request:?}");
        }
    });
}

#[test]
fn rubbish_ends_a_connection_and_nothing_else() {
    if !is_root() {
        return;
    }
    let store = store();
    store
        .root
        .set_attributes(
            &ROOT,
            cuesta_libfs::Target::Path { base: Base::Root, path: b".", follow: true },
            SetAttributes { mode: Some(0o777), ..Default::default() },
        )
        .unwrap();
    as_nobody(|| {
        let mut good = Raw::connect(&store);
        for body in [&b""[..], b"\xff\xff\xff\xff\xff\xff", &[7; 5000], &[0x02, 0x00]] {
            let mut raw = Raw::connect(&store);
            raw.send(body);
            // What happens to be a request is answered.
            let _ = raw.0.shutdown(std::net::Shutdown::Write);
            while !raw.has_ended() {}
        }
        let mut raw = Raw(UnixStream::connect(&store.users).unwrap(), Vec::new());
        raw.send(&postcard::to_stdvec(&Request::Statfs { subject: Subject::File(1) }).unwrap());
        assert!(raw.has_ended(), "nothing is said before the greeting");
        let mut raw = Raw::connect(&store);
        raw.0.write_all(&u32::MAX.to_le_bytes()).unwrap();
        assert!(raw.has_ended());
        // Names that C cannot hold would void the log of all.
        let (place, resolve) = (PathBase::Root, Resolve::default());
        let flags = libc::O_CREAT | libc::O_RDWR;
        for path in [&b"a\0b"[..], b"\0", b""] {
            let answer = good.ask(&Request::Open { place, path, flags, mode: 0o666.into(), resolve });
            assert!(matches!(answer, Response::Failed(_)), "{answer:?}");
            let answer = good.ask(&Request::MakeLink { target: path, place, path: b"link" });
            assert!(matches!(answer, Response::Failed(_)), "{answer:?}");
        }
        let Response::Opened { file, .. } = good.ask(&Request::Open {
            place,
            path: b"mine",
            flags: !libc::O_PATH & !libc::O_DIRECTORY & !libc::O_TMPFILE & !1,
            mode: u32::MAX.into(),
            resolve,
        }) else {
            panic!("not made")
        };
        for (offset, length) in [(i64::MAX, i64::MAX), (-1, 5), (0, i64::MAX), (i64::MAX - 5, 5)] {
            for what in [Allocation::Extend, Allocation::Zero, Allocation::Insert, Allocation::Collapse] {
                good.ask(&Request::Allocate { file, what, offset, length });
            }
            good.ask(&Request::Truncate { subject: Subject::File(file), size: offset });
            good.ask(&Request::Seek { file, offset, whence: Whence::Data });
            good.ask(&Request::Write { file, place: Offset::At(offset), appends: false, data: b"far" });
            good.ask(&Request::Read { file, count: u32::MAX, place: Offset::At(offset) });
        }
        good.ask(&Request::Truncate { subject: Subject::File(file), size: 0 });
        let whole = vec![5; 1 << 20];
        let written = good.ask(&Request::Write { file, place: Offset::At(0), appends: false, data: &whole });
        assert_eq!(written, Response::Number(1 << 20));
        let Response::Record(record) = good.ask(&Request::Stat { subject: Subject::File(file) }) else {
            panic!("no record")
        };
        assert_eq!((record.uid, record.gid), (NOBODY, NOBODY));
    });
    // Everybody else goes on, and what was written is digested.
    store.root.digest().unwrap();
    assert_eq!(store.root.stat(&ROOT, Base::Root, b"mine", true).unwrap().record.size, 1 << 20);
}

#[test]
fn connections_of_one_user_are_bounded() {
    if !is_root() {
        return;
    }
    let store = store();
    as_nobody(|| {
        let mut all: Vec<UnixStream> = Vec::new();
        let is_full = (0..400).any(|_| {
            let mut stream = UnixStream::connect(&store.users).unwrap();
            let hello = postcard::to_stdvec(&Request::Hello { version: VERSION }).unwrap();
            let sent =
                stream.write_all(&(hello.len() as u32).to_le_bytes()).and_then(|()| stream.write_all(&hello));
            let is_closed = sent.is_err() || !matches!(stream.read(&mut [0; 4]), Ok(1..));
            all.push(stream);
            is_closed
        });
        assert!(is_full);
    });
    let others = cuesta_served::Client::connect(store.users.as_os_str().as_bytes(), 0);
    assert!(others.is_ok(), "another user is served all the same");
}

#[test]
fn connections_and_files_that_come_and_go_are_served_however_often() {
    if !is_root() {
        return;
    }
    let store = store();
    write_as_root(&store, b"shown", b"to all", 0o644);
    as_nobody(|| {
        let (path, flags, resolve) = (&b"shown"[..], libc::O_RDONLY, Resolve::default());
        let open = Request::Open { place: PathBase::Root, path, flags, mode: 0.into(), resolve };
        // More than one user may have at once of either.
        for _ in 0..1000 {
            Raw::connect(&store);
        }
        let mut raw = Raw::connect(&store);
        for turn in 0..10_000 {
            let answer = raw.ask(&open);
            let Response::Opened { file, .. } = answer else { panic!("{turn}: {answer:?}") };
            raw.1.clear();
            assert_eq!(raw.ask(&Request::Close { file }), Response::Done);
        }
    });
}
