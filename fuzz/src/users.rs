//! The service for programs of other users: a table of what they have open in which anything may stand, with programs that
//! have tokens of it; and a program that asks anything.
//!
//! Bytes of a table: how many tokens somebody has; the slot of each; whether the table is of this version as it stands; the
//! table. Bytes of questions: each behind its length.

use crate::world::common::{Store, Writer};
use cuesta_format::geometry::{USERS_FILES_FOLDER, USERS_FOLDER, USERS_SOCKET_FILE};
use cuesta_format::{InodeNumber, InodeRecord};
use cuesta_libfs::Whence;
use cuesta_served::{
    Client, Listener as UsersListener, OpenFile, PathBase, Request, Response, Server, Subject,
};
use cuesta_sharedfs::SharedFs;
use cuesta_sharedfs::server::{Listener, Server as SharedServer};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat, openat};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use std::io::{IoSliceMut, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The table as the daemon makes it.
const TABLE: &str = "table";
const TABLE_BYTES: u64 = 64 << 17;
const VERSION: [u8; 8] = 1u64.to_le_bytes();
/// More than are looked at in one go.
const TOKENS_MAX: u8 = 12;
/// Longer than any answer takes.
const PATIENCE: Duration = Duration::from_secs(10);
const CONTENT: &[u8] = b"what everybody may read";

/// A daemon, which lives as long as all that is tried.
struct Daemon {
    store: Store,
    socket: PathBuf,
    file: InodeNumber,
    directory: InodeNumber,
    _server: SharedServer<SharedFs>,
}

impl Daemon {
    fn new() -> Daemon {
        let store = Store::new();
        let socket = store.folder.path().join("sock");
        let listener = Listener::bind(&socket).expect("a socket");
        let shared = store.open();
        let mut maker = Writer::attach(&shared);
        let file = maker.file(b"read");
        maker.write(file, 0, CONTENT);
        let directory = maker.directory(b"directory");
        maker.create_in(directory, b"inside", 0o100_600);
        maker.digest();
        let server = SharedServer::start(shared, listener).expect("a server");
        Daemon { store, socket, file, directory, _server: server }
    }

    /// The service for other users, and a way to connect to it as often as one likes.
    fn serve_lines(&self, act: impl FnOnce(&dyn Fn() -> Line)) {
        let tier = tempfile::tempdir_in(self.store.folder.path()).expect("a folder");
        let users = tier.path().join(USERS_FOLDER);
        let listener = UsersListener::bind(&users).expect("a socket");
        let server = Server::start(listener, &self.socket, tier.path()).expect("it begins");
        act(&|| Line::connect(&users.join(USERS_SOCKET_FILE)));
        server.stop();
    }

    /// The service for other users begins, finds the table in `tier`, and is asked for what the tokens stand for.
    fn serve(&self, tier: &Path, tokens: &[OwnedFd], ask: impl FnOnce(&Client, Vec<Option<OpenFile>>)) {
        let users = tier.join(USERS_FOLDER);
        let listener = UsersListener::bind(&users).expect("a socket");
        let server = Server::start(listener, &self.socket, tier).expect("it begins, whatever it finds");
        let client =
            Client::connect(users.join(USERS_SOCKET_FILE).as_os_str().as_bytes(), 0).expect("it answers");
        let found = tokens.iter().map(|token| client.redeem(token.as_fd()).ok()).collect();
        ask(&client, found);
        drop(client);
        server.stop();
    }
}

fn written(request: &Request<'_>) -> Vec<u8> {
    postcard::to_stdvec(request).expect("what was read can be written")
}

/// A connection, by hand.
pub(crate) struct Line(UnixStream);

impl Line {
    /// Connects, and greets.
    fn connect(path: &Path) -> Line {
        let stream = UnixStream::connect(path).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let mut line = Line(stream);
        let greeted = line.ask(&Request::Hello { version: cuesta_served::VERSION });
        greeted.expect("whoever speaks its version is welcome");
        line
    }

    /// The answer, and what came beside it; nothing if the other end has hung up.
    pub(crate) fn ask(&mut self, request: &Request<'_>) -> Option<(Response, Option<OwnedFd>)> {
        self.ask_message(&written(request))
    }

    fn ask_message(&mut self, body: &[u8]) -> Option<(Response, Option<OwnedFd>)> {
        let head = (body.len() as u32).to_le_bytes();
        self.0.write_all(&head).and_then(|()| self.0.write_all(body)).ok()?;
        let mut head = [0; 4];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received = loop {
            let mut parts = [IoSliceMut::new(&mut head)];
            match recvmsg(&self.0, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC) {
                // The fuzzer's own alarm.
                Err(Errno::INTR) => {}
                received => break received.map(|received| received.bytes),
            }
        };
        assert_ne!(received, Err(Errno::AGAIN), "{body:?} is not answered");
        let mut files = control.drain().filter_map(|part| match part {
            RecvAncillaryMessage::ScmRights(files) => files.last(),
            _ => None,
        });
        let file = files.next();
        received.ok().filter(|bytes| *bytes == head.len())?;
        let mut body = vec![0; u32::from_le_bytes(head) as usize];
        self.0.read_exact(&mut body).ok()?;
        Some((postcard::from_bytes(&body).expect("an answer that can be read"), file))
    }

    /// Whether the other end has hung up.
    pub(crate) fn has_ended(&self) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(&self.0, PollFlags::empty())], Some(&now)) != Ok(0)
    }
}

thread_local! {
    static DAEMON: Daemon = Daemon::new();
}

/// Runs `act` with a service, to which it may connect.
pub(crate) fn with_lines(act: impl FnOnce(&dyn Fn() -> Line)) {
    DAEMON.with(|daemon| daemon.serve_lines(act));
}

/// What a program of another user asks: one connection, by which every question is asked that can be read.
pub fn asked(bytes: &[u8]) {
    with_lines(|connect| {
        let mut line = connect();
        let mut rest = bytes;
        while let Some((length, behind)) = rest.split_first_chunk() {
            let (content, behind) =
                behind.split_at(usize::from(u16::from_le_bytes(*length)).min(behind.len()));
            rest = behind;
            let Ok((request, call)) = postcard::take_from_bytes::<Request<'_>>(content) else { continue };
            let mut body = written(&request);
            if let Request::Once(_) = request {
                let Ok(call) = postcard::from_bytes::<Request<'_>>(call) else { continue };
                body.extend(written(&call));
            }
            // It may have hung up.
            let Some(_) = line.ask_message(&body) else { break };
        }
    });
}

/// Splits the bytes into slots and the table.
fn parse(bytes: &[u8]) -> Option<(Vec<u32>, Vec<u8>)> {
    let (&count, mut rest) = bytes.split_first()?;
    let mut slots = Vec::new();
    for _ in 0..count % (TOKENS_MAX + 1) {
        let (slot, behind) = rest.split_first_chunk::<3>()?;
        slots.push(u32::from_le_bytes([slot[0], slot[1], slot[2], 0]));
        rest = behind;
    }
    let (&as_it_stands, table) = rest.split_first()?;
    let mut table = table.to_vec();
    if as_it_stands.is_multiple_of(4) && table.len() >= VERSION.len() {
        table[..VERSION.len()].copy_from_slice(&VERSION);
    }
    Some((slots, table))
}

/// What one table is good for.
pub fn kept(bytes: &[u8]) {
    let Some((slots, table)) = parse(bytes) else { return };
    DAEMON.with(|daemon| {
        let tier = tempfile::tempdir_in(daemon.store.folder.path()).expect("a folder");
        let folder = tier.path().join(USERS_FILES_FOLDER);
        std::fs::create_dir(&folder).expect("a folder");
        std::fs::write(folder.join(TABLE), &table[..table.len().min(TABLE_BYTES as usize)]).expect("a file");
        let file = std::fs::File::options().write(true).open(folder.join(TABLE)).expect("a file");
        file.set_len(TABLE_BYTES).expect("a length");
        let mut tokens = Vec::new();
        for slot in slots {
            let path = folder.join(slot.to_string());
            if mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).is_ok() {
                let flags = OFlags::RDONLY | OFlags::NONBLOCK;
                tokens.push(openat(CWD, &path, flags, Mode::empty()).expect("a pipe"));
            }
        }
        let mut inodes = Vec::new();
        let mut new = None;
        daemon.serve(tier.path(), &tokens, |client, found| {
            for file in found.iter().flatten() {
                use_all(client, file);
            }
            inodes = found.iter().map(|file| file.as_ref().map(OpenFile::inode)).collect();
            let opened = client.open(PathBase::Root, b"read", 0, 0.into(), Default::default());
            let (file, token) = opened.expect("there is always room for one more");
            read_content(client, &file);
            new = Some(token);
        });
        // The next daemon finds what this one kept, and what was opened meanwhile.
        tokens.extend(new);
        daemon.serve(tier.path(), &tokens, |client, found| {
            let (new, found) = found.split_last().expect("what was opened");
            let again: Vec<Option<InodeNumber>> =
                found.iter().map(|file| file.as_ref().map(OpenFile::inode)).collect();
            assert_eq!(again, inodes, "what one daemon keeps the next one does");
            read_content(client, new.as_ref().expect("what was opened is kept"));
        });
    });
}

fn read_content(client: &Client, file: &OpenFile) {
    let mut content = [0; 64];
    let read = client.read(file, &mut [content.as_mut_slice().into()], Some(0)).expect("it can be read");
    assert_eq!(&content[..read], CONTENT);
}

/// Every kind of call that minds what stands in a record; which of them succeed depends on that.
fn use_all(client: &Client, file: &OpenFile) {
    let subject = Subject::File(file.number());
    let Ok(InodeRecord { inode, .. }) = client.stat(subject) else { return };
    assert_eq!(inode, file.inode());
    let mut content = [0; 64];
    let _ = client.read(file, &mut [content.as_mut_slice().into()], None);
    let _ = client.seek(file, 0, Whence::Current);
    let _ = client.seek(file, i64::MAX, Whence::Current);
    let _ = client.read(file, &mut [content.as_mut_slice().into()], None);
    let _ = client.read_directory(file, &mut |_| true);
    let _ = client.set_flags(file, 0);
    let _ = client.reopen(file, 0);
}

/// Seeds: nothing; files of every kind; records that no file goes with.
pub fn seeds() -> Vec<Vec<u8>> {
    let record = |number: u64, inode: u64, flags: u64, who: u64, offset: u64| {
        [number, inode, flags, who, offset, 0, 0, 0].map(u64::to_le_bytes).concat()
    };
    let [file, directory] = DAEMON.with(|daemon| [daemon.file.0, daemon.directory.0]);
    let head = record(1, 0, 0, 0, 0);
    let with = |tokens: &[u8], records: &[Vec<u8>]| {
        let slots = tokens.iter().flat_map(|&slot| [slot, 0, 0]);
        let mut bytes = vec![tokens.len() as u8];
        bytes.extend(slots);
        bytes.push(0);
        bytes.extend(&head);
        bytes.extend(records.concat());
        bytes
    };
    let nobody = 65_534 | 65_534 << 32;
    vec![
        with(&[], &[]),
        with(
            &[1, 2, 3],
            &[
                record(1, file, 0, nobody, 5),
                record(2, file, 2, nobody, 1 << 40),
                record(3, directory, 0o200_000, nobody, 2),
            ],
        ),
        with(&[1, 2], &[record(7, file, 0o2001, 0, 0), record(7, file, 1 << 32, 0, 0)]),
        with(&[2, 1], &[record(9, 1 << 40, 0, nobody, 0), record(10, 0, 0, nobody, 0)]),
    ]
}
