//! Waits for digests, and how they end.

use crate::common::{Caller, ROOT, Store, root, small};
use cuesta_format::SessionId;
use cuesta_format::wire::{Request, Response};
use cuesta_libfs::{Client, Error, SocketLink};
use cuesta_sharedfs::server::{Listener, Server, StopReason};
use cuesta_sharedfs::{Options, SharedFs};
use libc::{O_CREAT, O_RDWR};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// No digest takes so long on any machine. A wait that does was never woken.
const UNWOKEN: Duration = Duration::from_secs(60);

fn digested_entries(shared: &SharedFs) -> u64 {
    match shared.handle(SessionId(0), &Request::Status, &mut Vec::new()) {
        Response::Status(status) => status.digested_entries,
        other => panic!("{other:?}"),
    }
}

fn save(call: &Caller, number: u64) -> Result<(), Error> {
    let file = call.open("new", O_CREAT | O_RDWR)?;
    call.client.write(&file, &[[number as u8; 4096].as_slice().into()])?;
    call.client.fsync(&file)?;
    call.rename("new", &format!("{}", number % 100))?;
    call.client.close(file)
}

/// A log of 512 KiB, written over many times. Its writer waits for digests all the time. The daemon's own
/// thread, which the writer kicks, ends each wait.
#[test]
fn every_wait_for_a_digest_is_ended_by_one() {
    let store = Store::new(small());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let server = Server::start(Arc::clone(&store.shared), Listener::bind(&path).unwrap()).unwrap();
    let link = SocketLink::connect(path.as_os_str().as_bytes(), 0).unwrap();
    let client = Client::attach(Box::new(link), "test").unwrap();
    client.look_for_digest_after(UNWOKEN);
    let call = Caller { client: Arc::clone(&client), who: ROOT };
    for number in 0..5_000 {
        save(&call, number).unwrap();
        let (waits, timed_out) = client.digest_waits();
        assert_eq!(timed_out, 0, "of {waits}");
    }
    let (waits, _) = client.digest_waits();
    assert!(waits > 5, "{waits}");
    for number in 0..100 {
        assert_eq!(call.read_file(&number.to_string()).unwrap(), [(4900 + number) as u8; 4096]);
    }
    client.detach();
    server.stop_sender().send(StopReason::Signal(0)).unwrap();
    server.wait();
}

/// No digest runs unless the writer waits. It waits when the log holds the most entries that it may.
#[test]
fn a_log_never_holds_more_entries_than_recovery_may_find() {
    const MOST: u64 = 100;
    let options = Options { undigested_entries: MOST, ..Options::default() };
    let store = Store::with(cuesta_format::Geometry { ring_slots: 64, ..small() }, options);
    let stop = Arc::new(AtomicBool::new(false));
    let digester = std::thread::spawn({
        let (shared, stop) = (Arc::clone(&store.shared), Arc::clone(&stop));
        move || {
            while !stop.load(Ordering::Relaxed) {
                if shared.backlogs().iter().any(|log| log.awaited) {
                    shared.digest_step().unwrap();
                }
                std::thread::yield_now();
            }
        }
    });
    let client = store.attach();
    client.look_for_digest_after(UNWOKEN);
    let call = root(&client);
    let mut held_most = 0;
    for number in 0..1000 {
        call.open(&format!("{number}"), O_CREAT | O_RDWR).unwrap();
        let held = number + 1 - digested_entries(&store.shared);
        assert!(held <= MOST, "{held}");
        held_most = held_most.max(held);
        let (waits, timed_out) = client.digest_waits();
        assert_eq!(timed_out, 0, "of {waits}");
    }
    let (waits, _) = client.digest_waits();
    assert_eq!(held_most, MOST);
    // A late digest also takes the entries logged since the wait began. The next wait is later then.
    assert!(waits > 0);
    stop.store(true, Ordering::Relaxed);
    digester.join().unwrap();
}
