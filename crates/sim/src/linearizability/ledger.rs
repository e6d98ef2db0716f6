//! Where processes write down what they did: a file outside the store, which a killed process leaves as it was.
//!
//! Each process has a lane of records of fixed size in it, so that no process waits for another. All times are of the one
//! clock that every process on a machine shares. A record is begun before its call, so that a call that was killed
//! is known to have been under way; its calls follow from the seed and are not written down.

use super::answer::Answer;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

/// Most calls of one process.
pub const CALLS_MAX: usize = 2048;
/// Most bytes of an answer kept for people.
const TEXT_BYTES: usize = 216;

/// When something happened: nanoseconds of the monotonic clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant(pub u64);

impl Instant {
    /// The present.
    #[must_use]
    pub fn now() -> Instant {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        Instant(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
    }
}

/// A record as it lies in the file.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Record {
    begun: u64,
    /// 0 until the call returned.
    ended: u64,
    hash: u64,
    errno: i32,
    count: u32,
    text_bytes: u64,
    text: [u8; TEXT_BYTES],
}

const RECORD_BYTES: u64 = size_of::<Record>() as u64;
const LANE_BYTES: u64 = RECORD_BYTES * CALLS_MAX as u64;
/// The head of the file: whether all processes are to come to an end.
const HEAD_BYTES: u64 = RECORD_BYTES;

/// A call as it was written down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Noted {
    /// When it began.
    pub begun: Instant,
    /// When it ended and what it answered, and that for people, if it returned.
    pub returned: Option<(Instant, Answer, String)>,
}

/// The file.
#[derive(Clone, Debug)]
pub struct Ledger {
    file: Arc<File>,
}

impl Ledger {
    /// Makes the file.
    pub fn create(path: &Path) -> io::Result<Ledger> {
        let file = File::options().read(true).write(true).create_new(true).open(path)?;
        file.write_all_at(&[0], 0)?;
        Ok(Ledger { file: Arc::new(file) })
    }

    /// Opens it.
    pub fn open(path: &Path) -> io::Result<Ledger> {
        let file = File::options().read(true).write(true).open(path)?;
        Ok(Ledger { file: Arc::new(file) })
    }

    /// Has everybody come to an end.
    pub fn end(&self) -> io::Result<()> {
        self.file.write_all_at(&[1], 0)
    }

    /// Whether everybody is to come to an end.
    pub fn is_over(&self) -> io::Result<bool> {
        let mut byte = [0];
        self.file.read_exact_at(&mut byte, 0)?;
        Ok(byte[0] != 0)
    }

    /// A process's lane.
    #[must_use]
    pub fn lane(&self, lane: usize) -> Lane {
        let (file, start) = (Arc::clone(&self.file), HEAD_BYTES + LANE_BYTES * lane as u64);
        Lane { file, start, record: Record::new_zeroed() }
    }

    /// The records of a process.
    pub fn read(&self, lane: usize) -> io::Result<Vec<Noted>> {
        let mut bytes = vec![0; LANE_BYTES as usize];
        let mut filled = 0;
        while filled < bytes.len() {
            match self
                .file
                .read_at(&mut bytes[filled..], HEAD_BYTES + LANE_BYTES * lane as u64 + filled as u64)?
            {
                0 => break,
                more => filled += more,
            }
        }
        let records = bytes
            .chunks_exact(size_of::<Record>())
            .map_while(|bytes| Record::read_from_bytes(bytes).ok().filter(|record| record.begun != 0));
        Ok(records.map(Noted::from).collect())
    }
}

impl From<Record> for Noted {
    fn from(record: Record) -> Noted {
        let text = &record.text[..(record.text_bytes as usize).min(TEXT_BYTES)];
        let answer = Answer { errno: record.errno, count: record.count, hash: record.hash };
        let returned = (Instant(record.ended), answer, String::from_utf8_lossy(text).into_owned());
        Noted { begun: Instant(record.begun), returned: (record.ended != 0).then_some(returned) }
    }
}

/// The lane of one process, to write.
pub struct Lane {
    file: Arc<File>,
    start: u64,
    record: Record,
}

impl Lane {
    /// The call of this number is about to be made.
    pub fn begin(&mut self, number: usize) -> io::Result<()> {
        self.record = Record::new_zeroed();
        self.record.begun = Instant::now().0;
        self.write(number)?;
        // As late as can be; a process that is killed before it returns is known to have begun when it wrote that down.
        self.record.begun = Instant::now().0;
        Ok(())
    }

    /// It returned at `ended`.
    pub fn end(&mut self, number: usize, ended: Instant, answer: Answer, text: &str) -> io::Result<()> {
        let kept = text.len().min(TEXT_BYTES);
        self.record.text[..kept].copy_from_slice(&text.as_bytes()[..kept]);
        self.record.text_bytes = kept as u64;
        self.record.ended = ended.0;
        (self.record.errno, self.record.count, self.record.hash) = (answer.errno, answer.count, answer.hash);
        self.write(number)
    }

    fn write(&self, number: usize) -> io::Result<()> {
        self.file.write_all_at(self.record.as_bytes(), self.start + RECORD_BYTES * number as u64)
    }
}
