//! The client's end of a ring: takes a lane, stores the request there, and waits for the answer.
//!
//! No lock is held across a call. The uses of the socket (starting a lane, noticing that the daemon is gone) are the
//! caller's.

use crate::asking::content::Content;
use crate::protocol::call::{Call, Numbers};
use crate::protocol::messages::{Request, Response};
use crate::protocol::once::Once;
use crate::ring::free::FreeLanes;
use crate::ring::lane::ClientEnd;
use crate::ring::layout::{
    ANSWER_BYTES, BYTES, LANES, LENGTH_BYTES, LaneLayout, REQUEST_BYTES, RING_BYTES, TOO_LONG,
    length_of_bytes,
};
use crate::ring::policy::{CLIENT_SLEEP, LANE_WAIT, LANE_WAITS, Looking};
use cuesta_format::{CALL_SLOTS, LogDependency, LogGeneration, LogPosition, Medium, SessionId};
use cuesta_media::wait::{self, Waited};
use cuesta_media::{AccessError, Mapping, Protection, SharedMemory, UserSlice};
use rustix::fd::OwnedFd;
use rustix::fs::SealFlags;
use rustix::thread::sched_getcpu;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Most requests and answers fit into so many bytes of the stack.
const USUAL_BYTES: usize = 256;

/// A ring, as long as its daemon lives.
#[derive(Debug)]
pub(crate) struct Ring {
    memory: Mapping,
    /// They outlive a ring: a call that the next daemon is asked again keeps its lane's number.
    free: Arc<FreeLanes<AtomicU32>>,
    numbers: Arc<Numbers>,
    /// Lanes that the daemon has a thread for. A bit for each.
    served: AtomicU32,
    /// Lanes that the daemon makes no thread for.
    refused: AtomicU32,
    /// Of each lane, the [`Looking`] of the thread that has it.
    looking: [AtomicU32; LANES],
    is_over: AtomicBool,
}

/// Why a request was not answered by a ring.
#[derive(Debug)]
pub(crate) enum NotAnswered {
    /// It goes by the socket: it is too long, or no lane is to be had.
    Unsuited,
    /// The application's memory cannot be read. The request was not asked.
    BadAddress,
    /// The daemon is gone. It may have executed the call, or has not begun with it, and no daemon will.
    Ended(Option<Begun>),
}

/// A call that a daemon may have executed.
#[derive(Debug)]
pub(crate) struct Begun {
    /// Its number, if it has one.
    pub(crate) once: Option<Once>,
    /// No other call of the slot is asked until this one is answered.
    _lane: Taken,
}

/// The services of the socket for a ring.
pub(crate) trait Socket {
    /// Has the daemon make a thread for a lane.
    fn start(&self, lane: usize) -> Started;
    /// Whether the daemon has hung up. A socket that is in use has not.
    fn has_hung_up(&self) -> bool;
    /// Tells the daemon that a request waits for long. A socket that is in use tells nothing.
    fn tell_unheard(&self);
}

/// Whether the daemon serves a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Started {
    Yes,
    No,
    /// The socket is in use.
    NotNow,
}

/// A lane that the calling thread has.
#[derive(Debug)]
struct Taken {
    free: Arc<FreeLanes<AtomicU32>>,
    lane: usize,
}

impl Taken {
    /// Which of its caller's calls in flight one in this lane is; 0 is the socket's.
    fn slot(&self) -> u16 {
        self.lane as u16 + 1
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        if self.free.give_back(self.lane) {
            wait::wake_all(&self.free.0);
        }
    }
}

const _: () = assert!(LANES < CALL_SLOTS as usize);

impl Ring {
    /// Maps the ring in `file`, the lane 0 of which is served. Nothing if it is no ring, or there is no room for it.
    pub(crate) fn map(
        file: &OwnedFd,
        numbers: Arc<Numbers>,
        free: Arc<FreeLanes<AtomicU32>>,
    ) -> Option<Ring> {
        let seals = rustix::fs::fcntl_get_seals(file).ok()?;
        if !seals.contains(SealFlags::SHRINK) {
            return None;
        }
        let memory =
            Mapping::of_file(file, 0, RING_BYTES, Protection::ReadWrite, Medium::Memory, false).ok()?;
        memory.keep_from_children().ok()?;
        Some(Ring {
            memory,
            free,
            numbers,
            served: AtomicU32::new(1),
            refused: AtomicU32::new(0),
            looking: [const { AtomicU32::new(0) }; LANES],
            is_over: AtomicBool::new(false),
        })
    }

    /// The daemon is gone: all that wait for it stop waiting.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::Release);
        for lane in 0..LANES {
            if let Ok(word) = self.memory.atomic_u32(LaneLayout::of(lane).state()) {
                wait::wake_all(word);
            }
        }
        wait::wake_all(&self.free.0);
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Asks by a lane, and has `take` read the answer there. Nothing: it is no answer. A request that takes a `payload` along ends
    /// with bytes, and is given without them.
    pub(crate) fn ask<T>(
        &self,
        request: &Request<'_>,
        payload: &[UserSlice<'_>],
        socket: &impl Socket,
        take: impl FnOnce(&Answer<'_>) -> Option<T>,
    ) -> Result<T, NotAnswered> {
        if self.is_over() {
            return Err(NotAnswered::Ended(None));
        }
        let wanted: usize = payload.iter().map(UserSlice::len).sum();
        if wanted > REQUEST_BYTES {
            return Err(NotAnswered::Unsuited);
        }
        let taken = self.take(socket).ok_or(NotAnswered::Unsuited)?;
        let once = self.numbers.next(taken.slot(), request);
        let call = Call { once, request: *request };
        let (mut usual, long);
        let head = match postcard::to_slice(&call, {
            usual = [0; USUAL_BYTES];
            &mut usual
        }) {
            Ok(head) => &*head,
            Err(_) => {
                long = postcard::to_stdvec(&call).map_err(|_| NotAnswered::Unsuited)?;
                &long
            }
        };
        if head.len() + LENGTH_BYTES + wanted > REQUEST_BYTES {
            return Err(NotAnswered::Unsuited);
        }
        let layout = LaneLayout::of(taken.lane);
        let length = if wanted == 0 {
            self.memory.write(layout.request(), head).map_err(|_| NotAnswered::Unsuited)?;
            head.len()
        } else {
            self.store_payload(layout, head, payload)?
        };
        match self.call(taken.lane, length, socket) {
            Called::Answered => {}
            Called::NotAsked => return Err(NotAnswered::Unsuited),
            Called::Undone => return Err(NotAnswered::Ended(None)),
            Called::Begun => return Err(NotAnswered::Ended(Some(Begun { once, _lane: taken }))),
        }
        self.numbers.note_end(self.log_end(layout));
        let answer = match self.answer(layout) {
            Some(answer) if answer.bytes == TOO_LONG as usize => return Err(NotAnswered::Unsuited),
            answer => answer.and_then(|answer| take(&answer)),
        };
        answer.ok_or(NotAnswered::Ended(Some(Begun { once, _lane: taken })))
    }

    /// Stores a request, with the bytes that it ends with straight from the application's memory; those before a bad
    /// address, if there are some. Answers how long it is.
    fn store_payload(
        &self,
        layout: LaneLayout,
        head: &[u8],
        payload: &[UserSlice<'_>],
    ) -> Result<usize, NotAnswered> {
        // The length of the bytes that it does not have.
        let (_, head) = head.split_last().ok_or(NotAnswered::Unsuited)?;
        let at = layout.request() + head.len() as u64;
        let mut stored = 0;
        for part in payload {
            match self.memory.write_user(at + (LENGTH_BYTES + stored) as u64, *part) {
                Ok(()) => stored += part.len(),
                Err(AccessError::Fault(fault)) if stored + fault.copied > 0 => {
                    stored += fault.copied;
                    break;
                }
                Err(AccessError::Fault(_)) => return Err(NotAnswered::BadAddress),
                Err(_) => return Err(NotAnswered::Unsuited),
            }
        }
        let length = length_of_bytes(stored);
        self.memory.write(at, &length).map_err(|_| NotAnswered::Unsuited)?;
        self.memory.write(layout.request(), head).map_err(|_| NotAnswered::Unsuited)?;
        Ok(head.len() + length.len() + stored)
    }

    /// Takes a lane that the daemon serves; nothing if it is better to go by the socket.
    fn take(&self, socket: &impl Socket) -> Option<Taken> {
        if let Ok(lane) = self.free.take(self.served.load(Ordering::Acquire)) {
            return Some(Taken { free: Arc::clone(&self.free), lane });
        }
        self.take_later(socket)
    }

    #[cold]
    fn take_later(&self, socket: &impl Socket) -> Option<Taken> {
        let mut waits = 0;
        while waits < LANE_WAITS && !self.is_over() {
            let untried = !self.served.load(Ordering::Acquire) & !self.refused.load(Ordering::Relaxed);
            if let Ok(lane) = self.free.take(untried) {
                let taken = Taken { free: Arc::clone(&self.free), lane };
                match socket.start(lane) {
                    Started::Yes => {
                        self.served.fetch_or(1 << lane, Ordering::Release);
                        return Some(taken);
                    }
                    Started::No => {
                        self.refused.fetch_or(1 << lane, Ordering::Relaxed);
                    }
                    // Whatever comes first: a lane, or the socket.
                    Started::NotNow => waits = 0,
                }
            }
            let seen = match self.free.take(self.served.load(Ordering::Acquire)) {
                Ok(lane) => return Some(Taken { free: Arc::clone(&self.free), lane }),
                Err(seen) => seen,
            };
            if wait::wait(&self.free.0, seen, Some(LANE_WAIT)) == Waited::TimedOut {
                waits += 1;
            }
        }
        None
    }

    /// Publishes the request that is stored in a lane, and waits for the answer.
    fn call(&self, lane: usize, request_bytes: usize, socket: &impl Socket) -> Called {
        let (layout, looking) = (LaneLayout::of(lane), &self.looking[lane]);
        let [word, length, here, there] =
            [layout.state(), layout.request_bytes(), layout.clients_processor(), layout.daemons_processor()]
                .map(|offset| self.memory.atomic_u32(offset));
        let (Ok(word), Ok(length), Ok(here), Ok(there)) = (word, length, here, there) else {
            return Called::NotAsked;
        };
        let processor = sched_getcpu() as u32;
        let lane = ClientEnd(word);
        let is_asleep = lane.ask(|| {
            length.store(request_bytes as u32, Ordering::Relaxed);
            here.store(processor, Ordering::Relaxed);
        });
        if is_asleep {
            wait::wake_all(word);
        } else if there.load(Ordering::Relaxed) != processor {
            let mut looks = Looking::from_bits(looking.load(Ordering::Relaxed));
            looks.look(|| lane.is_answered());
            looking.store(looks.to_bits(), Ordering::Relaxed);
        }
        while !lane.is_answered() {
            let Some(seen) = lane.begin_sleep() else { continue };
            let waited = wait::wait(word, seen, Some(CLIENT_SLEEP));
            if waited == Waited::TimedOut && lane.is_unheard() && !self.is_over() {
                socket.tell_unheard();
            }
            if waited != Waited::Changed && !lane.is_answered() && (self.is_over() || socket.has_hung_up()) {
                self.end();
                // The daemon may have answered with its last breath.
                return match lane.withdraw() {
                    true => Called::Undone,
                    false if lane.is_answered() => Called::Answered,
                    false => Called::Begun,
                };
            }
        }
        Called::Answered
    }

    fn log_end(&self, layout: LaneLayout) -> Option<LogDependency> {
        let words = layout.log_end().map(|at| self.memory.atomic_u64(at).ok());
        let [Some(session), Some(generation), Some(position)] = words else { return None };
        let session = SessionId(session.load(Ordering::Relaxed));
        let generation = LogGeneration(generation.load(Ordering::Relaxed));
        let position = LogPosition(position.load(Ordering::Relaxed));
        (session != SessionId::NOBODY).then_some(LogDependency { session, generation, position })
    }

    fn answer(&self, layout: LaneLayout) -> Option<Answer<'_>> {
        let length = self.memory.atomic_u32(layout.answer_bytes()).ok()?.load(Ordering::Relaxed);
        let bytes = if length == TOO_LONG { length as usize } else { (length as usize).min(ANSWER_BYTES) };
        Some(Answer { memory: &self.memory, start: layout.answer(), bytes })
    }
}

/// What became of a request.
enum Called {
    Answered,
    NotAsked,
    Undone,
    Begun,
}

/// An answer, in the lane of the calling thread.
pub(crate) struct Answer<'r> {
    memory: &'r SharedMemory,
    start: u64,
    bytes: usize,
}

impl Answer<'_> {
    /// The message.
    pub(crate) fn decode(&self) -> Option<Response> {
        let (mut usual, mut long);
        let bytes = if self.bytes <= USUAL_BYTES {
            usual = [0; USUAL_BYTES];
            &mut usual[..self.bytes]
        } else {
            long = vec![0; self.bytes];
            &mut long[..]
        };
        self.memory.read(self.start, bytes).ok()?;
        postcard::from_bytes(bytes).ok()
    }

    /// The bytes that are answered, if the message is [`Response::Bytes`].
    pub(crate) fn content(&self) -> Option<Content<'_>> {
        let mut head = [0; HEAD_BYTES];
        let head = &mut head[..HEAD_BYTES.min(self.bytes)];
        self.memory.read(self.start, head).ok()?;
        let (kind, rest) = postcard::take_from_bytes::<u32>(head).ok()?;
        let (length, rest) = postcard::take_from_bytes::<u32>(rest).ok()?;
        let start = head.len() - rest.len();
        let is_whole = kind == BYTES && start + length as usize == self.bytes;
        is_whole.then(|| Content::Lane(self.memory, self.start + start as u64, length as usize))
    }
}

/// The head in front of the bytes takes no more.
const HEAD_BYTES: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_of_fork_does_not_have_a_ring() {
        let file = wait::sealed_memfd("test-ring", RING_BYTES).unwrap();
        let ring = Ring::map(&file, Arc::default(), Arc::default()).unwrap();
        let start = format!("{:x}-", ring.memory.as_ptr() as usize);
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let of_ring = maps.lines().skip_while(|line| !line.starts_with(&start));
        let flags = of_ring.into_iter().find(|line| line.starts_with("VmFlags:")).unwrap();
        assert!(flags.split(' ').any(|flag| flag == "dc"), "{flags}");
    }

    #[test]
    fn bytes_are_told_from_other_answers_by_their_beginning() {
        let file = wait::sealed_memfd("test-ring", RING_BYTES).unwrap();
        let ring = Ring::map(&file, Arc::default(), Arc::default()).unwrap();
        let answer = |response: &Response| {
            let bytes = postcard::to_stdvec(response).unwrap();
            ring.memory.write(7, &bytes).unwrap();
            let answer = Answer { memory: &ring.memory, start: 7, bytes: bytes.len() };
            assert_eq!(answer.decode().as_ref(), Some(response));
            answer.content().map(|content| content.len())
        };
        for length in [0, 1, 127, 128, 20_000] {
            assert_eq!(answer(&Response::Bytes(vec![3; length])), Some(length));
        }
        assert_eq!(answer(&Response::Done), None);
        assert_eq!(answer(&Response::Number(3)), None);
        let cut = Answer { memory: &ring.memory, start: 7, bytes: 1 };
        assert!(cut.content().is_none());
    }
}
