//! The write size predictor (Ziggurat §4): whether a write is large, and writes to the same range will stay so.
//!
//! Each write has a counter:
//!
//! | a write that | has the counter |
//! |---|---|
//! | covers at least half of an earlier write's range | of that write, plus one |
//! | covers less of it | 0 |
//! | goes on where the write before it ended | of that write, plus one |
//! | is the first there, of [`FIRST_PART`] times the least or more | just above the threshold |
//! | is the first there, and shorter | 0 |
//! | is shorter than the least ([`LargeSizes`]) | 0 |
//!
//! A counter above [`COUNTER_LARGE`] says *large*. Ranges of which nothing is known count as written by small
//! writes, so only the most promising are kept: [`RANGES_KEPT`] a file.

use super::hits::Hits;
use std::ops::Range;

/// A counter above this says large.
const COUNTER_LARGE: u8 = 4;
/// Shorter writes are never large, where no write is staged: 64 KiB.
const LEAST_UNSTAGED: u64 = 64 << 10;
/// The first write to a range is large if it is so many times as long as the least: 512 KiB.
const FIRST_PART: u64 = 8;
/// Ranges of a file that are remembered.
const RANGES_KEPT: usize = 32;

/// The sizes of large writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LargeSizes {
    /// Shorter writes are never large.
    least: u64,
}

impl LargeSizes {
    /// Those of a store that stages writes from so many bytes on: a write that is not staged is not large either.
    #[inline]
    pub(crate) fn of(stage_bytes: u32) -> LargeSizes {
        LargeSizes { least: if stage_bytes > 0 { stage_bytes.into() } else { LEAST_UNSTAGED } }
    }

    /// The first write to a range is large if it is as long.
    fn first(self) -> u64 {
        FIRST_PART * self.least
    }
}

/// Writes that lie side by side, each about as long as the others.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Written {
    range: Range<u64>,
    /// Bytes of one write.
    write_bytes: u64,
    counter: u8,
}

/// The writes to a file, as far as they are remembered.
#[derive(Clone, Debug, Default)]
pub(crate) struct WriteSizes {
    /// In file order, without overlaps.
    written: Vec<Written>,
}

impl WriteSizes {
    /// A write, which is counted. Answers whether it is large, and is expected to stay so.
    pub(crate) fn note_write(&mut self, range: Range<u64>, sizes: LargeSizes, hits: &mut Hits) -> bool {
        let bytes = range.end - range.start;
        if self.written.is_empty() && bytes < sizes.first() {
            // Most small files end here.
            self.insert(Written { range, write_bytes: bytes, counter: 0 });
            return false;
        }
        let first = self.written.partition_point(|earlier| earlier.range.end <= range.start);
        let overlapping = self.written[first..].iter().take_while(|earlier| earlier.range.start < range.end);
        let covered: Option<(u8, bool)> = overlapping
            .map(|earlier| {
                let overlap = earlier.range.end.min(range.end) - earlier.range.start.max(range.start);
                let covers = overlap * 2 >= earlier.write_bytes.min(earlier.range.end - earlier.range.start);
                hits_of(earlier, covers, hits);
                (earlier.counter, covers)
            })
            .reduce(|one, other| (one.0.min(other.0), one.1 && other.1));
        let before = first.checked_sub(1).map(|index| &self.written[index]);
        let follows = before.filter(|before| before.range.end == range.start);
        let counter = match (covered, follows) {
            _ if bytes < sizes.least => 0,
            (Some((counter, true)), _) => counter.saturating_add(1),
            (Some((_, false)), _) => 0,
            (None, Some(before)) => before.counter.saturating_add(1),
            (None, None) if bytes >= sizes.first() => COUNTER_LARGE + 1,
            (None, None) => 0,
        };
        let counter = counter.min(COUNTER_LARGE + 1);
        self.remove(&range);
        self.insert(Written { range, write_bytes: bytes, counter });
        counter > COUNTER_LARGE
    }

    /// The file ends there from now on.
    pub(crate) fn cut(&mut self, end: u64) {
        self.remove(&(end..u64::MAX));
    }

    /// Forgets the writes to a range.
    fn remove(&mut self, range: &Range<u64>) {
        let mut at = self.written.partition_point(|earlier| earlier.range.end <= range.start);
        while let Some(earlier) = self.written.get_mut(at).filter(|earlier| earlier.range.start < range.end) {
            let (start, end) = (earlier.range.start, earlier.range.end);
            match (start < range.start, range.end < end) {
                (true, true) => {
                    let behind = Written { range: range.end..end, ..earlier.clone() };
                    earlier.range.end = range.start;
                    self.written.insert(at + 1, behind);
                    return;
                }
                (true, false) => {
                    earlier.range.end = range.start;
                    at += 1;
                }
                (false, true) => {
                    earlier.range.start = range.end;
                    return;
                }
                (false, false) => drop(self.written.remove(at)),
            }
        }
    }

    /// Adds a write to a range of which nothing is known.
    fn insert(&mut self, new: Written) {
        let at = self.written.partition_point(|earlier| earlier.range.end <= new.range.start);
        let before = at.checked_sub(1).map(|index| &mut self.written[index]);
        // A run of writes with the same length is one. So is one whose writes become large.
        let joins = |before: &&mut Written| {
            before.range.end == new.range.start
                && (before.write_bytes == new.write_bytes || before.counter < new.counter)
        };
        match before.filter(joins) {
            Some(before) => *before = Written { range: before.range.start..new.range.end, ..new },
            None => self.written.insert(at, new),
        }
        while self.written.len() > RANGES_KEPT {
            let lowest = self.written.iter().enumerate().min_by_key(|(_, written)| written.counter);
            let Some((index, _)) = lowest else { return };
            self.written.remove(index);
        }
    }
}

/// Counts whether an earlier prediction was right: a large range is overwritten by large writes.
fn hits_of(earlier: &Written, covers: bool, hits: &mut Hits) {
    if earlier.counter > COUNTER_LARGE {
        hits.note(covers, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: u64 = 4096;
    const SIZES: LargeSizes = LargeSizes { least: 64 << 10 };

    fn blocks(first: u64, count: u64) -> Range<u64> {
        first * BLOCK..(first + count) * BLOCK
    }

    #[test]
    fn a_long_first_write_is_large_and_a_short_one_becomes_so_when_others_follow() {
        let (mut file, mut hits) = (WriteSizes::default(), Hits::default());
        assert!(file.note_write(blocks(0, 128), SIZES, &mut hits));
        assert!(file.note_write(blocks(128, 16), SIZES, &mut hits), "it goes on where a large one ended");
        assert!(!file.note_write(blocks(144, 15), SIZES, &mut hits), "it is short");
        let mut appended = WriteSizes::default();
        let large: Vec<bool> =
            (0..8).map(|n| appended.note_write(blocks(n * 16, 16), SIZES, &mut hits)).collect();
        assert_eq!(large, [false, false, false, false, false, true, true, true]);
        assert_eq!(hits, Hits::default());
    }

    #[test]
    fn a_rewrite_of_half_counts_on_and_one_of_less_begins_anew() {
        let (mut file, mut hits) = (WriteSizes::default(), Hits::default());
        let mut large = |range| file.note_write(range, SIZES, &mut hits);
        assert!(large(blocks(0, 128)));
        assert!(large(blocks(0, 64)), "half of it");
        assert!(!large(blocks(64, 20)), "less than half of what is left");
        assert!(!large(blocks(64, 20)), "counts 1");
        let counted: Vec<bool> = (0..5).map(|_| large(blocks(64, 20))).collect();
        assert_eq!(counted, [false, false, false, true, true]);
        assert_eq!(hits, Hits { right: 1 + 1, wrong: 1 });
    }

    #[test]
    fn small_writes_into_a_large_range_are_small() {
        let (mut file, mut hits) = (WriteSizes::default(), Hits::default());
        (0..4).for_each(|n| assert!(file.note_write(blocks(n * 256, 256), SIZES, &mut hits)));
        for n in [5, 900, 300] {
            assert!(!file.note_write(blocks(n, 1), SIZES, &mut hits));
        }
        assert_eq!(hits, Hits { right: 0, wrong: 3 });
        assert!(file.note_write(blocks(512, 256), SIZES, &mut hits), "large again over what stayed large");
    }

    #[test]
    fn what_is_known_stays_small_and_in_order_whatever_is_written() {
        let seed = 11;
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut file, mut hits) = (WriteSizes::default(), Hits::default());
        for round in 0..20_000 {
            if random.u32(0..100) == 0 {
                file.cut(random.u64(0..4096) * BLOCK);
            }
            file.note_write(blocks(random.u64(0..4096), random.u64(1..200)), SIZES, &mut hits);
            let is_sound = file.written.windows(2).all(|two| two[0].range.end <= two[1].range.start)
                && file.written.iter().all(|written| !written.range.is_empty());
            assert!(is_sound && file.written.len() <= RANGES_KEPT, "seed {seed}, round {round}: {file:?}");
        }
    }

    #[test]
    fn the_store_says_from_which_size_on_writes_are_large() {
        let large = |stage_bytes, count| {
            let (mut file, mut hits) = (WriteSizes::default(), Hits::default());
            let sizes = LargeSizes::of(stage_bytes);
            (0..7)
                .map(|n| file.note_write(blocks(n * count, count), sizes, &mut hits))
                .filter(|large| *large)
                .count()
        };
        assert_eq!([large(4096, 8), large(8192, 8), large(16384, 8), large(65536, 8)], [7, 2, 2, 0]);
        assert_eq!([large(0, 15), large(0, 16), large(0, 128)], [0, 2, 7], "nothing is staged");
    }
}
