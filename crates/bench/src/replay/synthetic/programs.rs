//! Traces as databases make them, and a day of a machine in ten minutes.

use super::scenario::{Maker, PAGE, Pages, SECOND_US, Scenario, Subject};
use crate::figures::units::MIB;
use crate::replay::traces::trace::{FileId, Op};

const END_US: u64 = 600 * SECOND_US;
const COUNTED_FROM_US: u64 = 60 * SECOND_US;

/// As RocksDB: a file of 64 MiB each 20 seconds. When there are four new ones, two old ones are read along, and six are written in their places. A
/// log of 16 MiB is written over and over. Half of the reads go to the newest files.
pub fn rocksdb(name: &str, seed: u64) -> Scenario {
    const FILE_BYTES: u64 = 64 * MIB;
    const FLUSH_US: u64 = 20 * SECOND_US;
    const LOG_BYTES: u64 = 16 * MIB;
    const OLD_MAX: usize = 16;
    let mut maker = Maker::new(seed);
    let mut made = 0;
    let mut make = |maker: &mut Maker| {
        made += 1;
        maker.trace.file(&format!("{made}.sst"))
    };
    let log = maker.trace.file("log");
    let mut in_log = 0;
    let (mut new, mut old): (Vec<FileId>, Vec<FileId>) = (Vec::new(), Vec::new());
    let pages = Pages::new(&mut maker, vec![FileId(0)], FILE_BYTES, 0.8, false);
    for flush in 0..END_US / FLUSH_US {
        let begin = flush * FLUSH_US;
        let file = make(&mut maker);
        maker.stream(begin..begin + FLUSH_US / 8, Op::Write, file, FILE_BYTES);
        new.push(file);
        if new.len() > 4 {
            let taken = old.len().min(2);
            let inputs: Vec<FileId> = new.drain(..4).chain(old.drain(..taken)).collect();
            let each = FLUSH_US / 2 / inputs.len() as u64;
            for (number, &input) in (0..).zip(&inputs) {
                let output = make(&mut maker);
                let at = begin + FLUSH_US / 4 + number * each;
                maker.stream(at..at + each, Op::Read, input, FILE_BYTES);
                maker.stream(at..at + each, Op::Write, output, FILE_BYTES);
                old.push(output);
            }
            let done = begin + FLUSH_US / 4 + FLUSH_US / 2;
            inputs.iter().for_each(|&input| maker.trace.discard(done, input, 0, None));
            // Their keys are deleted in the end.
            let gone = old.len().saturating_sub(OLD_MAX);
            old.drain(..gone).for_each(|file| maker.trace.discard(done, file, 0, None));
        }
        for at_us in maker.moments(begin + FLUSH_US * 3 / 4..begin + FLUSH_US, 6000) {
            let files = if old.is_empty() || maker.rng.bool() { &new } else { &old };
            let file = files[maker.rng.usize(..files.len())];
            pages.use_one_in(&mut maker, at_us, Op::Read, file);
        }
        for at_us in maker.moments(begin..begin + FLUSH_US, 400) {
            maker.request(at_us, Op::Write, log, in_log, PAGE);
            in_log = (in_log + PAGE) % LOG_BYTES;
        }
    }
    let trace = maker.trace.finish(name);
    Scenario { trace, counted_from_us: COUNTED_FROM_US, subject: Subject::Mixed }
}

/// As SQLite: pages of one file are read and overwritten by Zipf's law (80/20), and a log of 4 MiB is written over and over.
pub fn sqlite(name: &str, seed: u64) -> Scenario {
    const FILE_BYTES: u64 = 384 * MIB;
    const LOG_BYTES: u64 = 4 * MIB;
    const LOADED_US: u64 = 30 * SECOND_US;
    let mut maker = Maker::new(seed);
    let (file, log) = (maker.trace.file("db"), maker.trace.file("wal"));
    maker.stream(0..LOADED_US, Op::Write, file, FILE_BYTES);
    let pages = Pages::new(&mut maker, vec![file], FILE_BYTES, 0.8, true);
    for at_us in maker.moments(LOADED_US..END_US, 1500) {
        pages.use_one(&mut maker, at_us, Op::Read);
    }
    let mut in_log = 0;
    for at_us in maker.moments(LOADED_US..END_US, 150) {
        maker.request(at_us, Op::Write, log, in_log, PAGE);
        in_log = (in_log + PAGE) % LOG_BYTES;
        pages.use_one(&mut maker, at_us, Op::Write);
    }
    let trace = maker.trace.finish(name);
    Scenario { trace, counted_from_us: COUNTED_FROM_US * 2, subject: Subject::Mixed }
}

/// A day in ten minutes: eight projects of 64 MiB, of which one is worked with at a time, for two minutes. Its files are read, some are
/// overwritten, and results are written. At night everything is read for a backup.
pub fn day(name: &str, seed: u64) -> Scenario {
    const PROJECTS: u64 = 8;
    const FILES: u64 = 16;
    const FILE_BYTES: u64 = 4 * MIB;
    const SHIFT_US: u64 = 110 * SECOND_US;
    const NIGHT_US: u64 = 550 * SECOND_US;
    let mut maker = Maker::new(seed);
    let mut projects: Vec<Vec<FileId>> = Vec::new();
    for project in 0..PROJECTS {
        let files: Vec<FileId> =
            (0..FILES).map(|file| maker.trace.file(&format!("{project}/{file}"))).collect();
        for (number, &file) in (0..).zip(&files) {
            let begin = (project * FILES + number) * SECOND_US / 5;
            maker.stream(begin..begin + SECOND_US / 5, Op::Write, file, FILE_BYTES);
        }
        projects.push(files);
    }
    let all = Pages::new(&mut maker, projects.concat(), FILE_BYTES, 0.6, true);
    for shift in 0..5 {
        // The second one is worked with again at the end.
        let files = &projects[[0, 1, 2, 3, 1][shift as usize]];
        let pages = Pages::new(&mut maker, files.clone(), FILE_BYTES, 0.7, true);
        let times = shift * SHIFT_US..(shift + 1) * SHIFT_US;
        for at_us in maker.moments(times.clone(), 2000) {
            let op = if maker.rng.u32(..100) < 5 { Op::Write } else { Op::Read };
            let taken = if maker.rng.u32(..100) < 85 { &pages } else { &all };
            // Before all is written nothing else is read.
            let taken = if at_us < 30 * SECOND_US { &pages } else { taken };
            taken.use_one(&mut maker, at_us, if at_us < 30 * SECOND_US { Op::Write } else { op });
        }
        let result = maker.trace.file(&format!("result {shift}"));
        maker.stream(times.end - SHIFT_US / 8..times.end, Op::Write, result, 32 * MIB);
    }
    let each = (END_US - NIGHT_US) / (PROJECTS * FILES);
    for (number, &file) in (0..).zip(projects.concat().iter()) {
        let begin = NIGHT_US + number * each;
        maker.stream(begin..begin + each, Op::Read, file, FILE_BYTES);
    }
    let trace = maker.trace.finish(name);
    Scenario { trace, counted_from_us: COUNTED_FROM_US, subject: Subject::Mixed }
}
