//! What recovery found in the states that were recovered, for all the runs that can come to the like: those whose
//! workloads begin alike, and recoveries that crash.
//!
//! A state is recovered once; after that, each run that comes to it gets the outcome. Nor is a state recovered that
//! differs from one that was only where its recovery never looked, for recovery would go the same way: each is kept
//! with the lines that were read ([`ReadTracker`](cuesta_media::recorder::ReadTracker)). That is checked: one in
//! [`CHECKED_ONE_IN`] of those states is recovered all the same, and has to come to what was told. All of it rests on
//! recovery depending on nothing but the state and what the [`Subject`](super::Subject) says are its circumstances.
//!
//! Results are many times the same, and kept once.

use crate::explorer::states::image::{Image, ImageHash};
use cuesta_media::recorder::LinesRead;
use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::Hash;
use std::rc::Rc;

/// Of the states that are told because recovery would read the same, so many are recovered to compare.
const CHECKED_ONE_IN: u64 = 32;
/// Different results kept; with more of them everything is forgotten, which costs time and nothing else.
const RESULTS_MAX: usize = 4000;
/// Different sets of lines of a file kept; likewise.
const LINE_SETS_MAX: usize = 1000;
/// Different sets of lines kept.
const WAYS_MAX: usize = 64;

/// The outcome of one recovery.
pub(in crate::explorer) type Recovery<F> = Rc<Result<F, String>>;

/// See the head of the file.
pub struct Memory<F> {
    of_state: HashMap<(ImageHash, u64), Recovery<F>>,
    /// The way that served last comes first.
    ways: VecDeque<Way<F>>,
    lines: Lines,
    results: HashSet<Recovery<F>>,
    told: u64,
}

/// Sets of lines, each kept once: ways differ in few of the files.
#[derive(Default)]
struct Lines {
    known: Vec<LinesRead>,
    number_of: HashMap<LinesRead, usize>,
}

/// Recoveries that read the same lines: their outcomes by the content of these lines.
struct Way<F> {
    /// Of each file, as a place in [`Lines::known`].
    reads: Vec<usize>,
    of_lines: HashMap<(ImageHash, u64), Recovery<F>>,
}

/// Whether the outcome of a state is known.
pub(in crate::explorer) enum Recalled<F> {
    Nothing,
    Told(Recovery<F>),
    /// It has to come to this if it is recovered, which it is to be.
    ToCheck(Recovery<F>),
}

/// What an image holds in sets of lines.
struct Sums<'a> {
    lines: &'a Lines,
    image: &'a Image,
    heads: u128,
    of_set: Vec<Option<u128>>,
}

impl Lines {
    fn number(&mut self, lines: LinesRead) -> usize {
        if let Some(number) = self.number_of.get(&lines) {
            return *number;
        }
        self.known.push(lines.clone());
        self.number_of.insert(lines, self.known.len() - 1);
        self.known.len() - 1
    }

    fn sums<'a>(&'a self, image: &'a Image) -> Sums<'a> {
        Sums { lines: self, image, heads: image.hash_of_heads(), of_set: vec![None; self.known.len()] }
    }
}

impl Sums<'_> {
    /// The hash of all that is read on a way.
    fn of(&mut self, reads: &[usize]) -> ImageHash {
        let mut hash = self.heads;
        for &set in reads {
            let sum =
                *self.of_set[set].get_or_insert_with(|| self.image.hash_of_lines(&self.lines.known[set]));
            hash = hash.wrapping_add(sum);
        }
        ImageHash(hash)
    }
}

impl<F> Default for Memory<F> {
    fn default() -> Memory<F> {
        Memory {
            of_state: HashMap::new(),
            ways: VecDeque::new(),
            lines: Lines::default(),
            results: HashSet::new(),
            told: 0,
        }
    }
}

impl<F: Eq + Hash> Memory<F> {
    /// What recovering `image` in these circumstances comes to.
    pub(in crate::explorer) fn recall(&mut self, image: &Image, circumstances: u64) -> Recalled<F> {
        let state = (image.hash(), circumstances);
        if let Some(found) = self.of_state.get(&state) {
            return Recalled::Told(Rc::clone(found));
        }
        let mut sums = self.lines.sums(image);
        let hit = self.ways.iter().enumerate().find_map(|(index, way)| {
            let found = way.of_lines.get(&(sums.of(&way.reads), circumstances))?;
            Some((index, Rc::clone(found)))
        });
        let Some((index, found)) = hit else { return Recalled::Nothing };
        if let Some(way) = self.ways.remove(index) {
            self.ways.push_front(way);
        }
        self.told += 1;
        if self.told.is_multiple_of(CHECKED_ONE_IN) {
            return Recalled::ToCheck(found);
        }
        self.of_state.insert(state, Rc::clone(&found));
        Recalled::Told(found)
    }

    /// Keeps what a recovery found, and which lines it read if that is known.
    pub(in crate::explorer) fn keep(
        &mut self,
        image: &Image,
        circumstances: u64,
        found: Result<F, String>,
        reads: Option<Vec<LinesRead>>,
    ) -> Recovery<F> {
        if self.results.len() >= RESULTS_MAX || self.lines.known.len() >= LINE_SETS_MAX {
            *self = Memory::default();
        }
        let found = Rc::new(found);
        let found = match self.results.get(&found) {
            Some(equal) => Rc::clone(equal),
            None => {
                self.results.insert(Rc::clone(&found));
                found
            }
        };
        self.of_state.insert((image.hash(), circumstances), Rc::clone(&found));
        if let Some(reads) = reads {
            let reads: Vec<usize> = reads.into_iter().map(|lines| self.lines.number(lines)).collect();
            let lines = self.lines.sums(image).of(&reads);
            let index = self.ways.iter().position(|way| way.reads == reads);
            let mut way = index.and_then(|index| self.ways.remove(index)).unwrap_or_else(|| {
                self.ways.truncate(WAYS_MAX - 1);
                Way { reads, of_lines: HashMap::new() }
            });
            way.of_lines.insert((lines, circumstances), Rc::clone(&found));
            self.ways.push_front(way);
        }
        found
    }
}
