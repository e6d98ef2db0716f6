//! Which blocks of an arena are in use: one bit each.

use std::ops::Range;

/// A bitmap of blocks; set means used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bitmap {
    words: Vec<u64>,
    blocks: u32,
    used: u32,
}

impl Bitmap {
    /// All free.
    #[must_use]
    pub fn new(blocks: u32) -> Bitmap {
        Bitmap { words: vec![0; blocks.div_ceil(64) as usize], blocks, used: 0 }
    }

    /// From bytes at rest; bits behind the last block are ignored, missing bytes mean free.
    #[must_use]
    pub fn from_bytes(blocks: u32, bytes: &[u8]) -> Bitmap {
        let mut bitmap = Bitmap::new(blocks);
        for (word, chunk) in bitmap.words.iter_mut().zip(bytes.chunks(8)) {
            let mut whole = [0; 8];
            whole[..chunk.len()].copy_from_slice(chunk);
            *word = u64::from_le_bytes(whole);
        }
        let spare = bitmap.words.len() as u32 * 64 - blocks;
        if let Some(last) = bitmap.words.last_mut() {
            *last &= u64::MAX >> spare;
        }
        bitmap.used = bitmap.words.iter().map(|word| word.count_ones()).sum();
        bitmap
    }

    /// The bytes at rest, appended to `out`.
    pub fn to_bytes(&self, out: &mut Vec<u8>) {
        for word in &self.words {
            out.extend_from_slice(&word.to_le_bytes());
        }
    }

    /// Blocks in use.
    #[must_use]
    pub fn used(&self) -> u32 {
        self.used
    }

    /// Blocks free.
    #[must_use]
    pub fn free(&self) -> u32 {
        self.blocks - self.used
    }

    /// Blocks free in a range.
    #[must_use]
    pub fn free_in(&self, range: Range<u32>) -> u32 {
        let mut used = 0;
        Self::each_word(range.start, range.end - range.start, |word, mask| {
            used += (self.words[word] & mask).count_ones();
        });
        range.end - range.start - used
    }

    /// Behind the last block in use.
    #[must_use]
    pub fn end_of_used(&self) -> u32 {
        let last = self.words.iter().rposition(|&word| word != 0);
        last.map_or(0, |last| last as u32 * 64 + 64 - self.words[last].leading_zeros())
    }

    /// Whether a block is in use.
    #[must_use]
    pub fn is_used(&self, block: u32) -> bool {
        self.words[(block / 64) as usize] >> (block % 64) & 1 != 0
    }

    /// Marks whatever `other` does, which is as long.
    pub fn join(&mut self, other: &Bitmap) {
        for (word, more) in self.words.iter_mut().zip(&other.words) {
            *word |= more;
        }
        self.used = self.words.iter().map(|word| word.count_ones()).sum();
    }

    fn each_word(first: u32, count: u32, mut visit: impl FnMut(usize, u64)) {
        let end = first + count;
        let mut block = first;
        while block < end {
            let bit = block % 64;
            let take = (64 - bit).min(end - block);
            let mask = if take == 64 { u64::MAX } else { ((1 << take) - 1) << bit };
            visit((block / 64) as usize, mask);
            block += take;
        }
    }

    /// Marks blocks used. Says how many of them were already.
    pub fn set(&mut self, first: u32, count: u32) -> u32 {
        debug_assert!(first + count <= self.blocks);
        let mut already = 0;
        Self::each_word(first, count, |word, mask| {
            already += (self.words[word] & mask).count_ones();
            self.words[word] |= mask;
        });
        self.used += count - already;
        already
    }

    /// Marks blocks free. Says how many of them were already.
    pub fn clear(&mut self, first: u32, count: u32) -> u32 {
        debug_assert!(first + count <= self.blocks);
        let mut already = count;
        Self::each_word(first, count, |word, mask| {
            already -= (self.words[word] & mask).count_ones();
            self.words[word] &= !mask;
        });
        self.used -= count - already;
        already
    }

    /// How many there are.
    #[must_use]
    pub fn blocks(&self) -> u32 {
        self.blocks
    }

    /// The first run of free blocks in a range, at most `most` long.
    #[must_use]
    pub fn find_free(&self, range: Range<u32>, most: u32) -> Option<(u32, u32)> {
        let first = self.next(range.clone(), false)?;
        // Behind an empty arena's first block lie thousands of words that say the same.
        let most = first.saturating_add(most).min(range.end);
        let end = self.next(first..most, true).unwrap_or(most);
        Some((first, end - first))
    }

    /// The first run of used blocks in a range, at most `most` long.
    #[must_use]
    pub fn find_used(&self, range: Range<u32>, most: u32) -> Option<(u32, u32)> {
        let first = self.next(range.clone(), true)?;
        let most = first.saturating_add(most).min(range.end);
        let end = self.next(first..most, false).unwrap_or(most);
        Some((first, end - first))
    }

    /// The first block of a range that is used (or free).
    fn next(&self, range: Range<u32>, used: bool) -> Option<u32> {
        let mut block = range.start;
        while block < range.end {
            let word = self.words[(block / 64) as usize];
            let word = if used { word } else { !word } & (u64::MAX << (block % 64));
            if word != 0 {
                let found = (block / 64) * 64 + word.trailing_zeros();
                return (found < range.end).then_some(found);
            }
            block = (block / 64 + 1) * 64;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_agrees_with_a_plain_one() {
        let mut random = fastrand::Rng::with_seed(7);
        let blocks = 203;
        let mut bitmap = Bitmap::new(blocks);
        let mut plain = vec![false; blocks as usize];
        for _ in 0..2000 {
            let first = random.u32(0..blocks);
            let count = random.u32(0..=blocks - first);
            let range = first as usize..(first + count) as usize;
            let on = random.bool();
            let already = plain[range.clone()].iter().filter(|&&used| used == on).count() as u32;
            assert_eq!(if on { bitmap.set(first, count) } else { bitmap.clear(first, count) }, already);
            plain[range].fill(on);
            let from = random.u32(0..blocks);
            let start = (from..blocks).find(|&block| !plain[block as usize]);
            let run = start.map(|start| {
                let end = (start..blocks).find(|&block| plain[block as usize]).unwrap_or(blocks);
                (start, (end - start).min(9))
            });
            assert_eq!(bitmap.find_free(from..blocks, 9), run);
            let until = random.u32(from..=blocks);
            let cut = run.filter(|&(start, _)| start < until);
            let cut = cut.map(|(start, count)| (start, count.min(until - start)));
            assert_eq!(bitmap.find_free(from..until, 9), cut);
            let used = (from..until).find(|&block| plain[block as usize]).map(|start| {
                let end = (start..until).find(|&block| !plain[block as usize]).unwrap_or(until);
                (start, (end - start).min(9))
            });
            assert_eq!(bitmap.find_used(from..until, 9), used);
            let end = plain.iter().rposition(|&used| used).map_or(0, |last| last as u32 + 1);
            assert_eq!(bitmap.end_of_used(), end);
            let free = plain[from as usize..until as usize].iter().filter(|&&used| !used).count();
            assert_eq!(bitmap.free_in(from..until) as usize, free);
            assert_eq!(bitmap.used() as usize, plain.iter().filter(|&&used| used).count());
        }
        let mut bytes = Vec::new();
        bitmap.to_bytes(&mut bytes);
        assert_eq!(Bitmap::from_bytes(blocks, &bytes), bitmap);
        assert_eq!(Bitmap::from_bytes(blocks, &[0xff; 32]).free(), 0);
    }
}
