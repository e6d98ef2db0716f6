//! What a medium does, measured the way the store uses it: by the accesses of [`crate::SharedMemory`].
//!
//! Latency of reads: 64 bytes at random places, each known only when the one before was read. Of writes: 64 bytes behind the last ones and a
//! fence, as a log grows. Bandwidth: every processor copies pieces far longer than caches like, from its own part.

use super::Emulated;
use crate::error::{AccessError, MediaError};
use crate::mapping::{Mapping, Protection};
use crate::persist::LINE;
use crate::shared::SharedMemory;
use cuesta_format::Medium;
use cuesta_format::emulation::{Figure, Profile};
use rustix::fs::{FallocateFlags, Mode, OFlags};
use std::path::Path;
use std::time::{Duration, Instant};

/// Bytes of a piece whose bandwidth is measured.
const PIECE_BYTES: usize = 256 << 10;
/// More threads than that are not needed to fill what a profile can ask for.
const THREADS_MAX: usize = 8;
/// How long each figure is measured at a time.
const TURN: Duration = Duration::from_millis(20);
/// Accesses between two looks at the time.
const STRIDE: u64 = 256;
const LINE_BYTES: u64 = LINE as u64;

/// A part of a medium that nobody else uses, gone when this is dropped.
#[derive(Debug)]
pub struct Scratch {
    bare: Mapping,
    threads: usize,
}

impl Scratch {
    /// Takes `bytes` of the medium that `folder` lies on.
    pub fn new(folder: &Path, medium: Medium, bytes: u64) -> Result<Scratch, MediaError> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let file = rustix::fs::open(folder, flags, Mode::RUSR | Mode::WUSR)
            .map_err(MediaError::system("make a scratch file"))?;
        rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes)
            .map_err(MediaError::system("make a scratch file"))?;
        let bare = Mapping::of_file(&file, 0, bytes, Protection::ReadWrite, medium, true)?;
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Scratch { bare, threads: threads.min(THREADS_MAX) })
    }

    /// How long it is.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bare.len()
    }

    /// How many threads measure bandwidth.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// The best that was measured of the medium in so many rounds: others on the machine make it slower and never faster.
    pub fn measure(&self, rounds: usize) -> Result<Profile, AccessError> {
        let mut best = Profile::default();
        for measured in self.rounds(&self.bare, rounds)? {
            for figure in Figure::ALL {
                let (best_yet, value) = (figure.of(&best), figure.of(&measured));
                if best_yet == 0 || (value < best_yet) == figure.is_latency() {
                    figure.set(&mut best, value);
                }
            }
        }
        Ok(best)
    }

    /// What is got of `asked`: the median of so many rounds.
    pub fn obtained(&self, asked: Profile, rounds: usize) -> Result<Profile, CalibrationError> {
        let emulated = Emulated::new(asked, Emulated::make_channels()?)?;
        let played = self.bare.again()?;
        played.touch(0, played.len())?;
        played.emulate(&emulated);
        let measured = self.rounds(&played, rounds)?;
        let mut median = Profile::default();
        for figure in Figure::ALL {
            let mut values: Vec<u64> = measured.iter().map(|round| figure.of(round)).collect();
            values.sort_unstable();
            figure.set(&mut median, values.get(values.len() / 2).copied().unwrap_or_default());
        }
        Ok(median)
    }

    fn rounds(&self, memory: &SharedMemory, rounds: usize) -> Result<Vec<Profile>, AccessError> {
        let mut place = 1;
        (0..rounds)
            .map(|_| {
                Ok(Profile {
                    read_ns: read_ns(memory, &mut place)?,
                    write_ns: write_ns(memory)?,
                    read_mb_s: self.mb_s(memory, |at, piece| memory.read(at, piece))?,
                    write_mb_s: self.mb_s(memory, |at, piece| {
                        memory.write_through(at, piece)?;
                        memory.fence()
                    })?,
                })
            })
            .collect()
    }

    /// What all threads together get by `access`, each in its own part.
    fn mb_s(
        &self,
        memory: &SharedMemory,
        access: impl Fn(u64, &mut [u8]) -> Result<(), AccessError> + Sync,
    ) -> Result<u64, AccessError> {
        let pieces = (memory.len() / self.threads as u64 / PIECE_BYTES as u64).max(1);
        let work = |thread: u64| -> Result<u64, AccessError> {
            let mut piece = vec![0x5a; PIECE_BYTES];
            let (began, mut done) = (Instant::now(), 0);
            while began.elapsed() < TURN {
                let at = (thread * pieces + done % pieces) * PIECE_BYTES as u64;
                access(at, &mut piece)?;
                done += 1;
            }
            Ok(done * PIECE_BYTES as u64)
        };
        let began = Instant::now();
        let bytes = std::thread::scope(|scope| {
            let work = &work;
            let others: Vec<_> =
                (1..self.threads as u64).map(|thread| scope.spawn(move || work(thread))).collect();
            let own = work(0)?;
            others.into_iter().try_fold(own, |sum, other| match other.join() {
                Ok(bytes) => Ok::<_, AccessError>(sum + bytes?),
                Err(panic) => std::panic::resume_unwind(panic),
            })
        })?;
        Ok((bytes as f64 / began.elapsed().as_secs_f64() / 1e6) as u64)
    }
}

/// Why nothing can be measured.
#[derive(Debug, thiserror::Error)]
pub enum CalibrationError {
    /// Memory could not be had.
    #[error(transparent)]
    Media(#[from] MediaError),
    /// It could not be used.
    #[error(transparent)]
    Access(#[from] AccessError),
}

/// Nanoseconds that one of many accesses takes.
fn mean_ns(mut access: impl FnMut() -> Result<(), AccessError>) -> Result<u64, AccessError> {
    let (began, mut count) = (Instant::now(), 0);
    loop {
        for _ in 0..STRIDE {
            access()?;
        }
        count += STRIDE;
        let took = began.elapsed();
        if took >= TURN {
            return Ok((took.as_nanos() as u64 / count).max(1));
        }
    }
}

fn read_ns(memory: &SharedMemory, place: &mut u64) -> Result<u64, AccessError> {
    let lines = memory.len() / LINE_BYTES;
    let mut line = [0; LINE];
    mean_ns(|| {
        *place = place.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        memory.read((*place >> 32) % lines * LINE_BYTES, &mut line)?;
        // What was read has a part in where the next read goes.
        *place = place.wrapping_add(u64::from(line[0]));
        Ok(())
    })
}

fn write_ns(memory: &SharedMemory) -> Result<u64, AccessError> {
    let (lines, mut at) = (memory.len() / LINE_BYTES, 0);
    mean_ns(|| {
        memory.write_through(at % lines * LINE_BYTES, &[0x5a; LINE])?;
        at += 1;
        memory.fence()
    })
}
