//! An emulated medium reaches the sessions, which share its channels with each other and with SharedFS.
//!
//! Nothing here is timed: the shared memory of a channel shows its use.

use crate::common::{Caller, Store, root, small};
use cuesta_format::SessionId;
use cuesta_format::geometry::CHANNELS_FILE;
use cuesta_format::wire::{Request, Response};
use cuesta_media::{Mapping, Medium, Protection};
use cuesta_sharedfs::{Options, SharedFs};
use std::sync::atomic::Ordering;

struct Channels(Mapping);

impl Channels {
    fn of(store: &Store) -> Channels {
        let path = store.tier().join(CHANNELS_FILE);
        Channels(Mapping::open(&path, Protection::ReadWrite, Medium::Memory).unwrap())
    }

    /// Whether a session read, and whether a session wrote, since the last call.
    fn used(&self) -> (bool, bool) {
        let [read, written] =
            [0, 64].map(|offset| self.0.atomic_u64(offset).unwrap().swap(0, Ordering::Relaxed) != 0);
        (read, written)
    }
}

/// The store is in memory, whatever medium the other tests use: nothing is emulated on a disk.
fn store(profile: &str) -> Store {
    let emulate = profile.parse().unwrap();
    Store::on(Medium::Memory, small(), Options { emulate, ..Options::default() })
}

fn bytes(caller: &Caller, path: &str) -> usize {
    caller.read_file(path).unwrap().len()
}

#[test]
fn writes_and_reads_of_sessions_go_over_the_channels() {
    let store = store("optane-pmm");
    let channels = Channels::of(&store);
    let (one, other) = (store.attach(), store.attach());
    for (client, name) in [(&one, "a"), (&other, "b")] {
        let caller = root(client);
        channels.used();
        // SharedFS digests nothing unasked here, so the data is written to and read from the log.
        caller.write_file(name, &[7; 5000]).unwrap();
        assert!(channels.used().1, "the log was written");
        assert_eq!(bytes(&caller, name), 5000);
        assert!(channels.used().0, "the log was read");
    }
}

#[test]
fn digests_and_reads_of_arenas_use_the_channels() {
    let store = store("optane-pmm");
    let channels = Channels::of(&store);
    let client = store.attach();
    let caller = root(&client);
    caller.write_file("a", &[7; 5000]).unwrap();
    channels.used();
    client.digest().unwrap();
    assert_eq!(channels.used(), (true, true), "a digest reads the log, and writes");
    let file = caller.open("a", libc::O_RDONLY).unwrap();
    assert_eq!(caller.read_all(&file).unwrap().len(), 5000);
    channels.used();
    assert_eq!(caller.read_all(&file).unwrap().len(), 5000);
    assert_eq!(channels.used(), (true, false), "only the arena is read by now");
    client.close(file).unwrap();
}

#[test]
fn a_daemon_tells_the_medium_that_it_emulates() {
    let store = store("optane-pmm");
    let plays = |shared: &SharedFs| match shared.handle(SessionId::NOBODY, &Request::Status, &mut Vec::new())
    {
        Response::Status(status) => status.emulated,
        other => panic!("{other:?}"),
    };
    assert_eq!(plays(&store.shared), Some("optane-pmm".parse().unwrap()));
    assert_eq!(plays(&store.take_over()), None, "the next one's configuration says so");
}

#[test]
fn nothing_is_shared_where_nothing_is_played() {
    let store = store("dram");
    root(&store.attach()).write_file("a", b"x").unwrap();
    assert!(!store.tier().join(CHANNELS_FILE).exists());
}
