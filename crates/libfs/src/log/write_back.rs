//! Staged bytes that the disk has not taken yet, kept few.
//!
//! An fsync waits until the disk has every staged byte of the session, whichever file it is for. So once a program has
//! synced, the disk is asked to take each staged write at once, and a writer waits while too much is under way: a
//! database's commit does not wait for the table that is written beside it.
//!
//! Policy ([`Pace`]): as much may be under way as the disk takes in [`UNDER_WAY_MS`], as far as is known.

use super::arena_file::ArenaFile;
use crate::sync::{Arc, AtomicBool, Mutex, Ordering};
use cuesta_media::begin_write_back;
use std::collections::VecDeque;
use std::ops::Range;
use std::time::{Duration, Instant};

/// An fsync should wait this long at most for writes that the disk is busy with.
const UNDER_WAY_MS: u64 = 10;
/// Bytes that may be under way however slow the disk seems,
const BYTES_LEAST: u64 = 1 << 20;
/// and however fast.
const BYTES_MOST: u64 = 32 << 20;
/// The disk is asked to take so many neighbouring bytes at once, where a program writes as many.
const PIECE_BYTES: u64 = 512 << 10;
/// A wait this short says nothing of the disk's speed.
const TELLING_WAIT: Duration = Duration::from_micros(100);

/// How much may be under way.
#[derive(Debug)]
struct Pace {
    bytes_max: u64,
    /// When the disk last took a piece that was waited for.
    took_last: Option<Instant>,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace { bytes_max: 4 * BYTES_LEAST, took_last: None }
    }
}

impl Pace {
    /// The disk has taken a piece for which a thread waited so long.
    fn note(&mut self, bytes: u64, waited: Duration, now: Instant) {
        let since = self.took_last.replace(now).map(|before| now.saturating_duration_since(before));
        if waited < TELLING_WAIT {
            return;
        }
        // The disk was busy all the time if it was waited for both times; then this is its speed.
        let took = since.map_or(waited, |since| since.max(waited));
        let in_time = u128::from(bytes) * u128::from(UNDER_WAY_MS) * 1_000_000 / took.as_nanos().max(1);
        let sample = u64::try_from(in_time).unwrap_or(u64::MAX).min(BYTES_MOST);
        self.bytes_max = ((3 * self.bytes_max + sample) / 4).clamp(BYTES_LEAST, BYTES_MOST);
    }
}

/// Bytes of a file that the disk is asked to take.
#[derive(Debug)]
struct Piece {
    file: Arc<ArenaFile>,
    bytes: Range<u64>,
}

impl Piece {
    fn len(&self) -> u64 {
        self.bytes.end - self.bytes.start
    }
}

#[derive(Debug, Default)]
struct State {
    pace: Pace,
    /// Neighbouring bytes that were written last. The disk is not asked for them yet.
    next: Option<Piece>,
    /// In the order in which the disk was asked.
    under_way: VecDeque<Piece>,
    under_way_bytes: u64,
}

impl State {
    /// Adds bytes that were written, and answers a piece that the disk is to be asked for, if there is one.
    fn add(&mut self, file: &Arc<ArenaFile>, bytes: Range<u64>) -> Option<(Arc<ArenaFile>, Range<u64>)> {
        if let Some(next) = &mut self.next
            && Arc::ptr_eq(&next.file, file)
            && next.bytes.end == bytes.start
        {
            next.bytes.end = bytes.end;
            if next.len() < PIECE_BYTES {
                return None;
            }
            let whole = self.next.take()?;
            return Some(self.begin(whole));
        }
        let before = self.next.replace(Piece { file: Arc::clone(file), bytes })?;
        Some(self.begin(before))
    }

    fn begin(&mut self, piece: Piece) -> (Arc<ArenaFile>, Range<u64>) {
        let begun = (Arc::clone(&piece.file), piece.bytes.clone());
        self.under_way_bytes += piece.len();
        self.under_way.push_back(piece);
        begun
    }

    /// The oldest piece under way, if there is too much. One is always under way: the disk has something to do.
    fn take_due(&mut self) -> Option<Piece> {
        if self.under_way.len() < 2 || self.under_way_bytes <= self.pace.bytes_max {
            return None;
        }
        let due = self.under_way.pop_front()?;
        self.under_way_bytes -= due.len();
        Some(due)
    }
}

/// What the disk was asked to take of one tier's windows.
#[derive(Debug, Default)]
pub(crate) struct WriteBack {
    /// A program has synced.
    is_awaited: AtomicBool,
    state: Mutex<State>,
}

impl WriteBack {
    /// A program syncs, and will do so again.
    pub(crate) fn await_writes(&self) {
        if !self.is_awaited.load(Ordering::Relaxed) {
            self.is_awaited.store(true, Ordering::Relaxed);
        }
    }

    /// The disk has everything: nothing is under way any more.
    pub(crate) fn note_flushed(&self) {
        if self.is_awaited.load(Ordering::Relaxed) {
            let mut state = self.state.lock();
            (state.next, state.under_way_bytes) = (None, 0);
            state.under_way.clear();
        }
    }

    /// These bytes of a file on a disk were written. Waits while too much is under way. Call without any lock.
    pub(crate) fn note_written(&self, file: &Arc<ArenaFile>, bytes: Range<u64>) {
        if !self.is_awaited.load(Ordering::Relaxed) {
            return;
        }
        let begun = self.state.lock().add(file, bytes);
        if let Some((file, bytes)) = begun {
            file.with(|file| begin_write_back(file, bytes.start, bytes.end - bytes.start));
        }
        loop {
            let Some(due) = self.state.lock().take_due() else { return };
            let began = Instant::now();
            due.file.write_back(due.bytes.start, due.len());
            let ended = Instant::now();
            self.state.lock().pace.note(due.len(), ended.saturating_duration_since(began), ended);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_disk_that_takes_less_has_less_under_way() {
        let mut pace = Pace::default();
        let mut now = Instant::now();
        let mut take = |pace: &mut Pace, milliseconds| {
            now += Duration::from_millis(milliseconds);
            pace.note(MIB, Duration::from_millis(milliseconds), now);
        };
        (0..50).for_each(|_| take(&mut pace, 1));
        assert!((9 * MIB..=11 * MIB).contains(&pace.bytes_max), "{}", pace.bytes_max);
        (0..50).for_each(|_| take(&mut pace, 5));
        assert!((19 * MIB / 10..=21 * MIB / 10).contains(&pace.bytes_max), "{}", pace.bytes_max);
        (0..50).for_each(|_| take(&mut pace, 1000));
        assert_eq!(pace.bytes_max, BYTES_LEAST);
    }

    #[test]
    fn a_disk_that_nobody_waits_for_tells_nothing() {
        let mut pace = Pace::default();
        let now = Instant::now();
        pace.note(MIB, Duration::from_micros(1), now);
        pace.note(MIB, Duration::from_micros(1), now + Duration::from_secs(1));
        assert_eq!(pace.bytes_max, Pace::default().bytes_max);
    }

    #[test]
    fn neighbours_are_asked_for_together_and_the_oldest_is_waited_for() {
        let file = Arc::new(ArenaFile::for_tests());
        let mut state = State::default();
        let quarter = PIECE_BYTES / 4;
        let written = |state: &mut State, at: u64| state.add(&file, at * quarter..(at + 1) * quarter);
        assert!((0..3).all(|at| written(&mut state, at).is_none()));
        assert_eq!(written(&mut state, 3).unwrap().1, 0..PIECE_BYTES);
        assert!(written(&mut state, 9).is_none());
        assert_eq!(written(&mut state, 20).unwrap().1, 9 * quarter..10 * quarter);
        assert!(state.take_due().is_none(), "little is under way");
        state.pace.bytes_max = 1;
        assert_eq!(state.take_due().unwrap().bytes, 0..PIECE_BYTES);
        assert!(state.take_due().is_none(), "one piece stays under way");
        assert_eq!(state.under_way_bytes, quarter);
    }
}
