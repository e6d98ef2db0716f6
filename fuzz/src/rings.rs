//! A program that stores anything in its ring.
//!
//! Bytes: steps, each a byte that says what is done and in which lane, and what it takes. Behind them another program asks by a ring,
//! and is answered.

use crate::users::Line;
use cuesta_format::Medium;
use cuesta_media::{Mapping, Protection, wait};
use cuesta_served::{PathBase, Request, Response, Subject};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

const LANES: u64 = 8;
const LANE_BYTES: u64 = 68 << 10;
const RING_BYTES: u64 = LANES * LANE_BYTES;
const REQUEST: u64 = 64;
const ANSWER: u64 = LANE_BYTES / 2;
const STATE: u32 = 3;
const QUIET: u32 = 0;
const ASKED: u32 = 1;
/// Longer than any request takes.
const PATIENCE: Duration = Duration::from_secs(10);
/// Steps of one input.
const STEPS_MAX: usize = 64;

/// What is done in a lane. The first six of a byte's values modulo 8; the others ask.
const STORE: u8 = 0;
const LENGTH: u8 = 1;
const STATES: u8 = 2;
const BYTE: u8 = 3;
const START: u8 = 4;
const SOCKET: u8 = 5;

struct Ring(Mapping);

impl Ring {
    fn of(line: &mut Line) -> Ring {
        let (answer, memory) = line.ask(&Request::Ring).expect("a first ring is given");
        assert_eq!(answer, Response::Done);
        let memory = memory.expect("a descriptor beside the answer");
        let mapped = Mapping::of_file(&memory, 0, RING_BYTES, Protection::ReadWrite, Medium::Memory, false);
        Ring(mapped.expect("a ring of its size"))
    }

    fn set(&self, lane: u64, offset: u64, value: u32) {
        let word = self.0.atomic_u32(lane * LANE_BYTES + offset).expect("a word of the ring");
        word.store(value, Ordering::Release);
        wait::wake_all(word);
    }

    fn state(&self, lane: u64) -> u32 {
        let word = self.0.atomic_u32(lane * LANE_BYTES).expect("a word of the ring");
        word.load(Ordering::Acquire) & STATE
    }

    fn write(&self, offset: u64, bytes: &[u8]) {
        self.0.write(offset, bytes).expect("bytes of the ring");
    }

    /// Whether a request that was stored is answered, before the connection ends.
    fn ask(&self, lane: u64, line: &mut Line) -> bool {
        self.set(lane, 0, ASKED);
        let began = Instant::now();
        while self.state(lane) != QUIET {
            assert!(began.elapsed() < PATIENCE, "neither an answer nor an end");
            if line.has_ended() {
                return false;
            }
            std::thread::yield_now();
        }
        true
    }
}

/// Takes `N` bytes off the front; zeros where there are none.
fn take<const N: usize>(bytes: &mut &[u8]) -> [u8; N] {
    let (taken, rest) = bytes.split_at(N.min(bytes.len()));
    *bytes = rest;
    let mut all = [0; N];
    all[..taken.len()].copy_from_slice(taken);
    all
}

/// What a hostile client does with its ring.
pub fn ring(bytes: &[u8]) {
    crate::users::with_lines(|connect| {
        let mut line = connect();
        let ring = Ring::of(&mut line);
        let mut started = 1u8;
        let mut rest = bytes;
        for _ in 0..STEPS_MAX {
            let Some((&step, behind)) = rest.split_first() else { break };
            rest = behind;
            let lane = u64::from(step >> 3) % LANES;
            let place = lane * LANE_BYTES;
            match step % 8 {
                STORE => {
                    let length = usize::from(u16::from_le_bytes(take(&mut rest))).min(rest.len());
                    let (content, behind) = rest.split_at(length);
                    rest = behind;
                    let content = &content[..length.min((ANSWER - REQUEST) as usize)];
                    ring.write(place + REQUEST, content);
                    ring.set(lane, 4, content.len() as u32);
                }
                LENGTH => ring.set(lane, 4, u32::from_le_bytes(take(&mut rest))),
                STATES => ring.set(lane, 0, u32::from(take::<1>(&mut rest)[0])),
                BYTE => {
                    let offset = u32::from_le_bytes(take(&mut rest));
                    ring.write(u64::from(offset) % RING_BYTES, &take::<1>(&mut rest));
                }
                START => {
                    let Some(_) = line.ask(&Request::Lane { lane: lane as u32 }) else { break };
                    started |= 1 << lane;
                }
                SOCKET => {
                    let request = Request::Stat {
                        subject: Subject::Path { place: PathBase::Root, path: b".", follow: true },
                    };
                    let Some(_) = line.ask(&request) else { break };
                }
                _ if started & 1 << lane == 0 => {}
                _ if !ring.ask(lane, &mut line) => break,
                _ => {}
            }
        }
        drop(line);
        let mut other = connect();
        let ring = Ring::of(&mut other);
        let stat =
            Request::Stat { subject: Subject::Path { place: PathBase::Root, path: b".", follow: true } };
        let stat = postcard::to_stdvec(&stat).expect("a request can be written");
        ring.write(REQUEST, &stat);
        ring.set(0, 4, stat.len() as u32);
        assert!(ring.ask(0, &mut other), "another program is served");
    });
}

/// Seeds: each kind of request by a ring, and each kind of step.
pub fn seeds(requests: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let store = |lane: u8, content: &[u8]| {
        let mut step = vec![lane << 3 | STORE];
        step.extend((content.len() as u16).to_le_bytes());
        step.extend(content);
        step.push(lane << 3 | 7);
        step
    };
    let mut seeds: Vec<Vec<u8>> = requests.iter().map(|request| store(0, request)).collect();
    let start = vec![3 << 3 | START];
    seeds.push([start, requests.iter().flat_map(|request| store(3, request)).collect()].concat());
    seeds.push([store(0, &requests[0]), vec![LENGTH, 0, 0, 0, 1, 7]].concat());
    seeds.push([store(0, &requests[0]), vec![STATES, 2, SOCKET]].concat());
    seeds.push([store(0, &requests[0]), vec![BYTE, 70, 0, 0, 0, 9, 7, SOCKET]].concat());
    seeds
}
