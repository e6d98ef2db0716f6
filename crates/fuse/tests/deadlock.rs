//! The deadlock that FUSE invites, forced and survived: a lease is taken from the mount's session, so the kernel's pages of
//! the file must go, while one of them is locked by a read that waits for an answer from the process that takes the lease.
//!
//! A read by the mount stands where it has asked SharedFS something (the link of the mount's session holds the question
//! back); a session takes the lease meanwhile, and is done before the read goes on, which then needs the lease itself.

use crate::common::{Mounted, ROOT, can_mount};
use cuesta_format::wire::{Request, Response};
use cuesta_libfs::{Base, Client, Link, LinkError, SocketLink};
use cuesta_media::UserSlice;
use rustix::fd::{BorrowedFd, OwnedFd};
use std::fs::File;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::process::Command;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Far longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);
/// Parts of the file with holes between them: more than SharedFS tells of at once.
const PARTS: u64 = 4000;
const BLOCK_BYTES: u64 = 4096;

/// Where a question about the places of content stands until it may go on.
struct Gate {
    reached: Sender<()>,
    opened: Receiver<()>,
}

/// A link with such a gate, as long as there is one.
struct Gated {
    link: SocketLink,
    gate: Arc<Mutex<Option<Gate>>>,
}

impl Link for Gated {
    fn call(&mut self, request: &Request, descriptors: &mut Vec<OwnedFd>) -> Result<Response, LinkError> {
        if matches!(request, Request::Extents { .. })
            && let Some(gate) = self.gate.lock().unwrap().take()
        {
            gate.reached.send(()).unwrap();
            // It opens as well when the test has failed.
            let _ = gate.opened.recv();
        }
        self.link.call(request, descriptors)
    }

    fn call_handing(&mut self, request: &Request, handed: BorrowedFd<'_>) -> Result<Response, LinkError> {
        self.link.call_handing(request, handed)
    }

    fn post(&mut self, request: &Request) -> Result<bool, LinkError> {
        self.link.post(request)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.link.descriptor()
    }

    fn replace_descriptor(&mut self, copy: OwnedFd) -> OwnedFd {
        self.link.replace_descriptor(copy)
    }

    fn reconnect(&mut self) -> Result<bool, LinkError> {
        self.link.reconnect()
    }

    fn collect(&mut self, wait: bool) -> Result<Option<Response>, LinkError> {
        self.link.collect(wait)
    }
}

/// Ends a mount whose process cannot even be killed.
fn end_of(connection: u32) {
    const CONNECTIONS: &str = "/sys/fs/fuse/connections";
    // It may be there already.
    let _ = Command::new("mount").args(["-t", "fusectl", "none", CONNECTIONS]).output();
    if let Err(error) = std::fs::write(format!("{CONNECTIONS}/{connection}/abort"), "1") {
        eprintln!("the mount stays: {error}");
    }
}

#[test]
fn taking_a_lease_waits_for_no_page_that_a_read_has_locked() {
    if !can_mount() {
        return;
    }
    let gate: Arc<Mutex<Option<Gate>>> = Arc::default();
    let of_link = Arc::clone(&gate);
    let mounted = Mounted::by(|socket| {
        let link = SocketLink::connect(socket.as_os_str().as_bytes(), 0).unwrap();
        Client::attach(Box::new(Gated { link, gate: of_link }), "mount").unwrap()
    });
    let session = mounted.session();
    let write = |file: &cuesta_libfs::OpenFile, part: u64, byte: u8| {
        let content = vec![byte; BLOCK_BYTES as usize];
        let at = (2 * part * BLOCK_BYTES) as i64;
        session.pwrite(file, &[UserSlice::from(&content[..])], at)
    };
    let file = session.open(&ROOT, Base::Root, b"file", libc::O_CREAT | libc::O_RDWR, 0o600).unwrap();
    (0..PARTS).for_each(|part| assert_eq!(write(&file, part, 1), Ok(BLOCK_BYTES as usize)));
    session.digest().unwrap();

    let connection = libc::minor(std::fs::metadata(mounted.at()).unwrap().dev());
    let seen = File::open(mounted.path("file")).unwrap();
    let read = |part: u64| {
        let mut bytes = [0; 8];
        seen.read_exact_at(&mut bytes, 2 * part * BLOCK_BYTES).unwrap();
        bytes
    };
    let (reached, reaches) = channel();
    let (opens, opened) = channel();
    *gate.lock().unwrap() = Some(Gate { reached, opened });
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| read(PARTS - 1));
        let stands = reaches.recv_timeout(PATIENCE);
        let (tells, told) = channel();
        let (write, file) = (&write, &file);
        scope.spawn(move || {
            // In this order: the last part is what is being read.
            let written = [write(file, PARTS - 1, 2), write(file, 0, 2)];
            tells.send(written).unwrap();
        });
        let Ok(written) = told.recv_timeout(PATIENCE) else {
            eprintln!("who takes the lease waits for the page that the read has locked");
            end_of(connection);
            let _ = cuesta_fuse::unmount(mounted.at(), true);
            std::process::exit(101);
        };
        drop(opens);
        let read = reading.join().unwrap();
        assert!(stands.is_ok(), "no read has asked where content is");
        assert_eq!(written, [Ok(BLOCK_BYTES as usize), Ok(BLOCK_BYTES as usize)]);
        assert!([[1; 8], [2; 8]].contains(&read), "{read:?}");
    });
    assert_eq!((read(0), read(1), read(PARTS - 1)), ([2; 8], [1; 8], [2; 8]));
    session.close(file).unwrap();
}
