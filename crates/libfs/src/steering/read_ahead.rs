//! Policy: how far ahead of a program that reads a file from front to back a lower tier is read.
//!
//! Each sequential read may ask for one more window. Windows begin with 256 KiB, and double up to 4 MiB as long as
//! the program goes on. Any other read begins anew.

use crate::sync::{AtomicU64, Ordering};
use std::ops::Range;

/// The first window.
const WINDOW_FIRST: u64 = 256 << 10;
/// The longest window.
const WINDOW_MAX: u64 = 4 << 20;

/// What an open file was last read of. Threads that read it at once may lose a window.
#[derive(Debug, Default)]
pub(crate) struct ReadAhead {
    /// Where the next sequential read begins.
    next: AtomicU64,
    /// The end of the bytes that were read ahead.
    until: AtomicU64,
    /// Bytes of the last window; 0: there was none.
    window: AtomicU64,
}

impl ReadAhead {
    /// A read of a range. Answers the range that is to be read ahead, if there is one.
    #[inline]
    pub(crate) fn note(&self, read: Range<u64>) -> Option<Range<u64>> {
        let is_sequential = self.next.load(Ordering::Relaxed) == read.start && !read.is_empty();
        self.next.store(read.end, Ordering::Relaxed);
        if !is_sequential {
            self.window.store(0, Ordering::Relaxed);
            return None;
        }
        let window = self.window.load(Ordering::Relaxed);
        let until = if window == 0 { read.end } else { self.until.load(Ordering::Relaxed).max(read.end) };
        // Half of the last window is left: the next one is on its way before that is read, too.
        if window > 0 && until - read.end > window / 2 {
            return None;
        }
        let window = (window * 2).clamp(WINDOW_FIRST, WINDOW_MAX);
        self.window.store(window, Ordering::Relaxed);
        self.until.store(until + window, Ordering::Relaxed);
        Some(until..until + window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_follow_a_sequential_reader_and_double() {
        let file = ReadAhead::default();
        let mut at = 0;
        let mut windows = Vec::new();
        while at < 64 << 20 {
            windows.extend(file.note(at..at + 4096));
            at += 4096;
        }
        assert!(windows.windows(2).all(|two| two[0].end == two[1].start), "{windows:?}");
        let lengths: Vec<u64> = windows.iter().map(|window| window.end - window.start).collect();
        assert_eq!(lengths[..6], [1, 2, 4, 8, 16, 16].map(|times| times * WINDOW_FIRST));
        assert!(windows.iter().all(|window| window.start <= at));
    }

    #[test]
    fn a_jump_begins_anew() {
        let file = ReadAhead::default();
        assert_eq!(file.note(0..4096), Some(4096..4096 + WINDOW_FIRST));
        assert_eq!(file.note(1 << 30..(1 << 30) + 4096), None);
        assert_eq!(file.note(8192..12288), None);
        assert_eq!(file.note(12288..16384), Some(16384..16384 + WINDOW_FIRST));
        assert_eq!(file.note(16384..16384), None, "the end of the file");
    }
}
