//! Calls with numbers, by a client that speaks the protocol itself: asked again on whichever connection, of whichever session, each is
//! executed once.

use crate::common::*;
use cuesta_format::wire::{Request as Wire, Response as Answer};
use cuesta_format::{CALL_SLOTS, CallSlot, CallTag, Caller, CallerId, SessionId};
use cuesta_libfs::{Base, Error, Whence};
use cuesta_media::{UserSlice, UserSliceMut};
use cuesta_served::{Client, Once, PathBase, Request, Response};
use std::os::unix::ffi::OsStrExt as _;

const CALLER: CallerId = CallerId([7; 16]);

fn first(number: u64) -> Once {
    Once { caller: Some(CALLER), slot: 0, number, again: false, behind: None }
}

fn again(number: u64) -> Once {
    Once { again: true, ..first(number) }
}

impl Raw {
    fn ask_once(&mut self, once: Once, request: &Request<'_>) -> Response {
        self.ask_frame(&postcard::to_stdvec(&(Request::Once(once), request)).unwrap())
    }

    fn mkdir(&mut self, once: Once, path: &[u8]) -> Response {
        self.ask_once(once, &Request::MakeDirectory { place: PathBase::Root, path, mode: 0o755.into() })
    }
}

/// A store in whose root everybody may make files.
fn open_store() -> Option<Store> {
    is_root().then(|| {
        let store = store();
        let mode = cuesta_libfs::SetAttributes { mode: Some(0o777), ..Default::default() };
        let root = cuesta_libfs::Target::Path { base: Base::Root, path: b".", follow: true };
        store.root.set_attributes(&ROOT, root, mode).unwrap();
        store
    })
}

/// The number of the caller's last call that is known to have taken effect.
fn known(store: &Store, user: u32, slot: u16) -> Option<u64> {
    let slot = CallSlot { caller: Caller { user, id: CALLER }, slot };
    store.root.last_call(slot).unwrap().map(|record| record.number)
}

#[test]
fn a_call_that_is_asked_again_is_executed_once() {
    let Some(store) = open_store() else { return };
    as_nobody(|| {
        let mut raw = Raw::connect(&store);
        assert_eq!(raw.mkdir(first(1), b"made"), Response::Done);
        assert_eq!(raw.mkdir(first(2), b"made"), Response::Failed(Error::Exists), "another call");
        // What took effect last is number 1.
        assert_eq!(raw.mkdir(again(1), b"made"), Response::Done);
        assert_eq!(raw.mkdir(again(2), b"made"), Response::Failed(Error::Exists));
        assert_eq!(
            raw.mkdir(Once { slot: 1, ..again(1) }, b"made"),
            Response::Failed(Error::Exists),
            "of another slot"
        );
        let other = Once { caller: Some(CallerId([8; 16])), ..again(1) };
        assert_eq!(Raw::connect(&store).mkdir(other, b"made"), Response::Failed(Error::Exists));
        // The caller comes back on another connection, while it has the first.
        let mut next = Raw::connect(&store);
        assert_eq!(next.mkdir(again(1), b"made"), Response::Done);
        assert_eq!(next.mkdir(first(3), b"more"), Response::Done);
        assert_eq!(
            next.mkdir(again(1), b"made"),
            Response::Failed(Error::Invalid),
            "a later one took effect"
        );

        let node = Request::MakeNode {
            place: PathBase::Root,
            path: b"node",
            mode: (libc::S_IFIFO | 0o600).into(),
            device: 0,
        };
        let made = next.ask_once(first(4), &node);
        assert!(matches!(made, Response::Number(1..)), "{made:?}");
        assert_eq!(next.ask_once(again(4), &node), made);
    });
    // Another user with the same number is another caller.
    let mut raw = Raw::connect(&store);
    assert_eq!(raw.mkdir(again(4), b"made"), Response::Failed(Error::Exists));
}

#[test]
fn numbers_that_make_no_sense_are_refused() {
    let Some(store) = open_store() else { return };
    as_nobody(|| {
        let mut raw = Raw::connect(&store);
        let unknown = Once { caller: None, ..first(1) };
        let refused = Response::Failed(Error::Invalid);
        assert_eq!(raw.mkdir(unknown, b"made"), refused, "whose call?");
        assert_eq!(raw.mkdir(Once { slot: CALL_SLOTS, ..first(1) }, b"made"), refused);
        assert_eq!(raw.mkdir(first(CallTag::NUMBER_MAX + 1), b"made"), refused);
        let other = Once { caller: Some(CallerId([8; 16])), ..first(1) };
        assert_eq!(raw.mkdir(other, b"made"), refused, "a connection has one caller");
        assert_eq!(raw.ask(&Request::Identify { caller: CallerId([8; 16]) }), refused);
        assert_eq!(raw.ask(&Request::Identify { caller: CALLER }), Response::Done);
        assert_eq!(raw.mkdir(unknown, b"made"), Response::Done, "it is known now");
        // Half of a call is none.
        raw.send(&postcard::to_stdvec(&Request::Once(first(2))).unwrap());
        assert!(raw.has_ended());
    });
}

/// The session that executes the calls of others ends, for its log was given up or otherwise: the next one knows what it did.
#[test]
fn what_an_ended_session_executed_is_known_to_the_next() {
    let Some(store) = open_store() else { return };
    as_nobody(|| {
        let mut raw = Raw::connect(&store);
        assert_eq!(raw.mkdir(first(1), b"made"), Response::Done);
        end_service_session(&store);
        assert_eq!(known(&store, NOBODY, 0), Some(1));
        let mut next = Raw::connect(&store);
        assert_eq!(next.ask(&Request::Identify { caller: CALLER }), Response::Done);
        assert_eq!(next.mkdir(again(1), b"made"), Response::Done);
        assert_eq!(next.mkdir(first(2), b"made"), Response::Failed(Error::Exists));
        drop(raw);
    });
}

/// The session of the daemon's that executes calls of others, ended under it.
fn end_service_session(store: &Store) {
    let status = store.shared.handle(SessionId::NOBODY, &Wire::Status, &mut Vec::new());
    let Answer::Status(status) = status else { panic!("{status:?}") };
    let served = status.sessions.iter().find(|session| session.program == "(served)").unwrap();
    store.shared.end_session(served.session, cuesta_sharedfs::Ending::Gone).unwrap();
}

#[test]
fn what_is_kept_of_a_caller_goes_when_it_hangs_up() {
    let Some(store) = open_store() else { return };
    as_nobody(|| {
        let mut raw = Raw::connect(&store);
        assert_eq!(raw.mkdir(first(1), b"made"), Response::Done);
        let mut other = Raw::connect(&store);
        assert_eq!(other.ask(&Request::Identify { caller: CALLER }), Response::Done);
        drop(raw);
        assert_eq!(other.mkdir(again(1), b"made"), Response::Done, "it has another connection");
        assert_eq!(known(&store, NOBODY, 0), Some(1));
        drop(other);
        // The daemon sees it in its time.
        while known(&store, NOBODY, 0).is_some() {
            end_of_service_log(&store);
            std::thread::yield_now();
        }
    });
}

/// Calls that move an offset are known by numbers of two kinds: of those that are sent again, and of those that are executed once. A seek
/// was taken for the read before it, and moved from where that began.
#[test]
fn a_seek_is_not_taken_for_a_read_of_the_same_number() {
    let Some(store) = open_store() else { return };
    as_nobody(|| {
        let client = Client::connect(store.users.as_os_str().as_bytes(), 0).unwrap();
        let (flags, mode) = (libc::O_CREAT | libc::O_RDWR, 0o600.into());
        let (file, _token) = client.open(PathBase::Root, b"file", flags, mode, Default::default()).unwrap();
        client.write(&file, &[UserSlice::from(&[7; 1000][..])], Some(0), false).unwrap();
        for number in 0..10 {
            client.make_directory(PathBase::Root, &[b'a' + number], mode).unwrap();
        }
        // Reads catch up with the calls above, and overtake them.
        for step in 1..=40 {
            for _ in 0..2 {
                let mut bytes = [0; 3];
                assert_eq!(client.read(&file, &mut [UserSliceMut::from(&mut bytes[..])], None), Ok(3));
            }
            assert_eq!(client.seek(&file, 1, Whence::Current), Ok(7 * step));
        }
    });
}

/// Has the log digested of the session that executes calls of others.
fn end_of_service_log(store: &Store) {
    store.shared.handle(SessionId::NOBODY, &Wire::Stop, &mut Vec::new());
}
