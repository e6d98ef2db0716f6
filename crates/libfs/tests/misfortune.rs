//! Faults that are not the program's: descriptors that do not arrive, sessions that do nothing, logs that are
//! damaged.

use crate::common::{Caller, InProcess, Store, root, small};
use cuesta_format::wire::{Request, Response};
use cuesta_format::{Geometry, SessionId};
use cuesta_libfs::{Client, Error, Link, LinkError};
use cuesta_sharedfs::{Options, SharedFs};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

/// Loses descriptors of log segments, as the kernel does for a process at its limit.
struct Losing {
    link: InProcess,
    grown: u32,
    arriving: usize,
}

impl Link for Losing {
    fn call(&mut self, request: &Request, descriptors: &mut Vec<OwnedFd>) -> Result<Response, LinkError> {
        let answer = self.link.call(request, descriptors)?;
        if matches!(request, Request::GrowLog { .. }) {
            self.grown += 1;
            if self.grown > 1 && self.grown.is_multiple_of(2) {
                descriptors.truncate(self.arriving);
            }
        }
        Ok(answer)
    }

    fn post(&mut self, request: &Request) -> Result<bool, LinkError> {
        self.link.post(request)
    }

    fn collect(&mut self, wait: bool) -> Result<Option<Response>, LinkError> {
        self.link.collect(wait)
    }
}

fn content(n: u8) -> Vec<u8> {
    (0..100_000_u32).map(|at| n ^ (at >> 3) as u8).collect()
}

#[test]
fn segments_that_did_not_arrive_come_again_and_nothing_acknowledged_is_lost() {
    for arriving in [0, 1] {
        let store = Store::new(small());
        let link = Losing { link: store.link(), grown: 0, arriving };
        let client = Client::attach(Box::new(link), "test").unwrap();
        let call = root(&client);
        let acknowledged: Vec<u8> =
            (0..4).filter(|&n| call.write_file(&format!("file-{n}"), &content(n)).is_ok()).collect();
        assert!(acknowledged.len() >= 2, "it goes on when descriptors arrive again: {acknowledged:?}");
        // The daemon is killed; the next one recovers.
        let next = store.take_over();
        let after = root(&Client::attach(Box::new(InProcess::of(&next, SessionId(0))), "after").unwrap());
        for n in acknowledged {
            assert!(after.read_file(&format!("file-{n}")).unwrap() == content(n), "file-{n}");
        }
    }
}

/// Some records of this size begin in one block and end in the next. That block is debited when its place is
/// known.
#[test]
fn appends_across_blocks_fill_the_medium_and_acknowledged_ones_are_digested() {
    let geometry = Geometry { nvm_bytes: 4 << 20, arena_bytes: 1 << 20, ..small() };
    let store = Store::new(geometry).digesting();
    let client = store.attach();
    let call = root(&client);
    let file = call.open("appended", libc::O_CREAT | libc::O_WRONLY | libc::O_APPEND).unwrap();
    let record = [7; 3000];
    let mut bytes = 0;
    let full = loop {
        match client.write(&file, &[record.as_slice().into()]) {
            Ok(written) => bytes += written,
            Err(error) => break error,
        }
    };
    assert_eq!(full, Error::NoSpace);
    assert!(bytes > 2 << 20, "{bytes} bytes of {}", geometry.nvm_bytes);
    client.digest().unwrap();
    assert!(call.read_file("appended").unwrap() == vec![7; bytes]);
}

#[test]
fn other_sessions_get_the_blocks_that_an_idle_session_freed() {
    let geometry = Geometry {
        arena_bytes: 1 << 20,
        segment_bytes: 64 << 10,
        ring_slots: 8,
        nvm_bytes: 8 << 20,
        checks_content: true,
    };
    let store = Store::new(geometry).digesting();
    let (first, second) = (store.attach(), store.attach());
    let (idle, busy) = (root(&first), root(&second));
    idle.write_file("large", &vec![1; 6 << 20]).unwrap();
    idle.write_file("kept", b"content").unwrap();
    first.digest().unwrap();
    idle.unlink("large").unwrap();
    // From here on this session does nothing.
    busy.write_file("other", &vec![2; 4 << 20]).unwrap();
    assert_eq!(busy.read_file("other").unwrap(), vec![2; 4 << 20]);
    assert_eq!(idle.read_file("kept").unwrap(), b"content");
    idle.write_file("kept", b"and on").unwrap();
}

#[test]
fn other_sessions_get_the_unused_credit_of_idle_sessions() {
    let geometry = Geometry {
        arena_bytes: 1 << 20,
        segment_bytes: 64 << 10,
        ring_slots: 8,
        nvm_bytes: 8 << 20,
        checks_content: true,
    };
    let store = Store::new(geometry).digesting();
    let callers: Vec<_> = (0..12).map(|_| root(&store.attach())).collect();
    for (n, call) in callers.iter().enumerate() {
        call.write_file(&format!("file-{n}"), &content(n as u8)).unwrap();
    }
    for (n, call) in callers.iter().enumerate().rev() {
        call.write_file(&format!("again-{n}"), &content(n as u8)).unwrap();
        assert!(callers[0].read_file(&format!("file-{n}")).unwrap() == content(n as u8));
    }
}

/// Flips a bit of the first place in a log that holds `needle`.
fn damage(tier: &Path, needle: &[u8]) {
    let hit = std::fs::read_dir(tier.join("logs")).unwrap().any(|segment| {
        let path = segment.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        let Some(at) = bytes.windows(needle.len()).position(|window| window == needle) else { return false };
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        file.write_all_at(&[bytes[at] ^ 1], at as u64).unwrap();
        true
    });
    assert!(hit, "the bytes are in no log");
}

#[test]
fn a_damaged_log_is_an_error_as_soon_as_it_is_digested() {
    let store = Store::new(small());
    let client = store.attach();
    let call = root(&client);
    call.write_file("before", b"x").unwrap();
    call.write_file("victim", &[0x5a; 4000]).unwrap();
    damage(store.tier(), &[0x5a; 4000]);
    call.write_file("later", b"important").unwrap();
    assert!(client.digest().is_err(), "acknowledged writes cannot be kept: say so");
    assert!(call.write_file("more", b"y").is_err(), "and acknowledge nothing more");

    let after = root(&store.attach());
    assert_eq!(after.read_file("before").unwrap(), b"x");
    assert!(after.read_file("later").is_err());
}

#[test]
fn a_fence_does_not_take_the_log_of_before_for_damaged() {
    let store = Store::new(small());
    let (first, second) = (store.attach(), store.attach());
    let (one, other) = (root(&first), root(&second));
    for n in 0..20 {
        one.write_file(&format!("one-{n}"), &[n; 3000]).unwrap();
        other.write_file(&format!("other-{n}"), &[n; 5000]).unwrap();
        // The first session was fenced and has not noticed: it still calls positions of the log before
        // complete.
        store.shared.digest_step().unwrap();
    }
    assert_eq!(one.read_file("other-19").unwrap(), [19; 5000]);
    assert_eq!(other.read_file("one-19").unwrap(), [19; 3000]);
}

/// A link behind which another session takes every lease away.
struct Robbed {
    link: InProcess,
    robber: Arc<Caller>,
    leases: Arc<AtomicU32>,
}

impl Link for Robbed {
    fn call(&mut self, request: &Request, descriptors: &mut Vec<OwnedFd>) -> Result<Response, LinkError> {
        let answer = self.link.call(request, descriptors)?;
        if matches!(request, Request::Acquire { .. }) && self.leases.fetch_add(1, Ordering::Relaxed) > 0 {
            self.robber.write_file("f", b"taken").unwrap();
        }
        Ok(answer)
    }
}

/// The caller gets an error with the reason, once. Before, it retried for minutes.
#[test]
fn a_session_that_never_keeps_a_lease_gives_up() {
    static TOLD: AtomicU32 = AtomicU32::new(0);
    let store = Store::new(small()).digesting();
    let robber = Arc::new(root(&store.attach()));
    robber.write_file("f", b"").unwrap();
    let leases = Arc::new(AtomicU32::new(0));
    let link = Robbed { link: store.link(), robber: Arc::clone(&robber), leases: Arc::clone(&leases) };
    let client = Client::attach(Box::new(link), "robbed").unwrap();
    client.give_up_after(Duration::ZERO);
    client.tell_of_giving_up(|why| {
        assert!(why.contains("lease"), "{why}");
        TOLD.fetch_add(1, Ordering::Relaxed);
    });
    let call = root(&client);
    for _ in 0..2 {
        let before = leases.load(Ordering::Relaxed);
        let refused = call.write_file("f", b"mine").unwrap_err();
        assert_eq!(refused.errno(), libc::EIO, "{refused}");
        let made = leases.load(Ordering::Relaxed) - before;
        assert!((500..20_000).contains(&made), "it took {made} leases to give up");
    }
    assert_eq!(TOLD.load(Ordering::Relaxed), 1);
    assert_eq!(robber.read_file("f").unwrap(), b"taken");
}

/// A link whose answers grant no credit for a time, as if other sessions took it first. Meanwhile the daemon
/// digests an entry at each question.
struct Outrun {
    link: InProcess,
    shared: Arc<SharedFs>,
    questions: Arc<AtomicU32>,
    digests: Arc<AtomicBool>,
}

impl Link for Outrun {
    fn call(&mut self, request: &Request, descriptors: &mut Vec<OwnedFd>) -> Result<Response, LinkError> {
        let is_left = |left: u32| left.checked_sub(1);
        if matches!(request, Request::Credit { .. })
            && self.questions.fetch_update(Ordering::Relaxed, Ordering::Relaxed, is_left).is_ok()
        {
            if self.digests.load(Ordering::Relaxed) {
                self.shared.digest_step().unwrap();
            }
            return Ok(Response::Done);
        }
        self.link.call(request, descriptors)
    }
}

/// Time and attempts count only while there is no progress.
#[test]
fn a_wait_with_progress_is_not_given_up() {
    const PATIENCE: u32 = 4000;
    let geometry = Geometry {
        arena_bytes: 1 << 20,
        segment_bytes: 64 << 10,
        ring_slots: 128,
        nvm_bytes: 64 << 20,
        checks_content: true,
    };
    let options = Options { digest_batch_bytes: 64, ..Options::default() };
    let store = Store::with(geometry, options);
    let (questions, digests) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicBool::new(true)));
    let link = Outrun {
        link: store.link(),
        shared: Arc::clone(&store.shared),
        questions: Arc::clone(&questions),
        digests: Arc::clone(&digests),
    };
    let client = Client::attach(Box::new(link), "outrun").unwrap();
    client.give_up_after(Duration::ZERO);
    let call = root(&client);
    call.write_file("small", b"small").unwrap();
    client.digest().unwrap();
    // An entry that takes no blocks, so that its digest brings no credit.
    for _ in 0..PATIENCE {
        call.rename("small", "other").unwrap();
        call.rename("other", "small").unwrap();
    }
    let file = call.open("large", libc::O_CREAT | libc::O_WRONLY).unwrap();
    let mut blocks = 0..;
    // Each takes a block of credit, and next to nothing in the log. The session also asks before it has to.
    let mut write_while_it_is_outrun = || {
        while questions.load(Ordering::Relaxed) > 0 {
            client.pwrite(&file, &[b"x".as_slice().into()], 4096 * blocks.next().unwrap())?;
        }
        Ok(())
    };
    questions.store(PATIENCE, Ordering::Relaxed);
    write_while_it_is_outrun().unwrap();

    digests.store(false, Ordering::Relaxed);
    questions.store(1_000_000, Ordering::Relaxed);
    let refused: cuesta_libfs::Error = write_while_it_is_outrun().unwrap_err();
    assert_eq!(refused.errno(), libc::EIO, "{refused}");
    let asked = 1_000_000 - questions.load(Ordering::Relaxed);
    assert!((500..20_000).contains(&asked), "it took {asked} questions to give up");
    questions.store(0, Ordering::Relaxed);
    assert_eq!(call.read_file("small").unwrap(), b"small");
}
