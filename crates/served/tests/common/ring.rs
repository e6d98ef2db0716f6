//! A ring by hand: what an honest client stores there, and a hostile one.

use crate::common::{Raw, Store};
use cuesta_format::Medium;
use cuesta_media::{Mapping, Protection, wait};
use cuesta_served::{Request, Response};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};

pub const LANES: u64 = 8;
pub const LANE_BYTES: u64 = 68 << 10;
pub const RING_BYTES: u64 = LANES * LANE_BYTES;
pub const QUIET: u32 = 0;
pub const ASKED: u32 = 1;
pub const RUNNING: u32 = 2;
const STATE: u32 = 3;
const REQUEST: u64 = 64;
const ANSWER: u64 = LANE_BYTES / 2;

pub struct RawRing(pub Mapping);

impl RawRing {
    pub fn map(file: &OwnedFd) -> RawRing {
        let mapped = Mapping::of_file(file, 0, RING_BYTES, Protection::ReadWrite, Medium::Memory, false);
        RawRing(mapped.unwrap())
    }

    fn word(&self, lane: u64, offset: u64) -> &AtomicU32 {
        self.0.atomic_u32(lane * LANE_BYTES + offset).unwrap()
    }

    pub fn state(&self, lane: u64) -> u32 {
        self.word(lane, 0).load(Ordering::Acquire) & STATE
    }

    pub fn set_state(&self, lane: u64, state: u32) {
        self.word(lane, 0).store(state, Ordering::Release);
        wait::wake_all(self.word(lane, 0));
    }

    pub fn set_length(&self, lane: u64, length: u32) {
        self.word(lane, 4).store(length, Ordering::Relaxed);
    }

    pub fn store(&self, lane: u64, request: &[u8]) {
        self.0.write(lane * LANE_BYTES + REQUEST, request).unwrap();
        self.set_length(lane, request.len() as u32);
    }

    pub fn request(&self, lane: u64) -> Vec<u8> {
        let mut bytes = vec![0; self.word(lane, 4).load(Ordering::Relaxed) as usize];
        self.0.read(lane * LANE_BYTES + REQUEST, &mut bytes).unwrap();
        bytes
    }

    pub fn send(&self, lane: u64, request: &Request<'_>) {
        self.store(lane, &postcard::to_stdvec(request).unwrap());
        self.set_state(lane, ASKED);
    }

    pub fn await_state(&self, lane: u64, state: u32) {
        while self.state(lane) != state {
            std::thread::yield_now();
        }
    }

    pub fn answer(&self, lane: u64) -> Response {
        let mut bytes = vec![0; self.word(lane, 12).load(Ordering::Relaxed) as usize];
        self.0.read(lane * LANE_BYTES + ANSWER, &mut bytes).unwrap();
        postcard::from_bytes(&bytes).unwrap()
    }

    pub fn ask(&self, lane: u64, request: &Request<'_>) -> Response {
        self.send(lane, request);
        self.await_state(lane, QUIET);
        self.answer(lane)
    }

    pub fn put_answer(&self, lane: u64, answer: &Response) {
        let bytes = postcard::to_stdvec(answer).unwrap();
        self.0.write(lane * LANE_BYTES + ANSWER, &bytes).unwrap();
        self.word(lane, 12).store(bytes.len() as u32, Ordering::Relaxed);
        self.set_state(lane, QUIET);
    }
}

impl Raw {
    /// A ring, if the daemon gives one.
    pub fn try_ring(&mut self) -> Option<RawRing> {
        match self.ask(&Request::Ring) {
            Response::Done => Some(RawRing::map(&self.1.pop().expect("a descriptor beside the answer"))),
            _ => None,
        }
    }
}

/// A connection with a ring.
pub fn ringed(store: &Store) -> (Raw, RawRing) {
    let mut raw = Raw::connect(store);
    let ring = raw.try_ring().expect("a ring");
    (raw, ring)
}
