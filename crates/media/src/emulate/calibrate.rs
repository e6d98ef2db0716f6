//! The figures of a medium, measured the way the store uses it: by the accesses of [`crate::SharedMemory`].
//!
//! Latency of reads: 64 bytes at random places, each known only when the one before was read. Of writes: 64 bytes behind the last ones and a
//! fence, as a log grows. Bandwidth: every processor copies pieces far longer than caches like, from its own part.

use super::emulated::Emulated;
use crate::copying::persist::LINE;
use crate::error::{AccessError, MediaError};
use crate::memory::mapping::Mapping;
use crate::memory::pages::Protection;
use crate::memory::shared::SharedMemory;
use cuesta_format::Medium;
use cuesta_format::emulation::{Figure, Profile};
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use std::path::Path;
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// Bytes of a piece whose bandwidth is measured.
const PIECE_BYTES: usize = 256 << 10;
/// More threads than that are not needed to fill what a profile can ask for.
const THREADS_MAX: usize = 8;
/// How long all threads copy at a time, and how often.
const TURN: Duration = Duration::from_millis(2);
const TURNS: usize = 50;
/// One sample of so many is taken for luck.
const BEST_PART: usize = 50;
/// One of so many samples is better than what is called obtained: others on the machine slow down the rest.
const OBTAINED_PART: usize = 4;
/// How long a latency is measured.
const LATENCY_TIME: Duration = Duration::from_millis(100);
/// Accesses of one sample of it.
const SAMPLE_ACCESSES: u64 = 32;
const LINE_BYTES: u64 = LINE as u64;

/// A part of a medium that only this process uses, gone when this is dropped.
#[derive(Debug)]
pub struct Scratch {
    file: OwnedFd,
    bare: Mapping,
    threads: usize,
}

impl Scratch {
    /// Takes `bytes` of the medium that `folder` lies on.
    pub fn new(folder: &Path, medium: Medium, bytes: u64) -> Result<Scratch, MediaError> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let file = rustix::fs::open(folder, flags, Mode::RUSR | Mode::WUSR)
            .map_err(MediaError::system("make a scratch file"))?;
        rustix::fs::ftruncate(&file, bytes).map_err(MediaError::system("make a scratch file"))?;
        let bare = Mapping::of_file(&file, 0, bytes, Protection::ReadWrite, medium, false)?;
        // In huge pages, as arenas are.
        bare.provide(&file, 0, bytes, true)?;
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Scratch { file, bare, threads: threads.min(THREADS_MAX) })
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

    /// The figures of the medium without interference: other processes make it slower and never faster, so these are
    /// near the best of many samples.
    pub fn measure(&self) -> Result<Profile, AccessError> {
        self.profile(&self.bare, |count| count / BEST_PART)
    }

    /// How much of `asked` is obtained, without interference: a process never gets more than is played.
    pub fn obtained(&self, asked: Profile) -> Result<Profile, CalibrationError> {
        let emulated = Emulated::new(asked, Emulated::make_channels()?)?;
        let (bytes, medium) = (self.bytes(), self.bare.medium());
        let played = Mapping::of_file(&self.file, 0, bytes, Protection::ReadWrite, medium, true)?;
        played.emulate(&emulated);
        Ok(self.profile(&played, |count| count / OBTAINED_PART)?)
    }

    /// Of each figure, the sample that has so many better ones.
    fn profile(
        &self,
        memory: &SharedMemory,
        better: impl Fn(usize) -> usize,
    ) -> Result<Profile, AccessError> {
        let mut profile = Profile::default();
        for figure in Figure::ALL {
            let mut samples = match figure {
                Figure::ReadLatency => read_ns(memory)?,
                Figure::WriteLatency => write_ns(memory)?,
                Figure::ReadBandwidth => self.mb_s(memory, |at, piece| memory.read(at, piece))?,
                Figure::WriteBandwidth => self.mb_s(memory, |at, piece| {
                    memory.write_through(at, piece)?;
                    memory.fence()
                })?,
            };
            samples.sort_unstable();
            if !figure.is_latency() {
                samples.reverse();
            }
            figure.set(&mut profile, samples.get(better(samples.len())).copied().unwrap_or_default());
        }
        Ok(profile)
    }

    /// What all threads together get by `access`, each in its own part, turn by turn.
    fn mb_s(
        &self,
        memory: &SharedMemory,
        access: impl Fn(u64, &mut [u8]) -> Result<(), AccessError> + Sync,
    ) -> Result<Vec<u64>, AccessError> {
        let pieces = (memory.len() / self.threads as u64 / PIECE_BYTES as u64).max(1);
        let start = Barrier::new(self.threads);
        let work = |thread: u64| -> Result<Vec<Transfer>, AccessError> {
            let mut piece = vec![0x5a; PIECE_BYTES];
            let mut place = 0;
            let mut turn = || {
                start.wait();
                let (began, mut bytes) = (Instant::now(), 0);
                loop {
                    access((thread * pieces + place % pieces) * PIECE_BYTES as u64, &mut piece)?;
                    (place, bytes) = (place + 1, bytes + PIECE_BYTES as u64);
                    let ended = Instant::now();
                    if ended - began >= TURN {
                        return Ok(Transfer { began, ended, bytes });
                    }
                }
            };
            (0..TURNS).map(|_| turn()).collect()
        };
        std::thread::scope(|scope| {
            let work = &work;
            let others: Vec<_> =
                (1..self.threads as u64).map(|thread| scope.spawn(move || work(thread))).collect();
            let mut all = work(0)?;
            for other in others {
                let turns = other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
                all.iter_mut().zip(turns).for_each(|(turn, other)| turn.join(&other));
            }
            Ok(all.iter().map(Transfer::mb_s).collect())
        })
    }
}

/// Bytes that were copied, and when.
struct Transfer {
    began: Instant,
    ended: Instant,
    bytes: u64,
}

impl Transfer {
    /// Takes in what another thread did at about the same time.
    fn join(&mut self, other: &Transfer) {
        self.began = self.began.min(other.began);
        self.ended = self.ended.max(other.ended);
        self.bytes += other.bytes;
    }

    fn mb_s(&self) -> u64 {
        self.bytes * 1000 / (self.ended - self.began).as_nanos().max(1) as u64
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

/// Nanoseconds that an access takes, in the mean of a few, again and again: a sample is over before the processor is
/// taken away from most.
fn samples_ns(mut access: impl FnMut() -> Result<(), AccessError>) -> Result<Vec<u64>, AccessError> {
    let (began, mut samples) = (Instant::now(), Vec::new());
    while samples.is_empty() || began.elapsed() < LATENCY_TIME {
        let began = Instant::now();
        for _ in 0..SAMPLE_ACCESSES {
            access()?;
        }
        samples.push((began.elapsed().as_nanos() as u64 / SAMPLE_ACCESSES).max(1));
    }
    Ok(samples)
}

fn read_ns(memory: &SharedMemory) -> Result<Vec<u64>, AccessError> {
    let (lines, mut place) = (memory.len() / LINE_BYTES, 1_u64);
    let mut line = [0; LINE];
    samples_ns(|| {
        place = place.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        memory.read((place >> 32) % lines * LINE_BYTES, &mut line)?;
        // The bytes that were read decide where the next read goes.
        place = place.wrapping_add(u64::from(line[0]));
        Ok(())
    })
}

fn write_ns(memory: &SharedMemory) -> Result<Vec<u64>, AccessError> {
    let (lines, mut at) = (memory.len() / LINE_BYTES, 0);
    samples_ns(|| {
        memory.write_through(at % lines * LINE_BYTES, &[0x5a; LINE])?;
        at += 1;
        memory.fence()
    })
}
