//! Random reads of files that were written once, alone and beside scans.

use super::scenario::{Maker, Pages, SECOND_US, Scenario, Subject};
use crate::figures::units::MIB;
use crate::replay::traces::trace::{FileId, Op, TraceBuilder};
use std::ops::Range;

const FILES: u32 = 128;
const FILE_BYTES: u64 = 4 * MIB;
/// The files are written in so long, and cool.
const WRITTEN_US: u64 = 60 * SECOND_US;
const READS_BEGIN_US: u64 = 100 * SECOND_US;
/// The first reads are there to learn from.
const COUNTED_FROM_US: u64 = 220 * SECOND_US;
const END_US: u64 = 700 * SECOND_US;
const READS_IN_SECOND: u64 = 2000;

/// A part of all reads, `share` percent, goes to the rest of the pages; by Zipf's law.
pub fn zipf(name: &str, seed: u64, share: u64, is_scattered: bool) -> Scenario {
    let mut maker = Maker::new(seed);
    let files = write_files(&mut maker, FILES);
    let pages = Pages::new(&mut maker, files, FILE_BYTES, share as f64 / 100.0, is_scattered);
    for at_us in maker.moments(READS_BEGIN_US..END_US, READS_IN_SECOND) {
        pages.use_one(&mut maker, at_us, Op::Read);
    }
    let trace = maker.trace.finish(name);
    Scenario { trace, counted_from_us: COUNTED_FROM_US, subject: Subject::Zipf }
}

/// The first files are read often. Two scans read all others, each within a minute.
pub fn scan(name: &str, seed: u64) -> Scenario {
    const HOT_FILES: u32 = FILES / 16;
    const SCANS: [Range<u64>; 2] = [300 * SECOND_US..360 * SECOND_US, 500 * SECOND_US..560 * SECOND_US];
    let make = |has_scans: bool| {
        let mut maker = Maker::new(seed);
        let files = write_files(&mut maker, FILES);
        let (hot, cold) = files.split_at(HOT_FILES as usize);
        let pages = Pages::new(&mut maker, hot.to_vec(), FILE_BYTES, 0.6, true);
        for at_us in maker.moments(READS_BEGIN_US..END_US, READS_IN_SECOND / 4) {
            pages.use_one(&mut maker, at_us, Op::Read);
        }
        let scans = if has_scans { &SCANS[..] } else { &[] };
        for scan in scans {
            let each = (scan.end - scan.start) / cold.len() as u64;
            for (number, &file) in (0..).zip(cold) {
                let begin = scan.start + number * each;
                maker.stream(begin..begin + each, Op::Read, file, FILE_BYTES);
            }
        }
        maker.trace
    };
    let named = |trace: TraceBuilder, name: &str| trace.finish(name);
    let subject = Subject::Scan { hot: 0..HOT_FILES, undisturbed: named(make(false), name) };
    Scenario { trace: named(make(true), name), counted_from_us: COUNTED_FROM_US, subject }
}

fn write_files(maker: &mut Maker, count: u32) -> Vec<FileId> {
    let files: Vec<FileId> = (0..count).map(|number| maker.trace.file(&number.to_string())).collect();
    let each = WRITTEN_US / u64::from(count);
    for (number, &file) in (0..).zip(&files) {
        maker.stream(number * each..(number + 1) * each, Op::Write, file, FILE_BYTES);
    }
    files
}
