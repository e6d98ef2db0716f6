//! Pages that a process wrote to a disk that is played, and that are not on it: the kernel writes them later, in the
//! order of their places, those that lie side by side at once.

use super::disk_time::Span;
use std::collections::BTreeMap;

/// With this many unwritten bytes the kernel begins to write. Programs do not wait for these writes.
const BYTES_MAX: u64 = 16 << 20;
/// The smallest piece that is written.
const PAGE_BYTES: u64 = 4096;

/// Ranges of whole pages: beginnings and ends, none of which touch.
#[derive(Debug, Default)]
pub(super) struct Unwritten {
    ranges: BTreeMap<u64, u64>,
    bytes: u64,
}

impl Unwritten {
    /// Bytes were written. Says whether it is time to write them.
    pub(super) fn add(&mut self, span: Span) -> bool {
        if span.bytes == 0 {
            return false;
        }
        let mut from = span.at / PAGE_BYTES * PAGE_BYTES;
        let mut to = (span.at + span.bytes).next_multiple_of(PAGE_BYTES);
        while let Some((&begin, &end)) = self.ranges.range(..=to).next_back().filter(|(_, end)| **end >= from)
        {
            self.ranges.remove(&begin);
            self.bytes -= end - begin;
            (from, to) = (from.min(begin), to.max(end));
        }
        self.ranges.insert(from, to);
        self.bytes += to - from;
        self.bytes >= BYTES_MAX
    }

    /// Takes the ranges that are to be written now.
    pub(super) fn take(&mut self) -> impl Iterator<Item = Span> + use<> {
        self.bytes = 0;
        std::mem::take(&mut self.ranges).into_iter().map(|(at, end)| Span { at, bytes: end - at })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(at: u64, bytes: u64) -> Span {
        Span { at, bytes }
    }

    #[test]
    fn pages_are_written_once_in_their_order_and_neighbours_together() {
        let mut unwritten = Unwritten::default();
        for (at, bytes) in [(40_960, 4096), (0, 100), (5000, 10), (8192, 4096), (50, 8000), (1 << 30, 0)] {
            assert!(!unwritten.add(span(at, bytes)));
        }
        assert_eq!(unwritten.bytes, 4 * 4096);
        assert_eq!(unwritten.take().collect::<Vec<_>>(), [span(0, 12_288), span(40_960, 4096)]);
        assert_eq!(unwritten.take().next(), None);
    }

    #[test]
    fn the_kernel_begins_to_write_when_much_waits() {
        let mut unwritten = Unwritten::default();
        assert!(!unwritten.add(span(0, BYTES_MAX - PAGE_BYTES)));
        assert!(!unwritten.add(span(4096, 4096)), "it waits already");
        assert!(unwritten.add(span(1 << 40, 1)));
    }
}
