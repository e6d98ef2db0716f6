//! A trace that the bench makes itself, and the tools to make one.

use super::zipf::Zipf;
use crate::figures::units::KIB;
use crate::replay::traces::trace::{FileId, Op, Trace, TraceBuilder};
use fastrand::Rng;
use std::ops::Range;

/// Bytes of a page that programs read or write at random.
pub const PAGE: u64 = 4 * KIB;
/// Bytes of a request of a program that reads or writes a file from start to end.
const STREAM_BYTES: u64 = 128 * KIB;
pub const SECOND_US: u64 = 1_000_000;

/// A trace that the bench makes itself.
#[derive(Debug)]
pub struct Scenario {
    pub trace: Trace,
    /// Reads before are the policy's time to learn.
    pub counted_from_us: u64,
    /// Its purpose.
    pub subject: Subject,
}

/// The purposes of traces.
#[derive(Debug)]
pub enum Subject {
    /// Random reads by Zipf's law.
    Zipf,
    /// Reads of these files beside a scan. The trace without that scan is the measure.
    Scan { hot: Range<u32>, undisturbed: Trace },
    /// Many things.
    Mixed,
}

/// Makes a trace.
#[derive(Debug)]
pub struct Maker {
    pub rng: Rng,
    pub trace: TraceBuilder,
}

impl Maker {
    pub fn new(seed: u64) -> Maker {
        Maker { rng: Rng::with_seed(seed), trace: TraceBuilder::default() }
    }

    pub fn request(&mut self, at_us: u64, op: Op, file: FileId, offset: u64, bytes: u64) {
        // All sizes and offsets here are small.
        let _ = self.trace.request(at_us, op, file, offset, bytes);
    }

    /// A whole file is read or written in a span of time.
    pub fn stream(&mut self, times_us: Range<u64>, op: Op, file: FileId, bytes: u64) {
        let requests = bytes.div_ceil(STREAM_BYTES);
        for number in 0..requests {
            let at_us = times_us.start + (times_us.end - times_us.start) * number / requests;
            let offset = number * STREAM_BYTES;
            self.request(at_us, op, file, offset, STREAM_BYTES.min(bytes - offset));
        }
    }

    /// Moments that come at random, so many in a second on average.
    pub fn moments(&mut self, times_us: Range<u64>, in_second: u64) -> Vec<u64> {
        let count = (times_us.end - times_us.start) * in_second / SECOND_US;
        let mut moments: Vec<u64> = (0..count).map(|_| self.rng.u64(times_us.clone())).collect();
        moments.sort_unstable();
        moments
    }
}

/// How often the pages of some files of equal length are used.
#[derive(Debug)]
pub struct Pages {
    zipf: Zipf,
    /// The page of each rank. `None`: hot pages lie side by side.
    places: Option<Vec<u32>>,
    files: Vec<FileId>,
    pages_in_file: u64,
}

impl Pages {
    /// Pages of files of `file_bytes` each; see [`Zipf::new`] for the share.
    pub fn new(
        maker: &mut Maker,
        files: Vec<FileId>,
        file_bytes: u64,
        share: f64,
        is_scattered: bool,
    ) -> Pages {
        let pages_in_file = file_bytes / PAGE;
        let pages = files.len() as u64 * pages_in_file;
        let places = is_scattered.then(|| {
            let mut places: Vec<u32> = (0..pages as u32).collect();
            maker.rng.shuffle(&mut places);
            places
        });
        Pages { zipf: Zipf::new(pages, share), places, files, pages_in_file }
    }

    /// Uses a page of them.
    pub fn use_one(&self, maker: &mut Maker, at_us: u64, op: Op) {
        let rank = self.zipf.draw(&mut maker.rng);
        let page = self.places.as_ref().map_or(rank, |places| u64::from(places[rank as usize]));
        let file = self.files[(page / self.pages_in_file) as usize];
        maker.request(at_us, op, file, page % self.pages_in_file * PAGE, PAGE);
    }

    /// Uses a page of another file, as if that were the only one. Each file has its hot pages elsewhere.
    pub fn use_one_in(&self, maker: &mut Maker, at_us: u64, op: Op, file: FileId) {
        let rank = self.zipf.draw(&mut maker.rng);
        let page = (rank + u64::from(file.0) * 977) % self.pages_in_file;
        maker.request(at_us, op, file, page * PAGE, PAGE);
    }
}
