//! A disk whose power is cut: one file of a FUSE file system of our own, with an [`Image`] behind it.
//!
//! A loop device on the file makes it a disk. The kernel caches nothing of it (`OPEN_DIRECT`), so every write and every
//! flush of the file system above arrives here when it is made.

use super::image::{Image, Spared};
use crate::operations::random::Random;
use cuesta_fuse::abi::{
    Attributes, AttributesOut, EntryOut, OPEN_DIRECT, Opcode, OpenOut, ReadIn, StatFsOut, WriteIn, WriteOut,
};
use cuesta_fuse::{Answer, Device, Malformed, Options, Outcome, Request, Server, Serves};
use rustix::time::{ClockId, clock_gettime};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

const FILE: u64 = 2;
const FILE_NAME: &str = "image";

/// The monotonic clock, which Python's `time.monotonic_ns` reads, too.
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// A cut that took effect.
#[derive(Clone, Debug)]
pub struct Cut {
    /// On the monotonic clock.
    pub at_ns: u64,
    /// Writes that were in the cache.
    pub cached: usize,
    /// How long each flush took since the power came.
    pub flushes_ns: Vec<u64>,
}

impl Cut {
    /// How long the slowest `count` flushes took, one after the other.
    #[must_use]
    pub fn slowest_ns(&self, count: usize) -> u64 {
        let mut flushes_ns = self.flushes_ns.clone();
        flushes_ns.sort_unstable_by(|one, other| other.cmp(one));
        flushes_ns.iter().take(count).sum()
    }
}

/// A cut that is due when the disk has been asked for so many writes and flushes more.
#[derive(Clone, Copy, Debug)]
struct Due {
    requests: u64,
    spared: Spared,
}

struct State {
    image: Image,
    random: Random,
    due: Option<Due>,
    cut: Option<Cut>,
    flush_takes: Duration,
    flushes_ns: Vec<u64>,
}

struct Shared {
    state: Mutex<State>,
    was_cut: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic under this lock")
    }

    /// The power goes now, if it has not gone.
    fn cut(&self, state: &mut State, spared: Spared) {
        if state.cut.is_none() {
            let (cached, flushes_ns) = (state.image.cached(), std::mem::take(&mut state.flushes_ns));
            state.cut = Some(Cut { at_ns: now_ns(), cached, flushes_ns });
            state.image.lose_power(spared, &mut state.random);
            self.was_cut.notify_all();
        }
    }

    /// A write or a flush was asked for. Says whether the disk has power behind it.
    fn has_power_behind_request(&self, state: &mut State) -> bool {
        if let Some(due) = &mut state.due {
            due.requests = due.requests.saturating_sub(1);
            if due.requests == 0 {
                let spared = due.spared;
                self.cut(state, spared);
            }
        }
        state.cut.is_none()
    }
}

/// A disk, with power.
pub struct PowerDisk {
    shared: Arc<Shared>,
    server: Server,
    at: PathBuf,
}

impl PowerDisk {
    /// A disk full of zeros, as a file in the folder `at`.
    pub fn new(at: &Path, bytes: usize, seed: u64) -> io::Result<PowerDisk> {
        let state = State {
            image: Image::zeros(bytes),
            random: Random::new(seed),
            due: None,
            cut: None,
            flush_takes: Duration::ZERO,
            flushes_ns: Vec::new(),
        };
        let shared = Arc::new(Shared { state: Mutex::new(state), was_cut: Condvar::new() });
        let options = Options { source: "power-disk".to_owned(), ..Options::default() };
        let device = cuesta_fuse::mount(at, &options).map_err(io::Error::other)?;
        let serves = Serving(Arc::clone(&shared));
        let server = Server::start_with(device, |_, _| Ok(Box::new(serves))).map_err(io::Error::other)?;
        Ok(PowerDisk { shared, server, at: at.to_owned() })
    }

    /// The file.
    #[must_use]
    pub fn file(&self) -> PathBuf {
        self.at.join(FILE_NAME)
    }

    /// From now on a flush takes so long.
    pub fn set_flush_time(&self, takes: Duration) {
        self.shared.lock().flush_takes = takes;
    }

    /// The power goes when the disk has been asked for `requests` more writes and flushes, or after `limit`. Returns then.
    pub fn cut_power(&self, requests: u64, limit: Duration, spared: Spared) -> Cut {
        let mut state = self.shared.lock();
        state.due = Some(Due { requests, spared });
        let waited = self.shared.was_cut.wait_timeout_while(state, limit, |state| state.cut.is_none());
        let (mut state, _) = waited.expect("no panic under this lock");
        self.shared.cut(&mut state, spared);
        state.due = None;
        state.cut.clone().expect("it was cut")
    }

    /// The power comes back.
    pub fn restore_power(&self) {
        self.shared.lock().cut = None;
    }
}

impl Drop for PowerDisk {
    fn drop(&mut self) {
        // A disk in use stays mounted until its last user is gone.
        if cuesta_fuse::unmount(&self.at, false).is_ok() {
            self.server.wait();
        } else {
            let _ = cuesta_fuse::unmount(&self.at, true);
        }
    }
}

struct Serving(Arc<Shared>);

/// An error number.
struct Refusal(i32);

impl From<Malformed> for Refusal {
    fn from(_: Malformed) -> Self {
        Refusal(libc::EIO)
    }
}

impl Serves for Serving {
    fn serve(&self, request: Request<'_>, answer: &mut Answer, _: &Arc<Device>) -> Outcome {
        if let Some(Opcode::Forget | Opcode::BatchForget | Opcode::Interrupt) = request.opcode {
            return Outcome::Silent;
        }
        match self.answer(request, answer) {
            Ok(()) => Outcome::Answered,
            Err(Refusal(errno)) => Outcome::Refused(errno),
        }
    }
}

impl Serving {
    fn answer(&self, request: Request<'_>, answer: &mut Answer) -> Result<(), Refusal> {
        let Request { header, opcode, mut arguments } = request;
        match opcode.ok_or(Refusal(libc::ENOSYS))? {
            Opcode::Lookup if arguments.text()? == FILE_NAME.as_bytes() => {
                answer.put(&EntryOut {
                    node: FILE,
                    attributes: self.attributes(FILE),
                    ..EntryOut::default()
                });
            }
            Opcode::Lookup => return Err(Refusal(libc::ENOENT)),
            Opcode::GetAttributes | Opcode::SetAttributes => {
                let attributes = self.attributes(header.node);
                answer.put(&AttributesOut { attributes, ..AttributesOut::default() });
            }
            Opcode::Open => answer.put(&OpenOut { open_flags: OPEN_DIRECT, ..OpenOut::default() }),
            Opcode::OpenDirectory => answer.put(&OpenOut::default()),
            Opcode::StatFs => answer.put(&StatFsOut { name_max: 255, ..StatFsOut::default() }),
            Opcode::Read => {
                let asked: ReadIn = arguments.structure()?;
                let state = self.0.lock();
                if state.cut.is_some() {
                    return Err(Refusal(libc::EIO));
                }
                answer.put_bytes(state.image.read(asked.offset as usize, asked.size as usize));
            }
            Opcode::Write => {
                let asked: WriteIn = arguments.structure()?;
                let content = arguments.bytes(asked.size as usize)?;
                self.write(asked.offset as usize, content)?;
                answer.put(&WriteOut { size: asked.size, padding: 0 });
            }
            Opcode::FSync => self.flush()?,
            Opcode::Flush | Opcode::Release | Opcode::ReleaseDirectory | Opcode::ReadDirectory => {}
            Opcode::Allocate => return Err(Refusal(libc::EOPNOTSUPP)),
            _ => return Err(Refusal(libc::ENOSYS)),
        }
        Ok(())
    }

    fn attributes(&self, node: u64) -> Attributes {
        let size = if node == FILE { self.0.lock().image.len() as u64 } else { 0 };
        let mode = if node == FILE { libc::S_IFREG | 0o600 } else { libc::S_IFDIR | 0o700 };
        Attributes {
            inode: node,
            size,
            blocks: size / 512,
            mode,
            links: 1,
            block_size: 4096,
            ..Attributes::default()
        }
    }

    /// The write under way when the power goes is in the cache, so it may be torn.
    fn write(&self, offset: usize, content: &[u8]) -> Result<(), Refusal> {
        let mut state = self.0.lock();
        if state.cut.is_some() {
            return Err(Refusal(libc::EIO));
        }
        if !state.image.write(offset, content) {
            return Err(Refusal(libc::ENOSPC));
        }
        self.0.has_power_behind_request(&mut state).then_some(()).ok_or(Refusal(libc::EIO))
    }

    /// A flush covers the writes before its beginning, once it has ended.
    fn flush(&self) -> Result<(), Refusal> {
        let (began_ns, mut state) = (now_ns(), self.0.lock());
        let (to, takes) = (state.image.next_write(), state.flush_takes);
        if !self.0.has_power_behind_request(&mut state) {
            return Err(Refusal(libc::EIO));
        }
        if !takes.is_zero() {
            drop(state);
            std::thread::sleep(takes);
            state = self.0.lock();
            if state.cut.is_some() {
                return Err(Refusal(libc::EIO));
            }
        }
        state.image.flushed(to);
        state.flushes_ns.push(now_ns() - began_ns);
        Ok(())
    }
}
