//! The daemon's end of a ring: a thread for each lane that is used.
//!
//! The client may change any byte at any time. So each word is read once, a length is checked before it is used, and a
//! request is copied out before it is decoded. A client that breaks the protocol has its connection closed. The ring's
//! memory cannot shrink, and it is given back to the kernel when the connection ends, even if the client keeps it mapped.

use crate::answering::connection::{Connection, InHand};
use crate::protocol::call::Call;
use crate::protocol::messages::Response;
use crate::ring::lane::{Broken, DaemonEnd};
use crate::ring::layout::{
    ANSWER_BYTES, BYTES, LANES, LENGTH_BYTES, LaneLayout, REQUEST_BYTES, RING_BYTES, TOO_LONG,
    length_of_bytes,
};
use crate::ring::placement::{Placement, ThreadPlace};
use crate::ring::policy::{DAEMON_SLEEP, QUICK_AFTER_SLEEP, look};
use crate::shares::accounts::{Accounts, Holder, Share};
use crate::shares::resource::Resource;
use cuesta_format::{LogDependency, Medium};
use cuesta_libfs::Error;
use cuesta_media::wait;
use cuesta_media::{AccessError, Mapping, MediaError, Protection, UserSliceMut};
use parking_lot::{Condvar, Mutex};
use rustix::fd::OwnedFd;
use rustix::net::Shutdown;
use rustix::process::Pid;
use rustix::thread::{CpuSet, gettid, sched_getaffinity, sched_getcpu, sched_setaffinity};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, Scope};
use std::time::{Duration, Instant};

/// Address space of a lane's stack; only what is touched costs memory.
const STACK_BYTES: usize = 512 << 10;
/// The head in front of bytes that are read.
const CONTENT_HEAD_BYTES: usize = 1 + LENGTH_BYTES;
/// Threads that have not ended are woken again after so long.
const END_PAUSE: Duration = Duration::from_millis(20);

/// Why a lane ends.
#[derive(Debug)]
enum LaneError {
    /// The client broke the protocol.
    Broken,
    /// SharedFS goes away beneath us, or the client is gone: if it is not, it has to ask the next daemon.
    Ended,
}

impl From<Broken> for LaneError {
    fn from(_: Broken) -> Self {
        LaneError::Broken
    }
}

impl From<AccessError> for LaneError {
    fn from(_: AccessError) -> Self {
        LaneError::Broken
    }
}

/// A ring, and the threads that serve it.
#[derive(Debug)]
pub(crate) struct Ring {
    memory: Mapping,
    /// A copy of the connection's socket, which is shut down when a lane ends.
    socket: OwnedFd,
    _shares: [Share; 2],
    lanes: Mutex<Lanes>,
    ended_one: Condvar,
    is_over: AtomicBool,
    is_broken: AtomicBool,
    /// The threads may run anywhere, from now on.
    is_let_go: AtomicBool,
}

#[derive(Debug, Default)]
struct Lanes {
    /// The lanes that have been started, a bit for each.
    started: u32,
    running: usize,
    /// The threads that have moved, and where they could run before.
    moved: Vec<(Pid, CpuSet)>,
}

impl Ring {
    /// Makes a ring for the process at the other end of `socket`. Answers it, and the descriptor to send.
    pub(crate) fn make(
        socket: &OwnedFd,
        accounts: &Arc<Accounts>,
        holder: Holder,
    ) -> Result<(Ring, OwnedFd), Error> {
        let take = |resource, amount| accounts.take(holder, resource, amount).ok_or(Error::Descriptors);
        let shares = [take(Resource::RingBytes, RING_BYTES)?, take(Resource::Descriptors, 1)?];
        let failed = |error: MediaError| Error::Daemon(format!("no ring: {error}"));
        let file = wait::sealed_memfd("cuesta-ring", RING_BYTES).map_err(failed)?;
        let memory = Mapping::of_file(&file, 0, RING_BYTES, Protection::ReadWrite, Medium::Memory, false)
            .map_err(failed)?;
        let socket = rustix::io::fcntl_dupfd_cloexec(socket, 0).map_err(|_| Error::Descriptors)?;
        let ring = Ring {
            memory,
            socket,
            _shares: shares,
            lanes: Mutex::default(),
            ended_one: Condvar::new(),
            is_over: AtomicBool::new(false),
            is_broken: AtomicBool::new(false),
            is_let_go: AtomicBool::new(false),
        };
        Ok((ring, file))
    }

    /// Makes the thread of a lane.
    pub(crate) fn start<'scope>(
        &'scope self,
        lane: usize,
        connection: &'scope Connection<'_>,
        scope: &'scope Scope<'scope, '_>,
    ) -> Result<(), Error> {
        let mut lanes = self.lanes.lock();
        if lane >= LANES || lanes.started & 1 << lane != 0 {
            return Err(Error::Invalid);
        }
        let share = connection.take(Resource::LaneThreads, 1).ok_or(Error::Descriptors)?;
        let thread = Builder::new().name("user-lane".into()).stack_size(STACK_BYTES);
        let spawned = thread.spawn_scoped(scope, move || {
            let _share = share;
            let _ending = Ending(self);
            match self.serve(LaneLayout::of(lane), connection) {
                Ok(()) | Err(LaneError::Ended) => {}
                Err(LaneError::Broken) => self.is_broken.store(true, Ordering::Release),
            }
        });
        spawned.map_err(|_| Error::Descriptors)?;
        lanes.started |= 1 << lane;
        lanes.running += 1;
        Ok(())
    }

    /// Ends the threads of all lanes, and gives the memory back.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::Release);
        let mut lanes = self.lanes.lock();
        while lanes.running > 0 {
            self.wake_all();
            self.ended_one.wait_for(&mut lanes, END_PAUSE);
        }
        drop(lanes);
        self.memory.empty();
    }

    fn wake_all(&self) {
        for lane in 0..LANES {
            if let Ok(word) = self.memory.atomic_u32(LaneLayout::of(lane).state()) {
                wait::wake_all(word);
            }
        }
    }

    /// Something keeps the processor of a lane's thread for itself: they all may run anywhere.
    pub(crate) fn let_go(&self) {
        self.is_let_go.store(true, Ordering::Release);
        self.lanes.lock().moved.iter().for_each(|(thread, home)| allow(Some(*thread), home));
        self.wake_all();
    }

    /// Whether the client broke the protocol of a lane.
    pub(crate) fn is_broken(&self) -> bool {
        self.is_broken.load(Ordering::Acquire)
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    fn serve(&self, layout: LaneLayout, connection: &Connection<'_>) -> Result<(), LaneError> {
        let word = self.memory.atomic_u32(layout.state())?;
        let lane = DaemonEnd(word);
        let mut request = vec![0; REQUEST_BYTES].into_boxed_slice();
        let mut answer = vec![0; ANSWER_BYTES].into_boxed_slice();
        let here = self.memory.atomic_u32(layout.daemons_processor())?;
        let mut mover = Mover::new(self);
        let (mut answered, mut was_found) = (None::<Instant>, false);
        while !self.is_over() {
            if lane.take()? {
                let is_quick =
                    was_found || answered.is_some_and(|answered| answered.elapsed() < QUICK_AFTER_SLEEP);
                let processor = self.memory.atomic_u32(layout.clients_processor())?.load(Ordering::Relaxed);
                let length = self.answer(layout, connection, &mut request, &mut answer)?;
                let answer_bytes = self.memory.atomic_u32(layout.answer_bytes())?;
                self.store_log_end(layout, connection.log_end())?;
                let is_asleep = lane.answer(|| {
                    answer_bytes.store(length, Ordering::Relaxed);
                    here.store(sched_getcpu() as u32, Ordering::Relaxed);
                })?;
                if is_asleep {
                    wait::wake_all(word);
                }
                mover.served(processor, is_quick);
                answered = Some(Instant::now());
                let longest = mover.placement.look();
                was_found = longest.is_some_and(|longest| look(longest, || lane.is_asked()));
            } else if let Some(seen) = lane.begin_sleep() {
                if self.is_over() {
                    break;
                }
                wait::wait(word, seen, Some(DAEMON_SLEEP));
            }
        }
        Ok(())
    }

    /// Says which part of a log the answer of a lane rests on.
    fn store_log_end(&self, layout: LaneLayout, end: Option<LogDependency>) -> Result<(), LaneError> {
        let words = end.map_or([0; 3], |end| [end.session.0, end.generation.0, end.position.0]);
        for (at, word) in layout.log_end().into_iter().zip(words) {
            self.memory.atomic_u64(at)?.store(word, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Where bytes that are read go, in the answer of a lane.
    fn room_for_content(&self, layout: LaneLayout) -> UserSliceMut<'_> {
        let start = layout.answer() + CONTENT_HEAD_BYTES as u64;
        let length = ANSWER_BYTES - CONTENT_HEAD_BYTES;
        // SAFETY: in the ring, which is mapped for writing as long as `self` lives. The client may change what is there, and
        // nothing here relies on it.
        unsafe { UserSliceMut::new(self.memory.as_ptr().add(start as usize), length) }
    }

    /// Runs the request of a lane, and stores the answer. Answers its length.
    fn answer(
        &self,
        layout: LaneLayout,
        connection: &Connection<'_>,
        request: &mut [u8],
        answer: &mut [u8],
    ) -> Result<u32, LaneError> {
        let length = self.memory.atomic_u32(layout.request_bytes())?.load(Ordering::Relaxed) as usize;
        let request = request.get_mut(..length).ok_or(LaneError::Broken)?;
        self.memory.read(layout.request(), request)?;
        let call: Call<'_> = postcard::from_bytes(request).map_err(|_| LaneError::Broken)?;
        if !call.request.goes_by_ring() {
            return Err(LaneError::Broken);
        }
        let may_change = call.request.may_change();
        let mut in_hand = InHand::default();
        let answered = match connection.read_to(&call.request, self.room_for_content(layout)) {
            Some(Ok(read)) => {
                let head = content_head(read);
                self.memory.write(layout.answer(), &head)?;
                return Ok((head.len() + read) as u32);
            }
            Some(Err(error)) => Err(error),
            None => connection.answer_call(call, None, &mut in_hand).map(|(response, _)| response),
        };
        let response = match answered {
            Err(Error::Withdrawn) => return Err(LaneError::Ended),
            Err(Error::Disconnected | Error::SessionEnded) => {
                connection.is_cut.store(true, Ordering::Release);
                return Err(LaneError::Ended);
            }
            Ok(response) => response,
            Err(error) => Response::Failed(error),
        };
        match postcard::to_slice(&response, answer) {
            Ok(bytes) => {
                self.memory.write(layout.answer(), bytes)?;
                Ok(bytes.len() as u32)
            }
            Err(_) if !may_change => Ok(TOO_LONG),
            // No such request has an answer that long; by the socket it would be run again.
            Err(_) => Err(LaneError::Broken),
        }
    }
}

/// The beginning of [`Response::Bytes`].
fn content_head(length: usize) -> [u8; CONTENT_HEAD_BYTES] {
    let [first, second, third] = length_of_bytes(length);
    [BYTES as u8, first, second, third]
}

/// Has the thread of a lane run where the policy says.
struct Mover<'r> {
    ring: &'r Ring,
    placement: Placement,
    home: CpuSet,
    has_moved: bool,
}

impl<'r> Mover<'r> {
    fn new(ring: &'r Ring) -> Mover<'r> {
        // Without it the thread moves nowhere.
        let home = sched_getaffinity(None).unwrap_or_default();
        Mover { ring, placement: Placement::default(), home, has_moved: false }
    }

    fn served(&mut self, processor: u32, is_quick: bool) {
        let processor = Some(processor as usize)
            .filter(|processor| *processor < CpuSet::MAX_CPU && self.home.is_set(*processor))
            .filter(|_| self.home.count() > 1 && !self.ring.is_let_go.load(Ordering::Acquire));
        let mut processors = self.home;
        match self.placement.served(processor, is_quick) {
            None => return,
            Some(ThreadPlace::Anywhere) => {}
            Some(ThreadPlace::Near(processor)) => {
                processors = CpuSet::new();
                processors.set(processor);
            }
            Some(ThreadPlace::Far(processor)) => processors.unset(processor),
        }
        if !self.has_moved {
            self.has_moved = true;
            self.ring.lanes.lock().moved.push((gettid(), self.home));
        }
        allow(None, &processors);
    }
}

fn allow(thread: Option<Pid>, processors: &CpuSet) {
    // A processor that went away, or may no longer be used: the thread stays where it is, which is slower at worst.
    if let Err(error) = sched_setaffinity(thread, processors) {
        tracing::debug!(%error, "a thread stays where it is");
    }
}

/// A lane's thread is about to end, in order or by a panic: so does its connection.
struct Ending<'r>(&'r Ring);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        let _ = rustix::net::shutdown(&self.0.socket, Shutdown::Both);
        self.0.lanes.lock().running -= 1;
        self.0.ended_one.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_was_let_go_may_run_where_it_could_at_first() {
        let (socket, _other_end) = std::os::unix::net::UnixStream::pair().unwrap();
        let holder = Holder { user: 1, is_trusted: false };
        let accounts = Accounts::new(crate::Limits::default());
        let (ring, _file) = Ring::make(&socket.into(), &accounts, holder).unwrap();
        let home = sched_getaffinity(None).unwrap();
        let here = (0..CpuSet::MAX_CPU).find(|processor| home.is_set(*processor)).unwrap();
        let mut mover = Mover::new(&ring);
        for nowhere in [u32::MAX, CpuSet::MAX_CPU as u32] {
            mover.served(nowhere, false);
            assert_eq!(sched_getaffinity(None).unwrap(), home);
        }
        mover.served(here as u32, false);
        let placed = sched_getaffinity(None).unwrap();
        assert!(placed.is_set(here) && placed.count() == 1);
        ring.let_go();
        assert_eq!(sched_getaffinity(None).unwrap(), home);
        (0..100).for_each(|_| mover.served(here as u32, true));
        assert_eq!(sched_getaffinity(None).unwrap(), home);
    }

    #[test]
    fn bytes_that_were_read_are_an_answer() {
        for length in [0, 1, 127, 128, 255, 16_383, 16_384, ANSWER_BYTES - CONTENT_HEAD_BYTES] {
            let content = vec![7; length];
            let message = [&content_head(length)[..], &content].concat();
            assert_eq!(postcard::from_bytes(&message), Ok(Response::Bytes(content)), "{length}");
        }
    }
}
