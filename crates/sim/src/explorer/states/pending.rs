//! Stores that are not durable yet, line by line.
//!
//! A store is durable once its line was flushed and the thread that flushed it has fenced. Until
//! then a crash may keep it or lose it; within one line it keeps a prefix of the stores, in
//! program order, torn between words of eight bytes at the finest.

use crate::explorer::states::image::{Image, ImageHash, LINE, Undo};
use cuesta_media::recorder::RegionKey;
use std::collections::{BTreeMap, BTreeSet};

const WORD: u64 = 8;

/// A cache line of a file.
pub(in crate::explorer) type LineKey = (RegionKey, u64);

/// Everything a crash may still lose.
#[derive(Default)]
pub(in crate::explorer) struct Pending {
    lines: BTreeMap<LineKey, PendingLine>,
    /// Lines a thread has flushed and not fenced.
    flushed: BTreeMap<u64, BTreeSet<LineKey>>,
}

#[derive(Default)]
struct PendingLine {
    words: Vec<Word>,
    /// How many of the words each thread's flush took along.
    flushed: BTreeMap<u64, usize>,
}

/// Up to eight bytes that reach the medium together.
struct Word {
    offset: u64,
    length: u8,
    bytes: [u8; WORD as usize],
}

/// For some lines, how many of their words survive; lines not named survive not at all.
pub(in crate::explorer) type Survivors = BTreeMap<LineKey, usize>;

impl Pending {
    /// Notes a store.
    pub(in crate::explorer) fn store(&mut self, region: RegionKey, offset: u64, bytes: &[u8]) {
        for (at, piece) in words(offset, bytes) {
            let mut word = Word { offset: at, length: piece.len() as u8, bytes: [0; WORD as usize] };
            word.bytes[..piece.len()].copy_from_slice(piece);
            self.lines.entry((region, at / LINE)).or_default().words.push(word);
        }
    }

    /// Notes a flush: what its lines hold by now will be durable at the thread's next fence.
    pub(in crate::explorer) fn flush(&mut self, thread: u64, region: RegionKey, offset: u64, len: u64) {
        let first = (region, offset / LINE);
        let past = (region, offset.saturating_add(len).div_ceil(LINE));
        for (key, line) in self.lines.range_mut(first..past) {
            line.flushed.insert(thread, line.words.len());
            self.flushed.entry(thread).or_default().insert(*key);
        }
    }

    /// Makes what `thread` flushed durable; says whether that was anything.
    pub(in crate::explorer) fn fence(&mut self, thread: u64, durable: &mut Image) -> bool {
        let flushed = self.flushed.remove(&thread).unwrap_or_default();
        let mut moved = false;
        for key in flushed {
            let Some(line) = self.lines.get_mut(&key) else {
                continue;
            };
            let Some(count) = line.flushed.remove(&thread) else {
                continue;
            };
            for word in line.words.drain(..count) {
                durable.store(key.0, word.offset, &word.bytes[..word.length as usize]);
                moved = true;
            }
            line.flushed.retain(|_, other| {
                *other = other.saturating_sub(count);
                *other > 0
            });
            if line.words.is_empty() {
                self.lines.remove(&key);
            }
        }
        moved
    }

    /// Makes the pending stores on the lines of a range durable, of all threads.
    pub(in crate::explorer) fn write_out(
        &mut self,
        region: RegionKey,
        offset: u64,
        len: u64,
        durable: &mut Image,
    ) {
        let range = (region, offset / LINE)..(region, (offset + len).div_ceil(LINE));
        let keys: Vec<LineKey> = self.lines.range(range).map(|(key, _)| *key).collect();
        for line in keys.iter().filter_map(|key| self.lines.remove(key)) {
            for word in line.words {
                durable.store(region, word.offset, &word.bytes[..word.length as usize]);
            }
        }
    }

    /// Forgets what was pending in a file that was made anew.
    pub(in crate::explorer) fn forget(&mut self, region: RegionKey) {
        self.lines.retain(|key, _| key.0 != region);
    }

    /// Forgets what was pending behind the new end of a file: it is gone, and if the file grows again
    /// there are zeros.
    pub(in crate::explorer) fn cut(&mut self, region: RegionKey, len: u64) {
        for (_, line) in self.lines.range_mut((region, len / LINE)..(region, u64::MAX)) {
            for word in &mut line.words {
                let kept = len.saturating_sub(word.offset).min(u64::from(word.length));
                word.length = kept as u8;
            }
        }
    }

    /// Every pending line with all its words.
    pub(in crate::explorer) fn all(&self) -> Survivors {
        self.lines.iter().map(|(key, line)| (*key, line.words.len())).collect()
    }

    /// What `image` would be if everything survived.
    pub(in crate::explorer) fn with_all(&self, image: &mut Image) -> ImageHash {
        let undo = self.apply(&self.all(), image);
        let hash = image.hash();
        image.revert(undo);
        hash
    }

    /// Puts the survivors into `image`.
    pub(in crate::explorer) fn apply(&self, survivors: &Survivors, image: &mut Image) -> Vec<Undo> {
        let mut undo = Vec::new();
        for (key, count) in survivors {
            for word in &self.lines[key].words[..*count] {
                undo.extend(image.store(key.0, word.offset, &word.bytes[..word.length as usize]));
            }
        }
        undo
    }
}

/// Where the word begins that `offset` is in.
pub(in crate::explorer) fn start_of_word(offset: u64) -> u64 {
    offset / WORD * WORD
}

/// Cuts a store at word boundaries.
fn words(offset: u64, bytes: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    let mut at = offset;
    let mut rest = bytes;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (piece, tail) = rest.split_at(rest.len().min((WORD - at % WORD) as usize));
        let item = (at, piece);
        at += piece.len() as u64;
        rest = tail;
        Some(item)
    })
}
