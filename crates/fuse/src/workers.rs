//! Threads that take requests from the kernel and have them served, by the device or by rings.
//!
//! By either, a thread that leaves no other waiting starts one first, so that a request that waits (for a digest, for a
//! lease, for a lock, for another request) never keeps others from being taken.
//!
//! | | by the device | by rings |
//! |---|---|---|
//! | who waits | any thread, for any request | threads of a processor, pinned there, for requests made on it; each has a ring |
//! | enough of them wait | one more ends | it stays: what the kernel was handed it does not give back |
//! | a request that found nobody waiting | the next to wait gets it | the next *answer* on the processor gets it |
//!
//! For the last, who comes late to a processor's rings has something asked that it can answer (`wakes`). Nothing is left that
//! way: a ring can only be free while requests are left if it came late, and what is asked on its account takes a free one,
//! whose answer has it take what is left.
//!
//! Forgetting and interruptions always come by the device.

use crate::abi::{InHeader, Opcode};
use crate::answer::Answer;
use crate::device::{Device, Received};
use crate::processors;
use crate::request::Request;
use crate::ring::{Brought, Ring};
use crate::serves::Serves;
use crate::wakes::Wakes;
use crate::{CONTENT_BYTES_MAX, HEAD_BYTES_MAX};
use parking_lot::{Condvar, Mutex};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::thread::Builder;

/// Threads that wait at the device although nobody needs them, and the most there are at all.
const WAITING_MAX: usize = 3;
const THREADS_MAX: usize = 1000;

/// Those of one mount.
pub struct Workers {
    serves: Box<dyn Serves>,
    device: Arc<Device>,
    at_device: AtomicUsize,
    at_rings: Vec<Queue>,
    requests: AtomicU64,
    threads: Mutex<Threads>,
    ended: Condvar,
}

#[derive(Default)]
struct Threads {
    count: usize,
    is_over: bool,
}

/// A processor's rings.
struct Queue {
    processor: u16,
    wakes: Wakes,
    /// Threads that wait at them, or will.
    waiting: AtomicUsize,
}

impl Workers {
    /// Has `serves` serve requests by the device, and by rings of so many processors, if there are any.
    pub fn start(
        serves: Box<dyn Serves>,
        device: Device,
        rings: Option<(u16, Wakes)>,
    ) -> io::Result<Arc<Workers>> {
        let device = Arc::new(device);
        let queue = |processor, wakes| Queue { processor, wakes, waiting: AtomicUsize::new(0) };
        let queues = rings
            .into_iter()
            .flat_map(|(count, wakes)| (0..count).map(move |number| queue(number, wakes.clone())));
        let workers = Arc::new(Workers {
            serves,
            device: Arc::clone(&device),
            at_device: AtomicUsize::new(0),
            at_rings: queues.collect(),
            requests: AtomicU64::new(0),
            threads: Mutex::default(),
            ended: Condvar::new(),
        });
        workers.add_at_device(device)?;
        Ok(workers)
    }

    /// Has requests taken from this ring. What became of its registration goes to `registered`.
    pub fn add_at_ring(
        self: &Arc<Self>,
        ring: Ring,
        registered: Option<Sender<io::Result<()>>>,
    ) -> io::Result<()> {
        let queue = &self.at_rings[usize::from(ring.processor())];
        queue.waiting.fetch_add(1, Ordering::SeqCst);
        let name = format!("fuse-ring-{}", ring.processor());
        let started = self.spawn(name, move |workers| {
            if let Err(error) = workers.work_at_ring(ring, registered) {
                tracing::error!(%error, "a thread does not serve the mount any more");
            }
        });
        if started.is_err() {
            queue.waiting.fetch_sub(1, Ordering::SeqCst);
        }
        started
    }

    /// How many requests the kernel has made.
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Waits until nobody serves the mount any more.
    pub fn wait(&self) {
        let mut threads = self.threads.lock();
        while !threads.is_over {
            self.ended.wait(&mut threads);
        }
    }

    fn spawn(
        self: &Arc<Self>,
        name: String,
        work: impl FnOnce(&Arc<Workers>) + Send + 'static,
    ) -> io::Result<()> {
        {
            let mut threads = self.threads.lock();
            if threads.is_over || threads.count == THREADS_MAX {
                return Err(io::ErrorKind::QuotaExceeded.into());
            }
            threads.count += 1;
        }
        let workers = Arc::clone(self);
        let started = Builder::new().name(name).spawn(move || {
            work(&workers);
            workers.leave();
        });
        if started.is_err() {
            self.leave();
        }
        started.map(drop)
    }

    /// A thread fewer. The last one ends it.
    fn leave(&self) {
        let mut threads = self.threads.lock();
        threads.count -= 1;
        if threads.count == 0 {
            threads.is_over = true;
            self.serves.end();
            self.ended.notify_all();
        }
    }

    fn add_at_device(self: &Arc<Self>, device: Arc<Device>) -> io::Result<()> {
        self.at_device.fetch_add(1, Ordering::SeqCst);
        let started = self.spawn("fuse".into(), move |workers| workers.work_at_device(&device));
        if started.is_err() {
            self.at_device.fetch_sub(1, Ordering::SeqCst);
        }
        started
    }

    /// Whether there is one more now.
    fn add_another(self: &Arc<Self>, at: Option<&Queue>) -> bool {
        let added = match at {
            // Without a device of its own it meets others where requests are handed out.
            None => {
                let device = self.device.another().map_or_else(|_| Arc::clone(&self.device), Arc::new);
                self.add_at_device(device)
            }
            Some(queue) => {
                Ring::new(&*self.device, queue.processor).and_then(|ring| self.add_at_ring(ring, None))
            }
        };
        if let Err(error) = &added {
            tracing::warn!(%error, "one thread fewer serves the mount");
        }
        added.is_ok()
    }

    /// Takes requests from the device until the mount is gone, or there are threads enough without this one.
    fn work_at_device(self: &Arc<Self>, device: &Device) {
        let mut buffer = vec![0; HEAD_BYTES_MAX + CONTENT_BYTES_MAX];
        let mut room = vec![0; HEAD_BYTES_MAX + CONTENT_BYTES_MAX];
        loop {
            let received = device.receive(&mut buffer);
            let left = self.at_device.fetch_sub(1, Ordering::SeqCst) - 1;
            match received {
                Ok(Received::Request(bytes)) => {
                    let may_wait = left > 0 || self.add_another(None);
                    self.serve_by_device(device, &buffer[..bytes], &mut room, may_wait);
                }
                Ok(Received::Unmounted) => return self.serves.end_waits(),
                Err(error) => {
                    tracing::error!(%error, "a thread does not serve the mount any more");
                    return self.serves.end_waits();
                }
            }
            if self.at_device.fetch_add(1, Ordering::SeqCst) >= WAITING_MAX {
                self.at_device.fetch_sub(1, Ordering::SeqCst);
                return;
            }
        }
    }

    fn serve_by_device(&self, device: &Device, bytes: &[u8], room: &mut [u8], may_wait: bool) {
        let Ok(request) = Request::read(bytes) else {
            return tracing::error!("the kernel sent what is no request");
        };
        let unique = request.header.unique;
        let is_answered = request.opcode.is_none_or(Opcode::is_answered);
        let done = self.serve(request, Answer::within(room), may_wait);
        match done {
            _ if !is_answered => {}
            Ok(bytes) => device.answer(unique, &room[..bytes]),
            Err(errno) => device.refuse(unique, errno),
        }
    }

    /// Takes requests from a ring until the mount is gone.
    fn work_at_ring(
        self: &Arc<Self>,
        mut ring: Ring,
        registered: Option<Sender<io::Result<()>>>,
    ) -> io::Result<()> {
        let queue = &self.at_rings[usize::from(ring.processor())];
        processors::stay_on(ring.processor());
        let is_first = registered.is_some();
        let done = ring.register();
        match (registered, done) {
            (Some(registered), done) => {
                let is_done = done.is_ok();
                let _ = registered.send(done);
                if !is_done {
                    return Ok(());
                }
            }
            (None, done) => done?,
        }
        if !is_first {
            queue.wakes.wake(queue.processor);
        }
        loop {
            if ring.receive()? == Brought::End {
                self.serves.end_waits();
                return Ok(());
            }
            let left = queue.waiting.fetch_sub(1, Ordering::SeqCst) - 1;
            let (opcode, process) = ring.asked();
            // What is asked on a late ring's account must not call for one more.
            if opcode == Some(Opcode::StatFs) && queue.wakes.is_one(process) {
                ring.serve(|_, _| Err(libc::EAGAIN));
            } else {
                let may_wait = left > 0 || self.add_another(Some(queue));
                ring.serve(|request, answer| self.serve(request, answer, may_wait));
            }
            queue.waiting.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn serve(&self, request: Request<'_>, answer: Answer<'_>, may_wait: bool) -> Result<usize, i32> {
        let InHeader { opcode, node, .. } = request.header;
        tracing::trace!(kind = ?request.opcode, opcode, node, "request");
        self.requests.fetch_add(1, Ordering::Relaxed);
        // What fails here must not leave a program waiting.
        catch_unwind(AssertUnwindSafe(|| self.serves.serve(request, answer, may_wait))).unwrap_or_else(|_| {
            tracing::error!(opcode, "a request met an error of this program");
            Err(libc::EIO)
        })
    }
}
