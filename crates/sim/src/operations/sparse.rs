//! A sparse file in memory: shared 4 KiB blocks, so that the model can be cloned after every
//! operation and a file can be huge and empty.

use std::collections::BTreeMap;
use std::sync::Arc;

const BLOCK: u64 = 4096;

/// A file's bytes. Blocks of zeros are never kept, so equal contents compare equal.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Sparse {
    size: u64,
    blocks: BTreeMap<u64, Arc<[u8; BLOCK as usize]>>,
}

impl Sparse {
    /// The size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Stores `bytes` at `offset`, growing the file if it ends before.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        let mut at = offset;
        let mut rest = bytes;
        while !rest.is_empty() {
            let within = (at % BLOCK) as usize;
            let (piece, tail) = rest.split_at(rest.len().min(BLOCK as usize - within));
            let block = self.blocks.entry(at / BLOCK).or_insert_with(|| Arc::new([0; BLOCK as usize]));
            Arc::make_mut(block)[within..within + piece.len()].copy_from_slice(piece);
            if block.iter().all(|byte| *byte == 0) {
                self.blocks.remove(&(at / BLOCK));
            }
            at += piece.len() as u64;
            rest = tail;
        }
        if !bytes.is_empty() {
            self.size = self.size.max(at);
        }
    }

    /// The bytes from `offset`, at most `length` of them, fewer at the end of the file.
    pub fn read(&self, offset: u64, length: u64) -> Vec<u8> {
        let end = self.size.min(offset.saturating_add(length));
        if end <= offset {
            return Vec::new();
        }
        let mut bytes = vec![0; (end - offset) as usize];
        for (number, block) in self.blocks.range(offset / BLOCK..end.div_ceil(BLOCK)) {
            let start = (number * BLOCK).max(offset);
            let stop = ((number + 1) * BLOCK).min(end);
            if start < stop {
                bytes[(start - offset) as usize..(stop - offset) as usize]
                    .copy_from_slice(&block[(start % BLOCK) as usize..][..(stop - start) as usize]);
            }
        }
        bytes
    }

    /// Zeroes a range without changing the size.
    pub fn zero(&mut self, offset: u64, length: u64) {
        let size = self.size;
        let end = offset.saturating_add(length).min(size);
        if end <= offset {
            return;
        }
        let touched: Vec<u64> =
            self.blocks.range(offset / BLOCK..end.div_ceil(BLOCK)).map(|(number, _)| *number).collect();
        for number in touched {
            let start = (number * BLOCK).max(offset);
            let stop = ((number + 1) * BLOCK).min(end);
            if start < stop {
                self.write(start, &vec![0; (stop - start) as usize]);
            }
        }
        self.size = size;
    }

    /// Takes a range of whole blocks out; it ends before the file does.
    pub fn collapse(&mut self, offset: u64, length: u64) {
        let (first, blocks) = (offset / BLOCK, length / BLOCK);
        let behind = self.blocks.split_off(&first);
        let moved = behind.into_iter().filter(|(number, _)| *number >= first + blocks);
        self.blocks.extend(moved.map(|(number, block)| (number - blocks, block)));
        self.size -= length;
    }

    /// Makes room of whole blocks.
    pub fn insert(&mut self, offset: u64, length: u64) {
        let behind = self.blocks.split_off(&(offset / BLOCK));
        self.blocks.extend(behind.into_iter().map(|(number, block)| (number + length / BLOCK, block)));
        self.size += length;
    }

    /// Cuts or extends the file to `size`; what an extension shows is zeros.
    pub fn set_size(&mut self, size: u64) {
        if size < self.size {
            self.zero(size, self.size - size);
        }
        self.size = size;
    }

    /// Where two files first differ, if they do.
    pub fn first_difference(&self, other: &Sparse) -> Option<u64> {
        let zeros = [0; BLOCK as usize];
        let numbers: std::collections::BTreeSet<u64> =
            self.blocks.keys().chain(other.blocks.keys()).copied().collect();
        for number in numbers {
            let left = self.blocks.get(&number).map_or(&zeros, |block| block);
            let right = other.blocks.get(&number).map_or(&zeros, |block| block);
            if let Some(at) = left.iter().zip(right).position(|(l, r)| l != r) {
                return Some(number * BLOCK + at as u64);
            }
        }
        (self.size != other.size).then(|| self.size.min(other.size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operations::random::Random;

    #[test]
    fn agrees_with_a_plain_vector() {
        let mut random = Random::new(1);
        let mut sparse = Sparse::default();
        let mut plain: Vec<u8> = Vec::new();
        for step in 0..2000u64 {
            let offset = random.below(20_000);
            let length = random.below(9_000);
            match random.below(4) {
                0 => {
                    plain.resize(offset as usize, 0);
                    sparse.set_size(offset);
                }
                1 => {
                    let end = plain.len().min((offset + length) as usize);
                    if let Some(range) = plain.get_mut(offset as usize..end) {
                        range.fill(0);
                    }
                    sparse.zero(offset, length);
                }
                _ => {
                    let bytes = vec![(step % 255) as u8 + 1; length as usize];
                    if length > 0 && plain.len() < (offset + length) as usize {
                        plain.resize((offset + length) as usize, 0);
                    }
                    let start = plain.len().min(offset as usize);
                    plain[start..][..length as usize].copy_from_slice(&bytes);
                    sparse.write(offset, &bytes);
                }
            }
            assert_eq!(sparse.size(), plain.len() as u64, "step {step}");
            assert_eq!(sparse.read(0, u64::MAX), plain, "step {step}");
        }
    }
}
