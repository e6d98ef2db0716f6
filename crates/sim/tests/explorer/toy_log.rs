//! The crash explorer tried on a log small enough to see through: it passes when it is right, and
//! each classic mistake is caught.

use crate::planting;
use cuesta_media::recorder::Recorder;
use cuesta_media::{Mapping, Medium};
use cuesta_sim::explorer::{self, Bounds, Coverage, Failure, Memory, Progress, Subject};
use std::path::Path;

const LOG_BYTES: u64 = 8192;
const LINE: u64 = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mistake {
    None,
    MissingFence,
    MissingFlush,
    UnflushedTail,
    NoChecksum,
}

/// Records one behind the other, each a header (length, checksum) and a payload, padded to lines.
struct ToyLog {
    file: Mapping,
    end: u64,
    mistake: Mistake,
}

/// The payload of record `number`: a length that is never a multiple of a line, no zero bytes.
fn payload(number: u64) -> Vec<u8> {
    (0..number * 37 % 150 + 70).map(|at| (number * 31 + at) as u8 | 1).collect()
}

/// FNV over the payload and its place; never zero.
fn checksum(position: u64, payload: &[u8], mistake: Mistake) -> u64 {
    if mistake == Mistake::NoChecksum {
        return 1;
    }
    payload
        .iter()
        .fold(position + 0xcbf2_9ce4, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
        | 1
}

impl ToyLog {
    fn append(&mut self, payload: &[u8]) {
        let sum = checksum(self.end, payload, self.mistake);
        self.file.write(self.end + 16, payload).unwrap();
        let header = [(payload.len() as u64).to_le_bytes(), sum.to_le_bytes()].concat();
        self.file.write(self.end, &header).unwrap();
        let length = 16 + payload.len() as u64;
        let flushed = match self.mistake {
            Mistake::UnflushedTail => length / LINE * LINE,
            _ => length,
        };
        if self.mistake != Mistake::MissingFlush {
            self.file.flush(self.end, flushed).unwrap();
        }
        if self.mistake != Mistake::MissingFence {
            self.file.fence().unwrap();
        }
        self.end += length.next_multiple_of(LINE);
    }
}

/// Recovers the toy log. It finds the records, which must be a prefix.
struct ToySubject(Mistake);

impl Subject for ToySubject {
    type RecoveredState = Vec<Vec<u8>>;

    fn recover(&mut self, directory: &Path) -> Result<Self::RecoveredState, String> {
        let file = std::fs::read(directory.join("log")).map_err(|error| error.to_string())?;
        let mut records = Vec::new();
        let mut at = 0;
        let word =
            |at: usize| file.get(at..at + 8).map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap()));
        while let (Some(length), Some(sum)) = (word(at), word(at + 8)) {
            let Some(payload) = file.get(at + 16..at + 16 + length as usize).filter(|_| length > 0) else {
                break;
            };
            if checksum(at as u64, payload, self.0) != sum {
                break;
            }
            records.push(payload.to_vec());
            at += (16 + length).next_multiple_of(LINE) as usize;
        }
        Ok(records)
    }

    fn judge(&self, found: &Self::RecoveredState, progress: &[Progress]) -> Result<(), String> {
        let progress = progress[0];
        let count = found.len() as u64;
        if !(progress.acknowledged..=progress.issued).contains(&count) {
            return Err(format!("{count} records"));
        }
        match found.iter().zip(0..).find(|(record, number)| **record != payload(*number)) {
            Some((_, number)) => Err(format!("record {number} is torn")),
            None => Ok(()),
        }
    }
}

fn explore(mistake: Mistake) -> Result<Coverage, Box<Failure>> {
    let directory = tempfile::tempdir().unwrap();
    let file = Mapping::create(&directory.path().join("log"), LOG_BYTES, Medium::Memory, false).unwrap();
    let recorder = Recorder::install(&[directory.path()]).unwrap();
    let mut log = ToyLog { file, end: 0, mistake };
    for number in 0..6 {
        explorer::issued(0);
        log.append(&payload(number));
        explorer::acknowledged(0);
    }
    let recording = recorder.take();
    let (mut subject, mut memory) = (ToySubject(mistake), Memory::default());
    explorer::explore(recording, directory.path(), &mut subject, &mut memory, &Bounds::thorough(), 1)
        .map_err(Box::new)
}

#[test]
fn a_log_that_is_right_survives_every_crash() {
    let coverage = explore(Mistake::None).unwrap();
    assert_eq!(coverage.persist_points, 6);
    assert!(coverage.complete());
    assert!(coverage.states_distinct > 50, "{coverage}");
}

#[test]
fn a_missing_fence_is_caught() {
    let failure = explore(Mistake::MissingFence).unwrap_err();
    assert!(failure.reason.contains("records"), "{failure}");
}

#[test]
fn a_missing_flush_is_caught() {
    explore(Mistake::MissingFlush).unwrap_err();
}

#[test]
fn an_unflushed_tail_is_caught() {
    explore(Mistake::UnflushedTail).unwrap_err();
}

#[test]
fn a_torn_record_is_caught() {
    let failure = explore(Mistake::NoChecksum).unwrap_err();
    assert!(failure.reason.contains("torn"), "{failure}");
}

#[test]
fn a_failure_is_repeated_by_its_seed() {
    // Fences of other tests' threads are recorded, too.
    let _alone = planting();
    let (first, second) =
        (explore(Mistake::NoChecksum).unwrap_err(), explore(Mistake::NoChecksum).unwrap_err());
    assert_eq!(first.to_string(), second.to_string());
}
