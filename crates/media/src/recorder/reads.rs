//! The lines of a store's files that a thread reads: two states that are the same there look the same to it.
//!
//! A line counts as read if any of its bytes was read before the same thread had stored all of the line. A read through
//! a mapping is seen as stores are; one with a call of the kernel has to be told
//! ([`record_file_read`]).

use super::places::{RegionKey, WORD, each_place, path_of, region_of};
use crate::copying::persist::LINE;
use rustix::fd::{AsFd, BorrowedFd};
use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

/// Lines of one file that were read, in order.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinesRead {
    /// The file's name when it was first read.
    pub path: PathBuf,
    /// The numbers of the lines.
    pub lines: Vec<u32>,
}

/// Follows what the thread that made it reads of the files below a folder.
#[derive(Debug)]
pub struct ReadTracker(PhantomData<*const ()>);

struct Tracked {
    root: PathBuf,
    files: HashMap<RegionKey, TrackedFile>,
}

#[derive(Default)]
struct TrackedFile {
    path: PathBuf,
    /// A bit for each line.
    read: Vec<u64>,
    /// A bit for each word of each line.
    stored: Vec<u8>,
}

thread_local!(static TRACKED: RefCell<Option<Tracked>> = const { RefCell::new(None) });

impl ReadTracker {
    /// Begins.
    #[must_use]
    pub fn start(root: &Path) -> ReadTracker {
        let root = root.canonicalize().unwrap_or_else(|_| root.to_path_buf());
        TRACKED.set(Some(Tracked { root, files: HashMap::new() }));
        ReadTracker(PhantomData)
    }

    /// Ends, and says what was read, in order of the files' names.
    pub fn take(self) -> Vec<LinesRead> {
        let files = TRACKED.take().map_or(HashMap::new(), |tracked| tracked.files);
        let mut read: Vec<LinesRead> = files.into_values().map(TrackedFile::lines).collect();
        read.sort();
        read
    }
}

impl Drop for ReadTracker {
    fn drop(&mut self) {
        TRACKED.set(None);
    }
}

impl TrackedFile {
    fn lines(self) -> LinesRead {
        let bits = self.read.iter().enumerate().filter(|(_, word)| **word != 0);
        let lines = bits.flat_map(|(index, word)| {
            (0..u64::BITS)
                .filter(move |bit| word >> bit & 1 == 1)
                .map(move |bit| index as u32 * u64::BITS + bit)
        });
        LinesRead { lines: lines.collect(), path: self.path }
    }

    fn reads(&mut self, offset: u64, len: usize) {
        let past = (offset + len as u64).div_ceil(LINE as u64) as usize;
        for line in offset as usize / LINE..past {
            if self.stored.get(line) == Some(&u8::MAX) {
                continue;
            }
            let word = line / u64::BITS as usize;
            if self.read.len() <= word {
                self.read.resize(word + 1, 0);
            }
            self.read[word] |= 1 << (line % u64::BITS as usize);
        }
    }

    fn stores(&mut self, offset: u64, len: usize) {
        let first = offset.div_ceil(WORD) as usize;
        let past = ((offset + len as u64) / WORD) as usize;
        let words_of_line = LINE / WORD as usize;
        if self.stored.len() < past.div_ceil(words_of_line) {
            self.stored.resize(past.div_ceil(words_of_line), 0);
        }
        for word in first..past {
            self.stored[word / words_of_line] |= 1 << (word % words_of_line);
        }
    }
}

impl Tracked {
    fn file(&mut self, region: RegionKey, path: &Path) -> Option<&mut TrackedFile> {
        match self.files.entry(region) {
            Entry::Occupied(known) => Some(known.into_mut()),
            Entry::Vacant(place) => {
                let path = path.strip_prefix(&self.root).ok()?.into();
                Some(place.insert(TrackedFile { path, ..TrackedFile::default() }))
            }
        }
    }
}

fn with_tracked(note: impl FnOnce(&mut Tracked)) {
    TRACKED.with_borrow_mut(|tracked| {
        if let Some(tracked) = tracked {
            note(tracked);
        }
    });
}

pub(crate) fn on_read(src: *const u8, len: usize) {
    with_tracked(|tracked| {
        each_place(src, len, |place, offset, _, len| {
            if let Some(file) = tracked.file(place.region, &place.path) {
                file.reads(offset, len);
            }
        });
    });
}

pub(super) fn note_store(dst: *const u8, len: usize) {
    with_tracked(|tracked| {
        each_place(dst, len, |place, offset, _, len| {
            if let Some(file) = tracked.file(place.region, &place.path) {
                file.stores(offset, len);
            }
        });
    });
}

/// Notes a read made with `pread` and its like.
pub fn record_file_read(file: impl AsFd, offset: u64, len: usize) {
    with_tracked(|tracked| {
        let file: BorrowedFd<'_> = file.as_fd();
        if let Some(file) = tracked.file(region_of(file), &path_of(file)) {
            file.reads(offset, len);
        }
    });
}
